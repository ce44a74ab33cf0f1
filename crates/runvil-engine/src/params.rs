//! What a run gets from the application besides its prompt.

use std::collections::BTreeMap;

use runvil_lua::models::CatalogModel;
use serde_json::Value;

/// The default round cap of a loop call.
pub const DEFAULT_ROUNDS: u32 = 24;
/// The default memory ceiling of a section VM, in bytes.
pub const DEFAULT_MEMORY_BYTES: usize = 64 << 20;
/// The default number of `log` calls of a section VM.
pub const DEFAULT_LOG_EVENTS: u64 = 1024;

/// A pack the Host supplies: its tools by name. Their schemas are asked for when they are offered.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Pack {
    /// The pack's name.
    pub name: String,
    /// Its tools, in the order they are offered in.
    pub tools: Vec<PackTool>,
    /// The names of packs that cannot be active together with it.
    pub conflicts: Vec<String>,
}

/// A tool of a pack.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PackTool {
    /// Its name within the pack.
    pub name: String,
    /// Whether its output is passed on bare.
    pub trusted: bool,
    /// Whether its output is JSON that a script receives decoded.
    pub structured: bool,
}

/// Everything a run depends on. The same prompt, parameters and answers give the same run, byte for byte.
#[derive(Debug, Clone)]
pub struct Params {
    /// The argument string.
    pub args: String,
    /// The run's name, in every event and in `sys.execution`.
    pub execution: String,
    /// The seed of everything that looks random.
    pub seed: u64,
    /// The start instant, in milliseconds since 1970 UTC.
    pub started_at: i64,
    /// The model each role is bound to, by label. A role that is missing stays unbound.
    pub models: BTreeMap<String, CatalogModel>,
    /// Whether raw model ids may be used.
    pub raw_models: bool,
    /// The packs the Host supplies.
    pub packs: Vec<Pack>,
    /// The most rounds of one loop call; a prompt's `max_tool_iterations` wins.
    pub rounds: u32,
    /// The memory ceiling of a section VM, in bytes.
    pub memory_bytes: usize,
    /// The `log` calls of a section VM.
    pub log_events: u64,
    /// The Host's snapshot for `ui()`.
    pub ui: Option<Value>,
    /// Whether the events show each request and response in full.
    pub debug: bool,
}

impl Default for Params {
    fn default() -> Self {
        Self {
            args: String::new(),
            execution: "run".to_owned(),
            seed: 0,
            started_at: 0,
            models: BTreeMap::new(),
            raw_models: false,
            packs: Vec::new(),
            rounds: DEFAULT_ROUNDS,
            memory_bytes: DEFAULT_MEMORY_BYTES,
            log_events: DEFAULT_LOG_EVENTS,
            ui: None,
            debug: false,
        }
    }
}
