//! List sections.

use crate::source::{Line, lines};

/// What the prose of a section without fences is.
pub(crate) enum Listing<'a> {
    /// Not a list.
    Prose,
    /// A list; the items in order.
    Items(Vec<String>),
    /// A list with a marker line that has no text.
    EmptyItem(Line<'a>),
}

/// Reads `text[range]` as a list: every line that is not blank is an item.
pub(crate) fn listing(text: &str, range: std::ops::Range<usize>) -> Listing<'_> {
    let mut items = Vec::new();
    let mut empty = None;
    for line in lines(text, range) {
        let trimmed = line.text.trim();
        if trimmed.is_empty() {
            continue;
        }
        match item(trimmed) {
            None => return Listing::Prose,
            Some("") => {
                empty.get_or_insert(line);
            }
            Some(item) => items.push(item.to_owned()),
        }
    }
    match empty {
        Some(line) => Listing::EmptyItem(line),
        None if items.is_empty() => Listing::Prose,
        None => Listing::Items(items),
    }
}

/// The text behind the marker of an item line.
fn item(line: &str) -> Option<&str> {
    let rest = if let Some(rest) = line.strip_prefix(['-', '*']) {
        rest
    } else {
        let rest = line.trim_start_matches(|char: char| char.is_ascii_digit());
        if rest.len() == line.len() {
            return None;
        }
        rest.strip_prefix(['.', ')'])?
    };
    // Trimming the line took the space of a marker without text.
    if rest.is_empty() { Some(rest) } else { rest.strip_prefix(' ').filter(|item| !item.trim().is_empty()) }
}
