//! A chain: one walk over sibling sections, started by the run itself or by a `call`.

use std::sync::Arc;

use runvil_document::{Document, SectionId};
use serde_json::Value;

use crate::entry::Entry;

/// The deepest nesting of calls.
pub(crate) const DEPTH_CAP: u32 = 8;

/// One chain of a run.
pub(crate) struct Chain {
    /// Its dotted id; the main walk is `0`.
    pub(crate) id: String,
    /// The chain that waits for its result.
    pub(crate) caller: Option<usize>,
    /// How many calls it is nested in.
    pub(crate) depth: u32,
    /// The argument string its sections read.
    pub(crate) args: String,
    /// The arguments as `argv` reads them.
    pub(crate) argv: Option<Arc<Value>>,
    /// What `var` holds when the next section starts.
    pub(crate) var: Value,
    /// The section entries so far.
    pub(crate) entries: u64,
    /// The chains it has started.
    pub(crate) children: u64,
    /// The sections to enter next: the innermost child walk last.
    levels: Vec<Level>,
    /// The section it is in.
    pub(crate) entry: Option<Entry>,
}

/// One level of a walk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Level {
    /// This section is entered next.
    Next(SectionId),
    /// This section was entered; its next sibling follows.
    After(SectionId),
}

impl Chain {
    pub(crate) fn new(id: String, args: String, arguments: Option<Arc<Value>>, var: Value) -> Self {
        Self {
            id,
            caller: None,
            depth: 0,
            args,
            argv: arguments,
            var,
            entries: 0,
            children: 0,
            levels: Vec::new(),
            entry: None,
        }
    }

    /// Starts the walk over at `section`.
    pub(crate) fn walk_from(&mut self, section: SectionId) {
        self.levels = vec![Level::Next(section)];
    }

    /// Goes on at a section visible from `from`, the section just left: a sibling replaces it in its level, a child opens
    /// a level of its own.
    pub(crate) fn jump(&mut self, document: &Document, from: SectionId, target: SectionId) {
        if document.section(target).parent == Some(from) && from != SectionId::BODY {
            self.levels.push(Level::Next(target));
        } else {
            self.levels.pop();
            self.levels.push(Level::Next(target));
        }
    }

    /// Whether the walk has begun.
    pub(crate) fn is_walking(&self) -> bool {
        !self.levels.is_empty()
    }

    /// The section to enter now; `None` ends the chain.
    pub(crate) fn next_section(&mut self, document: &Document) -> Option<SectionId> {
        while let Some(level) = self.levels.pop() {
            let section = match level {
                Level::Next(section) => Some(section),
                Level::After(section) => document.next_sibling(section),
            };
            if let Some(section) = section {
                self.levels.push(Level::After(section));
                return Some(section);
            }
        }
        None
    }
}

/// The arguments an argument string gives under the prompt's declaration.
///
/// Without a declaration the whole string is the argument `prose`. With one it is parsed as JSON; what is no JSON, or
/// JSON null, gives none.
pub(crate) fn parse_arguments(declared: bool, args: &str) -> Option<Arc<Value>> {
    if declared {
        serde_json::from_str(args).ok().filter(|value: &Value| !value.is_null()).map(Arc::new)
    } else {
        Some(Arc::new(serde_json::json!({ "prose": args })))
    }
}
