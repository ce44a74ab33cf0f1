//! Message records: immutable, checked when they are made, and held as the JSON a model receives for them.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::json::parse::parse;
use crate::json::string::unescape;
use crate::ledger::Ledger;
use crate::role::Role;
use crate::slab::Slab;
use crate::wire::{self, Draft, Form, RawCalls};

/// The fields a record is made from; `None` is an absent field.
///
/// A `meta` of JSON null is an absent one too. Of the other fields, null is a value, and a refused one.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RecordFields {
    /// One of the role names, as a string.
    pub role: Option<Value>,
    /// A string, or a non-empty array of content parts.
    pub content: Option<Value>,
    /// An array of `{id, name, arguments}`.
    pub tool_calls: Option<Value>,
    /// A string.
    pub tool_call_id: Option<Value>,
    /// Any JSON value of at most 8192 bytes as compact JSON.
    pub meta: Option<Value>,
}

/// One message of a conversation.
///
/// A record never changes. It keeps one form of its text, the JSON of its message, and its metadata as JSON beside it;
/// everything else is read out of these. It is shared as `Arc<Record>`.
pub struct Record {
    text: Text,
    content_end: usize,
    calls_end: usize,
    text_bytes: usize,
    call_count: u32,
    meta_start: u32,
    meta_len: u16,
    role: Role,
    form: Form,
    ledger: Option<Ledger>,
}

/// Where a record's JSON is.
pub(crate) enum Text {
    /// Its own text: the message, then the metadata.
    Own(Box<str>),
    /// A stretch of a text that several records share.
    Shared { slab: Arc<Slab>, start: u32, len: u32 },
}

impl Record {
    /// A record from a finished draft, whose message is all of `text`, and its metadata as compact JSON.
    pub(crate) fn own(draft: &Draft, mut text: String, meta: &str) -> Self {
        text.push_str(meta);
        Self::new(draft, Text::Own(text.into_boxed_str()), 0, meta.len())
    }

    pub(crate) fn new(draft: &Draft, text: Text, meta_start: u32, meta_len: usize) -> Self {
        Self {
            text,
            content_end: draft.content_end,
            calls_end: draft.calls_end,
            text_bytes: draft.text_bytes,
            call_count: u32::try_from(draft.call_count).unwrap_or(u32::MAX),
            meta_start,
            meta_len: u16::try_from(meta_len).unwrap_or(u16::MAX),
            role: draft.role,
            form: draft.form,
            ledger: None,
        }
    }

    /// The text that holds the message, and where the message is in it.
    pub(crate) fn place(&self) -> (&str, usize, usize) {
        match &self.text {
            Text::Own(text) => (text, 0, text.len() - usize::from(self.meta_len)),
            Text::Shared { slab, start, len } => (&slab.messages, *start as usize, *start as usize + *len as usize),
        }
    }

    /// The JSON of the record's message.
    pub fn wire(&self) -> &str {
        let (text, start, end) = self.place();
        &text[start..end]
    }

    /// The metadata as compact JSON.
    pub fn meta_json(&self) -> Option<&str> {
        let len = usize::from(self.meta_len);
        let text = match &self.text {
            Text::Own(text) => &text[text.len() - len..],
            Text::Shared { slab, .. } => &slab.metas[self.meta_start as usize..self.meta_start as usize + len],
        };
        (len > 0).then_some(text)
    }

    fn content_start(&self) -> usize {
        wire::opening(self.role).len()
    }

    /// The JSON of the content.
    pub(crate) fn content_json(&self) -> &str {
        &self.wire()[self.content_start()..self.content_end]
    }

    /// Where the inside of the content, without its quotes or brackets, is in the message.
    pub(crate) fn inside_content(&self) -> (usize, usize) {
        (self.content_start() + 1, self.content_end - 1)
    }

    /// Whether the content is a text of no characters.
    pub(crate) fn is_empty_text(&self) -> bool {
        self.text_bytes == 0 && self.form != Form::Parts
    }

    pub(crate) fn content_end(&self) -> usize {
        self.content_end
    }

    pub(crate) fn form(&self) -> Form {
        self.form
    }

    /// Bytes of the content's text, images aside.
    pub(crate) fn text_bytes(&self) -> usize {
        self.text_bytes
    }

    pub(crate) fn has_calls(&self) -> bool {
        self.call_count > 0
    }

    pub(crate) fn call_count(&self) -> usize {
        self.call_count as usize
    }

    fn calls_json(&self) -> &str {
        self.wire().get(self.content_end + wire::CALLS_KEY.len()..self.calls_end).unwrap_or("")
    }

    /// Bytes of the tool calls in their serialized form.
    pub(crate) fn call_bytes(&self) -> usize {
        wire::serialized_call_bytes(self.calls_json(), self.call_count())
    }

