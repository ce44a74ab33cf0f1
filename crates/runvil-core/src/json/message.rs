//! One message record read from JSON text, in the record form or in the form of `OpenAI`'s chat API.

use super::compact::push_compact;
use super::parse::{Cursor, Fault, RawString};
use crate::error::{Code, ListError, META_LIMIT};
use crate::role::Role;
use crate::wire::{CALL_ID_KEY, Draft, Said, opening};

/// Why a message could not be read.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// The text is not JSON.
    Text(Fault),
    /// The message breaks a rule.
    Record(ListError),
}

impl From<ListError> for Refusal {
    fn from(error: ListError) -> Self {
        Self::Record(error)
    }
}

/// A value as far as a message's fields need it.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
enum Slot<'a> {
    #[default]
    Absent,
    Null,
    Text(RawString<'a>),
    /// An array, whose items the reader keeps.
    List,
    /// An object, as a stretch of the reader's canonical text.
    Object(usize, usize),
    Other,
}

impl<'a> Slot<'a> {
    fn text(self) -> Option<RawString<'a>> {
        if let Self::Text(raw) = self { Some(raw) } else { None }
    }

    fn unless_null(self, absent: bool) -> Self {
        if absent && self == Self::Null { Self::Absent } else { self }
    }
}

/// A content part, not yet checked.
#[derive(Debug, Clone, Copy, Default)]
struct Part<'a> {
    kind: Option<RawString<'a>>,
    text: Option<RawString<'a>>,
    url: Option<RawString<'a>>,
}

/// A tool call, not yet checked.
#[derive(Debug, Clone, Copy, Default)]
struct Call<'a> {
    table: bool,
    id: Option<RawString<'a>>,
    own: Target<'a>,
    /// What the chat form calls the function.
    function: Option<Target<'a>>,
}

/// Which tool is called, with what.
#[derive(Debug, Clone, Copy, Default)]
struct Target<'a> {
    name: Option<RawString<'a>>,
    arguments: Slot<'a>,
}

/// The fields of a message, not yet checked.
#[derive(Debug, Default)]
struct Fields<'a> {
    role: Slot<'a>,
    content: Slot<'a>,
    tool_calls: Slot<'a>,
    tool_call_id: Slot<'a>,
    has_meta: bool,
    /// Where the metadata begins in its text.
    meta_start: usize,
}

impl Fields<'_> {
    /// The draft of a message that begins in the usual way, when its text, of this length, is in wire form as it
    /// stands.
    fn verbatim(&self, role: Role, len: usize) -> Option<Draft> {
        let canonical = |slot: Slot<'_>| slot.text().filter(|raw| raw.canonical).map(|raw| raw.inside.len() + 2);
        let content_end = opening(role).len() + canonical(self.content)?;
        let id = if role == Role::Tool { CALL_ID_KEY.len() + canonical(self.tool_call_id)? } else { 0 };
        // Anything longer has white space in it.
        let content = self.content.text().filter(|_| content_end + id + 1 == len)?;
        Some(Draft::verbatim(role, content, content_end))
    }
}

/// What was found where a message should be.
#[derive(Debug)]
enum Scanned {
    /// A value that is no object.
    NoObject,
    /// Fields, not yet checked.
    Fields,
    /// A message that was checked and written.
    Written(Draft),
}

/// Reads messages one after the other; its buffers serve all of them.
#[derive(Debug, Default)]
pub(crate) struct MessageReader<'a> {
    parts: Vec<Part<'a>>,
    calls: Vec<Call<'a>>,
    /// Canonical text of the arguments that came as objects.
    arguments: String,
    decoded: String,
}

