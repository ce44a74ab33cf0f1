//! A run: the state machine a driver steps, answers and cancels.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use runvil_core::reply::Usage;
use runvil_document::SectionId;
use runvil_lua::envelope;
use runvil_lua::failure::Failure;
use runvil_lua::request::{Answer as LuaAnswer, Request};
use runvil_lua::section::{CancelFlag, Environment, SectionParams};
use runvil_lua::vm::{BlockEnd, BlockFailure, SectionVm, Turn};
use serde_json::{Value, json};

use crate::chain::{Chain, DEPTH_CAP, parse_arguments};
use crate::effect::{Answer, Effect, EffectId};
use crate::entry::Entry;
use crate::error::{RunError, RunErrorKind};
use crate::event::{Event, Recorder, fields};
use crate::instant::rfc3339;
use crate::outcome::{Ending, Outcome};
use crate::params::Params;
use crate::prepare;
use crate::prompt::{Prompt, Visible};

/// What one [`Run::step`] gives.
#[derive(Debug)]
pub enum Step {
    /// The run goes on once effects are answered. No new effect means that everything waits for older ones.
    Pending {
        /// Work that became ready; independent, to be performed in parallel.
        effects: Vec<(EffectId, Effect)>,
        /// What happened meanwhile.
        events: Vec<Event>,
    },
    /// The run is over; every effect was answered.
    Done {
        /// How it ended.
        outcome: Outcome,
        /// What happened at last.
        events: Vec<Event>,
    },
}

/// Who waits for an effect.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Waiter {
    /// A loop's round.
    Loop {
        /// The round's number.
        round: u64,
    },
    /// An infer's round.
    Infer {
        /// The round's number.
        round: u64,
    },
    /// A `require`.
    Library,
    /// A `user_input`.
    Input,
}

/// How a chain goes on after its request was looked at.
pub(crate) enum Next {
    /// The block gets this answer at once.
    Answer(LuaAnswer),
    /// The block waits.
    Parked,
}

/// What ends a chain.
enum End {
    Result(Option<String>),
    Failed(BlockFailure),
    /// Ends the whole run, whoever called.
    Fatal(Box<RunError>),
}

/// One run of a prompt.
pub struct Run {
    prompt: Arc<Prompt>,
    pub(crate) params: Params,
    environment: Arc<Environment>,
    cancel: CancelFlag,
    pub(crate) chains: Vec<Chain>,
    /// Places of ended chains, for the next ones.
    free: Vec<usize>,
    pub(crate) recorder: Recorder,
    /// Requests sent so far.
    pub(crate) requests: u64,
    /// Replies received so far.
    pub(crate) turns: u64,
    pub(crate) usage: Usage,
    /// The bodies of requests that are out, when the events are to show them.
    pub(crate) debug_bodies: BTreeMap<u64, Value>,
    started: bool,
    /// The chain that runs next.
    ready: VecDeque<(usize, Option<LuaAnswer>)>,
    waiting: BTreeMap<EffectId, (usize, Waiter)>,
    answered: VecDeque<(usize, Waiter, Answer)>,
    next_effect: u64,
    effects: Vec<(EffectId, Effect)>,
    ending: Option<Ending>,
}

/// The main walk.
const MAIN: usize = 0;

impl Run {
    /// A run that has not started. Nothing can fail here: what is wrong with the prompt or the parameters is the outcome
    /// of the first step.
    pub fn new(prompt: Arc<Prompt>, params: Params) -> Self {
        let cancel = CancelFlag::default();
        let document = prompt.document();
        let bound = prepare::check_version(document).and_then(|()| prepare::bind(document, &params));
        let (models, ending) = match bound {
            Ok(models) => (models, None),
            Err(error) => {
                let none = runvil_lua::models::Models::new(Vec::new(), false);
                (none, Some(Ending::Failed(error)))
            }
        };
        let environment = Arc::new(Environment {
            models,
            cancel: cancel.clone(),
            nonce: envelope::nonce(params.seed),
            seed: params.seed,
            memory_bytes: params.memory_bytes,
            log_events: params.log_events,
            ui: params.ui.clone(),
        });
        let argv = parse_arguments(document.frontmatter.args.is_some(), &params.args);
        let main = Chain::new("0".to_owned(), params.args.clone(), argv, json!({}));
        let recorder = Recorder::new(&params.execution);
        Self {
            prompt,
            params,
            environment,
            cancel,
            chains: vec![main],
            free: Vec::new(),
            recorder,
            requests: 0,
            turns: 0,
            usage: Usage::default(),
            debug_bodies: BTreeMap::new(),
            started: false,
            ready: VecDeque::new(),
            waiting: BTreeMap::new(),
            answered: VecDeque::new(),
            next_effect: 0,
            effects: Vec::new(),
            ending,
        }
    }

    /// A handle that cancels the run from any thread, also while it is being stepped.
    pub fn cancel_flag(&self) -> CancelFlag {
        self.cancel.clone()
    }

