//! The string functions that search with patterns.

use std::sync::{Arc, Mutex};

use memchr::memmem;
use mlua::{Function, Lua, LuaString, MultiValue, Value};

use crate::error_value::{raise, refuse};
use crate::failure::Failure;
use crate::host::attempted;
use crate::names::type_name;
use crate::pattern::{Capture, Matcher, POLL_WORK, is_plain};
use crate::section::{Section, lock};

/// The Rust function behind a string function of the prelude.
pub(crate) fn function(lua: &Lua, section: &Arc<Section>, name: &[u8]) -> mlua::Result<Option<Function>> {
    match name {
        b"find" => attempted(lua, section, |lua, section, arguments| search(lua, section, arguments, true)),
        b"match" => attempted(lua, section, |lua, section, arguments| search(lua, section, arguments, false)),
        b"gmatch" => attempted(lua, section, gmatch),
        b"gsub" => attempted(lua, section, |lua, section, arguments| gsub(lua, section, arguments)),
        b"gsub_steps" => attempted(lua, section, gsub_steps),
        _ => return Ok(None),
    }
    .map(Some)
}

fn bad_argument(function: &str, at: usize, expected: &str, value: Option<&Value>) -> mlua::Error {
    let got = match value {
        None => "no value",
        Some(value) => match type_name(value) {
            "integer" => "number",
            other => other,
        },
    };
    refuse(format!("bad argument #{at} to '{function}' ({expected} expected, got {got})"))
}

/// The string argument at the 1-based position `at`; numbers count as their text.
fn string_argument(lua: &Lua, function: &str, arguments: &MultiValue, at: usize) -> mlua::Result<LuaString> {
    match arguments.get(at - 1) {
        Some(Value::String(text)) => Ok(text.clone()),
        Some(value @ (Value::Integer(_) | Value::Number(_))) => {
            lua.coerce_string(value.clone())?.ok_or_else(|| bad_argument(function, at, "string", Some(value)))
        }
        other => Err(bad_argument(function, at, "string", other)),
    }
}

fn integer_argument(lua: &Lua, function: &str, arguments: &MultiValue, at: usize, absent: i64) -> mlua::Result<i64> {
    match arguments.get(at - 1) {
        None | Some(Value::Nil) => Ok(absent),
        Some(value @ Value::Number(_)) => lua.coerce_integer(value.clone())?.ok_or_else(|| {
            refuse(format!("bad argument #{at} to '{function}' (number has no integer representation)"))
        }),
        Some(value) => match value {
            Value::Integer(_) | Value::String(_) => {
                lua.coerce_integer(value.clone())?.ok_or_else(|| bad_argument(function, at, "number", Some(value)))
            }
            other => Err(bad_argument(function, at, "number", Some(other))),
        },
    }
}

/// The 0-based index that a 1-based, possibly negative position starts at; `None` when it is past the end.
fn start_index(position: i64, length: usize) -> Option<usize> {
    let distance = usize::try_from(position.unsigned_abs()).unwrap_or(usize::MAX);
    let start = match position {
        0 => 0,
        1.. => distance - 1,
        _ => length.saturating_sub(distance),
    };
    (start <= length).then_some(start)
}

fn capture_value(lua: &Lua, subject: &[u8], capture: Capture) -> mlua::Result<Value> {
    Ok(match capture {
        Capture::Span(start, end) => Value::String(lua.create_string(&subject[start..end])?),
        Capture::Position(position) => Value::Integer(i64::try_from(position).unwrap_or(i64::MAX)),
    })
}

fn position_value(index: usize) -> Value {
    Value::Integer(i64::try_from(index).unwrap_or(i64::MAX))
}

