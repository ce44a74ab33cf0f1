//! Hostile blocks: each ends as the specified error; none crashes or grows without bound.

use crate::support::{run, run_in};

/// Blocks that want more memory than there is.
const GREEDY: [&str; 24] = [
    "return string.rep('x', 1 << 40)",
    "return string.rep('x', 1 << 30, 'separator')",
    "return #string.rep('x', 100000000)",
    "local s = 'x' while true do s = s .. s end",
    "local t = {} while true do t[#t + 1] = string.rep('x', 1 << 20) .. #t end",
    "local t = {} while true do t[#t + 1] = {} end",
    "local t = {} while true do t[#t + 1] = function() return t end end",
    "local t = {} while true do t[#t + 1] = string.gmatch('a', 'a') end",
    "local t = {} while true do t['k' .. #t] = 1 t[#t + 1] = 1 end",
    "return table.create(1 << 30)",
    "return table.concat(setmetatable({}, { __len = function() return 1 << 60 end, __index = function() return 'x' end }))",
    "return #string.pack('c2000000000', 'x')",
    "return #string.gsub(string.rep('x', 1 << 20), 'x', string.rep('y', 1 << 10))",
    "return #string.gsub(string.rep('x', 1 << 20), 'x', function() return string.rep('y', 1 << 10) end)",
    "local t = {} for i = 1, 64 do t = { t, t } end return json.encode(t)",
    "local s = string.rep('x', 1 << 20) local t = {} for i = 1, 1000 do t[i] = s end return #json.encode(t)",
    "local s = string.rep('x', 1 << 20) local t = {} for i = 1, 1000 do t[i] = s end var.t = t",
    "local s = string.rep('x', 1 << 20) local t = {} for i = 1, 1000 do t[i] = s end return #table.concat(t)",
    "return #json.encode(string.rep('\\1', 4000000))",
    "while true do messages:user(string.rep('x', 1 << 20)) end",
    "while true do messages:user('') end",
    "local views = {} messages:user('x') while true do views[#views + 1] = messages[1] end",
    "local text = string.rep('x', 1 << 20) local views = {}
     while true do
       models.compact(function() compactors.clear() messages:user(text) end, 'why')
       views[#views + 1] = messages[1]
     end",
    "local function f() return f() + 1 end f()",
];

#[test]
fn memory_is_bounded() {
    for source in GREEDY {
        let text = run_in(16 << 20, source);
        let expected = ["not enough memory", "too large", "stack overflow", "content must be a string"];
        assert!(expected.iter().any(|part| text.contains(part)), "{source}: {text}");
        assert!(text.starts_with("<failed lua: "), "{source}: {text}");
    }
}

#[test]
fn running_out_of_memory_can_be_caught_and_survived() {
    assert_eq!(
        run_in(
            16 << 20,
            "local kinds = {}
             for i = 1, 5 do
               local ok, err = pcall(function() local t = {} while true do t[#t + 1] = string.rep('x', 1 << 16) .. #t end end)
               kinds[i] = err.kind
             end
             return table.concat(kinds, ',') .. #string.rep('x', 1 << 20)"
        ),
        "lua,lua,lua,lua,lua1048576"
    );
}

#[test]
fn recursion_is_bounded() {
    for source in [
        "local function f() return 1 + f() end f()",
        "local t t = setmetatable({}, { __index = function(_, k) return t[k + 1] end }) return t[1]",
        "local t t = setmetatable({}, { __newindex = function(_, k, v) t[k + 1] = v end }) t[1] = 1",
        "local t t = setmetatable({}, { __call = function(self, n) return self(n + 1) + 1 end }) return t(1)",
        "local t t = setmetatable({}, { __add = function(a, b) return a + b end }) return t + 1",
        "local t t = setmetatable({}, { __concat = function(a, b) return a .. b end }) return t .. 'x'",
        "local t t = setmetatable({}, { __eq = function(a, b) return a == b end }) return t == setmetatable({}, getmetatable(t))",
        "local t t = setmetatable({}, { __tostring = function(self) return tostring(self) end }) return tostring(t)",
        "local function f(x) return (string.gsub('a', 'a', f)) end return f('a')",
        "local function f(a, b) table.sort({ 3, 2, 1 }, f) return a < b end table.sort({ 3, 2, 1 }, f)",
        "local function f() local ok, err = xpcall(f, print or error) error(err, 0) end f()",
        "local t = {} for _ = 1, 300 do t = setmetatable({}, { __index = t }) end return t.x or error('chain')",
        "local t = setmetatable({}, {}) getmetatable(t).__index = t return t.x",
        "return load or string.rep('(', 300):rep(2) and error('nested')",
    ] {
        let text = run_in(16 << 20, source);
        assert!(text.starts_with("<failed lua: "), "{source}: {text}");
    }
    // Each level catches the failure of the next.
    let text = run("local depth = 0
                    local function f() depth = depth + 1 local ok, err = pcall(f) return ok end
                    f()
                    return depth > 10 and 'survived' or depth");
    assert_eq!(text, "survived");
}

#[test]
fn deeply_nested_sources_do_not_compile() {
    for source in [
        format!("return {}1{}", "(".repeat(10_000), ")".repeat(10_000)),
        format!("return {}1", "-".to_string().clone() + &"not ".repeat(100_000)),
        format!("{}{}", "do ".repeat(10_000), "end ".repeat(10_000)),
        format!("return {}", "{".repeat(10_000)),
        format!("local a = {}", (0..70_000).map(|n| format!("f{n}()")).collect::<Vec<_>>().join("..")),
        format!("local {} = 1", (0..300).map(|n| format!("v{n}")).collect::<Vec<_>>().join(", ")),
    ] {
        let error = runvil_lua::program::Compiler::new().compile(&source, "section `Only` prologue", 1).unwrap_err();
        assert!(error.message.starts_with("lua compilation error at section `Only` prologue (line 1): "), "{error:?}");
    }
}

#[test]
fn deep_and_cyclic_data_has_no_json_form() {
    let deep = "local t = 'x' for _ = 1, 10000 do t = { t } end ";
    let cycle = "local t = {} t.list = { t } ";
    for (build, what) in [(deep, "nested more than 128 levels deep"), (cycle, "a table that contains itself")] {
        for (call, start) in [
            ("json.encode(t)", "json.encode: value"),
            ("var.t = t", "var.t"),
            ("messages:user('x', t)", "messages[1] meta"),
        ] {
            let text = run(&format!("{build} {call}"));
            assert!(text.contains(start), "{call}: {text}");
            let reason = if call.starts_with("messages") { "JSON-representable: " } else { what };
            assert!(text.contains(reason), "{call}: {text}");
            assert!(text.len() < 1000, "{call}: {}", text.len());
        }
    }
    let text = run("return json.decode(string.rep('[', 10000) .. string.rep(']', 10000))");
    assert!(text.contains("json.decode: text must be JSON: "), "{text}");
}

#[test]
fn many_arguments_and_results() {
    for count in [300_000, 990_000] {
        let strings = format!("local t = {{}} for i = 1, {count} do t[i] = 'x' end ");
        for call in [
            "models.use(table.unpack(t))",
            "messages:append(table.unpack(t))",
            "messages:user(5, table.unpack(t))",
            "log(table.unpack(t))",
            "user_input(table.unpack(t))",
            "models.compact(function() messages:replace(1, 0, table.unpack(t)) end, 'why')",
            "pcall(models.use, table.unpack(t)) error('survived')",
            "pcall(json.encode, table.unpack(t)) error('survived')",
            "pcall(string.find, table.unpack(t)) error('survived')",
            "pcall(string.format, table.unpack(t)) error('survived')",
            "t = { table.unpack(t) } error('survived ' .. select('#', table.unpack(t)))",
        ] {
            let text = run(&format!("{strings} {call}"));
            assert!(text.starts_with("<failed lua: "), "{call} with {count}: {text}");
        }
    }
    let text = run("return table.unpack({}, 1, 1 << 60)");
    assert!(text.contains("too many results to unpack"), "{text}");
}

#[test]
fn patterns_spend_a_bounded_number_of_steps() {
    for source in [
        "return string.find(string.rep('a', 60), string.rep('a*', 6) .. 'b')",
        "for _ in string.gmatch(string.rep('a', 60), string.rep('a*', 10) .. 'b') do end",
        "return string.gsub(string.rep('a', 60), string.rep('a-', 10) .. 'b', 'x')",
    ] {
        let text = run(source);
        assert!(text.starts_with("<failed lua: ") && text.contains("pattern too complex"), "{source}: {text}");
    }
    let text = run("return string.find(string.rep('a', 100000), string.rep('a?', 100000) .. 'b')");
    assert!(text.contains("pattern too complex"), "{text}");
    assert_eq!(run("return tostring(string.find(string.rep('a', 5000), 'a-b'))"), "nil");
}

#[test]
fn lengths_that_lie() {
    let liar = "local liar = setmetatable({}, { __len = function() return 1 << 60 end }) ";
    for (call, text) in [
        ("table.unpack(liar)", "too many results to unpack"),
        ("table.sort(liar)", "array too big"),
        ("table.concat(liar)", "invalid value (nil) at index 1 in table for 'concat'"),
        ("table.insert(setmetatable({}, { __len = function() return 'x' end }), 1)", "object length is not an integer"),
        ("table.remove(setmetatable({}, { __len = function() return 0.5 end }))", "object length is not an integer"),
        ("table.move({}, 1, math.maxinteger, 2)", "destination wrap around"),
        ("table.move({}, math.mininteger, 1, 1)", "too many elements to move"),
        ("table.create(1 << 40)", "out of range"),
        ("string.format('%99999d', 1)", "invalid conversion"),
        ("string.rep('x', 1 << 60)", "memory"),
    ] {
        let found = run(&format!("{liar} return {call}"));
        assert!(found.starts_with("<failed lua: ") && found.contains(text), "{call}: {found}");
    }
    assert_eq!(run("return #string.rep('', 1 << 53) + #string.rep('', 1 << 53, '')"), "0");
}

#[test]
fn a_tool_that_calls_itself_without_end_fails_without_frames_of_the_prelude() {
    let text = run("tools.offer_local('t', 'd', {}, function() return tools.call('t') end) return tools.call('t')");
    assert!(text.starts_with("<failed lua: ") && text.contains("stack overflow"), "{text}");
    assert!(!text.contains("in upvalue"), "{text}");
}
