//! Calls in Lua source whose first argument is a string literal.

/// A call such as `models.use('writer')`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LiteralCall<'a> {
    /// The function's name in its global table.
    pub(crate) function: &'a str,
    /// The text of the literal.
    pub(crate) text: &'a str,
    /// The byte in the source where the literal starts, quote included.
    pub(crate) start: usize,
    /// The byte after it.
    pub(crate) end: usize,
}

/// A Lua source that compiles, cut into tokens.
pub(crate) struct LuaSource<'a> {
    tokens: Vec<Token<'a>>,
}

impl<'a> LuaSource<'a> {
    pub(crate) fn new(source: &'a str) -> Self {
        Self { tokens: tokens(source) }
    }

    /// The calls of these functions of a global table whose first argument is a literal, in order. There are none where
    /// the source assigns to the table or declares a local of its name.
    pub(crate) fn calls(&self, table: &str, functions: &[&str]) -> Vec<LiteralCall<'a>> {
        let tokens = &self.tokens;
        let before = |at: usize| at.checked_sub(1).map(|at| tokens[at].kind);
        let rebinds = tokens.windows(2).enumerate().any(|(at, pair)| match (pair[0].kind, pair[1].kind) {
            (Kind::Name("local" | "function"), Kind::Name(name)) => name == table,
            (Kind::Name(name), Kind::Symbol('=')) => name == table && before(at) != Some(Kind::Symbol('.')),
            _ => false,
        });
        if rebinds {
            return Vec::new();
        }
        let kind = |at: usize| tokens.get(at).map(|token| token.kind);
        let mut found = Vec::new();
        for at in 0..tokens.len() {
            let (Some(Kind::Name(name)), Some(Kind::Symbol('.')), Some(Kind::Name(function))) =
                (kind(at), kind(at + 1), kind(at + 2))
            else {
                continue;
            };
            let is_global = !matches!(before(at), Some(Kind::Symbol('.' | ':')));
            if !is_global || name != table || !functions.contains(&function) {
                continue;
            }
            let literal = match (kind(at + 3), kind(at + 4), kind(at + 5)) {
                (Some(Kind::Text(text)), ..) => Some((at + 3, text)),
                (Some(Kind::Symbol('(')), Some(Kind::Text(text)), Some(Kind::Symbol(')' | ','))) => {
                    Some((at + 4, text))
                }
                _ => None,
            };
            if let Some((token, text)) = literal {
                found.push(LiteralCall { function, text, start: tokens[token].start, end: tokens[token].end });
            }
        }
        found
    }
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
        let calls = LuaSource::new(source).calls("models", &["use", "default", "get"]);
        calls.into_iter().map(|call| (call.function, call.text)).collect()
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
    fn looks_at_one_table_alone() {
        let source =
            LuaSource::new("tools.offer('web/a') packs.offer('web') local tools2 = tools tools.offer_local('x')");
        let texts = |table| source.calls(table, &["offer"]).iter().map(|call| call.text).collect::<Vec<_>>();
        assert_eq!(texts("tools"), ["web/a"]);
        assert_eq!(texts("packs"), ["web"]);
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
