//! Roles that a prompt's Lua names as string literals, and those of them that the frontmatter does not declare.

use runvil_document::{Document, LuaBlock, NAME_GRAMMAR, Warning, is_name};
use runvil_lua::failure::quoted;

/// The functions of `models` whose first argument names a role.
const FUNCTIONS: [&str; 3] = ["use", "default", "get"];

/// One warning for each literal name of an undeclared role, in file order.
///
/// A block that assigns to `models` or declares a local of that name is left alone.
pub(crate) fn undeclared(document: &Document) -> Vec<Warning> {
    let declared: Vec<&str> = document.frontmatter.models.iter().map(|role| role.label.as_str()).collect();
    let mut warnings: Vec<Warning> = document
        .lua_blocks()
        .flat_map(|block| uses(&block.source).into_iter().map(move |found| (block, found)))
        .filter(|(_, found)| !declared.contains(&found.name))
        .map(|(block, found)| warning(document, block, &found, &declared))
        .collect();
    warnings.sort_by_key(|warning| warning.span.start);
    warnings
}

fn warning(document: &Document, block: &LuaBlock, found: &Use<'_>, declared: &[&str]) -> Warning {
    let before = &block.source[..found.start];
    let line_start = before.rfind('\n').map_or(0, |at| at + 1);
    let Use { function, name, .. } = *found;
    let message = if is_name(name) {
        let declared: Vec<String> = declared.iter().map(|label| quoted(label)).collect();
        let known = if declared.is_empty() { "none".to_owned() } else { declared.join(", ") };
        format!(
            "models.{function} names the model role {}, which the frontmatter does not declare; declare it under \
             `models:` (declared: {known})",
            quoted(name)
        )
    } else if function == "get" {
        format!("models.get names {}, which is no label of a model role and can only be a raw model id", quoted(name))
    } else {
        format!("models.{function} names {}, which is no label of a model role: expected {NAME_GRAMMAR}", quoted(name))
    };
    let start = block.span.start + found.start;
    Warning {
        message,
        line: block.line + before.matches('\n').count(),
        column: document.source[block.span.start + line_start..start].chars().count() + 1,
        span: start..block.span.start + found.end,
    }
}

/// A call such as `models.use('writer')` whose first argument is a string literal.
#[derive(Debug, PartialEq, Eq)]
struct Use<'a> {
    function: &'a str,
    name: &'a str,
    /// The bytes of the literal in the source, quotes included.
    start: usize,
    end: usize,
}

fn uses(source: &str) -> Vec<Use<'_>> {
    let tokens = tokens(source);
    let kinds: Vec<Kind<'_>> = tokens.iter().map(|token| token.kind).collect();
    let rebinds = kinds.windows(2).enumerate().any(|(at, pair)| match pair {
        [Kind::Name("local" | "function"), Kind::Name("models")] => true,
        [Kind::Name("models"), Kind::Symbol('=')] => {
            !matches!(at.checked_sub(1).map(|at| kinds[at]), Some(Kind::Symbol('.')))
        }
        _ => false,
    });
    if rebinds {
        return Vec::new();
    }
    let mut found = Vec::new();
    for at in 0..tokens.len() {
        let is_global = !matches!(at.checked_sub(1).map(|at| kinds[at]), Some(Kind::Symbol('.' | ':')));
        let [Kind::Name("models"), Kind::Symbol('.'), Kind::Name(function), rest @ ..] = &kinds[at..] else { continue };
        let literal = match rest {
            [Kind::Text(name), ..] => Some((at + 3, *name)),
            [Kind::Symbol('('), Kind::Text(name), Kind::Symbol(')' | ','), ..] => Some((at + 4, *name)),
            _ => None,
        };
        if let Some((token, name)) = literal
            && is_global
            && FUNCTIONS.contains(function)
        {
            found.push(Use { function, name, start: tokens[token].start, end: tokens[token].end });
        }
    }
    found
}

/// What a token is, as far as a call needs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind<'a> {
    /// A name or keyword.
    Name(&'a str),
    /// A string literal that reads as written.
    Text(&'a str),
    /// `==`, a number, or a string literal with escapes.
    Other,
    /// Any other character.
    Symbol(char),
}

#[derive(Debug)]
struct Token<'a> {
    kind: Kind<'a>,
    start: usize,
    end: usize,
}

