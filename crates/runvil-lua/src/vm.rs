//! One section VM: runs the blocks of one section entry, a suspension at a time.

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mlua::chunk::ChunkMode;
use mlua::thread::ThreadStatus;
use mlua::{Function, HookTriggers, Lua, MultiValue, Table, Thread, Value, VmState};
use runvil_core::ledger::Ledger;
use runvil_core::list::{MessageList, Snapshot};
use runvil_core::tools::ToolSchema;
use serde_json::Value as Json;

use crate::compaction;
use crate::dialect;
use crate::error_value::{ErrorValues, failure_of, raise, without_place};
use crate::failure::Failure;
use crate::guards;
use crate::json::{DEPTH_LIMIT, Nulls, Views, from_json, to_json};
use crate::models::ModelHandle;
use crate::names::type_name;
use crate::program::Program;
use crate::request::{Answer, Request};
use crate::sandbox;
use crate::section::{Environment, Running, Section, SectionParams, Trace, lock};
use crate::tool_calls;
use crate::tools::{Offered, Report};
use crate::view::RecordView;

/// Lua instructions between two looks at the cancel flag.
const CANCEL_POLL: u32 = 1000;

/// Lua instructions between two looks at the budget of a limited step. Few of them can do much: each may join strings
/// as large as the heap.
const BUDGET_POLL: u32 = 100;

/// The largest Lua heap, in bytes, that a limited step works on: a single instruction may take long on a larger one.
const LIMITED_HEAP: usize = 512 << 10;

/// Where a block stands after it ran for a while.
#[derive(Debug)]
pub enum Turn {
    /// It waits for the answer to this request.
    Waiting(Request),
    /// The budget of the step is used up; [`SectionVm::go_on`] goes on.
    Paused,
    /// It ended.
    Ended(BlockEnd),
}

/// How a block ended.
#[derive(Debug)]
pub enum BlockEnd {
    /// It ran to its end, with the text of the scalar it returned, if it returned one.
    Returned(Option<String>),
    /// It called `jump` with this heading reference.
    Jumped(String),
    /// It failed.
    Failed(BlockFailure),
}

/// An error that left a block.
#[derive(Debug, Clone)]
pub struct BlockFailure {
    /// What failed.
    pub failure: Failure,
    /// The text for the run's error: for a Lua error with its place and traceback in the author's code.
    pub message: String,
    /// The location label of the innermost frame of the author's code, when there is one.
    pub label: Option<String>,
    /// Its 1-based file line.
    pub line: Option<usize>,
    /// The message without the traceback.
    headline: String,
}

impl BlockFailure {
    /// A failure that has no place in the author's code.
    pub fn bare(failure: Failure) -> Self {
        let message = failure.message();
        Self { headline: message.clone(), message, failure, label: None, line: None }
    }

    /// The failure as the caller of the section gets it: unchanged, but for a Lua error with the place it was raised at.
    pub fn for_caller(self) -> Failure {
        match self.failure {
            Failure::Lua(_) => Failure::Lua(self.headline),
            failure => failure,
        }
    }
}

/// The VM of one section entry.
pub struct SectionVm {
    lua: Lua,
    section: Arc<Section>,
    guard: Function,
    thread: Option<Thread>,
    /// Whether the answer that is due goes to a loop.
    answers_loop: bool,
}

impl SectionVm {
    /// Builds the VM of a section entry: sandbox, host globals, limits.
    pub fn new(environment: Arc<Environment>, params: SectionParams) -> Result<Self, Failure> {
        Self::build(environment, params).map_err(|error| failure_of(&error))
    }

    fn build(environment: Arc<Environment>, params: SectionParams) -> mlua::Result<Self> {
        let lua = sandbox::interpreter()?;
        // Nothing becomes garbage while the VM is built, and little in a short block.
        lua.gc_stop();
        let errors = ErrorValues::new(&lua)?;
        let section = Arc::new(Section::new(environment, params, errors));
        let base = sandbox::build(&lua, &section)?;
        let guard: Function = base.native.raw_get("guard")?;
        dialect::runvil::install(&lua, &section, base)?;
        watch(&lua, &section, BUDGET_POLL)?;
        lua.set_memory_limit(section.memory_ceiling())?;
        Ok(Self { lua, section, guard, thread: None, answers_loop: false })
    }

