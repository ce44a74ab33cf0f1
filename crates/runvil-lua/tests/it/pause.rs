//! Blocks that are paused when the budget of their step is used up.

use std::sync::Arc;

use runvil_lua::budget::Budget;
use runvil_lua::failure::Failure;
use runvil_lua::program::Compiler;
use runvil_lua::request::{Answer, Request};
use runvil_lua::section::{CancelFlag, Environment};
use runvil_lua::tools::Report;
use runvil_lua::vm::{BlockEnd, SectionVm, Turn};
use serde_json::{Map, json};

use crate::support::{MEMORY, environment, params, returned, run};

/// Starts a block in a step that may do this much work.
fn start(source: &str, work: u64) -> (SectionVm, Budget, Turn) {
    let environment: Arc<Environment> = environment(MEMORY, CancelFlag::default());
    let budget = environment.budget.clone();
    let mut vm = SectionVm::new(environment, params(json!({}))).unwrap();
    let program = Compiler::new().compile(source, "section `Only` prologue", 11).unwrap();
    budget.limit(work);
    let turn = vm.start(&program, "");
    (vm, budget, turn)
}

/// Runs a block to its end in steps of this much work, with this source for every library: the pauses and the end.
fn in_steps(source: &str, work: u64, library: &str) -> (usize, BlockEnd) {
    let (mut vm, budget, mut turn) = start(source, work);
    let mut pauses = 0;
    loop {
        budget.limit(work);
        match turn {
            Turn::Paused => {
                pauses += 1;
                turn = vm.go_on();
            }
            Turn::Waiting(Request::Library { .. }) => {
                turn = vm.resume(Answer::Library { source: library.into() });
            }
            Turn::Ended(end) => return (pauses, end),
            other @ Turn::Waiting(_) => panic!("{other:?}"),
        }
    }
}

/// The result of a block whose every step does next to nothing.
fn in_pieces(source: &str) -> (usize, String) {
    let (pauses, end) = in_steps(source, 1, "");
    (pauses, returned(end))
}

#[test]
fn a_long_host_call_is_given_up_and_made_again() {
    let calls = [
        "(('x'):rep(60)):find(('x*'):rep(3) .. 'y')",
        "(('x'):rep(60)):match(('x*'):rep(3) .. 'y')",
        "(('x'):rep(60)):gsub(('x*'):rep(3) .. 'y', '')",
        "(('x'):rep(60)):gsub(('x*'):rep(3) .. 'y', function() end)",
        "(('x'):rep(60)):gmatch(('x*'):rep(3) .. 'y')()",
        "json.encode(deep)",
        "json.decode('[' .. ('1,'):rep(20000) .. '1]')",
        "pcall(messages.user, messages, 'hi', deep)",
        "pcall(messages.append, messages, { role = 'user', content = 'hi', meta = deep })",
        "pcall(function() var.deep = deep end)",
    ];
    for call in calls {
        let source = format!(
            "local deep = {{}} for _ = 1, 12 do deep = {{ a = deep, b = deep }} end log('before') local result = {call} \
             log('after') return #messages .. tostring(result):sub(1, 20)"
        );
        let (mut vm, budget, turn) = start(&source, 10_000);
        assert!(matches!(turn, Turn::Paused), "{call}: {turn:?}");
        assert_eq!(vm.take_reports(), [Report::Logged("before".to_owned())], "{call}");
        budget.lift();
        let mut turn = turn;
        while matches!(turn, Turn::Paused) {
            turn = vm.go_on();
        }
        let Turn::Ended(BlockEnd::Returned(Some(text))) = turn else { panic!("{call}: {turn:?}") };
        assert_eq!(vm.take_reports(), [Report::Logged("after".to_owned())], "{call}");
        let (pauses, pieced) = in_pieces(&source);
        assert!(pauses > 0, "{call}");
        assert_eq!(pieced, text, "{call}");
    }
}

#[test]
fn a_block_in_pieces_gives_what_it_gives_in_one() {
    let source = "local out = {} local guard = setmetatable({}, { __index = function(_, key) local n = 0 for i = 1, 200 do \
                  n = n + i end return key .. n end }) for key, value in pairs({ b = 1, a = 2, 3 }) do out[#out + 1] = \
                  guard[tostring(key)] .. value end local ok, err = pcall(function() for i = 1, 500 do if i == 400 then \
                  error('raised', 0) end end end) out[#out + 1] = tostring(ok) .. tostring(err) table.sort(out, \
                  function(left, right) for _ = 1, 50 do end return left < right end) var.out = out return \
                  table.concat(out, ' ')";
    let (pauses, text) = in_pieces(source);
    assert!(pauses > 10, "{pauses}");
    assert_eq!(text, run(source));
}

