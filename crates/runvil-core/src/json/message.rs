//! One message record read from JSON text, in the record form or in the form of OpenAI's chat API.

use super::compact::push_compact;
use super::parse::{Cursor, Fault, RawString};
use crate::error::{Code, ListError, META_LIMIT};
use crate::role::Role;
use crate::wire::Draft;

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

/// A value of the text: where it starts, and the string it is, if it is one.
#[derive(Debug, Clone, Copy)]
struct Slot<'a> {
    start: usize,
    first: u8,
    string: Option<RawString<'a>>,
}

impl Slot<'_> {
    fn is_null(&self) -> bool {
        self.first == b'n'
    }
}

/// The fields of a message, not yet looked into.
#[derive(Debug, Default)]
struct Fields<'a> {
    role: Option<Slot<'a>>,
    content: Option<Slot<'a>>,
    tool_calls: Option<Slot<'a>>,
    tool_call_id: Option<Slot<'a>>,
    meta: Option<Slot<'a>>,
}

/// Buffers that are used again from message to message.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    arguments: String,
}

/// Reads the message at the cursor: writes its wire form to `out` and its metadata to `metas`.
///
/// Returns nothing but the draft; what was written before a refusal is left behind.
pub(crate) fn read(
    cursor: &mut Cursor<'_>,
    position: usize,
    scratch: &mut Scratch,
    out: &mut String,
    metas: &mut String,
) -> Result<Draft, Refusal> {
    let text = cursor.text();
    let fields = scan(cursor, position)?;
    let role = check_role(fields.role, position)?;
    let openai = is_openai(text, &fields);
    let absent = |slot: Option<Slot<'_>>| slot.is_none_or(|slot| openai && slot.is_null());
    let calls = fields.tool_calls.filter(|_| !absent(fields.tool_calls));
    let calls = match calls {
        None => None,
        Some(slot) => Some(CallList { slot, empty: slot.first == b'[' && is_empty_array(text, slot) }),
    };

    let mut draft = Draft::begin(out, role);
    match fields.content {
        Some(Slot { string: Some(raw), .. }) => draft.text(out, raw.into()),
        Some(slot) if slot.first == b'[' && !is_empty_array(text, slot) => {
            write_parts(text, slot, position, &mut draft, out)?;
        }
        Some(slot) if openai && slot.is_null() && calls.as_ref().is_some_and(|calls| !calls.empty) => {
            draft.text(out, "".into());
        }
        _ => return Err(ListError::at(Code::ContentInvalid, position).into()),
    }

    let id = match fields.tool_call_id.filter(|_| !absent(fields.tool_call_id)) {
        None => None,
        Some(Slot { string: Some(id), .. }) => Some(id),
        Some(_) => return Err(ListError::at(Code::ToolCallIdNotString, position).into()),
    };
    match (role, id) {
        (Role::Tool, None) => return Err(ListError::at(Code::ToolCallIdMissing, position).into()),
        (Role::System | Role::User | Role::Assistant, Some(_)) => {
            return Err(ListError::at(Code::ToolCallIdMisplaced, position).into());
        }
        _ => {}
    }
    if let Some(calls) = calls {
        write_calls(text, calls.slot, openai, position, scratch, &mut draft, out)?;
    }
    Draft::finish(out, id.map(Into::into));
    write_meta(text, fields.meta, position, metas)?;
    Ok(draft)
}

struct CallList<'a> {
    slot: Slot<'a>,
    empty: bool,
}

fn fault(fault: Fault, position: usize) -> Refusal {
    if fault.limit {
        Refusal::Record(ListError::not_json_record(position, fault.reason))
    } else {
        Refusal::Text(fault)
    }
}

/// Finds the fields of a message and checks that all of it is JSON.
fn scan<'a>(cursor: &mut Cursor<'a>, position: usize) -> Result<Fields<'a>, Refusal> {
    let refused = |refusal| fault(refusal, position);
    if cursor.peek() != Some(b'{') {
        cursor.skip(0).map_err(refused)?;
        return Err(ListError::at(Code::RecordNotTable, position).into());
    }
    let mut fields = Fields::default();
    // The record itself is no level: depth counts from a field's own value.
    cursor
        .entries(0, |cursor, key, _| {
            let slot = read_slot(cursor, 0)?;
            match &*key.decoded() {
                "role" => fields.role = Some(slot),
                "content" => fields.content = Some(slot),
                "tool_calls" => fields.tool_calls = Some(slot),
                "tool_call_id" => fields.tool_call_id = Some(slot),
                "meta" => fields.meta = Some(slot),
                _ => {}
            }
            Ok(())
        })
        .map_err(refused)?;
    Ok(fields)
}

