//! What a reply asks for, read once: its tool calls checked and decoded, or that it has none.

use std::collections::HashSet;

use serde_json::{Map, Value};

use crate::failure::{FailureKind, ModelFailure};
use crate::json::TOO_DEEP;
use crate::json::parse::{Fault, parse};
use crate::reply::{CallArguments, Reply, ReplyCall};

/// One tool call of a reply, checked: id and name are not blank, the id is unique in its round.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolCall {
    /// The call id.
    pub id: String,
    /// The name the model called.
    pub name: String,
    /// The decoded arguments, in the model's key order.
    pub arguments: Map<String, Value>,
}

/// Reads the tool calls of a reply as [`read_calls`] does, but lets undecodable arguments pass: such a call comes with no
/// arguments and with what is wrong.
///
/// # Errors
/// As [`read_calls`], arguments aside.
pub fn read_calls_leniently(reply: &Reply) -> Result<Vec<(ToolCall, Option<&'static str>)>, ModelFailure> {
    read(reply, |call| match decode(call) {
        Ok(arguments) => Ok((arguments, None)),
        Err(problem) => Ok((Map::new(), Some(problem))),
    })
}

/// Reads the tool calls of a reply; none for a reply that asks for no tools.
///
/// # Errors
/// A malformed response: a batch that the provider cut short, a blank id or name, an id that comes twice, arguments that
/// are missing or no JSON object.
pub fn read_calls(reply: &Reply) -> Result<Vec<ToolCall>, ModelFailure> {
    let calls = read(reply, |call| decode(call).map(|arguments| (arguments, ())))?;
    Ok(calls.into_iter().map(|(call, ())| call).collect())
}

fn read<T>(
    reply: &Reply,
    decode: impl Fn(&ReplyCall) -> Result<(Map<String, Value>, T), &'static str>,
) -> Result<Vec<(ToolCall, T)>, ModelFailure> {
    if let (false, Some(reason @ ("length" | "content_filter"))) =
        (reply.tool_calls.is_empty(), reply.finish_reason.as_deref())
    {
        return Err(malformed(format!(
            "tool-call batch truncated by finish_reason \"{reason}\": partial arguments must not execute"
        )));
    }
    let mut ids = HashSet::new();
    let mut calls = Vec::with_capacity(reply.tool_calls.len());
    for (index, call) in reply.tool_calls.iter().enumerate() {
        let refuse = |what: &str| malformed(format!("tool call {} {what}", index + 1));
        if call.id.trim().is_empty() {
            return Err(refuse("has a blank id"));
        }
        if call.name.trim().is_empty() {
            return Err(refuse("has a blank name"));
        }
        if !ids.insert(call.id.as_str()) {
            return Err(refuse("repeats the id of an earlier call"));
        }
        let (arguments, more) = decode(call).map_err(refuse)?;
        calls.push((ToolCall { id: call.id.clone(), name: call.name.clone(), arguments }, more));
    }
    Ok(calls)
}

fn decode(call: &ReplyCall) -> Result<Map<String, Value>, &'static str> {
    let value = match &call.arguments {
        CallArguments::Absent => return Err("has no arguments"),
        CallArguments::Text(text) => parse(text).map_err(|fault| refusal(&fault))?,
        CallArguments::Value(value) => value.clone(),
    };
    match value {
        Value::Object(arguments) => Ok(arguments),
        _ => Err("has arguments that are not a JSON object"),
    }
}

/// JSON that only a limit of ours refuses is not called invalid.
fn refusal(fault: &Fault) -> &'static str {
    match fault.reason {
        TOO_DEEP => "has arguments that nest deeper than 128 levels",
        _ if fault.limit => "has arguments with a number that is too large",
        _ => "has arguments that are not valid JSON",
    }
}

fn malformed(note: String) -> ModelFailure {
    ModelFailure { note: Some(note), ..ModelFailure::new(FailureKind::MalformedResponse) }
}
