//! What the Rust functions of one section VM share: the conversation, the guards' data, quotas and the pending request.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use mlua::{Table, Value};
use runvil_core::ledger::Ledger;
use runvil_core::list::MessageList;
use serde_json::Value as Json;

use crate::budget::Budget;
use crate::error_value::ErrorValues;
use crate::failure::Failure;
use crate::json::Plain;
use crate::models::{ModelHandle, Models};
use crate::packs::Packs;
use crate::request::Request;
use crate::tools::{Calls, Report, Scope};

/// The Lua heap, in bytes, up to which collecting garbage costs more than it gives back: about three times a
/// fresh VM.
const SMALL_HEAP: usize = 128 << 10;

/// A flag that ends a run from any thread.
///
/// Setting it is irreversible. Lua sees it within 1,000 instructions, and at every host call.
#[derive(Debug, Clone, Default)]
pub struct CancelFlag(Arc<AtomicBool>);

impl CancelFlag {
    /// Asks the run to end.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Whether the run was asked to end.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// Answers questions about the document on behalf of one section.
pub trait Headings: Send + Sync {
    /// The items of the list section that `reference` names from here, or the whole text of the refusal.
    fn items(&self, reference: &str) -> Result<Vec<String>, String>;
}

/// What is the same for every section VM of a run.
#[derive(Debug)]
pub struct Environment {
    /// The roles, the prompt-wide default and the rule for raw model ids.
    pub models: Models,
    /// The packs the prompt declares.
    pub packs: Packs,
    /// The replies received so far.
    pub turns: AtomicU64,
    /// Ends the run.
    pub cancel: CancelFlag,
    /// What the step that is running may still do.
    pub budget: Budget,
    /// The run's 32-digit marker of untrusted text.
    pub nonce: String,
    /// The run's seed.
    pub seed: u64,
    /// The ceiling of one section VM, in bytes: its Lua heap and what its records hold.
    pub memory_bytes: usize,
    /// How many `log` calls one section VM may make.
    pub log_events: u64,
    /// What `ui()` gives; without it there is no such global.
    pub ui: Option<Json>,
}

/// The fields of `sys` and the data a section starts with.
pub struct SectionParams {
    /// The heading text; the title in the H1 pass.
    pub name: String,
    /// The scalars of `sys`, by name.
    pub sys: Vec<(&'static str, Json)>,
    /// The contents of `var`: an object.
    pub var: Json,
    /// The argument string.
    pub args: String,
    /// The parsed arguments; `None` reads as `nil`.
    pub argv: Option<Arc<Json>>,
    /// What `{{ argv }}` renders from; differs from `argv` only after the H1 body repaired it.
    pub argv_in_prose: Option<Arc<Json>>,
    /// Whether this is the H1 pass, where `argv` is an ordinary global.
    pub is_h1: bool,
    /// Answers about the document.
    pub headings: Arc<dyn Headings>,
}

/// What runs in the section besides its block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Running {
    /// Nothing.
    #[default]
    Nothing,
    /// A loop, between or inside its rounds.
    Loop,
    /// A compactor, called by a loop.
    LoopCompactor,
    /// A compactor, called by `models.compact`.
    Compactor,
}

impl Running {
    pub(crate) fn is_compactor(self) -> bool {
        matches!(self, Self::LoopCompactor | Self::Compactor)
    }
}

/// What `prose` renders from, and what it rendered to.
#[derive(Debug, Default)]
pub(crate) struct Prose {
    pub(crate) template: String,
    pub(crate) rendered: Option<String>,
}

/// Lua values that Rust needs to find again, set once while the VM is built.
#[derive(Debug)]
pub(crate) struct Anchors {
    pub(crate) compactors: Table,
    /// Libraries, as the prelude means it.
    pub(crate) handle_methods: Table,
    pub(crate) list_methods: Table,
    pub(crate) behind: Table,
    pub(crate) hidden: Table,
    pub(crate) var: Table,
    pub(crate) var_data: Table,
    /// The numbers behind `tools.calls`.
    pub(crate) call_counts: Table,
}

/// The state of one section VM.
pub(crate) struct Section {
    pub(crate) environment: Arc<Environment>,
    pub(crate) params: SectionParams,
    pub(crate) ledger: Ledger,
    pub(crate) errors: ErrorValues,
    pub(crate) anchors: OnceLock<Anchors>,
    list: Mutex<MessageList>,
    selection: Mutex<Option<Arc<ModelHandle>>>,
    running: Mutex<Running>,
    pending: Mutex<Option<Request>>,
    prose: Mutex<Prose>,
    jump: Mutex<Option<String>>,
    logged: Mutex<Logged>,
    scope: Mutex<Scope>,
    calls: Mutex<Calls>,
    /// `sys.model`, once the section has made a tool call while it had a model.
    pub(crate) tool_model: OnceLock<Json>,
    trace: Mutex<Option<Trace>>,
    pub(crate) compaction: Mutex<Option<crate::compaction::Compaction>>,
    pub(crate) libraries: Mutex<crate::library::Libraries>,
    /// The arguments of a host call that gave up.
    pub(crate) interrupted: Mutex<Option<mlua::MultiValue>>,
    retries: AtomicBool,
    /// Whether the garbage of the VM's start was collected.
    is_tidy: AtomicBool,
    /// Whether garbage is collected.
    collects: AtomicBool,
}

/// Where the author's error was raised, recorded while its frames still exist.
#[derive(Debug, Clone)]
pub(crate) struct Trace {
    /// The raised value's text when it is a table with a text of its own.
    pub(crate) text: Option<String>,
    /// The author's frames, innermost first: location and line, then the rest of the line as Lua prints it.
    pub(crate) frames: Vec<Frame>,
}

/// One author frame of a traceback.
#[derive(Debug, Clone)]
pub(crate) struct Frame {
    pub(crate) label: String,
    pub(crate) line: usize,
    pub(crate) what: String,
}

/// What the section reports, and how much of the quotas of `log` is left.
#[derive(Debug)]
pub(crate) struct Logged {
    pub(crate) reports: Vec<Report>,
    pub(crate) events_left: u64,
    pub(crate) bytes_left: u64,
}

/// A lock whose holder cannot leave broken data behind; a poisoned one is used as it is.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Section {
    pub(crate) fn new(environment: Arc<Environment>, params: SectionParams, errors: ErrorValues) -> Self {
        let events_left = environment.log_events;
        Self {
            environment,
            params,
            ledger: Ledger::new(),
            errors,
            anchors: OnceLock::new(),
            list: Mutex::new(MessageList::new()),
            selection: Mutex::default(),
            running: Mutex::default(),
            pending: Mutex::default(),
            prose: Mutex::default(),
            jump: Mutex::default(),
            logged: Mutex::new(Logged {
                reports: Vec::new(),
                events_left,
                bytes_left: events_left.saturating_mul(256),
            }),
            scope: Mutex::default(),
            calls: Mutex::default(),
            tool_model: OnceLock::new(),
            trace: Mutex::default(),
            compaction: Mutex::default(),
            libraries: Mutex::default(),
            interrupted: Mutex::default(),
            retries: AtomicBool::new(false),
            is_tidy: AtomicBool::new(false),
            collects: AtomicBool::new(false),
        }
    }