impl<'a> MessageReader<'a> {
    /// Reads the message at the cursor: writes its wire form to `out` and its metadata to `metas`.
    ///
    /// What was written before a refusal is left behind.
    pub(crate) fn read(
        &mut self,
        cursor: &mut Cursor<'a>,
        position: usize,
        out: &mut String,
        metas: &mut String,
    ) -> Result<Draft, Refusal> {
        let meta_start = metas.len();
        let mut fields = Fields { meta_start, ..Fields::default() };
        match self.scan(cursor, &mut fields, out, metas) {
            Ok(Scanned::Fields) => {}
            Ok(Scanned::Written(draft)) => return Ok(draft),
            Ok(Scanned::NoObject) => return Err(ListError::at(Code::RecordNotTable, position).into()),
            Err(fault) if fault.limit => return Err(ListError::not_json_record(position, fault.reason).into()),
            Err(fault) => return Err(Refusal::Text(fault)),
        }
        let role = check_role(fields.role, position)?;
        let chat_form = match (fields.tool_calls, self.calls.first()) {
            (Slot::List, Some(call)) => call.function.is_some(),
            _ => !fields.has_meta,
        };
        let mut draft = Draft::begin(out, role);
        self.write_content(&fields, chat_form, position, &mut draft, out)?;
        let id = check_tool_call_id(role, fields.tool_call_id.unless_null(chat_form), position)?;
        match fields.tool_calls.unless_null(chat_form) {
            Slot::Absent => {}
            Slot::List => {
                for index in 0..self.calls.len() {
                    self.write_call(index, chat_form, position, &mut draft, out)?;
                }
                draft.end_calls(out);
            }
            _ => return Err(ListError::at(Code::ToolCallsNotArray, position).into()),
        }
        Draft::finish(out, id.map(Into::into));
        let size = metas.len() - meta_start;
        if size > META_LIMIT {
            return Err(ListError::meta_too_large(position, size).into());
        }
        Ok(draft)
    }

    /// Finds the fields of a message, checking that all of it is JSON.
    fn scan(
        &mut self,
        cursor: &mut Cursor<'a>,
        fields: &mut Fields<'a>,
        out: &mut String,
        metas: &mut String,
    ) -> Result<Scanned, Fault> {
        if cursor.peek() != Some(b'{') {
            // The levels of a record count from its fields' values.
            if cursor.peek() == Some(b'[') {
                cursor.items(0, |cursor, _| cursor.skip(0))?;
            } else {
                cursor.skip(0)?;
            }
            return Ok(Scanned::NoObject);
        }
        self.arguments.clear();
        let start = cursor.offset();
        // Most messages begin in the same way, and many are in wire form as they stand.
        if let Some(role) = Role::ALL.into_iter().find(|role| cursor.eat_text(opening(*role))) {
            fields.role = Slot::Text(role.as_str().into());
            self.field(cursor, b"content", fields, metas)?;
            if role == Role::Tool && cursor.eat_text(CALL_ID_KEY) {
                fields.tool_call_id = self.slot(cursor, 0)?;
            }
            if !cursor.eat(b',') {
                cursor.expect(b'}', "a comma or the end of an object is expected")?;
                let whole = &cursor.text()[start..cursor.offset()];
                if let Some(draft) = fields.verbatim(role, whole.len()) {
                    out.push_str(whole);
                    return Ok(Scanned::Written(draft));
                }
                self.calls.clear();
                return Ok(Scanned::Fields);
            }
            cursor.more_entries(0, |cursor, key, _| self.field(cursor, key.decoded().as_bytes(), fields, metas))?;
        } else {
            cursor.entries(0, |cursor, key, _| self.field(cursor, key.decoded().as_bytes(), fields, metas))?;
        }
        if fields.tool_calls != Slot::List {
            self.calls.clear();
        }
        Ok(Scanned::Fields)
    }

    /// Reads the value of one field.
    fn field(
        &mut self,
        cursor: &mut Cursor<'a>,
        key: &[u8],
        fields: &mut Fields<'a>,
        metas: &mut String,
    ) -> Result<(), Fault> {
        match key {
            b"role" => fields.role = self.slot(cursor, 0)?,
            b"content" => {
                self.parts.clear();
                fields.content = if cursor.peek() == Some(b'[') {
                    cursor.items(0, |cursor, depth| self.scan_part(cursor, depth))?;
                    Slot::List
                } else {
                    self.slot(cursor, 0)?
                };
            }
            b"tool_calls" => {
                self.calls.clear();
                fields.tool_calls = if cursor.peek() == Some(b'[') {
                    cursor.items(0, |cursor, depth| self.scan_call(cursor, depth))?;
                    Slot::List
                } else {
                    self.slot(cursor, 0)?
                };
            }
            b"tool_call_id" => fields.tool_call_id = self.slot(cursor, 0)?,
            b"meta" => {
                fields.has_meta = true;
                metas.truncate(fields.meta_start);
                if cursor.peek() == Some(b'n') {
                    cursor.skip(0)?;
                } else {
                    push_compact(cursor, 0, metas)?;
                }
            }
            _ => cursor.skip(0)?,
        }
        Ok(())
    }

