//! Runs Lua text in a section VM and answers nothing: every test here stays inside the VM.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::thread;
use std::time::{Duration, Instant};

use runvil_lua::budget::Budget;
use runvil_lua::envelope;
use runvil_lua::models::Models;
use runvil_lua::packs::Packs;
use runvil_lua::program::Compiler;
use runvil_lua::section::{CancelFlag, Environment, Headings, SectionParams};
use runvil_lua::vm::{BlockEnd, SectionVm, Turn};
use serde_json::{Value, json};

pub(crate) struct NoHeadings;

impl Headings for NoHeadings {
    fn items(&self, reference: &str) -> Result<Vec<String>, String> {
        Err(format!("section heading `{reference}` not found; available sections: "))
    }
}

pub(crate) fn environment(memory_bytes: usize, cancel: CancelFlag) -> Arc<Environment> {
    Arc::new(Environment {
        models: Models::new(Vec::new(), false),
        packs: Packs::default(),
        turns: AtomicU64::new(0),
        cancel,
        budget: Budget::default(),
        nonce: envelope::nonce(1),
        seed: 1,
        memory_bytes,
        log_events: 1024,
        ui: None,
    })
}

pub(crate) fn params(var: Value) -> SectionParams {
    SectionParams {
        name: "Only".to_owned(),
        sys: vec![("id", json!("0.1")), ("section_name", json!("Only"))],
        var,
        args: "the args".to_owned(),
        argv: Some(Arc::new(json!({"query": "papers", "items": ["a", "b"], "none": null}))),
        argv_in_prose: Some(Arc::new(json!({"query": "papers"}))),
        is_h1: false,
        headings: Arc::new(NoHeadings),
    }
}

pub(crate) const MEMORY: usize = 64 << 20;

pub(crate) fn vm() -> SectionVm {
    SectionVm::new(environment(MEMORY, CancelFlag::default()), params(json!({}))).unwrap()
}

/// Runs one block of `vm`.
pub(crate) fn block(vm: &mut SectionVm, source: &str, prose: &str) -> BlockEnd {
    let program = Compiler::new().compile(source, "section `Only` prologue", 11).unwrap();
    match vm.start(&program, prose) {
        Turn::Ended(end) => end,
        Turn::Waiting(request) => panic!("waits for {request:?}"),
        Turn::Paused => panic!("paused without a limit"),
    }
}

/// The text a block returns.
pub(crate) fn run(source: &str) -> String {
    returned(block(&mut vm(), source, ""))
}

/// The text a block returns in a VM with this much memory.
pub(crate) fn run_in(memory_bytes: usize, source: &str) -> String {
    let mut vm = SectionVm::new(environment(memory_bytes, CancelFlag::default()), params(json!({}))).unwrap();
    returned(block(&mut vm, source, ""))
}

/// Runs a block that another thread cancels after `delay`: the text it ends with, and how long after the cancelling.
pub(crate) fn run_cancelled(source: &str, delay: Duration) -> (String, Duration) {
    let cancel = CancelFlag::default();
    let mut vm = SectionVm::new(environment(MEMORY, cancel.clone()), params(json!({}))).unwrap();
    let canceller = thread::spawn(move || {
        thread::sleep(delay);
        cancel.cancel();
        Instant::now()
    });
    let text = returned(block(&mut vm, source, ""));
    let end = Instant::now();
    let late = end.saturating_duration_since(canceller.join().unwrap());
    // Dropping the VM must neither hang nor run the author's code.
    drop(vm);
    (text, late)
}

pub(crate) fn returned(end: BlockEnd) -> String {
    match end {
        BlockEnd::Returned(text) => text.unwrap_or_else(|| "<nothing>".to_owned()),
        BlockEnd::Jumped(target) => format!("<jump {target}>"),
        BlockEnd::Failed(failure) => format!("<failed {}: {}>", failure.failure.kind(), failure.message),
    }
}
