//! Puts the tool calls of a reply together from the pieces a stream brings.

use std::borrow::Cow;

use runvil_core::reply::{CallArguments, ReplyCall};
use serde::de::IgnoredAny;

use crate::wire::{Arguments, Call, Object};

/// The tool calls of one reply.
#[derive(Default)]
pub(crate) struct Calls {
    calls: Vec<Partial>,
}

/// A call as far as it has arrived.
struct Partial {
    index: Option<u64>,
    call: ReplyCall,
}

impl Calls {
    /// Whether no piece of a call has arrived.
    pub(crate) fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Takes a call that arrived whole.
    pub(crate) fn push_whole(&mut self, call: Call<'_>) -> Result<(), &'static str> {
        let (id, name, arguments) = pieces(call);
        self.start(None, id, name, arguments)
    }

    /// Takes a piece of a call.
    ///
    /// The index says which call it belongs to. Where a provider leaves it out, or gives every call the same one, a new
    /// id or a new name after complete arguments begins a new call.
    pub(crate) fn push_piece(&mut self, call: Call<'_>) -> Result<(), &'static str> {
        let index = call.index;
        let (id, name, arguments) = pieces(call);
        match self.find(index, id.as_deref(), name.as_deref()) {
            Some(position) => self.calls[position].add(id, name, arguments),
            None => self.start(index, id, name, arguments),
        }
    }

    /// The calls in the provider's order.
    pub(crate) fn finish(mut self) -> Vec<ReplyCall> {
        if self.calls.iter().all(|partial| partial.index.is_some()) {
            self.calls.sort_by_key(|partial| partial.index);
        }
        self.calls.into_iter().map(|partial| partial.call).collect()
    }

    fn start(
        &mut self,
        index: Option<u64>,
        id: Option<Cow<'_, str>>,
        name: Option<Cow<'_, str>>,
        arguments: Option<Arguments<'_>>,
    ) -> Result<(), &'static str> {
        let call = ReplyCall { id: String::new(), name: String::new(), arguments: CallArguments::Absent };
        let mut partial = Partial { index, call };
        partial.add(id, name, arguments)?;
        self.calls.push(partial);
        Ok(())
    }

    /// The call a piece belongs to; `None` begins a new one.
    fn find(&self, index: Option<u64>, id: Option<&str>, name: Option<&str>) -> Option<usize> {
        let newest = |fits: &dyn Fn(&Partial) -> bool| self.calls.iter().rposition(fits);
        let position = match (index, id) {
            (Some(index), _) => newest(&|partial| partial.index == Some(index))?,
            (None, Some(id)) => newest(&|partial| partial.call.id == id)?,
            (None, None) => self.calls.len().checked_sub(1)?,
        };
        let partial = &self.calls[position];
        let another_id = id.is_some_and(|id| !partial.call.id.is_empty() && id != partial.call.id);
        let another_name = name.is_some_and(|name| !partial.call.name.is_empty() && name != partial.call.name);
        let named_again = name.is_some() && (another_id || another_name || index.is_none());
        if named_again && partial.is_complete() { None } else { Some(position) }
    }
}

impl Partial {
    /// Whether the arguments that have arrived are whole, so that a new name cannot belong to this call.
    fn is_complete(&self) -> bool {
        match &self.call.arguments {
            CallArguments::Absent => false,
            CallArguments::Text(text) => serde_json::from_str::<IgnoredAny>(text).is_ok(),
            CallArguments::Value(_) => true,
        }
    }

    fn add(
        &mut self,
        id: Option<Cow<'_, str>>,
        name: Option<Cow<'_, str>>,
        arguments: Option<Arguments<'_>>,
    ) -> Result<(), &'static str> {
        if let Some(id) = id {
            append(&mut self.call.id, id);
        }
        if let Some(name) = name {
            append(&mut self.call.name, name);
        }
        match (arguments, &mut self.call.arguments) {
            (None, _) => {}
            (Some(Arguments::Text(piece)), CallArguments::Text(text)) => text.push_str(&piece),
            (Some(Arguments::Text(piece)), absent @ CallArguments::Absent) => {
                *absent = CallArguments::Text(piece.into_owned());
            }
            (Some(Arguments::Value(value)), absent @ CallArguments::Absent) => *absent = CallArguments::Value(value),
            // A stream that opens a call with an empty text and then sends the whole object.
            (Some(Arguments::Value(value)), CallArguments::Text(text)) if text.is_empty() => {
                self.call.arguments = CallArguments::Value(value);
            }
            (Some(Arguments::Text(piece)), CallArguments::Value(_)) if piece.is_empty() => {}
            (Some(_), _) => return Err("mixes pieces of JSON text and JSON values in the arguments of one tool call"),
        }
        Ok(())
    }
}

