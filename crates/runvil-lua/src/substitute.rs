//! Placeholders in prose: `{{ path }}`, filled in one pass from left to right.

use std::fmt::Write as _;

use serde_json::Value as Json;

/// Where the roots of placeholders come from.
pub(crate) trait Roots {
    /// The chain's argument string.
    fn args(&self) -> &str;
    /// The chain's parsed arguments; `None` when the argument string is no JSON.
    fn argv(&self) -> Option<&Json>;
    /// The current contents of `var`.
    fn var(&self) -> Result<&Json, Refusal>;
    /// A field of `sys`.
    fn sys(&self, name: &str) -> Option<&Json>;
    /// A global of the section.
    fn global(&self, name: &str) -> Global;
}

/// What a global holds, as prose sees it.
pub(crate) enum Global {
    /// Nothing.
    Unset,
    /// JSON data.
    Data(Json),
    /// A userdata.
    Userdata,
    /// A function, a thread, or data without a JSON form.
    NotData,
}

/// A refused placeholder: the whole message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal(pub(crate) String);

fn refusal(message: &str, kind: &str, offset: usize) -> Refusal {
    Refusal(format!("{message} [{kind} at byte {offset}]"))
}

/// The longest path preview of a message, in characters.
const PREVIEW: usize = 80;

/// A path as messages show it: cut, with control characters escaped.
fn preview(path: &str) -> String {
    let mut text = String::new();
    for (at, character) in path.chars().enumerate() {
        if at == PREVIEW {
            text.push_str("...");
            break;
        }
        match character {
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str("\\t"),
            control if control.is_control() => {
                let _ = write!(text, "\\u{{{:04x}}}", u32::from(control));
            }
            other => text.push(other),
        }
    }
    text
}

/// Why prose does not render.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Unrendered {
    /// A placeholder is refused.
    Refused(Refusal),
    /// The text would grow past the ceiling.
    TooLarge,
}

impl From<Refusal> for Unrendered {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

/// Fills every placeholder of a prose text, which may grow up to `ceiling` bytes. Offsets in messages are bytes from the
/// text's start.
pub(crate) fn render(template: &str, roots: &dyn Roots, ceiling: usize) -> Result<String, Unrendered> {
    let mut text = String::with_capacity(template.len());
    let mut rest = template;
    while let Some(at) = rest.find(['\\', '{']) {
        text.push_str(&rest[..at]);
        rest = &rest[at..];
        if let Some(after) = rest.strip_prefix("\\{{") {
            text.push_str("{{");
            rest = after;
        } else if let Some(after) = rest.strip_prefix("\\}}") {
            text.push_str("}}");
            rest = after;
        } else if let Some(after) = rest.strip_prefix("\\\\") {
            text.push('\\');
            rest = after;
        } else if let Some(after) = rest.strip_prefix("{{") {
            let offset = template.len() - rest.len();
            let Some(end) = after.find("}}") else {
                return Err(refusal("unclosed '{{' in prose", "Unclosed", offset).into());
            };
            text.push_str(&resolve(after[..end].trim(), offset, roots)?);
            if text.len() > ceiling {
                return Err(Unrendered::TooLarge);
            }
            rest = &after[end + 2..];
        } else {
            let (first, after) = rest.split_at(1);
            text.push_str(first);
            rest = after;
        }
    }
    text.push_str(rest);
    Ok(text)
}

fn resolve(path: &str, offset: usize, roots: &dyn Roots) -> Result<String, Refusal> {
    let shown = preview(path);
    let segments: Vec<&str> = path.split('.').collect();
    if segments.iter().any(|segment| segment.is_empty() || segment.contains(char::is_whitespace)) {
        return Err(refusal(&format!("empty or padded path segment in {{{{ {shown} }}}}"), "EmptySegment", offset));
    }
    let (root, keys) = (segments[0], &segments[1..]);
    let missing = |kind: &str| refusal(&format!("missing {{{{ {shown} }}}}"), kind, offset);
    let found = |value: Option<&Json>| match value {
        None => Err(missing("MissingKey")),
        Some(Json::Null) => Err(missing("NullValue")),
        Some(value) => Ok(display(value)),
    };
    match root {
        "args" if keys.is_empty() => Ok(roots.args().to_owned()),
        "args" => Err(refusal("args is a string, not a table", "NotATable", offset)),
        "item" if keys.is_empty() => Err(refusal("{{ item }} is nil (not inside a fanout arm)", "NilItem", offset)),
        "item" => Err(refusal("item is a string, not a table", "NotATable", offset)),
        "argv" => match roots.argv() {
            None => Err(refusal(&format!("{{{{ {shown} }}}} is nil (the args string is not JSON)"), "NilArgv", offset)),
            Some(value) => found(descend(value, keys)),
        },
        "var" | "sys" if keys.is_empty() => Err(refusal(&format!("bad path: {{{{ {root} }}}}"), "BadPath", offset)),
        "var" => found(descend(roots.var()?, keys)),
        "sys" => found(roots.sys(keys[0]).and_then(|value| descend(value, &keys[1..]))),
        name => match roots.global(name) {
            Global::Unset => Err(refusal(
                &format!("unknown namespace or global '{}' in {{{{ {shown} }}}}", preview(name)),
                "UnknownNamespace",
                offset,
            )),
            Global::Userdata => Err(Refusal(format!(
                "global `{}` is a userdata; bare globals in prose must be JSON data",
                preview(name)
            ))),
            Global::NotData => Err(refusal(
                &format!("global '{}' in {{{{ {shown} }}}} is not JSON data", preview(name)),
                "Serialize",
                offset,
            )),
            Global::Data(value) => found(descend(&value, keys)),
        },
    }
}

fn descend<'a>(value: &'a Json, keys: &[&str]) -> Option<&'a Json> {
    keys.iter().try_fold(value, |value, key| value.as_object()?.get(*key))
}

/// A value as prose shows it: strings verbatim, everything else as compact JSON.
fn display(value: &Json) -> String {
    match value {
        Json::String(text) => text.clone(),
        Json::Number(number) => match number.as_f64() {
            Some(float) if number.is_f64() => format!("{float}"),
            _ => number.to_string(),
        },
        Json::Object(_) | Json::Array(_) => sorted(value).to_string(),
        other => other.to_string(),
    }
}

/// The value with the keys of every object in byte order.
fn sorted(value: &Json) -> Json {
    match value {
        Json::Object(entries) => {
            let mut entries: Vec<_> = entries.iter().collect();
            entries.sort_by_key(|(key, _)| *key);
            Json::Object(entries.into_iter().map(|(key, value)| (key.clone(), sorted(value))).collect())
        }
        Json::Array(items) => Json::Array(items.iter().map(sorted).collect()),
        other => other.clone(),
    }
}
