//! Records written piece by piece, by callers who read them out of a structure of their own and need no tree between.

use std::fmt;
use std::sync::Arc;

use crate::error::META_LIMIT;
use crate::json::compact::push_compact;
use crate::json::parse::Cursor;
use crate::json::string::push_escaped;
use crate::record::Record;
use crate::role::Role;
use crate::slab::SlabWriter;
use crate::wire::Draft;

/// Appends text as a JSON string, quotes included, in canonical form.
pub fn push_string(out: &mut String, text: &str) {
    out.push('"');
    push_escaped(out, text);
    out.push('"');
}

/// What of a record was written so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Begun,
    Parts,
    Content,
    Calls,
    Answering,
}

/// Writes one record after the other.
///
/// The pieces come in this order: [`begin`](Self::begin), the content ([`text`](Self::text), or one or more parts),
/// the tool calls, the id of the answered call, and an end ([`finish`](Self::finish) or [`RecordBatch::add`]); the
/// metadata may come at any time between. Pieces that are out of order or make no valid record are told at the end, by
/// a missing record; [`Record::from_value`] and [`Record::from_fields`] say which rule they break.
#[derive(Default)]
pub struct RecordWriter {
    text: String,
    meta: String,
    /// `None` when no record was begun, or a piece came out of order.
    open: Option<(Draft, Stage)>,
}

impl RecordWriter {
    /// A writer without a record.
    pub fn new() -> Self {
        Self::default()
    }

    /// Begins a record; one that was not ended is dropped.
    pub fn begin(&mut self, role: Role) {
        self.text.clear();
        self.meta.clear();
        self.open = Some((Draft::begin(&mut self.text, role), Stage::Begun));
    }

    /// Writes a piece if one may come now, and moves on to the stage that `write` names.
    fn piece(&mut self, from: &[Stage], write: impl FnOnce(&mut Draft, &mut String) -> Stage) {
        self.open = self.open.take().filter(|(_, stage)| from.contains(stage)).map(|(mut draft, _)| {
            let stage = write(&mut draft, &mut self.text);
            (draft, stage)
        });
    }

    /// Writes string content.
    pub fn text(&mut self, text: &str) {
        self.piece(&[Stage::Begun], |draft, out| {
            draft.text(out, text.into());
            Stage::Content
        });
    }

    /// Writes one more content part, which holds text.
    pub fn text_part(&mut self, text: &str) {
        self.piece(&[Stage::Begun, Stage::Parts], |draft, out| {
            draft.text_part(out, text.into());
            Stage::Parts
        });
    }

    /// Writes one more content part, which is an image.
    pub fn image_part(&mut self, url: &str) {
        self.piece(&[Stage::Begun, Stage::Parts], |draft, out| {
            draft.image_part(out, url.into());
            Stage::Parts
        });
    }

    /// Writes one more tool call. `arguments` is a JSON object in canonical form.
    pub fn call(&mut self, id: &str, name: &str, arguments: &str) {
        self.close_parts();
        self.piece(&[Stage::Content, Stage::Calls], |draft, out| {
            draft.call(out, id.into(), name.into(), arguments.into());
            Stage::Calls
        });
    }

    /// Writes one more tool call, whose arguments are JSON text of an object in any form.
    pub fn call_with_text(&mut self, id: &str, name: &str, arguments: &str) {
        let mut canonical = String::with_capacity(arguments.len());
        let mut cursor = Cursor::new(arguments);
        // An array of calls and a call are the two levels around it.
        let object = cursor.peek() == Some(b'{')
            && push_compact(&mut cursor, 2, &mut canonical).and_then(|()| cursor.end()).is_ok();
        if object {
            self.call(id, name, &canonical);
        } else {
            self.open = None;
        }
    }

    /// Writes the id of the call that the record answers.
    pub fn tool_call_id(&mut self, id: &str) {
        self.close_calls();
        self.piece(&[Stage::Content], |_, out| {
            Draft::finish(out, Some(id.into()));
            Stage::Answering
        });
    }

