//! Blocks that would run for ever, or nearly: each ends within a second of the run's cancelling.

use std::time::Duration;

use crate::support::run_cancelled;

/// Blocks that never end by themselves.
const ENDLESS: [&str; 37] = [
    "while true do end",
    "while true do pcall(function() while true do end end) end",
    "while true do pcall(error, 'x') end",
    "while true do pcall(pcall, error) end",
    "while true do xpcall(error, function() end, 'x') end",
    "xpcall(function() while true do end end, function() while true do end end)",
    "local function f() return f() end f()",
    // Every level calls its handler, which goes as deep again.
    "local function f() local ok, err = xpcall(f, f) error(err, 0) end f()",
    "local function f() pcall(f) return f() end f()",
    "repeat local ok = pcall(function() local t = {} while true do t[#t + 1] = {} end end) until ok",
    "repeat local ok = pcall(string.rep, 'x', 1 << 40) until ok",
    // Handlers of `<close>` variables would start over for as long as errors unwind the stack.
    "local x <close> = setmetatable({}, { __close = function() while true do end end }) while true do end",
    "local x <close> = setmetatable({}, { __close = function() while true do end end }) error('x')",
    "local close
     function close() local y <close> = setmetatable({}, { __close = close }) while true do end end
     close()",
    "local close
     function close() local y <close> = setmetatable({}, { __close = close }) error('x') end
     close()",
    "for _ in function() return true end, nil, nil, setmetatable({}, { __close = function() while true do end end }) do end",
    "xpcall(error, function()
       local y <close> = setmetatable({}, { __close = function() while true do end end })
       while true do end
     end)",
    // Metamethods.
    "return setmetatable({}, { __index = function() while true do end end }).x",
    "setmetatable({}, { __newindex = function() while true do end end }).x = 1",
    "return #setmetatable({}, { __len = function() while true do end end })",
    "return setmetatable({}, { __eq = function() while true do end end }) == setmetatable({}, {})
       or 'a' + setmetatable({}, { __add = function() while true do end end })",
    "return tostring(setmetatable({}, { __tostring = function() while true do end end }))",
    "return string.format('%s', setmetatable({}, { __tostring = function() while true do end end }))",
    "return table.concat({ setmetatable({}, { __tostring = function() while true do end end }) })",
    "error(setmetatable({}, { __tostring = function() while true do end end }))",
    "for _ in pairs(setmetatable({}, { __pairs = function() while true do end end })) do end",
    "for _ in ipairs(setmetatable({}, { __index = function(_, k) return k end })) do end",
    "setmetatable(_G, { __index = function() while true do end end }) return unknown",
    // Functions that take a length from the author.
    "local liar = setmetatable({}, { __len = function() return 1 << 60 end }) table.insert(liar, 1, 'x')",
    "local liar = setmetatable({}, { __len = function() return 1 << 60 end, __newindex = function() end })
     table.remove(liar, 1)",
    "table.move({}, 1, 1 << 60, 2)",
    "local liar = setmetatable({}, { __len = function() return 1 << 30 end, __index = function(_, k) return -k end,
       __newindex = function() end })
     table.sort(liar)",
    // Callbacks of the library.
    "string.gsub('a', 'a', function() while true do end end)",
    "table.sort({ 3, 2, 1 }, function() while true do end end)",
    "models.compact(function() while true do end end, 'why')",
    "while true do pcall(models.compact, function() messages:user('x') compactors.clear() error('x') end, 'why') end",
    "while true do jump('## X') end",
];

#[test]
fn endless_blocks_end_when_the_run_is_cancelled() {
    for source in ENDLESS {
        let (text, late) = run_cancelled(source, Duration::from_millis(20));
        if source.contains("jump") {
            // The first jump unwinds the block.
            assert!(text.starts_with("<jump") || text.contains("interrupted"), "{source}: {text}");
            continue;
        }
        assert_eq!(text, "<failed cancelled: interrupted by Ctrl-C>", "{source}");
        assert!(late < HANGS, "{source} ended {late:?} late");
    }
}

/// What counts as hanging, on a slow and busy machine too.
const HANGS: Duration = Duration::from_secs(20);

/// Blocks that keep one call of a library or host function busy; they may end by themselves before the cancelling.
const BUSY: [&str; 17] = [
    "return string.find(string.rep('a', 60), string.rep('a*', 10) .. 'b')",
    "return string.match(string.rep('a', 100000), '.-b')",
    "for _ in string.gmatch(string.rep('a', 100000), '(a*)*b') do end",
    "return string.gsub(string.rep('a', 100000), '.-b', 'x')",
    "return string.gsub(string.rep('a', 100000), '.-b', function() end)",
    "local t = {} for i = 1, 1000000 do t[i] = (i * 7919) % 1000003 end table.sort(t)",
    "local t = {} for i = 1, 300000 do t['k' .. i] = i end while true do for _ in pairs(t) do end end",
    "local t = {} for i = 1, 300000 do t[i] = i end while true do json.encode(t) end",
    "local t = {} for i = 1, 300000 do t[i] = i end while true do var.t = t end",
    "local t = {} for i = 1, 100000 do t[i] = 'x' end while true do table.concat(t) end",
    "local s = string.rep('[1],', 300000) while true do pcall(json.decode, '[' .. s .. '1]') end",
    "while true do local s = string.rep('x', 20000000) end",
    "local s = string.rep('x', 20000000) while true do local t = s:upper() end",
    "local s = string.rep('x', 10000000) while true do local t = s .. 'x' end",
    "local t = {} for i = 1, 1000000 do t[i] = i end while true do table.insert(t, 1, 0) table.remove(t, 1) end",
    "local function deep(n) if n == 0 then while true do pcall(models.use) end end return 1 + deep(n - 1) end deep(100000)",
    "while true do pcall(function() while true do messages:user(string.rep('x', 10000)) end end) \
       pcall(models.compact, compactors.clear, 'again') end",
];

#[test]
fn busy_calls_end_when_the_run_is_cancelled() {
    for source in BUSY {
        let (text, late) = run_cancelled(source, Duration::from_millis(300));
        assert!(
            text.contains("interrupted by Ctrl-C") || text.contains("pattern too complex") || text.contains("memory"),
            "{source}: {text}"
        );
        assert!(late < HANGS, "{source} ended {late:?} late");
    }
}