fn search(lua: &Lua, section: &Section, arguments: &MultiValue, find: bool) -> mlua::Result<MultiValue> {
    let function = if find { "find" } else { "match" };
    let subject = string_argument(lua, function, arguments, 1)?;
    let pattern = string_argument(lua, function, arguments, 2)?;
    let init = integer_argument(lua, function, arguments, 3, 1)?;
    let (subject, pattern) = (subject.as_bytes(), pattern.as_bytes());
    let nothing = || MultiValue::from_iter([Value::Nil]);
    let Some(start) = start_index(init, subject.len()) else { return Ok(nothing()) };
    let plain = !matches!(arguments.get(3), None | Some(Value::Nil | Value::Boolean(false)));
    if find && (plain || is_plain(&pattern)) {
        return Ok(match memmem::find(&subject[start..], &pattern) {
            Some(at) => {
                MultiValue::from_iter([position_value(start + at + 1), position_value(start + at + pattern.len())])
            }
            None => nothing(),
        });
    }
    let must_stop = || section.must_stop(POLL_WORK);
    let anchored = pattern.first() == Some(&b'^');
    let mut matcher = Matcher::new(&subject, if anchored { &pattern[1..] } else { &pattern }, &must_stop);
    for at in start..=subject.len() {
        if let Some(end) = matcher.match_at(at).map_err(raise)? {
            let mut values = MultiValue::new();
            let captures = if find {
                values.push_back(position_value(at + 1));
                values.push_back(position_value(end));
                matcher.explicit_captures()
            } else {
                matcher.captures(at, end)
            };
            for capture in captures.map_err(raise)? {
                values.push_back(capture_value(lua, &subject, capture)?);
            }
            return Ok(values);
        }
        if anchored {
            break;
        }
    }
    Ok(nothing())
}

/// Where a repeated search stands: the next start, and the end of the last match, which may not repeat as an empty one.
struct Cursor {
    next: usize,
    last: Option<usize>,
}

fn gmatch(lua: &Lua, section: &Arc<Section>, arguments: &MultiValue) -> mlua::Result<Value> {
    let subject = string_argument(lua, "gmatch", arguments, 1)?;
    let pattern = string_argument(lua, "gmatch", arguments, 2)?;
    let init = integer_argument(lua, "gmatch", arguments, 3, 1)?;
    let length = subject.as_bytes().len();
    let cursor = Mutex::new(Cursor { next: start_index(init, length).unwrap_or(length + 1), last: None });
    let step = attempted(lua, section, move |lua, section, _| {
        let mut cursor = lock(&cursor);
        let (subject, pattern) = (subject.as_bytes(), pattern.as_bytes());
        let must_stop = || section.must_stop(POLL_WORK);
        let mut matcher = Matcher::new(&subject, &pattern, &must_stop);
        while cursor.next <= subject.len() {
            let start = cursor.next;
            if let Some(end) = matcher.match_at(start).map_err(raise)?
                && cursor.last != Some(end)
            {
                cursor.next = end;
                cursor.last = Some(end);
                return matcher
                    .captures(start, end)
                    .map_err(raise)?
                    .into_iter()
                    .map(|capture| capture_value(lua, &subject, capture))
                    .collect::<mlua::Result<MultiValue>>();
            }
            cursor.next += 1;
        }
        Ok(MultiValue::from_iter([Value::Nil]))
    })?;
    Ok(Value::Function(step))
}

fn limit_argument(lua: &Lua, arguments: &MultiValue, at: usize, length: usize) -> mlua::Result<usize> {
    let all = i64::try_from(length).unwrap_or(i64::MAX - 1) + 1;
    let limit = integer_argument(lua, "gsub", arguments, at, all)?;
    Ok(usize::try_from(limit.max(0)).unwrap_or(usize::MAX))
}

fn gsub(lua: &Lua, section: &Section, arguments: &MultiValue) -> mlua::Result<(LuaString, usize)> {
    let subject = string_argument(lua, "gsub", arguments, 1)?;
    let pattern = string_argument(lua, "gsub", arguments, 2)?;
    let replacement = match arguments.get(2) {
        Some(Value::String(_) | Value::Integer(_) | Value::Number(_)) => string_argument(lua, "gsub", arguments, 3)?,
        other => return Err(bad_argument("gsub", 3, "string/function/table", other)),
    };
    let (subject, pattern, replacement) = (subject.as_bytes(), pattern.as_bytes(), replacement.as_bytes());
    let limit = limit_argument(lua, arguments, 4, subject.len())?;
    let must_stop = || section.must_stop(POLL_WORK);
    let anchored = pattern.first() == Some(&b'^');
    let mut matcher = Matcher::new(&subject, if anchored { &pattern[1..] } else { &pattern }, &must_stop);
    let mut text = Vec::with_capacity(subject.len());
    let (mut at, mut last, mut count) = (0, None, 0);
    while count < limit {
        match matcher.match_at(at).map_err(raise)? {
            Some(end) if last != Some(end) => {
                count += 1;
                let captures = matcher.captures(at, end).map_err(raise)?;
                expand(&mut text, &subject, &replacement, (at, end), &captures, section.memory_ceiling())?;
                at = end;
                last = Some(end);
            }
            _ if at < subject.len() => {
                text.push(subject[at]);
                at += 1;
            }
            _ => break,
        }
        if anchored {
            break;
        }
    }
    text.extend_from_slice(&subject[at.min(subject.len())..]);
    Ok((lua.create_string(text)?, count))
}

