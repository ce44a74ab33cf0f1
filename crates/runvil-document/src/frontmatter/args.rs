//! The argument declarations.

use super::decoder::Decoder;
use super::{ArgDeclaration, ArgKind};
use crate::yaml::{Node, Scalar, Value, Yaml};

const KEYS: [&str; 4] = ["type", "optional", "default", "description"];
const FORM: &str = "an arg declaration map with `type`, `optional`, `default`, and `description`";

pub(super) fn args(decoder: &mut Decoder<'_>, node: &Node) -> Vec<ArgDeclaration> {
    let declared = decoder.contract(node, "arg name");
    declared.into_iter().filter_map(|(name, value)| declaration(decoder, name, value)).collect()
}

fn declaration(decoder: &mut Decoder<'_>, name: &str, node: &Node) -> Option<ArgDeclaration> {
    let fields = decoder.fields(node, &KEYS, FORM)?;
    let kind = fields.required(decoder, "type");
    let kind = kind.and_then(|value| decoder.variant(value, &ArgKind::ALL, ArgKind::as_str));
    let optional = fields.get("optional").and_then(|value| decoder.boolean(value, "optional")).unwrap_or(false);
    let description = fields.get("description").and_then(|value| decoder.string(value, "description"));
    let default = match (kind, fields.get("default")) {
        (Some(kind), Some(value)) => default(decoder, kind, value),
        _ => None,
    };
    Some(ArgDeclaration { name: name.to_owned(), kind: kind?, optional, default, description })
}

/// The default, when it is not null.
fn default(decoder: &mut Decoder<'_>, kind: ArgKind, node: &Node) -> Option<Yaml> {
    let value = match &*node.value {
        Value::Scalar { text, scalar } => match (kind, *scalar) {
            (_, Scalar::Null) => return None,
            (ArgKind::String, Scalar::String) => Some(Yaml::String(text.clone())),
            (ArgKind::Boolean, Scalar::Boolean(value)) => Some(Yaml::Boolean(value)),
            (ArgKind::Integer, Scalar::Integer(integer)) => integer.to_i64().map(Yaml::Integer),
            (ArgKind::Number, Scalar::Integer(integer)) => match integer.to_i64() {
                Some(value) => Some(Yaml::Integer(value)),
                None => text.parse().ok().map(Yaml::Float),
            },
            (ArgKind::Number, Scalar::Float(value)) => Some(Yaml::Float(value)),
            _ => None,
        },
        _ => None,
    };
    if value.is_none() {
        decoder.problem(node, format!("the default does not match the declared type `{}`", kind.as_str()));
    }
    value
}
