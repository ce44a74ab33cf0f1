//! Records made from text that needs no check.

use serde_json::{Map, Value};

use crate::record::Record;
use crate::role::Role;
use crate::wire::{Draft, compact};

impl Record {
    /// A system record.
    pub fn system(content: &str) -> Self {
        plain(Role::System, content)
    }

    /// A user record.
    pub fn user(content: &str) -> Self {
        plain(Role::User, content)
    }

    /// An assistant record without tool calls.
    pub fn assistant(content: &str) -> Self {
        plain(Role::Assistant, content)
    }

    /// An assistant record with tool calls, each an id, a name and the arguments.
    pub fn assistant_with_calls<'a>(
        content: &str,
        calls: impl IntoIterator<Item = (&'a str, &'a str, &'a Map<String, Value>)>,
    ) -> Self {
        let (mut draft, mut text) = begin(Role::Assistant, content);
        for (id, name, arguments) in calls {
            draft.call(&mut text, id.into(), name.into(), map_text(arguments).as_str().into());
        }
        draft.end_calls(&mut text);
        Draft::finish(&mut text, None);
        Self::own(&draft, text, "")
    }

    /// The result of the tool call with this id.
    pub fn tool(content: &str, tool_call_id: &str) -> Self {
        let (draft, mut text) = begin(Role::Tool, content);
        Draft::finish(&mut text, Some(tool_call_id.into()));
        Self::own(&draft, text, "")
    }
}

fn begin(role: Role, content: &str) -> (Draft, String) {
    let mut text = String::with_capacity(Draft::plain_len(role, content));
    let mut draft = Draft::begin(&mut text, role);
    draft.text(&mut text, content.into());
    (draft, text)
}

fn plain(role: Role, content: &str) -> Record {
    let (draft, mut text) = begin(role, content);
    Draft::finish(&mut text, None);
    Record::own(&draft, text, "")
}

fn map_text(map: &Map<String, Value>) -> String {
    let mut text = String::from("{");
    for (index, (key, value)) in map.iter().enumerate() {
        if index > 0 {
            text.push(',');
        }
        text.push_str(&compact(&Value::from(key.as_str())));
        text.push(':');
        text.push_str(&compact(value));
    }
    text.push('}');
    text
}