    /// Reads a value that is no list of parts or calls. `depth` counts the levels around it.
    fn slot(&mut self, cursor: &mut Cursor<'a>, depth: usize) -> Result<Slot<'a>, Fault> {
        Ok(match cursor.peek() {
            Some(b'"') => Slot::Text(cursor.string()?),
            Some(b'{') => {
                let start = self.arguments.len();
                push_compact(cursor, depth, &mut self.arguments)?;
                Slot::Object(start, self.arguments.len())
            }
            first => {
                cursor.skip(depth)?;
                if first == Some(b'n') { Slot::Null } else { Slot::Other }
            }
        })
    }

    fn scan_part(&mut self, cursor: &mut Cursor<'a>, depth: usize) -> Result<(), Fault> {
        let mut part = Part::default();
        if cursor.peek() == Some(b'{') {
            cursor.entries(depth, |cursor, key, depth| {
                match key.decoded().as_bytes() {
                    b"type" => part.kind = string_or_skip(cursor, depth)?,
                    b"text" => part.text = string_or_skip(cursor, depth)?,
                    b"image_url" => {
                        part.url = None;
                        if cursor.peek() == Some(b'{') {
                            cursor.entries(depth, |cursor, key, depth| {
                                if key.decoded() == "url" {
                                    part.url = string_or_skip(cursor, depth)?;
                                    return Ok(());
                                }
                                cursor.skip(depth)
                            })?;
                        } else {
                            cursor.skip(depth)?;
                        }
                    }
                    _ => cursor.skip(depth)?,
                }
                Ok(())
            })?;
        } else {
            cursor.skip(depth)?;
        }
        self.parts.push(part);
        Ok(())
    }

    fn scan_call(&mut self, cursor: &mut Cursor<'a>, depth: usize) -> Result<(), Fault> {
        let mut call = Call::default();
        if cursor.peek() == Some(b'{') {
            call.table = true;
            cursor.entries(depth, |cursor, key, depth| {
                match key.decoded().as_bytes() {
                    b"id" => call.id = string_or_skip(cursor, depth)?,
                    b"name" => call.own.name = string_or_skip(cursor, depth)?,
                    b"arguments" => call.own.arguments = self.slot(cursor, depth)?,
                    b"function" => {
                        let mut function = Target::default();
                        if cursor.peek() == Some(b'{') {
                            cursor.entries(depth, |cursor, key, depth| {
                                match key.decoded().as_bytes() {
                                    b"name" => function.name = string_or_skip(cursor, depth)?,
                                    b"arguments" => function.arguments = self.slot(cursor, depth)?,
                                    _ => cursor.skip(depth)?,
                                }
                                Ok(())
                            })?;
                        } else {
                            cursor.skip(depth)?;
                        }
                        call.function = Some(function);
                    }
                    _ => cursor.skip(depth)?,
                }
                Ok(())
            })?;
        } else {
            cursor.skip(depth)?;
        }
        self.calls.push(call);
        Ok(())
    }

    fn write_content(
        &self,
        fields: &Fields<'a>,
        chat_form: bool,
        position: usize,
        draft: &mut Draft,
        out: &mut String,
    ) -> Result<(), ListError> {
        match fields.content {
            Slot::Text(raw) => draft.text(out, raw.into()),
            Slot::List if !self.parts.is_empty() => {
                for (index, part) in self.parts.iter().enumerate() {
                    write_part(*part, position, index + 1, draft, out)?;
                }
                draft.end_parts(out);
            }
            Slot::Null if chat_form && !self.calls.is_empty() => draft.text(out, "".into()),
            _ => return Err(ListError::at(Code::ContentInvalid, position)),
        }
        Ok(())
    }

    fn write_call(
        &mut self,
        index: usize,
        chat_form: bool,
        position: usize,
        draft: &mut Draft,
        out: &mut String,
    ) -> Result<(), ListError> {
        let refused = |code| ListError::at_call(code, position, index + 1);
        let call = self.calls.get(index).filter(|call| call.table).ok_or_else(|| refused(Code::CallNotTable))?;
        let id = call.id.ok_or_else(|| refused(Code::CallIdNotString))?;
        let target = if chat_form { call.function.unwrap_or_default() } else { call.own };
        let name = target.name.ok_or_else(|| refused(Code::CallNameNotString))?;
        let arguments = match target.arguments.unless_null(chat_form) {
            Slot::Absent => Said::Plain("{}"),
            Slot::Object(start, end) => Said::Plain(&self.arguments[start..end]),
            Slot::Text(raw) if chat_form => {
                self.decoded.clear();
                let canonical = decode_arguments(raw, &mut self.decoded).map_err(|limit| match limit {
                    Some(reason) => {
                        let reason = format!("tool_calls[{}] arguments: {reason}", index + 1);
                        ListError::not_json_record(position, reason)
                    }
                    None => refused(Code::CallArgumentsNotTable),
                })?;
                if canonical { Said::Raw(raw) } else { Said::Plain(&self.decoded) }
            }
            _ => return Err(refused(Code::CallArgumentsNotTable)),
        };
        draft.call(out, id.into(), name.into(), arguments);
        Ok(())
    }
}

/// Writes the object that the text holds. Returns whether the text is canonical already. The error is the limit the text exceeds, if it is JSON all the same.
fn decode_arguments(raw: RawString<'_>, out: &mut String) -> Result<bool, Option<&'static str>> {
    let text = raw.decoded();
    let mut cursor = Cursor::new(&text);
    let object = cursor.peek() == Some(b'{');
    // An array of calls and a call are the two levels around it.
    match push_compact(&mut cursor, 2, out).and_then(|()| cursor.end()) {
        Ok(()) if object => Ok(*out == *text),
        Err(fault) if fault.limit => Err(Some(fault.reason)),
        _ => Err(None),
    }
}

fn string_or_skip<'a>(cursor: &mut Cursor<'a>, depth: usize) -> Result<Option<RawString<'a>>, Fault> {
    if cursor.peek() == Some(b'"') {
        return cursor.string().map(Some);
    }
    cursor.skip(depth)?;
    Ok(None)
}

