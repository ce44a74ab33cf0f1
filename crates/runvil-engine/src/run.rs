//! A run: the state machine a driver steps, answers and cancels.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use runvil_core::reply::Usage;
use runvil_core::request::Request as CoreRequest;
use runvil_document::SectionId;
use runvil_lua::budget::Budget;
use runvil_lua::envelope;
use runvil_lua::failure::Failure;
use runvil_lua::models::{ModelHandle, Models};
use runvil_lua::packs::{PackTool, Packs};
use runvil_lua::request::{Answer as LuaAnswer, Request};
use runvil_lua::section::{CancelFlag, Environment};
use serde_json::{Value, json};

use crate::chain::{Chain, parse_arguments};
use crate::effect::{Answer, Effect, EffectId};
use crate::error::{RunError, RunErrorKind};
use crate::event::{Event, Recorder, fields};
use crate::outcome::{Ending, Outcome};
use crate::params::Params;
use crate::prepare;
use crate::prompt::Prompt;

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
#[derive(Debug, Clone)]
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
    /// A loop's round that is to be counted.
    Count {
        /// Its messages.
        request: CoreRequest,
        /// The model it runs on.
        handle: Arc<ModelHandle>,
    },
    /// An infer's round that is to be counted.
    CountInfer {
        /// Its message.
        request: CoreRequest,
        /// The model it runs on.
        handle: Arc<ModelHandle>,
        /// Whether the call named the handle.
        is_named: bool,
    },
    /// A round that needs its tools' schemas.
    Render,
    /// A tool round.
    BatchCall {
        /// The call's place in the batch.
        index: usize,
        /// The call's id.
        call_id: String,
        /// The tool.
        tool: PackTool,
    },
    /// A `tools.call`.
    ScriptCall {
        /// The tool.
        tool: PackTool,
        /// The replies received when it was made.
        turn: u64,
    },
    /// A `require`.
    Library,
    /// A `user_input`.
    Input,
}

/// What a chain does when its turn comes.
pub(crate) enum Continuation {
    /// It starts its next block, or enters its next section.
    Next,
    /// Its block gets this answer.
    Answer(LuaAnswer),
    /// Its block was paused.
    Paused,
}

/// How a chain goes on after its request was looked at.
pub(crate) enum Next {
    /// The block gets this answer at once.
    Answer(LuaAnswer),
    /// The block waits.
    Parked,
}

/// One run of a prompt.
pub struct Run {
    pub(crate) prompt: Arc<Prompt>,
    pub(crate) params: Params,
    pub(crate) environment: Arc<Environment>,
    cancel: CancelFlag,
    pub(crate) chains: Vec<Chain>,
    /// Places of ended chains, for the next ones.
    pub(crate) free: Vec<usize>,
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
    pub(crate) ready: VecDeque<(usize, Continuation)>,
    /// Whether a limited step has left what was handed to the run for a later one.
    put_off: bool,
    /// Boxed: a map has room for eleven entries, and most runs wait for one effect.
    waiting: BTreeMap<EffectId, (usize, Box<Waiter>)>,
    answered: VecDeque<(usize, Waiter, Answer)>,
    next_effect: u64,
    effects: Vec<(EffectId, Effect)>,
    ending: Option<Ending>,
}

/// The main walk.
pub(crate) const MAIN: usize = 0;