    pub(crate) fn raw_calls(&self) -> RawCalls<'_> {
        RawCalls::new(self.calls_json())
    }

    /// Where the id of each tool call is in the message.
    pub(crate) fn call_id_spans(&self) -> impl Iterator<Item = (usize, usize)> {
        let base = self.content_end + wire::CALLS_KEY.len();
        wire::call_id_spans(self.calls_json(), self.call_count()).map(move |(start, end)| (base + start, base + end))
    }

    /// The inside of the JSON string with the id of the answered call.
    pub(crate) fn raw_tool_call_id(&self) -> Option<&str> {
        let wire = self.wire();
        wire.get(self.calls_end + wire::CALL_ID_KEY.len() + 1..wire.len() - 2)
    }

    /// Who speaks.
    pub fn role(&self) -> Role {
        self.role
    }

    /// The content when it is a string; `None` when it is an array of parts.
    pub fn content_text(&self) -> Option<Cow<'_, str>> {
        let (start, end) = self.inside_content();
        let inside = &self.wire()[start..end];
        match self.form {
            Form::Verbatim => Some(Cow::Borrowed(inside)),
            Form::Escaped => Some(said(inside)),
            Form::Parts => None,
        }
    }

    /// The content: a string, or a non-empty array of `{type, text}` and `{type, image_url: {url}}`.
    pub fn content(&self) -> Value {
        match self.content_text() {
            Some(text) => Value::String(text.into_owned()),
            None => value_of(self.content_json()),
        }
    }

    /// The tool calls as `[{id, name, arguments}]`, or `None` when there are none.
    pub fn tool_calls(&self) -> Option<Value> {
        if !self.has_calls() {
            return None;
        }
        let calls = self.raw_calls().map(|call| {
            let mut entry = Map::new();
            entry.insert("id".to_owned(), Value::String(said(call.id).into_owned()));
            entry.insert("name".to_owned(), Value::String(said(call.name).into_owned()));
            entry.insert("arguments".to_owned(), value_of(&said(call.arguments)));
            Value::Object(entry)
        });
        Some(Value::Array(calls.collect()))
    }

    /// The id of the call that the record answers.
    pub fn tool_call_id(&self) -> Option<Cow<'_, str>> {
        self.raw_tool_call_id().map(said)
    }

    /// The metadata.
    pub fn meta(&self) -> Option<Value> {
        self.meta_json().map(value_of)
    }

    /// The record as a JSON object: role, content, and those of `tool_calls`, `tool_call_id` and meta that it has, in
    /// this order.
    pub fn to_value(&self) -> Value {
        let mut map = Map::new();
        map.insert("role".to_owned(), Value::from(self.role.as_str()));
        map.insert("content".to_owned(), self.content());
        if let Some(calls) = self.tool_calls() {
            map.insert("tool_calls".to_owned(), calls);
        }
        if let Some(id) = self.tool_call_id() {
            map.insert("tool_call_id".to_owned(), Value::from(id.into_owned()));
        }
        if let Some(meta) = self.meta() {
            map.insert("meta".to_owned(), meta);
        }
        Value::Object(map)
    }

    /// Appends the record as compact JSON in the form of [`Record::to_value`].
    pub fn push_json(&self, out: &mut String) {
        if self.has_calls() {
            out.push_str(&self.wire()[..self.content_end]);
            for (index, call) in self.raw_calls().enumerate() {
                out.push_str(if index == 0 { ",\"tool_calls\":[" } else { "," });
                out.push_str("{\"id\":\"");
                out.push_str(call.id);
                out.push_str("\",\"name\":\"");
                out.push_str(call.name);
                out.push_str("\",\"arguments\":");
                out.push_str(&said(call.arguments));
                out.push('}');
            }
            out.push(']');
            out.push_str(&self.wire()[self.calls_end..]);
        } else {
            out.push_str(self.wire());
        }
        if let Some(meta) = self.meta_json() {
            out.pop();
            out.push_str(",\"meta\":");
            out.push_str(meta);
            out.push('}');
        }
    }

    /// The message that a model receives for this record alone.
    pub fn to_message(&self) -> Value {
        value_of(self.wire())
    }

    /// Bytes of memory that the record owns, or its share of a text that several records own together.
    pub fn held_bytes(&self) -> usize {
        let text = match &self.text {
            Text::Own(text) => text.len(),
            Text::Shared { len, .. } => *len as usize + usize::from(self.meta_len),
        };
        // Beside the record itself, its `Arc` holds two counts.
        text + size_of::<Self>() + 2 * size_of::<usize>()
    }

    /// Charges the record's memory to a ledger, which gets it back when the last reference to the record is dropped.
    ///
    /// A record is charged to one ledger at a time; the one before gets its bytes back.
    #[must_use]
    pub fn charged_to(mut self, ledger: &Ledger) -> Self {
        self.release();
        ledger.charge(self.held_bytes());
        self.ledger = Some(ledger.clone());
        self
    }

    fn release(&mut self) {
        if let Some(ledger) = self.ledger.take() {
            ledger.release(self.held_bytes());
        }
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        self.release();
    }
}

impl Clone for Record {
    /// A copy that is charged to no ledger.
    fn clone(&self) -> Self {
        let text = match &self.text {
            Text::Own(text) => Text::Own(text.clone()),
            Text::Shared { slab, start, len } => Text::Shared { slab: Arc::clone(slab), start: *start, len: *len },
        };
        Self { text, ledger: None, ..*self }
    }
}

impl PartialEq for Record {
    /// Records are equal when they read the same, metadata included.
    fn eq(&self, other: &Self) -> bool {
        self.wire() == other.wire() && self.meta_json() == other.meta_json()
    }
}

impl Eq for Record {}

impl fmt::Debug for Record {
    /// Shows the shape of a record, never its text.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Record")
            .field("role", &self.role)
            .field("text_bytes", &self.text_bytes)
            .field("tool_calls", &self.call_count)
            .finish_non_exhaustive()
    }
}

/// What the inside of a JSON string of ours says.
fn said(inside: &str) -> Cow<'_, str> {
    unescape(inside).unwrap_or(Cow::Borrowed(inside))
}

/// The value of JSON text of ours.
fn value_of(json: &str) -> Value {
    parse(json).unwrap_or(Value::Null)
}