    /// Asks the run to end. It takes effect at the next step, or inside the one that is running.
    pub fn cancel(&self) {
        self.cancel.cancel();
    }

    /// Whether the outcome is settled, so that effects still out may be dropped.
    pub fn decided(&self) -> bool {
        self.ending.is_some() || self.cancel.is_cancelled()
    }

    /// Gives the answer to an effect. It is used at the next step.
    ///
    /// An unknown id, a second answer, or an answer of another kind ends the run as an internal error.
    pub fn resume(&mut self, effect: EffectId, answer: Answer) {
        match self.waiting.remove(&effect) {
            Some((chain, waiter)) => self.answered.push_back((chain, waiter, answer)),
            None => self.fail(RunError::new(
                RunErrorKind::Internal,
                format!("internal invariant violated: effect {} waits for no answer", effect.0),
            )),
        }
    }

    /// Runs every chain until it waits.
    pub fn step(&mut self) -> Step {
        if !self.started {
            self.start();
        }
        while self.ending.is_none() {
            if self.cancel.is_cancelled() {
                self.stop(Ending::Cancelled);
            } else if let Some((chain, answer)) = self.ready.pop_front() {
                self.go(chain, answer);
            } else if let Some((chain, waiter, answer)) = self.answered.pop_front() {
                self.deliver(chain, waiter, answer);
            } else {
                break;
            }
        }
        let effects = std::mem::take(&mut self.effects);
        match &self.ending {
            Some(ending) if self.waiting.is_empty() => {
                let outcome = Outcome { ending: ending.clone(), turns: self.turns, usage: self.usage };
                Step::Done { outcome, events: self.recorder.take() }
            }
            _ => Step::Pending { effects, events: self.recorder.take() },
        }
    }

    fn title(&self) -> &str {
        &self.prompt.document().title
    }

    fn start(&mut self) {
        self.started = true;
        let prompt = Arc::clone(&self.prompt);
        let document = prompt.document();
        // A document of another language is not looked at, and nothing is reported of it.
        if let Some(Ending::Failed(error)) = &self.ending
            && matches!(error.kind, RunErrorKind::Version | RunErrorKind::Parse)
        {
            return;
        }
        self.recorder.report("parse_started", "Prompt");
        let sections = std::iter::once(document.body()).chain(document.sections_in_order().map(|(_, section)| section));
        for section in sections {
            for _ in section.lua_blocks() {
                self.recorder.report("lua_compilation_started", &section.name);
                self.recorder.report("lua_compilation_succeeded", &section.name);
            }
        }
        self.recorder.report("parse_succeeded", "Prompt");
        self.recorder.report("run_started", &document.title);
        if let Some(Ending::Failed(_)) = &self.ending {
            self.recorder.report("run_failed", &document.title);
            return;
        }
        if prompt.has_h1_pass() {
            self.enter(MAIN, SectionId::BODY);
        } else {
            self.start_walk();
        }
    }

    fn start_walk(&mut self) {
        // The H1 pass owns the entry 0.0 whether it happened or not.
        self.chains[MAIN].entries = 1;
        if let Some(first) = self.prompt.document().top_level().first() {
            self.chains[MAIN].walk_from(*first);
        }
        self.ready.push_back((MAIN, None));
    }

    /// Settles the outcome, once; live sections end without their finish.
    fn stop(&mut self, ending: Ending) {
        if self.ending.is_some() {
            return;
        }
        for chain in (0..self.chains.len()).rev() {
            self.tear_down(chain);
        }
        let title = self.title().to_owned();
        let kind = if matches!(ending, Ending::Completed(_)) { "run_succeeded" } else { "run_failed" };
        self.recorder.report(kind, &title);
        self.ready.clear();
        // What was never handed out needs no answer.
        for (id, _) in self.effects.drain(..) {
            self.waiting.remove(&id);
        }
        self.ending = Some(ending);
    }

    fn fail(&mut self, error: RunError) {
        self.stop(Ending::Failed(Box::new(error)));
    }

    /// Drops a chain's VM, with the events of it.
    fn tear_down(&mut self, chain: usize) {
        if let Some(entry) = self.chains[chain].entry.take() {
            self.report_logged(&entry);
            self.recorder.report("lua_teardown_started", &entry.name);
            drop(entry.vm);
            self.recorder.report("lua_teardown_succeeded", &entry.name);
        }
    }

    fn report_logged(&mut self, entry: &Entry) {
        for message in entry.vm.take_logged() {
            self.recorder.report_with("lua", &entry.name, fields([("message", message.into())]));
        }
    }

    /// Hands out an effect on behalf of a chain.
    pub(crate) fn emit(&mut self, chain: usize, waiter: Waiter, effect: Effect) {
        let id = EffectId(self.next_effect);
        self.next_effect += 1;
        self.recorder.count();
        self.waiting.insert(id, (chain, waiter));
        self.effects.push((id, effect));
    }