    /// Starts a block. `prose` is the text above it that the `prose` global renders from.
    pub fn start(&mut self, program: &Program, prose: &str) -> Turn {
        match self.begin(program, prose) {
            Ok(values) => self.turn(values),
            Err(error) => self.ended(Err(error)),
        }
    }

    fn begin(&mut self, program: &Program, prose: &str) -> mlua::Result<mlua::Result<MultiValue>> {
        {
            let mut state = self.section.prose();
            prose.clone_into(&mut state.template);
            state.rendered = None;
        }
        self.section.anchors()?.hidden.raw_set("prose", Value::Nil)?;
        self.section.check_memory(&self.lua)?;
        let block =
            self.lua.load(program.bytecode()).set_name(format!("={}", program.label())).set_mode(ChunkMode::Binary);
        let block = block.into_function()?;
        let thread = self.lua.create_thread(self.guard.clone())?;
        let result = thread.resume::<MultiValue>(block);
        self.thread = Some(thread);
        Ok(result)
    }

    /// Goes on with a paused block.
    pub fn go_on(&mut self) -> Turn {
        let result = self.continued(MultiValue::new());
        self.turn(result)
    }

    /// Goes on with a waiting block.
    pub fn resume(&mut self, answer: Answer) -> Turn {
        let result = self.answer(answer);
        self.turn(result)
    }

    fn answer(&mut self, answer: Answer) -> mlua::Result<MultiValue> {
        if self.answers_loop && !matches!(answer, Answer::Compact(_) | Answer::Handle { .. }) {
            self.section.set_running(Running::Nothing);
            *lock(&self.section.compaction) = None;
        }
        let lua = &self.lua;
        let mut values = MultiValue::new();
        match answer {
            Answer::Done => values.push_back(Value::Boolean(true)),
            Answer::Data(data) => {
                values.extend([Value::Boolean(true), from_json(lua, &self.section, &data, Nulls::Keep)?]);
            }
            Answer::Text(text) => values.extend([Value::Boolean(true), Value::String(lua.create_string(text)?)]),
            Answer::Input { text, available } => values.extend([
                Value::Boolean(true),
                Value::String(lua.create_string(text)?),
                Value::Boolean(available),
            ]),
            Answer::Library { source } => {
                values.extend([Value::Boolean(true), Value::String(lua.create_string(source)?)]);
            }
            Answer::Compact(overflow) => {
                let reason = overflow.reason.as_str();
                compaction::enter(&self.section, Running::LoopCompactor, reason.to_owned(), Some(overflow));
                values.extend([
                    Value::Boolean(true),
                    Value::String(lua.create_string("compact")?),
                    Value::String(lua.create_string(overflow.reason.as_str())?),
                ]);
            }
            Answer::Handle { name, arguments } => {
                let handler = self.section.scope().local(&name).map(|tool| tool.handler.clone());
                let Some(handler) = handler else {
                    return Err(raise(Failure::Internal(format!("there is no local tool {name}"))));
                };
                self.section.scope().handlers += 1;
                values.extend([
                    Value::Boolean(true),
                    Value::String(lua.create_string("handle")?),
                    Value::Function(handler),
                    from_json(lua, &self.section, &Json::Object(arguments), Nulls::Keep)?,
                ]);
            }
            Answer::Failed(failure) => {
                let value = self.section.errors.make(lua, &failure)?;
                values.extend([Value::Boolean(false), Value::Table(value)]);
            }
        }
        self.section.check_memory(&self.lua)?;
        self.continued(values)
    }

    fn continued(&self, values: MultiValue) -> mlua::Result<MultiValue> {
        match &self.thread {
            Some(thread) => thread.resume::<MultiValue>(values),
            None => Err(raise(Failure::Internal("a block that does not wait was resumed".to_owned()))),
        }
    }

    fn turn(&mut self, result: mlua::Result<MultiValue>) -> Turn {
        let waits = self.thread.as_ref().is_some_and(|thread| thread.status() == ThreadStatus::Resumable);
        if self.section.is_cancelled() {
            // The hook may have stopped the block anywhere. A handler that has returned still has a result.
            return match self.section.take_request() {
                Some(request @ Request::Handled { .. }) if waits => Turn::Waiting(request),
                _ => self.ended(result),
            };
        }
        if result.is_ok() && waits {
            return match self.section.take_request() {
                Some(request) => {
                    self.section.tidy(&self.lua);
                    self.answers_loop =
                        matches!(request, Request::Loop { .. } | Request::Compacted | Request::Handled { .. });
                    Turn::Waiting(request)
                }
                None => Turn::Paused,
            };
        }
        self.ended(result)
    }