fn check_role(role: Slot<'_>, position: usize) -> Result<Role, ListError> {
    let name = role.text().ok_or_else(|| ListError::at(Code::RoleNotString, position))?.decoded();
    Role::parse(&name).ok_or_else(|| ListError::named(Code::RoleUnknown, position, &name))
}

fn check_tool_call_id(role: Role, id: Slot<'_>, position: usize) -> Result<Option<RawString<'_>>, ListError> {
    match (role, id) {
        (Role::Tool, Slot::Text(id)) => Ok(Some(id)),
        (Role::Tool, Slot::Absent) => Err(ListError::at(Code::ToolCallIdMissing, position)),
        (_, Slot::Absent) => Ok(None),
        (_, Slot::Text(_)) => Err(ListError::at(Code::ToolCallIdMisplaced, position)),
        _ => Err(ListError::at(Code::ToolCallIdNotString, position)),
    }
}

fn write_part(
    part: Part<'_>,
    position: usize,
    index: usize,
    draft: &mut Draft,
    out: &mut String,
) -> Result<(), ListError> {
    let refused = |code| ListError::at_part(code, position, index);
    let kind = part.kind.ok_or_else(|| refused(Code::PartNotTable))?.decoded();
    match &*kind {
        "text" => draft.text_part(out, part.text.ok_or_else(|| refused(Code::TextPartInvalid))?.into()),
        "image_url" => draft.image_part(out, part.url.ok_or_else(|| refused(Code::ImagePartInvalid))?.into()),
        other => return Err(ListError::named_part(position, index, other)),
    }
    Ok(())
}