/// Steps over a value and remembers it.
fn read_slot<'a>(cursor: &mut Cursor<'a>, depth: usize) -> Result<Slot<'a>, Fault> {
    let first = cursor.peek().unwrap_or(0);
    let start = cursor.offset();
    let string = if first == b'"' {
        Some(cursor.string()?)
    } else {
        cursor.skip(depth)?;
        None
    };
    Ok(Slot { start, first, string })
}

fn check_role(role: Option<Slot<'_>>, position: usize) -> Result<Role, ListError> {
    let name = role.and_then(|slot| slot.string).ok_or_else(|| ListError::at(Code::RoleNotString, position))?;
    let name = name.decoded();
    Role::parse(&name).ok_or_else(|| ListError::named(Code::RoleUnknown, position, &name))
}

fn is_empty_array(text: &str, slot: Slot<'_>) -> bool {
    let mut cursor = Cursor::at(text, slot.start + 1);
    cursor.peek() == Some(b']')
}

/// Whether the message is in the form of OpenAI's chat API.
///
/// It is when its first tool call has a `function`; without tool calls, unless it has metadata.
fn is_openai(text: &str, fields: &Fields<'_>) -> bool {
    match fields.tool_calls {
        Some(slot) if slot.first == b'[' && !is_empty_array(text, slot) => {
            let mut cursor = Cursor::at(text, slot.start + 1);
            let mut function = false;
            if cursor.peek() == Some(b'{') {
                // The text was checked before: this cannot fail.
                let _ = cursor.entries(0, |cursor, key, depth| {
                    function |= key.decoded() == "function";
                    cursor.skip(depth)
                });
            }
            function
        }
        _ => fields.meta.is_none(),
    }
}

fn write_parts(
    text: &str,
    slot: Slot<'_>,
    position: usize,
    draft: &mut Draft,
    out: &mut String,
) -> Result<(), Refusal> {
    let mut cursor = Cursor::at(text, slot.start);
    let mut index = 0;
    let mut refused = None;
    let read = cursor.items(0, |cursor, depth| {
        index += 1;
        if refused.is_some() {
            return cursor.skip(depth);
        }
        if cursor.peek() != Some(b'{') {
            refused = Some(ListError::at_part(Code::PartNotTable, position, index));
            return cursor.skip(depth);
        }
        let (mut kind, mut said, mut image) = (None, None, None);
        cursor.entries(depth, |cursor, key, depth| {
            let slot = read_slot(cursor, depth)?;
            match &*key.decoded() {
                "type" => kind = slot.string,
                "text" => said = slot.string,
                "image_url" => image = Some(slot),
                _ => {}
            }
            Ok(())
        })?;
        refused = match kind.map(RawString::decoded).as_deref() {
            None => Some(ListError::at_part(Code::PartNotTable, position, index)),
            Some("text") => match said {
                Some(said) => {
                    draft.text_part(out, said.into());
                    None
                }
                None => Some(ListError::at_part(Code::TextPartInvalid, position, index)),
            },
            Some("image_url") => match image.and_then(|image| string_entry(text, image, "url")) {
                Some(url) => {
                    draft.image_part(out, url.into());
                    None
                }
                None => Some(ListError::at_part(Code::ImagePartInvalid, position, index)),
            },
            Some(other) => Some(ListError::named_part(position, index, other)),
        };
        Ok(())
    });
    read.map_err(|refusal| fault(refusal, position))?;
    match refused {
        Some(error) => Err(error.into()),
        None => {
            draft.end_parts(out);
            Ok(())
        }
    }
}

/// The string under this key, when the value is an object that has one.
fn string_entry<'a>(text: &'a str, slot: Slot<'_>, wanted: &str) -> Option<RawString<'a>> {
    let mut found = None;
    if slot.first == b'{' {
        let mut cursor = Cursor::at(text, slot.start);
        let _ = cursor.entries(0, |cursor, key, depth| {
            let slot = read_slot(cursor, depth)?;
            if key.decoded() == wanted {
                found = slot.string;
            }
            Ok(())
        });
    }
    found
}

/// The fields of one tool call.
#[derive(Debug, Default)]
struct CallFields<'a> {
    id: Option<RawString<'a>>,
    name: Option<RawString<'a>>,
    arguments: Option<Slot<'a>>,
    function: Option<Slot<'a>>,
}

