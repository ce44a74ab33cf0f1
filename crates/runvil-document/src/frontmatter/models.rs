//! The model roles.

use super::decoder::Decoder;
use super::{Keyword, RoleDeclaration};
use crate::yaml::Node;

const KEYS: [&str; 3] = ["keywords", "min_context", "description"];
const FORM: &str = "a role map with `keywords`, `min_context`, and `description`";
const MIN_CONTEXT: &str = "a whole number from 1 to 4294967295 for `min_context`";

pub(super) fn models(decoder: &mut Decoder<'_>, node: &Node) -> Vec<RoleDeclaration> {
    let declared = decoder.contract(node, "model role label");
    declared.into_iter().filter_map(|(label, value)| role(decoder, label, value)).collect()
}

fn role(decoder: &mut Decoder<'_>, label: &str, node: &Node) -> Option<RoleDeclaration> {
    let fields = decoder.fields(node, &KEYS, FORM)?;
    let mut keywords = Vec::new();
    if let Some(value) = fields.get("keywords") {
        for item in decoder.list(value, "a list of keywords for `keywords`") {
            keywords.extend(decoder.variant(item, &Keyword::ALL, Keyword::as_str));
        }
    }
    let min_context = fields.get("min_context").and_then(|value| min_context(decoder, value));
    let description = fields.get("description").and_then(|value| decoder.string(value, "description"));
    Some(RoleDeclaration { label: label.to_owned(), keywords, min_context, description })
}

fn min_context(decoder: &mut Decoder<'_>, node: &Node) -> Option<u32> {
    let (integer, raw) = decoder.integer(node, MIN_CONTEXT)?;
    let value = integer.to_u64().and_then(|value| u32::try_from(value).ok()).filter(|&value| value > 0);
    if value.is_none() {
        decoder.problem(node, format!("invalid value: integer `{raw}`, expected {MIN_CONTEXT}"));
    }
    value
}
