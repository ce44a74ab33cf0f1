//! A section entry: its VM, the blocks still to run, and the loop under way.

use std::sync::Arc;

use runvil_core::anchor::Anchor;
use runvil_core::estimator::DetailCounter;
use runvil_core::tool_loop::ToolLoop;
use runvil_document::SectionId;
use runvil_lua::models::ModelHandle;
use runvil_lua::vm::{SectionVm, Turn};

use crate::prompt::{Prompt, Step};
use crate::reports::BatchReports;
use crate::tools::Scope;

/// A section that a chain is in.
pub(crate) struct Entry {
    pub(crate) section: SectionId,
    /// The heading text.
    pub(crate) name: String,
    /// The entry's id, as `sys.id` reads it.
    pub(crate) id: String,
    pub(crate) vm: SectionVm,
    /// The next of the section's blocks.
    next: usize,
    /// The prose since the last Lua block.
    prose: String,
    /// What was measured of the section's list.
    pub(crate) anchor: Anchor,
    /// What the detailed estimator has counted of the section's list.
    pub(crate) details: DetailCounter,
    /// The tools of the section's rounds, once they are fixed.
    pub(crate) scope: Option<Scope>,
    /// The loop a block waits in.
    pub(crate) looping: Option<Looping>,
}

/// A loop call between or inside its rounds.
pub(crate) struct Looping {
    /// The handle all rounds run on; `None` looks the section's model up for each.
    pub(crate) handle: Option<Arc<ModelHandle>>,
    pub(crate) machine: ToolLoop,
    /// The local tool whose handler runs: its place in the batch, the call's id, its name.
    pub(crate) handling: Option<(usize, String, String)>,
    /// What is still to be reported of the batch under way.
    pub(crate) reports: BatchReports,
}

impl Looping {
    pub(crate) fn new(handle: Option<Arc<ModelHandle>>, machine: ToolLoop) -> Self {
        Self { handle, machine, handling: None, reports: BatchReports::default() }
    }

    /// Makes room for the reports of a batch that this turn asked for.
    pub(crate) fn start_reports(&mut self, turn: u64, calls: usize) {
        self.reports = BatchReports::new(turn, calls);
    }
}

impl Entry {
    pub(crate) fn new(section: SectionId, name: String, id: String, vm: SectionVm) -> Self {
        Self {
            section,
            name,
            id,
            vm,
            next: 0,
            prose: String::new(),
            anchor: Anchor::new(),
            details: DetailCounter::new(),
            scope: None,
            looping: None,
        }
    }

    /// Starts the next Lua block; `None` when there is none left.
    pub(crate) fn start_block(&mut self, prompt: &Prompt) -> Option<Turn> {
        loop {
            let step = prompt.steps(self.section).get(self.next)?;
            self.next += 1;
            match step {
                Step::Prose(text) => self.prose.clone_from(text),
                Step::Lua(program) => {
                    let prose = std::mem::take(&mut self.prose);
                    return Some(self.vm.start(program, &prose));
                }
            }
        }
    }

    /// Whether a Lua block is still to come.
    pub(crate) fn has_block(&self, prompt: &Prompt) -> bool {
        prompt.steps(self.section)[self.next..].iter().any(|step| matches!(step, Step::Lua(_)))
    }
}