impl Run {
    /// A run that has not started. Nothing can fail here: what is wrong with the prompt or the parameters is the outcome
    /// of the first step.
    pub fn new(prompt: Arc<Prompt>, params: Params) -> Self {
        let cancel = CancelFlag::default();
        let document = prompt.document();
        let bound = prepare::check_version(document).and_then(|()| prepare::bind(document, &params));
        let (bound, ending) = match bound {
            Ok(bound) => (bound, None),
            Err(error) => {
                let none = prepare::Bound { models: Models::new(Vec::new(), false), packs: Packs::default() };
                (none, Some(Ending::Failed(error)))
            }
        };
        let environment = Arc::new(Environment {
            models: bound.models,
            packs: bound.packs,
            turns: AtomicU64::new(0),
            cancel: cancel.clone(),
            budget: Budget::default(),
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
            put_off: false,
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
            Some((chain, waiter)) => self.answered.push_back((chain, *waiter, answer)),
            None => self.fail(RunError::new(
                RunErrorKind::Internal,
                format!("internal invariant violated: effect {} waits for no answer", effect.0),
            )),
        }
    }

    /// Runs every chain until it waits.
    pub fn step(&mut self) -> Step {
        self.environment.budget.lift();
        loop {
            if let Some(step) = self.advance() {
                return step;
            }
        }
    }

    /// Begins a step, or goes on with one that was cut short, and does about this much work: Lua instructions, or what
    /// takes about as long. Gives `None` when the step is not finished; this or [`Run::step`] goes on with it.
    ///
    /// How often a step is cut short changes neither its effects and events nor anything that follows.
    pub fn step_within(&mut self, work: u64) -> Option<Step> {
        if !self.put_off && self.handed_over() > work {
            self.put_off = true;
            return None;
        }
        self.put_off = false;
        self.environment.budget.limit(work);
        self.advance()
    }

    /// The size of what the step has to look at first, in bytes.
    fn handed_over(&self) -> u64 {
        let answers: usize = self.answered.iter().map(|(_, _, answer)| answer.size()).sum();
        let start = if self.started { 0 } else { self.prompt.size() + self.params.args.len() };
        u64::try_from(answers + start).unwrap_or(u64::MAX)
    }

    /// Runs every chain until it waits; `None` when the budget was used up before.
    fn advance(&mut self) -> Option<Step> {
        if !self.started {
            self.start();
        }
        while self.ending.is_none() {
            if self.cancel.is_cancelled() {
                self.stop(Ending::Cancelled);
            } else if let Some((chain, continuation)) = self.ready.pop_front() {
                self.go(chain, continuation);
            } else if let Some((chain, waiter, answer)) = self.answered.pop_front() {
                self.deliver(chain, waiter, answer);
            } else {
                break;
            }
            let has_work = !self.ready.is_empty() || !self.answered.is_empty();
            if has_work && self.ending.is_none() && self.must_pause() {
                return None;
            }
        }
        // The run may wait for long.
        self.ready.shrink_to_fit();
        self.answered.shrink_to_fit();
        let effects = std::mem::take(&mut self.effects);
        Some(match &self.ending {
            Some(ending) if self.waiting.is_empty() => {
                let outcome = Outcome { ending: ending.clone(), turns: self.turns, usage: self.usage };
                Step::Done { outcome, events: self.recorder.take() }
            }
            _ => Step::Pending { effects, events: self.recorder.take() },
        })
    }

    /// Whether the step has no budget left, or a block was paused for another reason.
    pub(crate) fn must_pause(&self) -> bool {
        self.environment.budget.is_spent() || matches!(self.ready.front(), Some((_, Continuation::Paused)))
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

    /// Settles the outcome, once; live sections end without their finish.
    pub(crate) fn stop(&mut self, ending: Ending) {
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

    pub(crate) fn fail(&mut self, error: RunError) {
        self.stop(Ending::Failed(Box::new(error)));
    }

    /// Hands out an effect on behalf of a chain.
    pub(crate) fn emit(&mut self, chain: usize, waiter: Waiter, effect: Effect) {
        let id = EffectId(self.next_effect);
        self.next_effect += 1;
        self.recorder.count();
        self.waiting.insert(id, (chain, Box::new(waiter)));
        self.effects.push((id, effect));
    }

    /// Looks at a request: answers it, hands out an effect, or starts a chain.
    pub(crate) fn perform(&mut self, chain: usize, request: Request) -> Next {
        match request {
            Request::Infer { handle, prompt } => self.start_infer(chain, handle, &prompt),
            Request::Loop { handle } => self.start_loop(chain, handle),
            Request::Compacted => self.compacted(chain),
            Request::Handled { text } => self.handled(chain, text),
            Request::ToolCall { path, arguments } => self.start_tool_call(chain, path, arguments),
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
            (Waiter::Count { request, handle }, Answer::Counted { tokens }) => {
                self.admit_round(chain, &handle, request, tokens)
            }
            (Waiter::CountInfer { request, handle, is_named }, Answer::Counted { tokens }) => {
                self.admit_infer(chain, &handle, is_named, request, tokens)
            }
            (Waiter::Count { .. }, Answer::CountFailure { message }) => {
                self.loop_failed(chain, Failure::Estimator(message))
            }
            (Waiter::CountInfer { .. }, Answer::CountFailure { message }) => {
                Next::Answer(LuaAnswer::Failed(Failure::Estimator(message)))
            }
            (Waiter::Render, answer @ (Answer::Rendered { .. } | Answer::RenderFailure { .. } | Answer::Dropped)) => {
                self.rendered(chain, answer)
            }
            (
                Waiter::BatchCall { index, call_id, tool },
                answer @ (Answer::ToolOutput { .. } | Answer::ToolFailure { .. } | Answer::Dropped),
            ) => self.call_answered(chain, index, (call_id, tool), answer),
            (
                Waiter::ScriptCall { tool, turn },
                answer @ (Answer::ToolOutput { .. } | Answer::ToolFailure { .. } | Answer::Dropped),
            ) => self.script_call_answered(chain, &tool, turn, answer),
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
            self.ready.push_back((chain, Continuation::Answer(answer)));
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
