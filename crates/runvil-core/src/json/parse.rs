//! The reader of JSON text: a cursor that checks as it goes, and trees of values for the parts that need them.

use std::borrow::Cow;

use serde_json::{Map, Number, Value};

use super::string::{find_special, read_escape, unescape};
use super::{MAX_DEPTH, TOO_DEEP};

/// What is wrong with a JSON text, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    /// The byte offset in the text.
    pub(crate) offset: usize,
    /// What is wrong, in our own words.
    pub(crate) reason: &'static str,
    /// Whether the text is JSON all the same, and only a limit of ours refuses it.
    pub(crate) limit: bool,
}

/// The inside of a JSON string, as it stands in the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RawString<'a> {
    /// The text between the quotes.
    pub(crate) inside: &'a str,
    /// Whether it is in canonical form already.
    pub(crate) canonical: bool,
    /// Bytes of what it says, escapes resolved.
    pub(crate) decoded_len: usize,
}

impl<'a> RawString<'a> {
    /// What the string says.
    pub(crate) fn decoded(self) -> Cow<'a, str> {
        if self.decoded_len == self.inside.len() {
            return Cow::Borrowed(self.inside);
        }
        unescape(self.inside).unwrap_or(Cow::Borrowed(self.inside))
    }
}

impl<'a> From<&'a str> for RawString<'a> {
    /// A string in which nothing is escaped.
    fn from(inside: &'a str) -> Self {
        Self { inside, canonical: true, decoded_len: inside.len() }
    }
}

/// A number as it stands in the text.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum RawNumber<'a> {
    /// An integer of 64 bits, in its only form.
    Integer(&'a str),
    /// Any other finite number.
    Float(f64),
}