/// The tokens of a Lua source that compiles; comments and space are skipped.
fn tokens(source: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(first) = source[at..].chars().next() {
        let start = at;
        let rest = &source[at..];
        let kind = if first.is_ascii_whitespace() {
            at += 1;
            continue;
        } else if let Some(comment) = rest.strip_prefix("--") {
            at += 2 + match long_text(comment) {
                Some((_, length)) => length,
                None => comment.find('\n').unwrap_or(comment.len()),
            };
            continue;
        } else if let Some((text, length)) = long_text(rest) {
            at += length;
            Kind::Text(text)
        } else if matches!(first, '\'' | '"') {
            let (text, length) = quoted_text(rest);
            at += length;
            text.map_or(Kind::Other, Kind::Text)
        } else if first.is_ascii_alphabetic() || first == '_' {
            at += rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
            Kind::Name(&source[start..at])
        } else if first.is_ascii_digit() {
            at += rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '.').unwrap_or(rest.len());
            Kind::Other
        } else if rest.starts_with("==") || rest.starts_with("..") {
            at += 2;
            Kind::Other
        } else {
            at += first.len_utf8();
            Kind::Symbol(first)
        };
        tokens.push(Token { kind, start, end: at });
    }
    tokens
}

/// A long literal such as `[==[ text ]==]` at the start: its text and its length in bytes.
fn long_text(source: &str) -> Option<(&str, usize)> {
    let level = source.strip_prefix('[')?.bytes().take_while(|byte| *byte == b'=').count();
    let body = source[level + 1..].strip_prefix('[')?;
    let close = format!("]{}]", "=".repeat(level));
    let end = body.find(&close)?;
    // The first line end right after the bracket is no part of the text.
    let text = body[..end].strip_prefix("\r\n").or_else(|| body[..end].strip_prefix('\n')).unwrap_or(&body[..end]);
    Some((text, level + 2 + end + close.len()))
}

/// A quoted literal at the start: its text, unless it has escapes, and its length in bytes.
fn quoted_text(source: &str) -> (Option<&str>, usize) {
    let bytes = source.as_bytes();
    let mut at = 1;
    let mut escapes = false;
    while let Some(&byte) = bytes.get(at) {
        if byte == bytes[0] {
            return ((!escapes).then_some(&source[1..at]), at + 1);
        }
        if byte == b'\\' {
            escapes = true;
            at += 1;
        }
        at += 1;
    }
    (None, source.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(source: &str) -> Vec<(&str, &str)> {
        uses(source).into_iter().map(|found| (found.function, found.name)).collect()
    }

    #[test]
    fn finds_literal_first_arguments() {
        assert_eq!(
            names("models.use('a') models.default(\"b\") local h = models . get( [[c]] )"),
            [("use", "a"), ("default", "b"), ("get", "c")]
        );
        assert_eq!(
            names("models.use 'a' models.use\"b\" models.get[=[\nc]=]"),
            [("use", "a"), ("use", "b"), ("get", "c")]
        );
        assert_eq!(names("models.use('a', { temperature = 0 })"), [("use", "a")]);
        assert_eq!(names("models.use(--[[ who ]] 'a' -- now\n)"), [("use", "a")]);
    }

    #[test]
    fn skips_everything_else() {
        for source in [
            "-- models.use('a')",
            "--[==[ models.use('a') ]] ]==]",
            "return \"models.use('a')\"",
            "return 'it\\'s models.use(\\'a\\')'",
            "return [[models.use('a')]]",
            "models.use('a' .. suffix)",
            "models.use(name)",
            "models.use('a\\98')",
            "my.models.use('a')",
            "my:models.use('a')",
            "models.infer('a')",
            "models:use('a')",
            "mymodels.use('a')",
            "local models = { use = print } models.use('a')",
            "models = nil models.use('a')",
            "models.",
            "models.use('a",
        ] {
            assert_eq!(names(source), [], "{source}");
        }
        assert_eq!(names("if models == nil then end models.use('a')"), [("use", "a")]);
        assert_eq!(names("local t = { models = 1 }"), []);
    }
}
