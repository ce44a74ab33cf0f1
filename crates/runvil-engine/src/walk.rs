//! Walking sections: entering one, running its blocks, leaving it, and where the chain goes from there.

use std::sync::Arc;

use runvil_document::SectionId;
use runvil_lua::failure::Failure;
use runvil_lua::request::Answer as LuaAnswer;
use runvil_lua::section::SectionParams;
use runvil_lua::vm::{BlockEnd, BlockFailure, SectionVm, Turn};
use serde_json::Value;

use crate::chain::{Chain, DEPTH_CAP, parse_arguments};
use crate::entry::Entry;
use crate::error::{RunError, RunErrorKind};
use crate::instant::rfc3339;
use crate::outcome::Ending;
use crate::prompt::Visible;
use crate::run::{Continuation, MAIN, Next, Run};

/// What entering a section costs of a step's budget: its VM takes about as long as this many Lua instructions.
const ENTRY_WORK: u64 = 10_000;

/// What starting a block costs of a step's budget.
const BLOCK_WORK: u64 = 500;

/// What ends a chain.
enum End {
    Result(Option<String>),
    Failed(BlockFailure),
    /// Ends the whole run, whoever called.
    Fatal(Box<RunError>),
}

impl Run {
    pub(crate) fn start_walk(&mut self) {
        // The H1 pass owns the entry 0.0 whether it happened or not.
        self.chains[MAIN].entries = 1;
        if let Some(first) = self.prompt.document().top_level().first() {
            self.chains[MAIN].walk_from(*first);
        }
        self.ready.push_back((MAIN, Continuation::Next));
    }

    /// Drops a chain's VM, with the events of it.
    pub(crate) fn tear_down(&mut self, chain: usize) {
        if let Some(entry) = self.chains[chain].entry.take() {
            self.report_logged(&entry);
            self.recorder.report("lua_teardown_started", &entry.name);
            drop(entry.vm);
            self.recorder.report("lua_teardown_succeeded", &entry.name);
        }
    }

    fn report_logged(&mut self, entry: &Entry) {
        for report in entry.vm.take_reports() {
            self.pass_on(&entry.name, report);
        }
    }

    /// Builds the VM of a section and makes the chain ready.
    pub(crate) fn enter(&mut self, chain: usize, section: SectionId) {
        let prompt = Arc::clone(&self.prompt);
        let document = prompt.document();
        let is_h1 = section == SectionId::BODY;
        let name = document.section(section).name.clone();
        let state = &mut self.chains[chain];
        let id = format!("{}.{}", state.id, state.entries);
        state.entries += 1;
        let params = SectionParams {
            name: name.clone(),
            sys: vec![
                ("when", rfc3339(self.params.started_at).into()),
                ("id", id.as_str().into()),
                ("taskid", "0".into()),
                ("section_name", name.as_str().into()),
                ("execution", self.params.execution.as_str().into()),
                ("section_count", document.top_level().len().into()),
            ],
            var: state.var.clone(),
            args: state.args.clone(),
            argv: state.argv.clone(),
            argv_in_prose: state.argv.clone(),
            is_h1,
            headings: Arc::new(Visible { prompt: Arc::clone(&prompt), section }),
        };
        if !is_h1 {
            self.recorder.report("section_started", &name);
        }
        self.environment.budget.charge(ENTRY_WORK);
        match SectionVm::new(Arc::clone(&self.environment), params) {
            Ok(vm) => {
                self.chains[chain].entry = Some(Entry::new(section, name, id, vm));
                self.ready.push_back((chain, Continuation::Next));
            }
            Err(failure) => self.end(chain, End::Failed(BlockFailure::bare(failure))),
        }
    }