    fn ended(&mut self, result: mlua::Result<MultiValue>) -> Turn {
        self.thread = None;
        self.answers_loop = false;
        self.section.set_running(Running::Nothing);
        *lock(&self.section.compaction) = None;
        self.section.scope().handlers = 0;
        let trace = self.section.trace().take();
        let jump = self.section.jump().take();
        if self.section.is_cancelled() {
            return Turn::Ended(BlockEnd::Failed(BlockFailure::bare(Failure::Cancelled)));
        }
        if let Some(target) = jump {
            return Turn::Ended(BlockEnd::Jumped(target));
        }
        Turn::Ended(match result {
            Err(error) => BlockEnd::Failed(BlockFailure::bare(failure_of(&error))),
            Ok(values) => match (values.front(), values.get(1)) {
                (Some(Value::Boolean(true)), None) => BlockEnd::Returned(None),
                (Some(Value::Boolean(true)), Some(value)) => match self.result_text(value) {
                    Ok(text) => BlockEnd::Returned(text),
                    Err(failure) => BlockEnd::Failed(BlockFailure::bare(failure)),
                },
                (_, raised) => BlockEnd::Failed(self.raised(raised.unwrap_or(&Value::Nil), trace)),
            },
        })
    }

    /// The failure of a value that left the block.
    fn raised(&self, value: &Value, trace: Option<Trace>) -> BlockFailure {
        let trace = trace.unwrap_or(Trace { text: None, frames: Vec::new() });
        let failure = self.section.errors.failure(value).unwrap_or_else(|| {
            Failure::Lua(match value {
                Value::String(text) => String::from_utf8_lossy(without_place(&text.as_bytes())).into_owned(),
                Value::Integer(_) | Value::Number(_) => value.to_string().unwrap_or_default(),
                _ => trace.text.clone().unwrap_or_else(|| format!("(error object is a {} value)", type_name(value))),
            })
        });
        let innermost = trace.frames.first();
        let mut message = failure.message();
        let mut headline = message.clone();
        if failure.kind() == "lua" {
            if let Some(frame) = innermost {
                message = with_place(&message, &frame.label, frame.line);
            }
            headline.clone_from(&message);
            if !trace.frames.is_empty() {
                message.push_str("\nstack traceback:");
                for frame in &trace.frames {
                    let _ = write!(message, "\n\t{}:{}: {}", frame.label, frame.line, frame.what);
                }
            }
        }
        BlockFailure {
            failure,
            message,
            label: innermost.map(|frame| frame.label.clone()),
            line: innermost.map(|frame| frame.line),
            headline,
        }
    }

    /// The text of a block's return value; `None` for nil. Of all tables only a list of record views is a result: the JSON
    /// of its records.
    fn result_text(&self, value: &Value) -> Result<Option<String>, Failure> {
        match value {
            Value::Table(table) if is_records(table) => to_json(&self.section, value, Views::Convert, DEPTH_LIMIT)
                .map(|records| Some(records.to_string()))
                .map_err(|error| Failure::Lua(error.data_message("the result"))),
            other => scalar(other),
        }
    }

    /// `var` as it stands; fails when the global no longer holds it or holds what is no data.
    pub fn var(&self) -> Result<Json, Failure> {
        guards::read_var(&self.lua, &self.section).map_err(|error| failure_of(&error))
    }

    /// The H1 body's `argv` as it stands.
    pub fn argv(&self) -> Result<Option<Json>, Failure> {
        guards::read_argv(&self.lua, &self.section).map_err(|error| failure_of(&error))
    }

    /// What the section reports since the last look, in order.
    pub fn take_reports(&self) -> Vec<Report> {
        std::mem::take(&mut self.section.logged().reports)
    }

    /// From now on the section offers nothing more.
    pub fn close_offers(&self) {
        self.section.scope().is_rendered = true;
    }

    /// What the section offers of packs so far, in the order of the offers.
    pub fn offered(&self) -> Vec<Offered> {
        self.section.scope().offered.clone()
    }

    /// The schemas of the section's local tools, in the order of their registration.
    pub fn local_tools(&self) -> Vec<ToolSchema> {
        self.section.scope().local.iter().map(|tool| tool.schema.clone()).collect()
    }

