//! Conversations read from JSON text and written to it.

use std::fmt;
use std::sync::Arc;

use super::message::{MessageReader, Refusal};
use super::parse::{Cursor, Fault};
use crate::error::{Code, ListError};
use crate::list::MessageList;
use crate::record::Record;
use crate::role::Role;
use crate::slab::SlabWriter;

/// Why JSON text could not be read as a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JsonLoadError {
    /// The bytes are not UTF-8.
    NotUtf8 {
        /// The byte offset of the first bad sequence.
        offset: usize,
    },
    /// The text is not JSON.
    Syntax {
        /// What is wrong.
        reason: String,
        /// The line, from 1.
        line: usize,
        /// The character in the line, from 1.
        column: usize,
    },
    /// The text is JSON, but no array.
    NotArray,
    /// A record breaks a rule.
    Record(ListError),
}

impl fmt::Display for JsonLoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotUtf8 { offset } => write!(f, "the JSON text is not valid UTF-8 at byte offset {offset}"),
            Self::Syntax { reason, line, column } => {
                write!(f, "invalid JSON at line {line}, column {column}: {reason}")
            }
            Self::NotArray => f.write_str("a conversation must be a JSON array of messages"),
            Self::Record(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for JsonLoadError {}

impl From<ListError> for JsonLoadError {
    fn from(error: ListError) -> Self {
        Self::Record(error)
    }
}

impl JsonLoadError {
    fn syntax(text: &str, fault: &Fault) -> Self {
        let before = &text.as_bytes()[..fault.offset.min(text.len())];
        let line_start = memchr::memrchr(b'\n', before).map_or(0, |at| at + 1);
        let line = memchr::memchr_iter(b'\n', before).count() + 1;
        let column = String::from_utf8_lossy(&before[line_start..]).chars().count() + 1;
        Self::Syntax { reason: fault.reason.to_owned(), line, column }
    }

    fn from_refusal(text: &str, refusal: Refusal) -> Self {
        match refusal {
            Refusal::Text(fault) => Self::syntax(text, &fault),
            Refusal::Record(error) => Self::Record(error),
        }
    }
}

/// A form of messages as JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JsonForm {
    /// `{role, content, tool_calls: [{id, name, arguments}], tool_call_id, meta}`, arguments as an object.
    Record,
    /// The chat API's form, arguments as text and without metadata.
    OpenAi,
}

impl MessageList {
    /// Reads a JSON array of messages, each in the record form or in the chat form, that of `OpenAI`'s API.
    ///
    /// A message is in the chat form when its first tool call has a `function`, and, if it has no tool calls, unless
    /// it has metadata. In that form `content: null` beside tool calls reads as the empty string; `tool_calls`,
    /// `tool_call_id` and arguments that are null are absent; arguments are JSON text. Metadata is kept in both forms,
    /// and unknown fields are dropped.
    ///
    /// The text is read front to back and the first problem is reported: each record is checked in its turn, late
    /// system records included. The rules that span records are left to [`MessageList::check`].
    pub fn from_json(bytes: &[u8]) -> Result<Self, JsonLoadError> {
        load(utf8(bytes)?, true)
    }

    /// [`MessageList::from_json`] for text.
    pub fn from_json_text(text: &str) -> Result<Self, JsonLoadError> {
        load(text, true)
    }

    /// The records as a JSON array, one message per record, not merged.
    pub fn to_json(&self, form: JsonForm) -> Vec<u8> {
        let size: usize = self.iter().map(|record| record.wire().len() + 1).sum();
        let mut out = String::with_capacity(size + 2);
        out.push('[');
        for (index, record) in self.iter().enumerate() {
            if index > 0 {
                out.push(',');
            }
            match form {
                JsonForm::Record => record.push_json(&mut out),
                JsonForm::OpenAi => out.push_str(record.wire()),
            }
        }
        out.push(']');
        out.into_bytes()
    }
}

impl Record {
    /// Reads one message from JSON text, in either form of [`MessageList::from_json`].
    ///
    /// `position` is the place, from 1, that the record takes in its list.
    pub fn from_json(text: &str, position: usize) -> Result<Self, JsonLoadError> {
        let (mut out, mut meta) = (String::with_capacity(text.len() + 32), String::new());
        let mut cursor = Cursor::new(text);
        let draft = MessageReader::default()
            .read(&mut cursor, position, &mut out, &mut meta)
            .map_err(|refusal| JsonLoadError::from_refusal(text, refusal))?;
        cursor.end().map_err(|fault| JsonLoadError::syntax(text, &fault))?;
        Ok(Self::own(&draft, out, &meta))
    }
}

/// Reads a JSON array of messages as [`MessageList::from_json`] does, but lets system records stand anywhere: a history
/// for [`repair`](crate::repair::repair).
pub fn read_records(bytes: &[u8]) -> Result<Vec<Arc<Record>>, JsonLoadError> {
    Ok(load(utf8(bytes)?, false)?.iter().cloned().collect())
}

fn utf8(bytes: &[u8]) -> Result<&str, JsonLoadError> {
    // The quicker check does not say where.
    simdutf8::basic::from_utf8(bytes)
        .or_else(|_| simdutf8::compat::from_utf8(bytes))
        .map_err(|error| JsonLoadError::NotUtf8 { offset: error.valid_up_to() })
}

fn load(text: &str, check_placement: bool) -> Result<MessageList, JsonLoadError> {
    let syntax = |fault: Fault| JsonLoadError::syntax(text, &fault);
    let mut cursor = Cursor::new(text);
    if cursor.peek() != Some(b'[') {
        cursor.skip(0).and_then(|()| cursor.end()).map_err(syntax)?;
        return Err(JsonLoadError::NotArray);
    }
    cursor.expect(b'[', "an array is expected").map_err(syntax)?;
    let mut loader = Loader { check_placement, ..Loader::default() };
    if !cursor.eat(b']') {
        loop {
            loader.read(&mut cursor).map_err(|refusal| JsonLoadError::from_refusal(text, refusal))?;
            if !cursor.eat(b',') {
                cursor.expect(b']', "a comma or the end of the array of messages is expected").map_err(syntax)?;
                break;
            }
        }
    }
    cursor.end().map_err(syntax)?;
    loader.flush();
    Ok(loader.list)
}

#[derive(Default)]
struct Loader<'a> {
    list: MessageList,
    reader: MessageReader<'a>,
    slabs: SlabWriter,
    check_placement: bool,
    /// Whether a record of another role than system came.
    led: bool,
}

impl<'a> Loader<'a> {
    fn read(&mut self, cursor: &mut Cursor<'a>) -> Result<(), Refusal> {
        let position = self.list.len() + self.slabs.len() + 1;
        self.slabs.begin(cursor.text().len() - cursor.offset());
        let draft = self.reader.read(cursor, position, &mut self.slabs.slab.messages, &mut self.slabs.slab.metas)?;
        if draft.role == Role::System && self.led && self.check_placement {
            return Err(ListError::at(Code::LateSystem, position).into());
        }
        self.led |= draft.role != Role::System;
        self.slabs.end(draft);
        if self.slabs.is_full() {
            self.flush();
        }
        Ok(())
    }

    /// Makes the records that were read since the last time.
    fn flush(&mut self) {
        self.slabs.seal(|record| self.list.push_loaded(record));
        // While the records are at hand, the checks and the composition take them up cheaply.
        self.list.take_up();
    }
}