    pub(crate) fn anchors(&self) -> mlua::Result<&Anchors> {
        self.anchors
            .get()
            .ok_or_else(|| mlua::Error::external(Failure::Internal("the section VM is not complete".to_owned())))
    }

    pub(crate) fn list(&self) -> MutexGuard<'_, MessageList> {
        lock(&self.list)
    }

    pub(crate) fn selection(&self) -> MutexGuard<'_, Option<Arc<ModelHandle>>> {
        lock(&self.selection)
    }

    pub(crate) fn running(&self) -> Running {
        *lock(&self.running)
    }

    pub(crate) fn set_running(&self, running: Running) {
        *lock(&self.running) = running;
    }

    pub(crate) fn prose(&self) -> MutexGuard<'_, Prose> {
        lock(&self.prose)
    }

    pub(crate) fn jump(&self) -> MutexGuard<'_, Option<String>> {
        lock(&self.jump)
    }

    pub(crate) fn logged(&self) -> MutexGuard<'_, Logged> {
        lock(&self.logged)
    }

    /// Adds to what the Engine reads after this turn.
    pub(crate) fn report(&self, report: Report) {
        self.logged().reports.push(report);
    }

    pub(crate) fn scope(&self) -> MutexGuard<'_, Scope> {
        lock(&self.scope)
    }

    pub(crate) fn calls(&self) -> MutexGuard<'_, Calls> {
        lock(&self.calls)
    }

    /// The handle a round runs on now: the section's selection, else the prompt-wide default.
    pub(crate) fn current_model(&self) -> Option<Arc<ModelHandle>> {
        self.selection().clone().or_else(|| self.environment.models.default_handle())
    }

    pub(crate) fn trace(&self) -> MutexGuard<'_, Option<Trace>> {
        lock(&self.trace)
    }

    /// Records what the shim that is about to yield asks for. Any caught failure is from now on an old one.
    pub(crate) fn ask(&self, request: Request) {
        self.errors.forget();
        *lock(&self.pending) = Some(request);
    }

    pub(crate) fn take_request(&self) -> Option<Request> {
        lock(&self.pending).take()
    }

    pub(crate) fn has_request(&self) -> bool {
        lock(&self.pending).is_some()
    }

    /// From now on the next host call is one made again.
    pub(crate) fn retries(&self) {
        self.retries.store(true, Ordering::Relaxed);
    }

    pub(crate) fn take_retry(&self) -> bool {
        self.retries.swap(false, Ordering::Relaxed)
    }

    /// Whether a host call that has done this much more work has to give up. The work is in Lua instructions, or what
    /// takes about as long.
    pub(crate) fn must_stop(&self, work: u64) -> bool {
        self.is_cancelled() || self.environment.budget.interrupts(work)
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.environment.cancel.is_cancelled()
    }

    pub(crate) fn memory_ceiling(&self) -> usize {
        self.environment.memory_bytes
    }

    pub(crate) fn list_mark(&self) -> Table {
        self.errors.list_mark().clone()
    }

    /// What a table is as data: a marked list, the data behind a guard, or itself.
    pub(crate) fn plain_table(&self, table: &Table) -> Plain {
        let Some(metatable) = table.metatable() else { return Plain::Table(table.clone()) };
        if metatable.to_pointer() == self.errors.list_mark().to_pointer() {
            return Plain::List(table.clone());
        }
        if let Some(anchors) = self.anchors.get()
            && let Ok(Value::Table(data)) = anchors.behind.raw_get::<Value>(table)
        {
            return match data.metatable() {
                Some(mark) if mark.to_pointer() == self.errors.list_mark().to_pointer() => Plain::List(data),
                _ => Plain::Table(data),
            };
        }
        Plain::Table(table.clone())
    }

    /// Fails when the Lua heap and the bytes the records hold have reached the ceiling together.
    pub(crate) fn check_memory(&self, lua: &mlua::Lua) -> mlua::Result<()> {
        let ceiling = self.memory_ceiling();
        let held = self.ledger.held();
        if lua.used_memory().saturating_add(held) > ceiling {
            lua.gc_collect()?;
            if lua.used_memory().saturating_add(self.ledger.held()) > ceiling {
                return Err(mlua::Error::external(Failure::Memory));
            }
        }
        self.update_memory_limit(lua)
    }

    /// Collects the garbage of a heap that nothing has collected yet, once: a block that waits may do so for long.
    pub(crate) fn tidy(&self, lua: &mlua::Lua) {
        if !self.is_tidy.swap(true, Ordering::Relaxed) && !self.collects.load(Ordering::Relaxed) {
            // Only a finalizer could fail, and no author has one.
            let _ = lua.gc_collect();
        }
    }

    /// Gives the Lua heap the room that the records leave, and starts collecting garbage once it is no longer small.
    ///
    /// Until then only an allocation that fails collects, which is what Lua does by itself.
    pub(crate) fn update_memory_limit(&self, lua: &mlua::Lua) -> mlua::Result<()> {
        if !self.collects.load(Ordering::Relaxed) && lua.used_memory() > SMALL_HEAP {
            self.collects.store(true, Ordering::Relaxed);
            lua.gc_restart();
        }
        // One byte is the smallest limit the allocator knows.
        lua.set_memory_limit(self.memory_ceiling().saturating_sub(self.ledger.held()).max(1))?;
        Ok(())
    }
}
