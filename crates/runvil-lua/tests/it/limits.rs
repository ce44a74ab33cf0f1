//! Hostile blocks: each ends as an error, none hangs or grows without bound.

use std::time::Duration;

use runvil_lua::section::CancelFlag;
use runvil_lua::vm::SectionVm;
use serde_json::json;

use crate::support::{block, environment, params, returned, run};

#[test]
fn memory_is_bounded() {
    for source in [
        "return string.rep('x', 1 << 40)",
        "local t = {} while true do t[#t + 1] = string.rep('x', 1 << 20) .. #t end",
        "while true do messages:user(string.rep('x', 1 << 20)) end",
        "local s = string.rep('x', 100000000) return #s",
        "local t = {} for i = 1, 64 do t = {t, t} end return json.encode(t)",
    ] {
        let text = run(source);
        assert!(text.contains("not enough memory") || text.contains("too large"), "{source}: {text}");
    }
}

#[test]
fn loops_end_when_cancelled() {
    for source in [
        "while true do end",
        "while true do pcall(function() while true do end end) end",
        "while true do pcall(error, 'x') end",
        "local function f() return f() end f()",
        "return string.find(string.rep('a', 2000), string.rep('a*', 20) .. 'b')",
    ] {
        let cancel = CancelFlag::default();
        let mut vm = SectionVm::new(environment(64 << 20, cancel.clone()), params(json!({}))).unwrap();
        let thread = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(50));
            cancel.cancel();
        });
        let text = returned(block(&mut vm, source, ""));
        assert!(text.contains("interrupted") || text.contains("pattern too complex"), "{source}: {text}");
        thread.join().unwrap();
    }
}