    /// Where the metadata goes: one JSON value in canonical form, or nothing.
    pub fn meta(&mut self) -> &mut String {
        &mut self.meta
    }

    fn close_parts(&mut self) {
        if let Some((draft, stage @ Stage::Parts)) = &mut self.open {
            draft.end_parts(&mut self.text);
            *stage = Stage::Content;
        }
    }

    fn close_calls(&mut self) {
        self.close_parts();
        if let Some((draft, stage @ Stage::Calls)) = &mut self.open {
            draft.end_calls(&mut self.text);
            *stage = Stage::Content;
        }
    }

    /// Ends the record. `None` when the pieces break a rule.
    fn end(&mut self) -> Option<Draft> {
        self.close_calls();
        let (draft, stage) = self.open.take()?;
        if stage == Stage::Content {
            Draft::finish(&mut self.text, None);
        }
        let whole = match draft.role {
            Role::Tool => stage == Stage::Answering,
            Role::System | Role::User | Role::Assistant => stage == Stage::Content,
        };
        (whole && self.meta.len() <= META_LIMIT).then_some(draft)
    }

    /// Ends the record. `None` when the pieces break a rule.
    pub fn finish(&mut self) -> Option<Record> {
        let draft = self.end()?;
        let mut text = String::with_capacity(self.text.len() + self.meta.len());
        text.push_str(&self.text);
        Some(Record::own(&draft, text, &self.meta))
    }
}

impl fmt::Debug for RecordWriter {
    /// Shows sizes, never text.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecordWriter").field("len", &self.text.len()).finish_non_exhaustive()
    }
}

/// Records that are made together and share their text.
#[derive(Default)]
pub struct RecordBatch {
    records: Vec<Arc<Record>>,
    slabs: SlabWriter,
}

impl RecordBatch {
    /// A batch of no records.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many records the batch holds.
    pub fn len(&self) -> usize {
        self.records.len() + self.slabs.len()
    }

    /// Whether the batch holds no record.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Ends the writer's record and adds it. Returns `false`, and adds nothing, when the pieces break a rule.
    pub fn add(&mut self, writer: &mut RecordWriter) -> bool {
        let Some(draft) = writer.end() else { return false };
        self.slabs.begin(usize::MAX);
        self.slabs.slab.messages.push_str(&writer.text);
        self.slabs.slab.metas.push_str(&writer.meta);
        self.slabs.end(draft);
        if self.slabs.is_full() {
            self.seal();
        }
        true
    }

    /// Adds a record that was made elsewhere.
    pub fn push(&mut self, record: Arc<Record>) {
        self.seal();
        self.records.push(record);
    }

    /// The records in the order in which they were added.
    pub fn into_records(mut self) -> Vec<Arc<Record>> {
        self.seal();
        self.records
    }

    /// Makes the records of the open slab.
    fn seal(&mut self) {
        self.slabs.seal(|record| self.records.push(record));
    }
}

impl fmt::Debug for RecordBatch {
    /// Shows the number of records, never text.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecordBatch").field("len", &self.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn call(arguments: &str) -> Option<Record> {
        let mut writer = RecordWriter::new();
        writer.begin(Role::Assistant);
        writer.text("");
        writer.call_with_text("c", "n", arguments);
        writer.finish()
    }

    #[test]
    fn arguments_may_come_as_text_of_an_object() {
        let arguments = json!({"q": [1, 2.5, "é\n"], "n": null});
        let value = json!({"role": "assistant", "content": "", "tool_calls": [{"id": "c", "name": "n", "arguments": arguments}]});
        let made = Record::from_value(&value, 1).ok();
        assert!(made.is_some());
        for text in [r#"{"q":[1,2.5,"é\n"],"n":null}"#, "\n{ \"q\" : [ 1, 2.50, \"\\u00e9\\n\" ] , \"n\":null }\t"] {
            assert_eq!(call(text), made, "{text}");
        }
        for text in ["", "[1]", "null", "{} x", "{", "{'a':1}", r#"{"a":18446744073709551616}"#] {
            assert_eq!(call(text), None, "{text}");
        }
    }
}
