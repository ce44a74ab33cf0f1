//! Ways out of the sandbox, each closed.

use runvil_lua::program::Compiler;
use runvil_lua::request::{Answer, Request};
use runvil_lua::vm::{BlockEnd, Turn};

use crate::support::{block, returned, run, vm};

#[test]
fn code_comes_from_the_prompt_alone() {
    assert_eq!(run("return tostring(load) .. tostring(string.dump) .. tostring(require ~= nil)"), "nilniltrue");
    // A binary chunk is no source text.
    let bytecode = b"\x1bLua\x55\x00";
    let source = String::from_utf8_lossy(bytecode).into_owned();
    assert!(Compiler::new().compile(&source, "section `Only` prologue", 1).is_err());
}

#[test]
fn a_library_is_loaded_as_text_alone() {
    let mut vm = vm();
    let program = Compiler::new()
        .compile("local ok, err = pcall(require, 'lib') return tostring(err)", "section `Only`", 1)
        .unwrap();
    match vm.start(&program, "") {
        Turn::Waiting(Request::Library { name }) => assert_eq!(name, "lib"),
        turn => panic!("{turn:?}"),
    }
    match vm.resume(Answer::Library { source: b"\x1bLua\x55\x00\x19\x93\r\n\x1a\n".to_vec() }) {
        Turn::Ended(BlockEnd::Returned(Some(text))) => {
            assert!(text.starts_with("library \"lib\" failed: ") && text.contains("binary"), "{text}");
        }
        turn => panic!("{turn:?}"),
    }
}

