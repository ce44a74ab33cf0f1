//! JSON text made compact and canonical without a tree of values.

use std::fmt::Write as _;

use serde_json::Number;

use super::parse::{Cursor, Fault, RawNumber, RawString};
use crate::wire::Said;

/// Keys of one object that are compared pairwise; a larger object is read into a tree.
const MOST_KEYS: usize = 24;

/// Appends the value at the cursor as canonical text.
pub(crate) fn push_compact(cursor: &mut Cursor<'_>, depth: usize, out: &mut String) -> Result<(), Fault> {
    cursor.skip_space();
    let (start, before) = (out.len(), cursor.clone());
    if Canonical::default().value(cursor, depth).is_some() {
        out.push_str(&cursor.text()[before.offset()..cursor.offset()]);
        return Ok(());
    }
    cursor.clone_from(&before);
    let mut writer = Writer { out, keys: Vec::new(), tree: false };
    writer.value(cursor, depth)?;
    if writer.tree {
        out.truncate(start);
        *cursor = before;
        let value = cursor.value(depth)?;
        // Printing into a `String` cannot fail.
        let _ = write!(out, "{value}");
    }
    Ok(())
}

/// Passes over a value that is canonical text as it stands, which most of it is.
#[derive(Default)]
struct Canonical<'a> {
    /// The keys of the open objects.
    keys: [&'a str; MOST_KEYS],
    key_count: usize,
}

impl<'a> Canonical<'a> {
    /// Leaves the cursor behind the value. `None`, with the cursor anywhere, when the value is not canonical, has too
    /// many keys to tell, or is no JSON.
    fn value(&mut self, cursor: &mut Cursor<'a>, depth: usize) -> Option<()> {
        match cursor.byte()? {
            b'"' => Self::string(cursor).map(drop),
            b'-' | b'0'..=b'9' => {
                let start = cursor.offset();
                match cursor.number().ok()? {
                    RawNumber::Integer(_) => Some(()),
                    RawNumber::Float(float) => {
                        let written = Number::from_f64(float)?.to_string();
                        (written == cursor.text()[start..cursor.offset()]).then_some(())
                    }
                }
            }
            b'[' => {
                cursor.open(depth).ok()?;
                if cursor.eat_byte(b']') {
                    return Some(());
                }
                loop {
                    self.value(cursor, depth + 1)?;
                    if !cursor.eat_byte(b',') {
                        return cursor.eat_byte(b']').then_some(());
                    }
                }
            }
            b'{' => {
                cursor.open(depth).ok()?;
                if cursor.eat_byte(b'}') {
                    return Some(());
                }
                let base = self.key_count;
                loop {
                    let key = Self::string(cursor)?;
                    if self.keys[base..self.key_count].contains(&key) {
                        return None;
                    }
                    *self.keys.get_mut(self.key_count)? = key;
                    self.key_count += 1;
                    if !cursor.eat_byte(b':') {
                        return None;
                    }
                    self.value(cursor, depth + 1)?;
                    if !cursor.eat_byte(b',') {
                        self.key_count = base;
                        return cursor.eat_byte(b'}').then_some(());
                    }
                }
            }
            _ => cursor.word().ok().map(drop),
        }
    }

    fn string(cursor: &mut Cursor<'a>) -> Option<&'a str> {
        if cursor.byte() != Some(b'"') {
            return None;
        }
        cursor.string().ok().filter(|raw| raw.canonical).map(|raw| raw.inside)
    }
}

struct Writer<'o> {
    out: &'o mut String,
    /// Where the keys of the open objects are in `out`.
    keys: Vec<(usize, usize)>,
    /// Whether an object repeats a key, or has too many to tell cheaply.
    tree: bool,
}

impl Writer<'_> {
    fn value(&mut self, cursor: &mut Cursor<'_>, depth: usize) -> Result<(), Fault> {
        match cursor.peek() {
            Some(b'"') => {
                let raw = cursor.string()?;
                self.string(raw);
            }
            Some(b'-' | b'0'..=b'9') => self.number(cursor.number()?),
            Some(b'[') => {
                self.out.push('[');
                let mut first = true;
                cursor.items(depth, |cursor, depth| {
                    self.comma(&mut first);
                    self.value(cursor, depth)
                })?;
                self.out.push(']');
            }
            Some(b'{') => {
                self.out.push('{');
                let (mut first, base) = (true, self.keys.len());
                cursor.entries(depth, |cursor, key, depth| {
                    self.comma(&mut first);
                    self.key(key, base);
                    self.value(cursor, depth)
                })?;
                self.keys.truncate(base);
                self.out.push('}');
            }
            _ => self.out.push_str(cursor.word()?),
        }
        Ok(())
    }

    fn comma(&mut self, first: &mut bool) {
        if !*first {
            self.out.push(',');
        }
        *first = false;
    }

    fn string(&mut self, raw: RawString<'_>) {
        self.out.push('"');
        Said::Raw(raw).push(self.out);
        self.out.push('"');
    }

    fn key(&mut self, raw: RawString<'_>, base: usize) {
        let start = self.out.len();
        self.string(raw);
        let key = &self.out[start..];
        let others = &self.keys[base..];
        self.tree |= others.len() >= MOST_KEYS || others.iter().any(|(start, end)| self.out[*start..*end] == *key);
        if !self.tree {
            self.keys.push((start, self.out.len()));
        }
        self.out.push(':');
    }

    fn number(&mut self, number: RawNumber<'_>) {
        match number {
            RawNumber::Integer(text) => self.out.push_str(text),
            RawNumber::Float(float) => {
                if let Some(number) = Number::from_f64(float) {
                    let _ = write!(self.out, "{number}");
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compact(text: &str) -> String {
        let (mut out, mut cursor) = (String::from("before "), Cursor::new(text));
        push_compact(&mut cursor, 0, &mut out).unwrap();
        assert_eq!(cursor.offset(), text.len());
        out
    }

    #[test]
    fn canonical_text_stays_and_other_text_becomes_canonical() {
        let many = (0..30).fold(String::new(), |text, key| text + &key.to_string() + "\":[{},[]],\"");
        let (many, repeated) = (format!("{{\"{many}x\":1}}"), format!("{{\"{many}0\":1}}"));
        let last_counts = repeated.replacen("[{},[]]", "1", 1).replace(",\"0\":1}", "}");
        let cases = [
            (r#"{"a":[1,-2,0.5,"x\n",true,false,null],"b":{"a":{"a":""}}}"#, None),
            (r#"{"a":1.50,"b":-0,"c":1E2}"#, Some(r#"{"a":1.5,"b":-0.0,"c":100.0}"#)),
            (r#"{"a":1,"b":{"b":2},"a":3}"#, Some(r#"{"a":3,"b":{"b":2}}"#)),
            (r#"["\/","\u0041\u00e9","\u001f"]"#, Some(r#"["/","Aé","\u001f"]"#)),
            (r#"{"\u0061":1,"a":2}"#, Some(r#"{"a":2}"#)),
            ("{ \"a\" : [ ] }", Some(r#"{"a":[]}"#)),
            (&many, None),
            (&repeated, Some(&last_counts)),
        ];
        for (text, canonical) in cases {
            assert_eq!(compact(text), format!("before {}", canonical.unwrap_or(text)));
        }
    }
}