#[test]
fn an_answer_reaches_the_call_that_waits_for_it() {
    // The hook comes by between the recording of the request and the yield, too.
    for padding in 0..100 {
        let source = format!("local n = 0 {} return user_input() .. n", "n = n + 1 ".repeat(padding));
        let (mut vm, budget, mut turn) = start(&source, 1);
        while matches!(turn, Turn::Paused) {
            budget.limit(1);
            turn = vm.go_on();
        }
        assert!(matches!(turn, Turn::Waiting(Request::UserInput)), "{turn:?}");
        budget.limit(1);
        turn = vm.resume(Answer::Input { text: "yes".to_owned(), available: true });
        while matches!(turn, Turn::Paused) {
            budget.limit(1);
            turn = vm.go_on();
        }
        let Turn::Ended(BlockEnd::Returned(Some(text))) = turn else { panic!("{turn:?}") };
        assert_eq!(text, format!("yes{padding}"));
    }
}

#[test]
fn a_handler_that_returns_while_the_run_is_cancelled_still_gives_its_result() {
    // TUL-40
    let mut results = 0;
    for padding in 0..100 {
        let cancel = CancelFlag::default();
        let environment: Arc<Environment> = environment(MEMORY, cancel.clone());
        let budget = environment.budget.clone();
        let mut vm = SectionVm::new(environment, params(json!({}))).unwrap();
        let source = format!(
            "tools.offer_local('t', 'd', {{}}, function() local n = 0 {} return n end) pcall(models.loop) return 'caught'",
            "n = n + 1 ".repeat(padding)
        );
        let program = Compiler::new().compile(&source, "section `Only` prologue", 11).unwrap();
        budget.limit(1 << 40);
        assert!(matches!(vm.start(&program, ""), Turn::Waiting(Request::Loop { .. })));
        budget.limit(1);
        let turn = vm.resume(Answer::Handle { name: "t".to_owned(), arguments: Map::new() });
        if !matches!(turn, Turn::Paused) {
            continue;
        }
        cancel.cancel();
        match vm.go_on() {
            Turn::Waiting(Request::Handled { text }) => {
                assert_eq!(text, padding.to_string());
                results += 1;
            }
            Turn::Ended(BlockEnd::Failed(failure)) => assert_eq!(failure.failure, Failure::Cancelled),
            other => panic!("{other:?}"),
        }
    }
    assert!(results > 0);
}

#[test]
fn calls_that_catch_nest_as_deep_in_pieces_as_in_one() {
    let cases = [
        (
            "local n, first = 0 local function f() n = n + 1 local _, e = pcall(f) first = first or e end f() return n .. \
             ' ' .. first",
            "151 C stack overflow",
        ),
        (
            "local n, first = 0 local function f() n = n + 1 xpcall(f, function(e) first = first or e end) end f() return \
             n .. ' ' .. first",
            "151 C stack overflow",
        ),
        (
            "local n = 0 local function f() n = n + 1 local ok, e = pcall(f) if not ok then error(e, 0) end end local ok, \
             e = pcall(f) return n .. ' ' .. e",
            "150 C stack overflow",
        ),
        (
            "local n = 0 local function h(e) n = n + 1 return (select(2, xpcall(error, h, e))) end local _, e = \
             xpcall(error, h, 'x') return n .. ' ' .. e",
            "160 error in error handling",
        ),
        (
            "local n = 0 tools.offer_local('t', 'd', {}, function() n = n + 1 return tools.call('t') end) local _, e = \
             pcall(tools.call, 't') return n .. ' ' .. e",
            "149 C stack overflow",
        ),
        (
            "local n, first = 0 local function f() n = n + 1 local _, e = pcall(f) first = first or e end \
             models.compact(f, 'why') return n .. ' ' .. first",
            "150 C stack overflow",
        ),
        (
            "local n = 0 local function f() n = n + 1 local ok, e = pcall(f) if not ok then error(e, 0) end end local ok, \
             e = pcall(models.compact, f, 'why') return n .. ' ' .. e",
            "149 C stack overflow",
        ),
        (
            "n = 0 local ok, e = pcall(require, 'a') return n .. ' ' .. tostring(ok) .. e.message:sub(-18)",
            "149 false: C stack overflow",
        ),
    ];
    let library = "n = n + 1 return require((...) .. 'a')";
    for (source, expected) in cases {
        let (pauses, end) = in_steps(source, 1 << 40, library);
        assert_eq!((pauses, returned(end).as_str()), (0, expected), "{source}");
        for work in (0..4000).step_by(100) {
            let (pauses, end) = in_steps(source, work, library);
            assert_eq!(returned(end), expected, "{source} in steps of {work}");
            assert!(pauses > 0 || work > 0, "{source}");
        }
    }
}
