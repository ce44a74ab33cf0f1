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
    /// The names of the packs the Host supplies.
    pub packs: Vec<String>,
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
