//! The grammars of names a document declares.

use crate::dialect::UsesRules;

/// The grammar of role labels, argument names and tool aliases, as messages print it.
pub const NAME_GRAMMAR: &str = "[A-Za-z][A-Za-z0-9_-]{0,63}";

/// Whether the text is a role label, argument name or tool alias: see [`NAME_GRAMMAR`].
pub fn is_name(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.len() <= 64
        && bytes.first().is_some_and(u8::is_ascii_alphabetic)
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
}

/// Whether the text is one segment of a pack name or tool path: one or more of `a-z`, `0-9`, `-`, `_` and `.`.
pub fn is_segment(text: &str) -> bool {
    !text.is_empty() && text.chars().all(is_segment_char)
}

fn is_segment_char(char: char) -> bool {
    matches!(char, 'a'..='z' | '0'..='9' | '-' | '_' | '.')
}

const EMPTY_SEGMENT: &str = "segments must not be empty";
const CONTROL_CHARACTER: &str = "segments must not contain a control character";
const SEGMENT_CHARACTERS: &str = "segments may contain only lowercase ASCII letters, digits, '-', '_', '.'";

/// Checks the name of a tool set; the error is the detail of a frontmatter problem.
pub(crate) fn check_pack_name(text: &str, rules: &UsesRules) -> Result<(), String> {
    let fail = |reason: &str| Err(format!("invalid {} `{text}`: {reason}", rules.noun));
    let count = if text.is_empty() { 0 } else { text.split('/').count() };
    if count != rules.segments && count != rules.segments + 1 {
        return fail(&format!("invalid global name: {}", rules.gross_count));
    }
    if let Err(reason) = check_segments(text, CONTROL_CHARACTER) {
        return fail(&format!("invalid global name: {reason}"));
    }
    if count != rules.segments {
        return fail(rules.exact_count);
    }
    Ok(())
}

/// Checks a three-segment tool path; the error is the detail of a frontmatter problem.
pub(crate) fn check_tool_path(text: &str) -> Result<(), String> {
    let result = if text.split('/').count() == 3 {
        check_segments(text, SEGMENT_CHARACTERS)
    } else {
        Err("a tool id must have exactly 3 segments (namespace/pack/name)")
    };
    result.map_err(|reason| format!("invalid exact tool path `{text}`: invalid tool id: {reason}"))
}

/// Checks segments from left to right; the first bad character decides.
fn check_segments(text: &str, control_character: &'static str) -> Result<(), &'static str> {
    for segment in text.split('/') {
        if segment.is_empty() {
            return Err(EMPTY_SEGMENT);
        }
        match segment.chars().find(|&char| !is_segment_char(char)) {
            Some(char) if char.is_ascii_control() => return Err(control_character),
            Some(_) => return Err(SEGMENT_CHARACTERS),
            None => {}
        }
    }
    Ok(())
}
