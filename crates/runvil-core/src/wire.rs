//! How a record is written down: the JSON of the message a model receives for it.
//!
//! `{"role":R,"content":C,"tool_calls":[…],"tool_call_id":ID}`, the last two only when the record has them, compact and
//! in canonical form. A part is `{"type":"text","text":T}` or `{"type":"image_url","image_url":{"url":U}}`; a call is
//! `{"id":ID,"type":"function","function":{"name":N,"arguments":A}}` with the arguments as JSON text.

use std::fmt::Write as _;

use serde_json::Value;

use crate::json::parse::RawString;
use crate::json::string::{find_special, push_escaped};
use crate::role::Role;

pub(crate) const NULL: &str = "null";
pub(crate) const CALLS_KEY: &str = ",\"tool_calls\":";
pub(crate) const CALL_ID_KEY: &str = ",\"tool_call_id\":";
pub(crate) const TEXT_PART_OPEN: &str = "{\"type\":\"text\",\"text\":\"";
pub(crate) const TEXT_PART_CLOSE: &str = "\"}";
const IMAGE_PART_OPEN: &str = "{\"type\":\"image_url\",\"image_url\":{\"url\":\"";
const IMAGE_PART_CLOSE: &str = "\"}}";
pub(crate) const CALL_OPEN: &str = "{\"id\":\"";
const CALL_NAME: &str = "\",\"type\":\"function\",\"function\":{\"name\":\"";
const CALL_ARGUMENTS: &str = "\",\"arguments\":\"";
const CALL_CLOSE: &str = "\"}}";

/// Everything before the content.
pub(crate) const fn opening(role: Role) -> &'static str {
    match role {
        Role::System => "{\"role\":\"system\",\"content\":",
        Role::User => "{\"role\":\"user\",\"content\":",
        Role::Assistant => "{\"role\":\"assistant\",\"content\":",
        Role::Tool => "{\"role\":\"tool\",\"content\":",
    }
}

/// How the content is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// A string without any escape: its JSON is its text.
    Verbatim,
    /// A string with escapes.
    Escaped,
    /// An array of parts.
    Parts,
}

/// A string that goes into a message.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Said<'a> {
    /// As text.
    Plain(&'a str),
    /// As it stands in some JSON text.
    Raw(RawString<'a>),
}

impl<'a> From<&'a str> for Said<'a> {
    fn from(text: &'a str) -> Self {
        Self::Plain(text)
    }
}

impl<'a> From<RawString<'a>> for Said<'a> {
    fn from(raw: RawString<'a>) -> Self {
        Self::Raw(raw)
    }
}

impl Said<'_> {
    /// Bytes of the text.
    fn len(self) -> usize {
        match self {
            Self::Plain(text) => text.len(),
            Self::Raw(raw) => raw.decoded_len,
        }
    }

    /// Appends the text in canonical form, without quotes.
    pub(crate) fn push(self, out: &mut String) {
        match self {
            Self::Plain(text) => push_escaped(out, text),
            Self::Raw(raw) if raw.canonical => out.push_str(raw.inside),
            Self::Raw(raw) => push_escaped(out, &raw.decoded()),
        }
    }
}

/// A message while it is written, and the numbers that a record keeps about it.
#[derive(Debug)]
pub(crate) struct Draft {
    pub(crate) role: Role,
    pub(crate) form: Form,
    /// Where the content ends, from the message's first byte.
    pub(crate) content_end: usize,
    /// Where the tool calls end; the content's end when there are none.
    pub(crate) calls_end: usize,
    /// How many tool calls there are.
    pub(crate) call_count: usize,
    /// Bytes of the content's text, escapes resolved, images aside.
    pub(crate) text_bytes: usize,
    start: usize,
}

impl Draft {
    /// Begins a message at the end of `out`.
    pub(crate) fn begin(out: &mut String, role: Role) -> Self {
        let start = out.len();
        out.push_str(opening(role));
        Self { role, form: Form::Verbatim, content_end: 0, calls_end: 0, call_count: 0, text_bytes: 0, start }
    }

    /// A message without tool calls that is written already, with this string as its content.
    pub(crate) fn verbatim(role: Role, content: RawString<'_>, content_end: usize) -> Self {
        let form = if content.decoded_len == content.inside.len() { Form::Verbatim } else { Form::Escaped };
        Self {
            role,
            form,
            content_end,
            calls_end: content_end,
            call_count: 0,
            text_bytes: content.decoded_len,
            start: 0,
        }
    }

    /// Bytes of a message with this content, when nothing in it is escaped and nothing follows it.
    pub(crate) fn plain_len(role: Role, content: &str) -> usize {
        opening(role).len() + content.len() + "\"\"}".len()
    }

    fn end_content(&mut self, out: &str) {
        self.content_end = out.len() - self.start;
        self.calls_end = self.content_end;
    }

    /// Writes string content.
    pub(crate) fn text(&mut self, out: &mut String, text: Said<'_>) {
        out.push('"');
        let start = out.len();
        text.push(out);
        self.text_bytes = text.len();
        if out.len() - start != self.text_bytes {
            self.form = Form::Escaped;
        }
        out.push('"');
        self.end_content(out);
    }

    /// Begins the next part.
    fn part(&mut self, out: &mut String) {
        out.push(if self.form == Form::Parts { ',' } else { '[' });
        self.form = Form::Parts;
    }

    pub(crate) fn text_part(&mut self, out: &mut String, text: Said<'_>) {
        self.part(out);
        out.push_str(TEXT_PART_OPEN);
        text.push(out);
        out.push_str(TEXT_PART_CLOSE);
        self.text_bytes += text.len();
    }

