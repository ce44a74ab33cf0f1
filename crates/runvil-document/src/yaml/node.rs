//! The marked tree.

use std::ops::Range;
use std::rc::Rc;

use super::scalar::Scalar;

/// A value and the bytes of the file it was read from. For an alias these are the bytes of the alias; the value is shared.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) span: Range<usize>,
    pub(crate) value: Rc<Value>,
    /// The number of values in this one with every alias written out, itself included.
    pub(crate) weight: usize,
    /// The number of levels of this value: 1 for a scalar.
    pub(crate) height: usize,
}

#[derive(Debug)]
pub(crate) enum Value {
    Scalar {
        /// The text as written, without quotes.
        text: String,
        scalar: Scalar,
    },
    List(Vec<Node>),
    Map(Vec<(Node, Node)>),
}

impl Node {
    /// What the value is, in the words of messages.
    pub(crate) fn found(&self) -> String {
        match &*self.value {
            Value::Scalar { text, scalar } => match scalar {
                Scalar::Null => "null".to_owned(),
                Scalar::Boolean(_) => format!("boolean `{text}`"),
                Scalar::Integer(_) => format!("integer `{text}`"),
                Scalar::Float(_) => format!("floating point `{text}`"),
                Scalar::String => format!("string \"{}\"", escape(text)),
            },
            Value::List(_) => "sequence".to_owned(),
            Value::Map(_) => "map".to_owned(),
        }
    }

    /// The text of a value that is a string.
    pub(crate) fn as_str(&self) -> Option<&str> {
        match &*self.value {
            Value::Scalar { text, scalar: Scalar::String } => Some(text),
            _ => None,
        }
    }

    /// The text of any scalar.
    pub(crate) fn scalar_text(&self) -> Option<&str> {
        match &*self.value {
            Value::Scalar { text, .. } => Some(text),
            _ => None,
        }
    }
}

/// Escapes text for double quotes in JSON's form.
fn escape(text: &str) -> String {
    use std::fmt::Write as _;

    let mut escaped = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '"' => escaped.push_str("\\\""),
            '\\' => escaped.push_str("\\\\"),
            '\n' => escaped.push_str("\\n"),
            '\r' => escaped.push_str("\\r"),
            '\t' => escaped.push_str("\\t"),
            '\u{8}' => escaped.push_str("\\b"),
            '\u{c}' => escaped.push_str("\\f"),
            char if char.is_control() => {
                let _ = write!(escaped, "\\u{:04x}", u32::from(char));
            }
            char => escaped.push(char),
        }
    }
    escaped
}