#[test]
fn nothing_leads_out_of_the_vm() {
    // No value that a block can reach gives the registry, a coroutine, the prelude's tables or a metatable of the host.
    let text = run("
        local seen, queue, odd = {}, { _G, getmetatable('') }, {}
        messages:user('x', { a = { 1 } })
        queue[#queue + 1] = messages[1]
        queue[#queue + 1] = select(2, pcall(messages.user, messages, 5))
        while #queue > 0 do
          local value = table.remove(queue)
          local kind = type(value)
          if kind == 'thread' then odd[#odd + 1] = 'thread' end
          if not seen[value] and (kind == 'table' or kind == 'userdata') then
            seen[value] = true
            local meta = getmetatable(value)
            if type(meta) == 'table' and value ~= _G then queue[#queue + 1] = meta end
            if kind == 'table' then
              for key, member in pairs(value) do queue[#queue + 1] = member end
            end
          end
        end
        return table.concat(odd, ',') .. '|' .. tostring(getmetatable(messages)) .. tostring(getmetatable(messages[1]))
    ");
    assert_eq!(text, "|falsefalse");
}

#[test]
fn the_vm_of_another_section_is_out_of_reach() {
    let mut first = vm();
    let mut second = vm();
    assert_eq!(
        returned(block(
            &mut first,
            "string.upper = nil getmetatable('').mark = 1 math.pi = 3 leaked = messages messages:user('x') return 'ok'",
            ""
        )),
        "ok"
    );
    assert_eq!(
        returned(block(
            &mut second,
            "return string.upper('a') .. tostring(getmetatable('').mark) .. tostring(math.pi > 3) .. tostring(leaked) .. #messages",
            ""
        )),
        "Aniltruenil0"
    );
}

#[test]
fn a_suspended_call_is_resumed_by_the_engine_alone() {
    // The functions that suspend do so from wherever the author calls them.
    for source in [
        "return models.compact(function() return user_input() end, 'why')",
        "return (string.gsub('a', 'a', function() return (user_input()) end))",
        "table.sort({ 2, 1 }, function() return user_input() == 'x' end)",
        "return tostring(setmetatable({}, { __tostring = function() return (user_input()) end }))",
        "return setmetatable({}, { __index = function() return (user_input()) end }).x",
        "return setmetatable({}, { __close = function() user_input() end }) and select(2, pcall(function()
           local x <close> = setmetatable({}, { __close = function() user_input() end })
           error('x')
         end))",
        "return select(2, xpcall(error, function() return (user_input()) end))",
        "return pcall(pcall, user_input)",
        "for i, v in ipairs(setmetatable({}, { __index = function(_, i) return i == 1 and user_input() or nil end })) do end",
    ] {
        let mut vm = vm();
        let program = Compiler::new().compile(source, "section `Only` prologue", 1).unwrap();
        match vm.start(&program, "") {
            Turn::Waiting(Request::UserInput) => {}
            turn => panic!("{source}: {turn:?}"),
        }
        match vm.resume(Answer::Input { text: "typed".to_owned(), available: true }) {
            Turn::Ended(BlockEnd::Returned(_)) => {}
            turn => panic!("{source}: {turn:?}"),
        }
    }
}

#[test]
fn tricks_on_host_values() {
    for source in [
        "setmetatable(messages, {})",
        "getmetatable(messages).__index = nil",
        "messages.role = 'x'",
        "messages[1] = nil",
        "messages:user('x') messages[1].role = 'x'",
        "setmetatable(var, {})",
        "setmetatable(sys, {})",
        "setmetatable(argv, {})",
        "getmetatable(var).x = 1",
        "setmetatable(_G, { __gc = function() end })",
        "setmetatable({}, { __gc = true })",
        "local ok, err = pcall(log) setmetatable(err, {})",
        "table.insert(messages, {})",
        "table.sort(messages:user('b'):user('a'), function() return true end)",
        "messages.append({}, {})",
        "messages.user('x')",
        "json.array(_G)",
    ] {
        let text = run(source);
        assert!(text.starts_with("<failed lua: "), "{source}: {text}");
    }
    assert_eq!(
        run("local meta = setmetatable({}, { __index = error })
             local t = setmetatable({}, { __metatable = meta })
             return tostring(getmetatable(t) == meta) .. tostring(pcall(setmetatable, t, nil))
               .. tostring(pcall(setmetatable, t, {})):sub(1, 5)"),
        "truefalsefalse"
    );
}

#[test]
fn the_list_holds_against_a_metatable_on_the_globals() {
    assert_eq!(
        run("messages:user('kept')
             local list = messages
             setmetatable(_G, { __index = function() return 'made up' end, __newindex = function() end })
             pcall(function() messages = {} end)
             pcall(function() _G.messages = {} end)
             return tostring(messages == list) .. #messages .. tostring(_G['messages'] == list)"),
        "true1true"
    );
}

#[test]
fn parts_of_the_prelude_that_run_late_find_no_global_of_the_author() {
    let emptied = "local kept = {} for key, value in pairs(_G) do kept[key] = value end local globals = _G \
                   for key in pairs(kept) do globals[key] = nil end globals._G = {} local _ENV = kept \
                   setmetatable(kept, { __index = globals }) ";
    for source in [
        "setmetatable(_G, { __index = function(_, key) return key end }) return _G.unset",
        "return tostring(getmetatable('')) .. tostring(setmetatable({}, { __tostring = function() return 'x' end }))",
        "local ok, e = pcall(error, 'x') return tostring(ok) .. e .. select(2, xpcall(error, function(e) return e end, 'y'))",
        "var.a = { b = { 1, 2 } } var.a.b[3] = 3 local _, e = pcall(function() var.a.b[9] = 3 end) return var.a.b[3] .. \
         e.message",
        "local _, e = pcall(function() return sys.nothing end) return e.message",
        "tools.offer_local('t', 'd', {}, function() return 'x' end) return tools.call('t') .. tools.calls.t",
        "return ('%s %5.1f'):format({}, 2) .. ('abc'):gsub('%w', string.upper) .. ('1' + 1) .. ('a'):rep(3)",
        "local t = { 3, 1, 2 } table.sort(t) table.insert(t, 4) return table.concat(t, ',') .. next(t) .. table.unpack(t)",
        "models.compact(compactors.clear, 'x') messages:user('x') return #messages .. messages[1].role",
        "local out = '' for key, value in pairs({ b = 1, a = 2, 3 }) do out = out .. key .. value end return out",
        "local _, e = pcall(models.infer, {}) return e.message",
    ] {
        let expected = run(source);
        assert!(!expected.starts_with("<failed"), "{source}: {expected}");
        assert_eq!(run(&format!("{emptied}{source}")), expected, "{source}");
    }
}