    /// Runs a chain until it waits or ends, enters a section, or the step has no budget left.
    pub(crate) fn go(&mut self, chain: usize, continuation: Continuation) {
        let prompt = Arc::clone(&self.prompt);
        let mut continuation = continuation;
        let mut is_first = true;
        loop {
            if !is_first && self.must_pause() {
                self.ready.push_front((chain, continuation));
                return;
            }
            is_first = false;
            let Some(entry) = self.chains[chain].entry.as_mut() else {
                match self.chains[chain].next_section(prompt.document()) {
                    Some(section) => self.enter(chain, section),
                    None => self.end(chain, End::Result(None)),
                }
                return;
            };
            let turn = match std::mem::replace(&mut continuation, Continuation::Next) {
                Continuation::Answer(answer) => Some(entry.vm.resume(answer)),
                Continuation::Paused => Some(entry.vm.go_on()),
                Continuation::Next if entry.has_block(&prompt) => {
                    self.recorder.report("lua_chunk_started", &entry.name);
                    self.environment.budget.charge(BLOCK_WORK);
                    entry.start_block(&prompt)
                }
                Continuation::Next => None,
            };
            if matches!(turn, Some(Turn::Paused)) {
                self.ready.push_front((chain, Continuation::Paused));
                return;
            }
            self.drain_log(chain);
            match turn {
                None => {
                    if self.leave(chain).is_none() {
                        return;
                    }
                    if self.chains[chain].id == "0" && self.after_h1(chain) {
                        return;
                    }
                }
                Some(Turn::Waiting(request)) => match self.perform(chain, request) {
                    Next::Answer(answer) => continuation = Continuation::Answer(answer),
                    Next::Parked => return,
                },
                Some(Turn::Paused) => {}
                Some(Turn::Ended(BlockEnd::Returned(None))) => self.report_chunk(chain, "lua_chunk_succeeded"),
                Some(Turn::Ended(BlockEnd::Returned(Some(text)))) => {
                    self.report_chunk(chain, "lua_chunk_succeeded");
                    if self.leave(chain).is_some() {
                        self.end(chain, End::Result(Some(text)));
                    }
                    return;
                }
                Some(Turn::Ended(BlockEnd::Jumped(target))) => {
                    self.report_chunk(chain, "lua_chunk_succeeded");
                    if !self.jump(chain, &target) {
                        return;
                    }
                }
                Some(Turn::Ended(BlockEnd::Failed(failure))) => {
                    self.report_chunk(chain, "lua_chunk_failed");
                    self.block_failed(chain, failure);
                    return;
                }
            }
        }
    }

    pub(crate) fn report_chunk(&mut self, chain: usize, kind: &'static str) {
        if let Some(entry) = &self.chains[chain].entry {
            self.recorder.report(kind, &entry.name);
        }
    }

    fn drain_log(&mut self, chain: usize) {
        if let Some(entry) = self.chains[chain].entry.take() {
            self.report_logged(&entry);
            self.chains[chain].entry = Some(entry);
        }
    }

    /// Follows a jump once its block has ended. Gives whether the chain goes on.
    fn jump(&mut self, chain: usize, target: &str) -> bool {
        let Some(from) = self.leave(chain) else { return false };
        let prompt = Arc::clone(&self.prompt);
        let document = prompt.document();
        match document.resolve(from, target) {
            Ok(target) => {
                if from == SectionId::BODY {
                    self.chains[chain].entries = 1;
                }
                self.chains[chain].jump(document, from, target);
                true
            }
            Err(error) => {
                // The section has ended as completed, so not even the H1 pass makes this an unmet requirement.
                let error = RunError::new(RunErrorKind::Lua, error.to_string());
                self.end(chain, End::Fatal(Box::new(error)));
                false
            }
        }
    }

    fn block_failed(&mut self, chain: usize, failure: BlockFailure) {
        let is_h1 = self.in_h1(chain);
        self.tear_down(chain);
        if failure.failure == Failure::Cancelled {
            self.stop(Ending::Cancelled);
        } else if is_h1 {
            let error = RunError::from_block(&failure, true, &self.prompt.document().frontmatter.name);
            self.fail(error);
        } else {
            self.end(chain, End::Failed(failure));
        }
    }

