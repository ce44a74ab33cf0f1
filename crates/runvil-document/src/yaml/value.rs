//! YAML values handed on as they are.

use super::node::{Node, Value};
use super::scalar::Scalar;

/// A YAML value of the core schema: the `config` of a pack or the default of an argument.
#[derive(Clone, Debug, PartialEq)]
pub enum Yaml {
    /// `null`, `~` or nothing.
    Null,
    /// `true` or `false`.
    Boolean(bool),
    /// An integer of 64 bits.
    Integer(i64),
    /// A number with a fraction or exponent, an infinity or a NaN.
    Float(f64),
    /// Text.
    String(String),
    /// A sequence.
    List(Vec<Yaml>),
    /// A mapping in file order. A key that is not text is given as it was written.
    Map(Vec<(String, Yaml)>),
}

/// Converts a tree to a plain value. Every problem is reported with the value it concerns.
pub(crate) fn to_yaml(node: &Node, report: &mut impl FnMut(&Node, String)) -> Yaml {
    match &*node.value {
        Value::Scalar { text, scalar } => match scalar {
            Scalar::Null => Yaml::Null,
            Scalar::Boolean(value) => Yaml::Boolean(*value),
            Scalar::Integer(integer) => integer.to_i64().map_or_else(
                || {
                    report(node, format!("integer `{text}` does not fit in 64 bits; quote it to pass it as text"));
                    Yaml::Null
                },
                Yaml::Integer,
            ),
            Scalar::Float(value) => Yaml::Float(*value),
            Scalar::String => Yaml::String(text.clone()),
        },
        Value::List(items) => Yaml::List(items.iter().map(|item| to_yaml(item, report)).collect()),
        Value::Map(entries) => {
            let mut seen = std::collections::HashSet::new();
            let mut map = Vec::with_capacity(entries.len());
            for (key, value) in entries {
                let value = to_yaml(value, report);
                match key.scalar_text() {
                    None => report(key, format!("invalid type: {}, expected a string key", key.found())),
                    Some("<<") => report(key, "merge keys (`<<`) are not supported; write the entries out".to_owned()),
                    Some(text) if !seen.insert(text) => report(key, format!("duplicate field `{text}`")),
                    Some(text) => map.push((text.to_owned(), value)),
                }
            }
            Yaml::Map(map)
        }
    }
}