/// The parts of a call, without the empty ones that fill a provider's template.
fn pieces(call: Call<'_>) -> (Option<Cow<'_, str>>, Option<Cow<'_, str>>, Option<Arguments<'_>>) {
    let id = call.id.filter(|id| !id.is_empty());
    match call.function {
        Some(Object(function)) => (id, function.name.filter(|name| !name.is_empty()), function.arguments),
        None => (id, None, None),
    }
}

/// Adds a piece of an id or name; one that is sent again with every piece counts once.
fn append(text: &mut String, piece: Cow<'_, str>) {
    if text.is_empty() {
        *text = piece.into_owned();
    } else if *text != piece {
        text.push_str(&piece);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire;

    /// Assembles pieces, each written `index id name arguments` with `-` for a missing one.
    fn assemble(pieces: &[&str]) -> Vec<String> {
        let mut calls = Calls::default();
        for piece in pieces {
            let mut fields = piece.splitn(4, ' ');
            let mut field = || fields.next().filter(|field| *field != "-");
            let index = field().map(|index| index.parse::<u64>().unwrap());
            let mut json = serde_json::json!({ "id": field(), "function": { "name": field(), "arguments": field() } });
            if let Some(index) = index {
                json["index"] = index.into();
            }
            let text = serde_json::json!({ "choices": [{ "delta": { "tool_calls": [json] } }] }).to_string();
            let mut chunk = wire::parse(text.as_bytes()).ok().unwrap();
            let message = chunk.choices.as_mut().unwrap()[0].0.delta.take().unwrap();
            for Object(call) in message.0.tool_calls.unwrap() {
                calls.push_piece(call).unwrap();
            }
        }
        let show = |call: ReplyCall| match call.arguments {
            CallArguments::Absent => format!("{} {}", call.id, call.name),
            CallArguments::Text(text) => format!("{} {} {text}", call.id, call.name),
            CallArguments::Value(value) => format!("{} {} value {value}", call.id, call.name),
        };
        calls.finish().into_iter().map(show).collect()
    }

    #[test]
    fn pieces_are_joined_by_index() {
        let pieces = ["0 a get -", "0 - - {\"x\"", "1 b set {", "0 - - :1}", "1 - - }"];
        assert_eq!(assemble(&pieces), ["a get {\"x\":1}", "b set {}"]);
        assert_eq!(assemble(&["1 b set {}", "0 a get {}"]), ["a get {}", "b set {}"]);
        assert_eq!(assemble(&["0 call get_ -", "0 _1 user {}"]), ["call_1 get_user {}"]);
    }

    #[test]
    fn a_repeated_id_and_name_count_once() {
        assert_eq!(assemble(&["0 a get {", "0 a get \"x\":1", "0 a get }"]), ["a get {\"x\":1}"]);
    }

    #[test]
    fn a_missing_index_is_made_up_for() {
        assert_eq!(assemble(&["- a get {", "- - - }", "- b set {}"]), ["a get {}", "b set {}"]);
        assert_eq!(assemble(&["- a get {", "- a get }", "- b get {}"]), ["a get {}", "b get {}"]);
        assert_eq!(assemble(&["- - get {}", "- - get {}", "- - set {}"]), [" get {}", " get {}", " set {}"]);
    }

    #[test]
    fn whole_calls_under_one_index_stay_apart() {
        assert_eq!(assemble(&["0 a get {}", "0 b get {}", "0 c set {}"]), ["a get {}", "b get {}", "c set {}"]);
    }

    #[test]
    fn a_call_without_arguments_has_none() {
        assert_eq!(assemble(&["0 a get -"]), ["a get"]);
        assert_eq!(assemble(&["0 a get "]), ["a get "]);
    }
}
