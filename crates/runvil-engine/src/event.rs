//! Events: what a run reports while it goes on. Output only; nothing depends on whether anyone reads them.

use serde_json::{Map, Value};

/// What happened.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// The kind, in `snake_case`.
    pub kind: &'static str,
    /// The run's name.
    pub execution: String,
    /// The section's heading text; the H1 title for the H1 pass and the run itself; `Prompt` for parsing.
    pub section: String,
    /// The task it belongs to; `0` is the main walk.
    pub task: String,
    /// Counts the task's events and effects together, strictly increasing.
    pub seq: u64,
    /// The fields of this kind, in order.
    pub fields: Map<String, Value>,
}

impl Event {
    /// The event as one flat JSON object.
    pub fn to_value(&self) -> Value {
        let mut object = Map::with_capacity(5 + self.fields.len());
        object.insert("kind".to_owned(), self.kind.into());
        object.insert("execution".to_owned(), self.execution.as_str().into());
        object.insert("section".to_owned(), self.section.as_str().into());
        object.insert("task".to_owned(), self.task.as_str().into());
        object.insert("seq".to_owned(), self.seq.into());
        object.extend(self.fields.iter().map(|(key, value)| (key.clone(), value.clone())));
        Value::Object(object)
    }
}

/// Collects the events of a run and numbers them.
#[derive(Debug)]
pub struct Recorder {
    execution: String,
    seq: u64,
    events: Vec<Event>,
}

impl Recorder {
    /// A recorder of a run of this name.
    pub fn new(execution: &str) -> Self {
        Self { execution: execution.to_owned(), seq: 0, events: Vec::new() }
    }

    /// Takes the next number, for an effect.
    pub(crate) fn count(&mut self) {
        self.seq += 1;
    }

    pub(crate) fn report(&mut self, kind: &'static str, section: &str) {
        self.report_with(kind, section, Map::new());
    }

    pub(crate) fn report_with(&mut self, kind: &'static str, section: &str, fields: Map<String, Value>) {
        self.events.push(Event {
            kind,
            execution: self.execution.clone(),
            section: section.to_owned(),
            task: "0".to_owned(),
            seq: self.seq,
            fields,
        });
        self.seq += 1;
    }

    /// The events since the last look, in order.
    pub fn take(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }
}

/// The fields of an event, given as pairs; `null` values are left out.
pub(crate) fn fields<const N: usize>(pairs: [(&str, Value); N]) -> Map<String, Value> {
    pairs.into_iter().filter(|(_, value)| !value.is_null()).map(|(key, value)| (key.to_owned(), value)).collect()
}