/// A position in a JSON text.
#[derive(Debug, Clone)]
pub(crate) struct Cursor<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    pub(crate) fn offset(&self) -> usize {
        self.at
    }

    pub(crate) fn text(&self) -> &'a str {
        self.text
    }

    pub(crate) fn fault(&self, reason: &'static str) -> Fault {
        Fault { offset: self.at, reason, limit: false }
    }

    fn limit(&self, reason: &'static str) -> Fault {
        Fault { offset: self.at, reason, limit: true }
    }

    pub(crate) fn byte(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    pub(crate) fn skip_space(&mut self) {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.byte() {
            self.at += 1;
        }
    }

    /// The next byte that is no white space.
    pub(crate) fn peek(&mut self) -> Option<u8> {
        self.skip_space();
        self.byte()
    }

    /// Steps over this byte if it comes next, white space aside.
    pub(crate) fn eat(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    /// Steps over this byte if it comes next at once.
    pub(crate) fn eat_byte(&mut self, byte: u8) -> bool {
        let found = self.byte() == Some(byte);
        self.at += usize::from(found);
        found
    }

    /// Steps over exactly this text if it comes next.
    pub(crate) fn eat_text(&mut self, text: &str) -> bool {
        let found = self.text.as_bytes()[self.at..].starts_with(text.as_bytes());
        self.at += if found { text.len() } else { 0 };
        found
    }

    pub(crate) fn expect(&mut self, byte: u8, reason: &'static str) -> Result<(), Fault> {
        if self.eat(byte) { Ok(()) } else { Err(self.fault(reason)) }
    }

    /// Nothing but white space may follow.
    pub(crate) fn end(&mut self) -> Result<(), Fault> {
        if self.peek().is_none() { Ok(()) } else { Err(self.fault("there is more text after the end")) }
    }

    /// Reads a string; the opening quote comes next.
    pub(crate) fn string(&mut self) -> Result<RawString<'a>, Fault> {
        self.expect(b'"', "a string is expected")?;
        let bytes = self.text.as_bytes();
        let start = self.at;
        let (mut canonical, mut saved) = (true, 0);
        loop {
            let Some(at) = find_special(bytes, self.at) else {
                self.at = bytes.len();
                return Err(self.fault("a string has no closing quote"));
            };
            self.at = at;
            match bytes[at] {
                b'"' => {
                    self.at = at + 1;
                    let inside = &self.text[start..at];
                    return Ok(RawString { inside, canonical, decoded_len: inside.len() - saved });
                }
                b'\\' => {
                    let escape = &bytes[at..];
                    if let Some(b'"' | b'\\' | b'b' | b'f' | b'n' | b'r' | b't') = escape.get(1) {
                        saved += 1;
                        self.at = at + 2;
                        continue;
                    }
                    let Some((character, length)) = read_escape(escape) else {
                        return Err(self.fault("a string holds a broken escape"));
                    };
                    canonical &= is_canonical_escape(character, &escape[..length]);
                    saved += length - character.len_utf8();
                    self.at = at + length;
                }
                _ => return Err(self.fault("a string holds a raw control character")),
            }
        }
    }

    /// Reads a number; its first byte comes next.
    pub(crate) fn number(&mut self) -> Result<RawNumber<'a>, Fault> {
        let start = self.at;
        let bytes = self.text.as_bytes();
        let digits = |from: usize| bytes[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        let mut at = start + usize::from(bytes.get(start) == Some(&b'-'));
        let whole = digits(at);
        if whole == 0 || (whole > 1 && bytes[at] == b'0') {
            return Err(self.fault("a number is malformed"));
        }
        at += whole;
        let mut integer = true;
        if bytes.get(at) == Some(&b'.') {
            let fraction = digits(at + 1);
            if fraction == 0 {
                return Err(self.fault("a number is malformed"));
            }
            at += 1 + fraction;
            integer = false;
        }
        if let Some(b'e' | b'E') = bytes.get(at) {
            at += 1 + usize::from(matches!(bytes.get(at + 1), Some(b'+' | b'-')));
            let exponent = digits(at);
            if exponent == 0 {
                return Err(self.fault("a number is malformed"));
            }
            at += exponent;
            integer = false;
        }
        let text = &self.text[start..at];
        if integer && text != "-0" {
            if whole > 18 && text.parse::<i64>().is_err() && text.parse::<u64>().is_err() {
                return Err(self.limit("an integer does not fit 64 bits"));
            }
            self.at = at;
            return Ok(RawNumber::Integer(text));
        }
        match text.parse::<f64>() {
            Ok(float) if float.is_finite() => {
                self.at = at;
                Ok(RawNumber::Float(float))
            }
            _ => Err(self.limit("a number is too large")),
        }
    }

    /// Steps over `true`, `false` or `null`.
    pub(crate) fn word(&mut self) -> Result<&'static str, Fault> {
        let rest = &self.text.as_bytes()[self.at..];
        for word in ["true", "false", "null"] {
            if rest.starts_with(word.as_bytes()) {
                self.at += word.len();
                return Ok(word);
            }
        }
        Err(self.fault(if rest.is_empty() { "the text ends too early" } else { "a value is expected" }))
    }

    /// Steps over any value, checking it. `depth` counts the levels around it.
    pub(crate) fn skip(&mut self, depth: usize) -> Result<(), Fault> {
        match self.peek() {
            Some(b'"') => self.string().map(drop),
            Some(b'-' | b'0'..=b'9') => self.number().map(drop),
            Some(b'[') => self.items(depth, Self::skip),
            Some(b'{') => self.entries(depth, |cursor, _, depth| cursor.skip(depth)),
            _ => self.word().map(drop),
        }
    }

    /// Reads any value into a tree. `depth` counts the levels around it.
    pub(crate) fn value(&mut self, depth: usize) -> Result<Value, Fault> {
        Ok(match self.peek() {
            Some(b'"') => Value::String(self.string()?.decoded().into_owned()),
            Some(b'-' | b'0'..=b'9') => Value::Number(number_value(self.number()?)),
            Some(b'[') => {
                let mut array = Vec::new();
                self.items(depth, |cursor, depth| {
                    array.push(cursor.value(depth)?);
                    Ok(())
                })?;
                Value::Array(array)
            }
            Some(b'{') => {
                let mut map = Map::new();
                self.entries(depth, |cursor, key, depth| {
                    let value = cursor.value(depth)?;
                    map.insert(key.decoded().into_owned(), value);
                    Ok(())
                })?;
                Value::Object(map)
            }
            _ => match self.word()? {
                "true" => Value::Bool(true),
                "false" => Value::Bool(false),
                _ => Value::Null,
            },
        })
    }

    /// Reads an array, whose bracket comes next; `each` reads one item.
    pub(crate) fn items(
        &mut self,
        depth: usize,
        mut each: impl FnMut(&mut Self, usize) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        self.open(depth)?;
        if self.eat(b']') {
            return Ok(());
        }
        loop {
            each(self, depth + 1)?;
            if !self.eat(b',') {
                return self.expect(b']', "a comma or the end of an array is expected");
            }
        }
    }

    /// Reads an object, whose brace comes next; `each` reads one value.
    pub(crate) fn entries(
        &mut self,
        depth: usize,
        each: impl FnMut(&mut Self, RawString<'a>, usize) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        self.open(depth)?;
        if self.eat(b'}') {
            return Ok(());
        }
        self.more_entries(depth, each)
    }

    /// Reads the entries of an object from the next key on.
    pub(crate) fn more_entries(
        &mut self,
        depth: usize,
        mut each: impl FnMut(&mut Self, RawString<'a>, usize) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        loop {
            if self.peek() != Some(b'"') {
                return Err(self.fault("a key is expected"));
            }
            let key = self.string()?;
            self.expect(b':', "a colon is expected")?;
            each(self, key, depth + 1)?;
            if !self.eat(b',') {
                return self.expect(b'}', "a comma or the end of an object is expected");
            }
        }
    }

    /// Steps into an array or object, whose bracket or brace comes next.
    pub(crate) fn open(&mut self, depth: usize) -> Result<(), Fault> {
        if depth >= MAX_DEPTH {
            return Err(self.limit(TOO_DEEP));
        }
        self.at += 1;
        Ok(())
    }
}

fn number_value(number: RawNumber<'_>) -> Number {
    match number {
        RawNumber::Integer(text) => text
            .parse::<u64>()
            .map(Number::from)
            .or_else(|_| text.parse::<i64>().map(Number::from))
            .unwrap_or_else(|_| Number::from(0)),
        RawNumber::Float(float) => Number::from_f64(float).unwrap_or_else(|| Number::from(0)),
    }
}

/// Whether canonical text writes the character by this escape, which is `\/` or one with a code.
fn is_canonical_escape(character: char, escape: &[u8]) -> bool {
    escape.len() == 6
        && u32::from(character) < 0x20
        && !matches!(character, '\u{8}' | '\u{c}' | '\n' | '\r' | '\t')
        && !escape[5].is_ascii_uppercase()
}

/// Reads one value that makes up the whole text.
pub(crate) fn parse(text: &str) -> Result<Value, Fault> {
    let mut cursor = Cursor::new(text);
    let value = cursor.value(0)?;
    cursor.end()?;
    Ok(value)
}