/// Appends a replacement text with its `%` escapes filled in; fails once the text has grown past `ceiling` bytes.
fn expand(
    text: &mut Vec<u8>,
    subject: &[u8],
    replacement: &[u8],
    whole: (usize, usize),
    captures: &[Capture],
    ceiling: usize,
) -> mlua::Result<()> {
    let mut bytes = replacement.iter();
    while let Some(&byte) = bytes.next() {
        // One replacement can hold the subject any number of times.
        if text.len() > ceiling {
            return Err(raise(Failure::Memory));
        }
        if byte != b'%' {
            text.push(byte);
            continue;
        }
        match bytes.next() {
            Some(b'%') => text.push(b'%'),
            Some(b'0') => text.extend_from_slice(&subject[whole.0..whole.1]),
            Some(digit @ b'1'..=b'9') => match captures.get(usize::from(digit - b'1')) {
                Some(Capture::Span(start, end)) => text.extend_from_slice(&subject[*start..*end]),
                Some(Capture::Position(position)) => text.extend_from_slice(position.to_string().as_bytes()),
                None => {
                    return Err(refuse(format!("invalid capture index %{} in replacement string", digit - b'0')));
                }
            },
            _ => return Err(refuse("invalid use of '%' in replacement string")),
        }
    }
    Ok(())
}

/// Gives a function whose every call finds the next match: the text before it, the match, its captures; after the last
/// one the rest of the subject alone, then nothing.
fn gsub_steps(lua: &Lua, section: &Arc<Section>, arguments: &MultiValue) -> mlua::Result<Value> {
    let subject = string_argument(lua, "gsub", arguments, 1)?;
    let pattern = string_argument(lua, "gsub", arguments, 2)?;
    let length = subject.as_bytes().len();
    let left = limit_argument(lua, arguments, 3, length)?;
    let state = Mutex::new((left, 0usize, 0usize, None, false));
    let step = attempted(lua, section, move |lua, section, _| {
        let mut state = lock(&state);
        let (left, next, done, last, finished) = &mut *state;
        if *finished {
            return Ok(MultiValue::new());
        }
        let (subject, pattern) = (subject.as_bytes(), pattern.as_bytes());
        let must_stop = || section.must_stop(POLL_WORK);
        let anchored = pattern.first() == Some(&b'^');
        let mut matcher = Matcher::new(&subject, if anchored { &pattern[1..] } else { &pattern }, &must_stop);
        while *left > 0 && *next <= subject.len() && !(anchored && *next > 0) {
            let start = *next;
            match matcher.match_at(start).map_err(raise)? {
                Some(end) if *last != Some(end) => {
                    *left -= 1;
                    let mut values = MultiValue::from_iter([
                        Value::String(lua.create_string(&subject[*done..start])?),
                        Value::String(lua.create_string(&subject[start..end])?),
                    ]);
                    for capture in matcher.captures(start, end).map_err(raise)? {
                        values.push_back(capture_value(lua, &subject, capture)?);
                    }
                    (*next, *done, *last) = (end, end, Some(end));
                    if anchored {
                        *left = 0;
                    }
                    return Ok(values);
                }
                _ => *next += 1,
            }
        }
        *finished = true;
        Ok(MultiValue::from_iter([Value::String(lua.create_string(&subject[*done..])?)]))
    })?;
    Ok(Value::Function(step))
}