fn write_calls(
    text: &str,
    slot: Slot<'_>,
    openai: bool,
    position: usize,
    scratch: &mut Scratch,
    draft: &mut Draft,
    out: &mut String,
) -> Result<(), Refusal> {
    if slot.first != b'[' {
        return Err(ListError::at(Code::ToolCallsNotArray, position).into());
    }
    let mut cursor = Cursor::at(text, slot.start);
    let mut index = 0;
    let mut refused = None;
    let read = cursor.items(0, |cursor, depth| {
        index += 1;
        if refused.is_some() {
            return cursor.skip(depth);
        }
        if cursor.peek() != Some(b'{') {
            refused = Some(ListError::at_call(Code::CallNotTable, position, index));
            return cursor.skip(depth);
        }
        let mut call = CallFields::default();
        call_fields(cursor, depth, &mut call)?;
        if let Err(error) = write_call(text, call, openai, position, index, scratch, draft, out) {
            refused = Some(error);
        }
        Ok(())
    });
    read.map_err(|refusal| fault(refusal, position))?;
    match refused {
        Some(error) => Err(error.into()),
        None => {
            draft.end_calls(out);
            Ok(())
        }
    }
}

fn call_fields<'a>(cursor: &mut Cursor<'a>, depth: usize, call: &mut CallFields<'a>) -> Result<(), Fault> {
    cursor.entries(depth, |cursor, key, depth| {
        let slot = read_slot(cursor, depth)?;
        match &*key.decoded() {
            "id" => call.id = slot.string,
            "name" => call.name = slot.string,
            "arguments" => call.arguments = Some(slot),
            "function" => call.function = Some(slot),
            _ => {}
        }
        Ok(())
    })
}

#[expect(clippy::too_many_arguments, reason = "one step of `write_calls`, which holds all of these")]
fn write_call<'a>(
    text: &'a str,
    mut call: CallFields<'a>,
    openai: bool,
    position: usize,
    index: usize,
    scratch: &mut Scratch,
    draft: &mut Draft,
    out: &mut String,
) -> Result<(), ListError> {
    let refused = |code| ListError::at_call(code, position, index);
    let id = call.id.ok_or_else(|| refused(Code::CallIdNotString))?;
    if openai {
        // The name and the arguments are those of the function.
        let function = call.function.take();
        call.name = None;
        call.arguments = None;
        if let Some(function) = function.filter(|slot| slot.first == b'{') {
            // The text was checked before: this cannot fail.
            let _ = call_fields(&mut Cursor::at(text, function.start), 0, &mut call);
        }
    }
    let name = call.name.ok_or_else(|| refused(Code::CallNameNotString))?;
    let arguments = &mut scratch.arguments;
    arguments.clear();
    match call.arguments.filter(|slot| !(openai && slot.is_null())) {
        None => arguments.push_str("{}"),
        Some(slot) if slot.first == b'{' => {
            // Its level was counted when the text was checked.
            let mut cursor = Cursor::at(text, slot.start);
            push_compact(&mut cursor, 0, arguments).map_err(|_| refused(Code::CallArgumentsNotTable))?;
        }
        Some(Slot { string: Some(raw), .. }) if openai => {
            let decoded = raw.decoded();
            let mut cursor = Cursor::new(&decoded);
            let object = cursor.peek() == Some(b'{');
            // An array of calls and a call are the two levels around it.
            let read = push_compact(&mut cursor, 2, arguments).and_then(|()| cursor.end());
            match read {
                Err(fault) if fault.limit => {
                    let reason = format!("tool_calls[{index}] arguments: {}", fault.reason);
                    return Err(ListError::not_json_record(position, reason));
                }
                Ok(()) if object => {}
                _ => return Err(refused(Code::CallArgumentsNotTable)),
            }
        }
        Some(_) => return Err(refused(Code::CallArgumentsNotTable)),
    }
    draft.call(out, id.into(), name.into(), arguments);
    Ok(())
}

fn write_meta(text: &str, meta: Option<Slot<'_>>, position: usize, metas: &mut String) -> Result<(), Refusal> {
    let Some(slot) = meta.filter(|slot| !slot.is_null()) else { return Ok(()) };
    let start = metas.len();
    let mut cursor = Cursor::at(text, slot.start);
    push_compact(&mut cursor, 0, metas).map_err(|refusal| fault(refusal, position))?;
    let size = metas.len() - start;
    if size > META_LIMIT {
        return Err(ListError::meta_too_large(position, size).into());
    }
    Ok(())
}