    fn in_h1(&self, chain: usize) -> bool {
        self.chains[chain].entry.as_ref().is_some_and(|entry| entry.section == SectionId::BODY)
    }

    /// Ends a section that ran to an end of its own: `var` and the H1 body's `argv` are read back. Gives the section;
    /// none when the reading failed, which has then ended the chain.
    fn leave(&mut self, chain: usize) -> Option<SectionId> {
        let entry = self.chains[chain].entry.as_ref()?;
        let is_h1 = entry.section == SectionId::BODY;
        let var = entry.vm.var();
        let argv = if is_h1 { entry.vm.argv().map(Some) } else { Ok(None) };
        let name = entry.name.clone();
        let section = entry.section;
        match (var, argv) {
            (Ok(var), Ok(argv)) => {
                self.chains[chain].var = var;
                if let Some(argv) = argv {
                    self.chains[chain].argv = argv.map(Arc::new);
                }
                self.tear_down(chain);
                if !is_h1 {
                    self.recorder.report("section_finished", &name);
                }
                Some(section)
            }
            (Err(failure), _) | (_, Err(failure)) => {
                self.tear_down(chain);
                let error = RunError::new(RunErrorKind::Lua, failure.message());
                self.end(chain, End::Fatal(Box::new(error)));
                None
            }
        }
    }

    /// Goes from the H1 pass to the walk. Gives whether that just happened.
    fn after_h1(&mut self, chain: usize) -> bool {
        let just_left_h1 = chain == MAIN && !self.chains[MAIN].is_walking();
        if just_left_h1 {
            self.start_walk();
        }
        just_left_h1
    }

    fn end(&mut self, chain: usize, end: End) {
        let path = self.prompt.document().frontmatter.name.clone();
        match (self.chains[chain].caller, end) {
            (None, End::Result(text)) => {
                self.stop(Ending::Completed(text.unwrap_or_else(|| "done".to_owned())));
            }
            (None, End::Failed(failure)) => self.fail(RunError::from_block(&failure, false, &path)),
            (_, End::Fatal(error)) => self.fail(*error),
            (Some(caller), End::Result(text)) => {
                self.free.push(chain);
                self.ready.push_back((caller, Continuation::Answer(LuaAnswer::Text(text.unwrap_or_default()))));
            }
            (Some(caller), End::Failed(failure)) => {
                self.free.push(chain);
                self.ready.push_back((caller, Continuation::Answer(LuaAnswer::Failed(failure.for_caller()))));
            }
        }
    }

    /// `call`: a chain of its own that the calling one waits for.
    pub(crate) fn start_call(&mut self, chain: usize, target: &str, input: Option<String>, var: Value) -> Next {
        let refuse = |text: String| Next::Answer(LuaAnswer::Failed(Failure::Lua(text)));
        let document = self.prompt.document();
        let Some(entry) = &self.chains[chain].entry else { return Next::Parked };
        let target = match document.resolve(entry.section, target) {
            Ok(target) => target,
            Err(error) => return refuse(error.to_string()),
        };
        let caller = &self.chains[chain];
        if caller.depth >= DEPTH_CAP {
            return refuse(format!("call recursion exceeded cap of {DEPTH_CAP}"));
        }
        let id = format!("{}.{}", caller.id, caller.children);
        let mut inner = match input {
            Some(input) => {
                let parsed = parse_arguments(document.frontmatter.args.is_some(), &input);
                Chain::new(id, input, parsed, var)
            }
            None => Chain::new(id, caller.args.clone(), caller.argv.clone(), var),
        };
        inner.caller = Some(chain);
        inner.depth = caller.depth + 1;
        inner.walk_from(target);
        self.chains[chain].children += 1;
        let place = if let Some(place) = self.free.pop() {
            self.chains[place] = inner;
            place
        } else {
            self.chains.push(inner);
            self.chains.len() - 1
        };
        self.ready.push_back((place, Continuation::Next));
        Next::Parked
    }
}
