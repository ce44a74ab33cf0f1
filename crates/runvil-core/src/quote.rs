//! How messages print a name: in double quotes, with the characters escaped that could confuse a reader or a terminal.

use std::fmt::{self, Write as _};

/// Prints a text in double quotes.
///
/// The quote, the backslash, control characters, DEL and U+0080 to U+009F are escaped in JSON's form; every other
/// character stays as it is.
///
/// ```
/// assert_eq!(runvil_core::quote::Quoted("a \"b\"").to_string(), r#""a \"b\"""#);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quoted<'a>(pub &'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('"')?;
        for character in self.0.chars() {
            match character {
                '"' => f.write_str("\\\"")?,
                '\\' => f.write_str("\\\\")?,
                '\n' => f.write_str("\\n")?,
                '\r' => f.write_str("\\r")?,
                '\t' => f.write_str("\\t")?,
                '\u{8}' => f.write_str("\\b")?,
                '\u{c}' => f.write_str("\\f")?,
                control if control.is_control() => write!(f, "\\u{:04x}", u32::from(control))?,
                other => f.write_char(other)?,
            }
        }
        f.write_char('"')
    }
}

/// The text in double quotes, as [`Quoted`] prints it.
pub fn quote(text: &str) -> String {
    Quoted(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::quote;

    #[test]
    fn escapes_what_could_confuse_and_nothing_else() {
        // REC-07, REC-08, XRC-31
        assert_eq!(quote(""), r#""""#);
        assert_eq!(quote("wizard"), r#""wizard""#);
        assert_eq!(quote("a\"b\\c\nd\re\tf\u{8}g\u{c}"), r#""a\"b\\c\nd\re\tf\bg\f""#);
        assert_eq!(quote("\u{1}\u{1f}\u{7f}\u{80}\u{9f}"), r#""\u0001\u001f\u007f\u0080\u009f""#);
        assert_eq!(quote("é/日本\u{a0}🦀"), "\"é/日本\u{a0}🦀\"");
    }
}