    /// Counts a model's call of a tool: a pack's by its path, a local one by its name.
    pub fn count_call(&self, name: &str) -> Result<(), Failure> {
        tool_calls::count(&self.section, name).map_err(|error| failure_of(&error))
    }

    /// The ledger that the section's records are charged to.
    pub fn ledger(&self) -> Ledger {
        self.section.ledger.clone()
    }

    /// The handle a round runs on now: the section's selection, else the prompt-wide default.
    pub fn current_model(&self) -> Option<Arc<ModelHandle>> {
        self.section.current_model()
    }

    /// Looks at the conversation.
    pub fn with_list<R>(&self, look: impl FnOnce(&mut MessageList) -> R) -> R {
        look(&mut self.section.list())
    }

    /// The snapshot of the loop's compaction that just returned.
    pub fn take_compaction(&self) -> Option<Snapshot> {
        lock(&self.section.compaction).take().map(|compaction| compaction.snapshot)
    }
}

/// Makes every block look at the cancel flag, at the budget, and at the memory that records have given back, every
/// `poll` instructions.
///
/// A cancelled block yields and is never resumed: an error could be caught, and would run the handlers of `<close>`
/// variables. Where it cannot yield, which is the case inside the functions of C alone, the next look raises.
///
/// A block whose step has no budget left yields too. Between the recording of a request and its own yield it goes on.
fn watch(lua: &Lua, section: &Arc<Section>, poll: u32) -> mlua::Result<()> {
    let section = Arc::clone(section);
    let raises = AtomicBool::new(true);
    lua.set_global_hook(HookTriggers::new().every_nth_instruction(poll), move |lua, _| {
        if section.is_cancelled() {
            return if raises.fetch_not(Ordering::Relaxed) {
                Ok(VmState::Yield)
            } else {
                Err(raise(Failure::Cancelled))
            };
        }
        // Records may have been dropped since the last host call.
        section.update_memory_limit(lua)?;
        let budget = &section.environment.budget;
        if !budget.is_limited() {
            if poll != CANCEL_POLL {
                watch(lua, &section, CANCEL_POLL)?;
            }
            return Ok(VmState::Continue);
        }
        budget.charge(poll.into());
        if section.has_request() || !(budget.is_spent() || lua.used_memory() > LIMITED_HEAP) {
            return Ok(VmState::Continue);
        }
        Ok(VmState::Yield)
    })
}

impl std::fmt::Debug for SectionVm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SectionVm").field("section", &self.section.params.name).finish_non_exhaustive()
    }
}

/// The longest chunk name Lua puts in front of a message, in bytes.
const LUA_NAME_LIMIT: usize = 59;

/// A message that opens with its place, once.
fn with_place(message: &str, label: &str, line: usize) -> String {
    // Lua cuts a long name; the message gets it back whole.
    let mut cut = label.len().min(LUA_NAME_LIMIT);
    while !label.is_char_boundary(cut) {
        cut -= 1;
    }
    match message.strip_prefix(&label[..cut]) {
        Some(rest) if rest.starts_with(':') => format!("{label}{rest}"),
        _ if has_place(message) => message.to_owned(),
        _ => format!("{label}:{line}: {message}"),
    }
}

/// Whether a message opens with a place in some section, as one that a called section raised does.
fn has_place(message: &str) -> bool {
    let is_labelled = ["section `", "H1 `", "library "].iter().any(|start| message.starts_with(start));
    is_labelled
        && message
            .split(": ")
            .next()
            .and_then(|place| place.rsplit(':').next())
            .is_some_and(|line| !line.is_empty() && line.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Whether a table is a list of record views and nothing else.
fn is_records(table: &Table) -> bool {
    let mut views = 0;
    let all = table.pairs::<Value, Value>().all(|pair| {
        views += 1;
        matches!(pair, Ok((Value::Integer(_), Value::UserData(value))) if value.is::<RecordView>())
    });
    all && views > 0 && views == table.raw_len()
}

/// The text of a scalar; `None` for nil.
pub(crate) fn scalar(value: &Value) -> Result<Option<String>, Failure> {
    Ok(Some(match value {
        Value::Nil => return Ok(None),
        Value::String(text) => text.to_string_lossy(),
        Value::Integer(number) => number.to_string(),
        Value::Number(number) => number.to_string(),
        Value::Boolean(flag) => flag.to_string(),
        other => return Err(Failure::Lua(format!("cannot return a {} as a result", type_name(other)))),
    }))
}
