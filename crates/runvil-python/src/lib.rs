//! `runvil._native`: the Python extension module of Runvil.

mod answers;
mod client;
mod conversation;
mod convert;
mod delivery;
mod exit;
mod outcome;
mod params;
mod prompt;
mod round;
mod run;

/// Long texts and many small records: it keeps the memory of both at hand, and has it in large pages.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The module `runvil._native`.
#[pyo3::pymodule]
mod _native {
    use pyo3::prelude::*;

    #[pymodule_export]
    use crate::answers::{check_json, check_rendered_tool, check_reply};
    #[pymodule_export]
    use crate::client::{HttpClient, OverflowRule, classify};
    #[pymodule_export]
    use crate::conversation::{
        Change, ComposedRequest, Conversation, ConversationLoop, LoopStep, Precheck, RecordIterator, RecordView,
        single_round, turn_bounds,
    };
    #[pymodule_export]
    use crate::outcome::{Event, Outcome, exhausted_message, failure_text};
    #[pymodule_export]
    use crate::prompt::{Problem, Prompt, Role};
    #[pymodule_export]
    use crate::round::{CountRequest, RoundRequest};
    #[pymodule_export]
    use crate::run::{Effect, Run, Step};

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("compactions", crate::conversation::compaction_variable(module.py())?)?;
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
