//! The list of packs, and the tool slots of the dialect that has them.

use super::decoder::Decoder;
use super::{ToolSlot, Use};
use crate::dialect::UsesRules;
use crate::name::{check_pack_name, check_tool_path};
use crate::yaml::{Node, Value, to_yaml};

pub(super) fn uses(decoder: &mut Decoder<'_>, node: &Node, rules: &UsesRules) -> Vec<Use> {
    let items = decoder.list(node, &format!("a list of {}s for `{}`", rules.noun, rules.key));
    items.iter().filter_map(|item| entry(decoder, item, rules)).collect()
}

fn entry(decoder: &mut Decoder<'_>, node: &Node, rules: &UsesRules) -> Option<Use> {
    if let Some(text) = node.as_str() {
        let pack = pack_name(decoder, node, text, rules)?;
        return Some(Use { pack, optional: false, config: None });
    }
    if !matches!(*node.value, Value::Map(_)) {
        decoder.invalid_type(node, rules.entry_form);
        return None;
    }
    let fields = decoder.fields(node, &rules.entry_keys, rules.entry_form)?;
    let [pack_key, optional_key, config_key] = rules.entry_keys;
    let pack = fields.required(decoder, pack_key).and_then(|value| {
        let text = decoder.string(value, pack_key)?;
        pack_name(decoder, value, &text, rules)
    });
    let optional = fields.get(optional_key).and_then(|value| decoder.boolean(value, optional_key)).unwrap_or(false);
    let config = fields.get(config_key).map(|value| to_yaml(value, &mut |node, detail| decoder.problem(node, detail)));
    Some(Use { pack: pack?, optional, config })
}

fn pack_name(decoder: &mut Decoder<'_>, node: &Node, text: &str, rules: &UsesRules) -> Option<String> {
    match check_pack_name(text, rules) {
        Ok(()) => Some(text.to_owned()),
        Err(detail) => {
            decoder.problem(node, detail);
            None
        }
    }
}

pub(super) fn tools(decoder: &mut Decoder<'_>, node: &Node) -> Vec<ToolSlot> {
    let mut slots = Vec::new();
    for (alias, value) in decoder.contract(node, "tool alias") {
        let Some(path) = value.as_str() else {
            decoder.invalid_type(value, "an exact tool path string");
            continue;
        };
        match check_tool_path(path) {
            Ok(()) => slots.push(ToolSlot { alias: alias.to_owned(), path: path.to_owned() }),
            Err(detail) => decoder.problem(value, detail),
        }
    }
    slots
}
