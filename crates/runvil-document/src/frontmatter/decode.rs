//! The top-level keys.

use std::ops::Range;

use super::decoder::{Decoder, invalid};
use super::{FileDeclaration, Frontmatter, args, models, uses};
use crate::dialect::{self, Dialect, Rules};
use crate::problem::Problem;
use crate::source::Source;
use crate::yaml::{self, Node, Value, YamlError};

const FORM: &str = "a map of frontmatter keys";

/// What could be read of a frontmatter, and what is wrong with it.
pub(crate) struct Decoded {
    pub(crate) dialect: Option<Dialect>,
    pub(crate) version: Option<u64>,
    pub(crate) frontmatter: Frontmatter,
    /// Whether `frontmatter.name` was read.
    pub(crate) has_name: bool,
    pub(crate) problems: Vec<Problem>,
}

/// Decodes the YAML between the delimiters.
pub(crate) fn decode(source: &Source<'_>, range: Range<usize>) -> Decoded {
    let mut result = Decoded {
        dialect: None,
        version: None,
        frontmatter: Frontmatter::default(),
        has_name: false,
        problems: Vec::new(),
    };
    let node = match yaml::read(&source.text[range.clone()], range.start) {
        Ok(Some(node)) => node,
        Ok(None) => {
            let value = Value::Map(Vec::new()).into();
            Node { span: range.start..range.start, value, weight: 1, height: 1 }
        }
        Err(YamlError { message, offset }) => {
            result.problems.push(invalid(source, &message, offset..offset));
            return result;
        }
    };
    let mut decoder = Decoder::new(source);
    result.dialect = find_dialect(&mut decoder, &node);
    top_level(&mut decoder, &node, &mut result);
    result.problems = decoder.into_problems();
    result
}

/// The dialect of the first version key. A key of another dialect behind it is a problem.
fn find_dialect(decoder: &mut Decoder<'_>, node: &Node) -> Option<Dialect> {
    let Value::Map(entries) = &*node.value else { return None };
    let mut first = None;
    for (key, _) in entries {
        let text = key.scalar_text();
        let Some(dialect) = Dialect::ALL.into_iter().find(|dialect| text == Some(dialect.version_key())) else {
            continue;
        };
        if *first.get_or_insert(dialect) != dialect {
            let names = Dialect::ALL.map(Dialect::version_key);
            let detail = format!(
                "`{}` and `{}` are both present; keep the one that names the prompt's dialect",
                names[0], names[1]
            );
            decoder.problem(key, detail);
        }
    }
    first
}

fn top_level(decoder: &mut Decoder<'_>, node: &Node, result: &mut Decoded) {
    let rules = dialect::rules(result.dialect);
    // The version key of another dialect is already reported.
    let ignored = Dialect::ALL.map(Dialect::version_key);
    let Some(fields) = decoder.fields_except(node, rules.keys, &ignored, FORM) else { return };
    let frontmatter = &mut result.frontmatter;

    if let Some(value) = fields.required(decoder, "name") {
        let name = decoder.string(value, "name");
        result.has_name = name.is_some();
        frontmatter.name = name.unwrap_or_default();
    }
    if let Some(value) = fields.required(decoder, "description") {
        frontmatter.description = decoder.string(value, "description").unwrap_or_default();
    }
    result.version = fields.get(rules.version_key).and_then(|value| version(decoder, value, rules));
    frontmatter.max_tool_iterations =
        fields.get("max_tool_iterations").and_then(|value| max_tool_iterations(decoder, value));
    if let Some(value) = fields.get(rules.uses.key) {
        frontmatter.uses = uses::uses(decoder, value, &rules.uses);
    }
    if let Some(value) = fields.get("models") {
        frontmatter.models = models::models(decoder, value);
    }
    frontmatter.args = fields.get("args").map(|value| args::args(decoder, value));
    if let Some(value) = fields.get("tools") {
        frontmatter.tools = uses::tools(decoder, value);
    }
    frontmatter.input = fields.get("input").and_then(|value| file(decoder, value));
    frontmatter.output = fields.get("output").and_then(|value| file(decoder, value));
}

fn version(decoder: &mut Decoder<'_>, node: &Node, rules: &Rules) -> Option<u64> {
    let expected = format!("a non-negative integer for `{}`", rules.version_key);
    let (integer, raw) = decoder.integer(node, &expected)?;
    let version = integer.to_u64();
    if version.is_none() {
        let limit = if integer.negative { String::new() } else { format!(" up to {}", u64::MAX) };
        decoder.problem(node, format!("invalid value: integer `{raw}`, expected {expected}{limit}"));
    }
    version
}

fn max_tool_iterations(decoder: &mut Decoder<'_>, node: &Node) -> Option<u32> {
    let (integer, raw) = decoder.integer(node, "an integer for `max_tool_iterations`")?;
    if integer.negative || integer.magnitude == Some(0) {
        decoder.problem(node, format!("max_tool_iterations must be a positive integer (>= 1), got {raw}"));
        return None;
    }
    let value = integer.to_u64().and_then(|value| u32::try_from(value).ok()).filter(|&value| value <= 1000);
    if value.is_none() {
        decoder.problem(node, format!("max_tool_iterations must be <= 1000, got {raw}"));
    }
    value
}

fn file(decoder: &mut Decoder<'_>, node: &Node) -> Option<FileDeclaration> {
    let fields = decoder.fields(node, &["path", "description"], "a map with `path` and `description`")?;
    let path = fields.required(decoder, "path").and_then(|value| decoder.string(value, "path"));
    let description = fields.required(decoder, "description").and_then(|value| decoder.string(value, "description"));
    Some(FileDeclaration { path: path?, description: description? })
}