    /// Builds the VM of a section and makes the chain ready.
    fn enter(&mut self, chain: usize, section: SectionId) {
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
        match SectionVm::new(Arc::clone(&self.environment), params) {
            Ok(vm) => {
                self.chains[chain].entry = Some(Entry::new(section, name, id, vm));
                self.ready.push_back((chain, None));
            }
            Err(failure) => self.end(chain, End::Failed(BlockFailure::bare(failure))),
        }
    }

    /// Runs a chain until it waits or ends.
    fn go(&mut self, chain: usize, answer: Option<LuaAnswer>) {
        let prompt = Arc::clone(&self.prompt);
        let mut answer = answer;
        loop {
            let Some(entry) = self.chains[chain].entry.as_mut() else {
                match self.chains[chain].next_section(prompt.document()) {
                    Some(section) => self.enter(chain, section),
                    None => self.end(chain, End::Result(None)),
                }
                return;
            };
            let turn = match answer.take() {
                Some(answer) => Some(entry.vm.resume(answer)),
                None if entry.has_block(&prompt) => {
                    self.recorder.report("lua_chunk_started", &entry.name);
                    entry.start_block(&prompt)
                }
                None => None,
            };
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
                    Next::Answer(given) => answer = Some(given),
                    Next::Parked => return,
                },
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

    fn report_chunk(&mut self, chain: usize, kind: &'static str) {
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
                    self.chains[chain].argv = argv;
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
                self.ready.push_back((caller, Some(LuaAnswer::Text(text.unwrap_or_default()))));
            }
            (Some(caller), End::Failed(failure)) => {
                self.free.push(chain);
                self.ready.push_back((caller, Some(LuaAnswer::Failed(failure.for_caller()))));
            }
        }
    }

    /// Looks at a request: answers it, hands out an effect, or starts a chain.
    fn perform(&mut self, chain: usize, request: Request) -> Next {
        match request {
            Request::Infer { handle, prompt } => self.start_infer(chain, handle, &prompt),
            Request::Loop { handle } => self.start_loop(chain, handle),
            Request::Compacted => self.compacted(chain),
            Request::Call { target, input, var } => self.start_call(chain, &target, input, var),
            Request::UserInput => {
                self.report_chunk(chain, "user_input_wait_started");
                self.emit(chain, Waiter::Input, Effect::UserInput);
                Next::Parked
            }
            Request::Library { name } => {
                self.emit(chain, Waiter::Library, Effect::LoadLibrary { name });
                Next::Parked
            }
        }
    }

    /// `call`: a chain of its own that the calling one waits for.
    fn start_call(&mut self, chain: usize, target: &str, input: Option<String>, var: Value) -> Next {
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
        self.ready.push_back((place, None));
        Next::Parked
    }

    /// Hands the answer of an effect to the block that waits for it.
    fn deliver(&mut self, chain: usize, waiter: Waiter, answer: Answer) {
        let kind = answer.kind();
        let next = match (waiter, answer) {
            (Waiter::Loop { round }, answer @ (Answer::Reply(_) | Answer::ModelFailure(_) | Answer::Dropped)) => {
                self.loop_answered(chain, round, answer)
            }
            (Waiter::Infer { round }, answer @ (Answer::Reply(_) | Answer::ModelFailure(_) | Answer::Dropped)) => {
                self.infer_answered(chain, round, answer)
            }
            (Waiter::Library, Answer::Library { source }) => Next::Answer(LuaAnswer::Library { source }),
            (Waiter::Library, Answer::LibraryMissing { message }) => {
                Next::Answer(LuaAnswer::Failed(Failure::Lua(message)))
            }
            (Waiter::Input, Answer::UserInput { text }) => {
                if let Some(entry) = &self.chains[chain].entry {
                    let fields = fields([("text", text.as_str().into())]);
                    self.recorder.report_with("user_input", &entry.name, fields);
                }
                Next::Answer(LuaAnswer::Input { text, available: true })
            }
            (Waiter::Input, Answer::InputUnavailable) => Next::Answer(LuaAnswer::Input {
                text: "User input is unavailable in this host; continue without it.".to_owned(),
                available: false,
            }),
            (Waiter::Input, Answer::InputFailure { message }) => {
                Next::Answer(LuaAnswer::Failed(Failure::Input(message)))
            }
            (_, Answer::Dropped) => Next::Answer(LuaAnswer::Failed(Failure::Cancelled)),
            _ => {
                self.fail(RunError::new(
                    RunErrorKind::Internal,
                    format!("internal invariant violated: an effect was answered with a {kind}"),
                ));
                return;
            }
        };
        if let Next::Answer(answer) = next {
            self.ready.push_back((chain, Some(answer)));
        }
    }
}

impl std::fmt::Debug for Run {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Run")
            .field("execution", &self.params.execution)
            .field("turns", &self.turns)
            .field("waiting", &self.waiting.len())
            .finish_non_exhaustive()
    }
}