    pub(crate) fn image_part(&mut self, out: &mut String, url: Said<'_>) {
        self.part(out);
        out.push_str(IMAGE_PART_OPEN);
        url.push(out);
        out.push_str(IMAGE_PART_CLOSE);
    }

    /// Ends the array of parts, of which there is at least one.
    pub(crate) fn end_parts(&mut self, out: &mut String) {
        out.push(']');
        self.end_content(out);
    }

    /// Writes one more tool call in its serialized form, the call as it is sent, which is what it counts in the
    /// estimate. `arguments` is canonical JSON text of an object.
    pub(crate) fn call(&mut self, out: &mut String, id: Said<'_>, name: Said<'_>, arguments: Said<'_>) {
        if self.call_count == 0 {
            out.push_str(CALLS_KEY);
            out.push('[');
        } else {
            out.push(',');
        }
        self.call_count += 1;
        out.push_str(CALL_OPEN);
        id.push(out);
        out.push_str(CALL_NAME);
        name.push(out);
        out.push_str(CALL_ARGUMENTS);
        arguments.push(out);
        out.push_str(CALL_CLOSE);
    }

    /// Ends the tool calls, if there are any.
    pub(crate) fn end_calls(&mut self, out: &mut String) {
        if self.call_count > 0 {
            out.push(']');
            self.calls_end = out.len() - self.start;
        }
    }

    /// Writes the id of the answered call, if there is one, and ends the message.
    pub(crate) fn finish(out: &mut String, tool_call_id: Option<Said<'_>>) {
        if let Some(id) = tool_call_id {
            out.push_str(CALL_ID_KEY);
            out.push('"');
            id.push(out);
            out.push('"');
        }
        out.push('}');
    }
}

/// Bytes of all calls in their serialized form, given the array that holds them.
pub(crate) fn serialized_call_bytes(array: &str, call_count: usize) -> usize {
    // The brackets and the commas between the calls are no part of a call.
    array.len().saturating_sub(call_count + 1)
}

/// One call in the array of calls, each piece as it stands there, escapes included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RawCall<'a> {
    pub(crate) id: &'a str,
    pub(crate) name: &'a str,
    pub(crate) arguments: &'a str,
}

/// The calls of an array that [`Draft::call`] wrote.
#[derive(Debug, Clone)]
pub(crate) struct RawCalls<'a> {
    rest: &'a str,
}

impl<'a> RawCalls<'a> {
    /// `array` with its brackets, or nothing.
    pub(crate) fn new(array: &'a str) -> Self {
        Self { rest: array.get(1..).unwrap_or("") }
    }
}

impl<'a> Iterator for RawCalls<'a> {
    type Item = RawCall<'a>;

    fn next(&mut self) -> Option<RawCall<'a>> {
        let rest = self.rest.strip_prefix(',').unwrap_or(self.rest);
        let rest = rest.strip_prefix(CALL_OPEN)?;
        let (id, rest) = split_string(rest)?;
        let (name, rest) = split_string(rest.strip_prefix(CALL_NAME)?)?;
        let (arguments, rest) = split_string(rest.strip_prefix(CALL_ARGUMENTS)?)?;
        self.rest = rest.strip_prefix(CALL_CLOSE)?;
        Some(RawCall { id, name, arguments })
    }
}

/// Where the id of each call is in an array of this many calls that [`Draft::call`] wrote.
pub(crate) fn call_id_spans(array: &str, call_count: usize) -> impl Iterator<Item = (usize, usize)> {
    let mut next = Some(1);
    let mut left = call_count;
    std::iter::from_fn(move || {
        let start = next? + CALL_OPEN.len();
        let len = split_string(array.get(start..)?)?.0.len();
        left = left.saturating_sub(1);
        // What is left of the last call need not be looked at.
        next = if left > 0 { next_call(array, start + len) } else { None };
        Some((start, start + len))
    })
}

/// Where the next call begins after this place, which is within a call.
fn next_call(array: &str, from: usize) -> Option<usize> {
    // Text inside a string cannot look like this, because its quotes are escaped.
    const BORDER: &str = "\"}},{\"id\":\"";
    let found = memchr::memmem::find(&array.as_bytes()[from..], BORDER.as_bytes())?;
    Some(from + found + BORDER.len() - CALL_OPEN.len())
}

/// Splits text that starts inside a JSON string before the string's closing quote.
fn split_string(text: &str) -> Option<(&str, &str)> {
    let bytes = text.as_bytes();
    let mut at = 0;
    loop {
        at = find_special(bytes, at)?;
        match bytes[at] {
            b'"' => return Some(text.split_at(at)),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

/// A value as canonical JSON text.
pub(crate) fn compact(value: &Value) -> String {
    let mut text = String::new();
    // `Value` prints itself compactly, and printing into a `String` cannot fail.
    let _ = write!(text, "{value}");
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Record;

    #[test]
    fn ids_are_found_without_reading_the_last_arguments() {
        let mut out = String::new();
        let mut draft = Draft::begin(&mut out, Role::Assistant);
        draft.text(&mut out, "".into());
        let nasty = r#"{"a":"\"}},{\"id\":\"x"}"#;
        for (id, arguments) in [("one", nasty), ("t\"w\\o", "{}"), ("}},{", nasty)] {
            draft.call(&mut out, id.into(), "n".into(), arguments.into());
        }
        draft.end_calls(&mut out);
        Draft::finish(&mut out, None);
        let record = Record::own(&draft, out, "");
        let ids: Vec<_> = record.call_id_spans().map(|(start, end)| &record.wire()[start..end]).collect();
        assert_eq!(ids, ["one", r#"t\"w\\o"#, "}},{"]);
        assert_eq!(ids, record.raw_calls().map(|call| call.id).collect::<Vec<_>>());
    }
}
