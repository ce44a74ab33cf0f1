//! JSON text made compact and canonical without a tree of values.

use std::fmt::Write as _;

use serde_json::Number;

use super::parse::{Cursor, Fault, RawNumber, RawString};
use crate::wire::Said;

/// Keys of one object that are compared pairwise; a larger object is read into a tree.
const MOST_KEYS: usize = 24;

/// Appends the value at the cursor as canonical text.
pub(crate) fn push_compact(cursor: &mut Cursor<'_>, depth: usize, out: &mut String) -> Result<(), Fault> {
    let (start, before) = (out.len(), cursor.clone());
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
