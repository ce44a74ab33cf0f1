//! Positions in a file: byte offsets to lines and columns.

use std::ops::Range;

use crate::problem::{ParseKind, Problem, Warning};

const BYTE_ORDER_MARK: &str = "\u{feff}";

/// The text of a file and where its lines begin.
pub(crate) struct Source<'a> {
    pub(crate) text: &'a str,
    /// The offset of the first byte behind a byte order mark.
    pub(crate) start: usize,
    line_starts: Vec<usize>,
    /// The number of characters before every [`STRIDE`]th byte, so that a place in a long line is found without
    /// counting from the line's start.
    characters: Vec<usize>,
}

const STRIDE: usize = 256;

impl<'a> Source<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        let start = if text.starts_with(BYTE_ORDER_MARK) { BYTE_ORDER_MARK.len() } else { 0 };
        let breaks = text.bytes().enumerate().filter(|&(_, byte)| byte == b'\n');
        let line_starts = std::iter::once(start).chain(breaks.map(|(offset, _)| offset + 1)).collect();
        let chunks = text.as_bytes().chunks(STRIDE).scan(0, |count, chunk| {
            let before = *count;
            *count += count_characters(chunk);
            Some(before)
        });
        let characters = chunks.collect();
        Self { text, start, line_starts, characters }
    }

    /// The 1-based line and column (in characters) of a byte offset.
    pub(crate) fn location(&self, offset: usize) -> (usize, usize) {
        let offset = offset.clamp(self.start, self.text.len());
        let line = self.line_starts.partition_point(|&start| start <= offset);
        let start = self.line_starts[line - 1];
        (line, self.characters_before(offset) - self.characters_before(start) + 1)
    }

    fn characters_before(&self, offset: usize) -> usize {
        let chunk = (offset / STRIDE).min(self.characters.len().saturating_sub(1));
        let counted = self.characters.get(chunk).copied().unwrap_or_default();
        counted + count_characters(&self.text.as_bytes()[chunk * STRIDE..offset])
    }

    pub(crate) fn line(&self, offset: usize) -> usize {
        self.location(offset).0
    }

    pub(crate) fn problem(&self, kind: ParseKind, message: impl Into<String>, span: Range<usize>) -> Problem {
        let (line, column) = self.location(span.start);
        Problem { kind, message: message.into(), line: Some(line), column: Some(column), span: Some(span), name: None }
    }

    pub(crate) fn warning(&self, message: impl Into<String>, span: Range<usize>) -> Warning {
        let (line, column) = self.location(span.start);
        Warning { message: message.into(), line, column, span }
    }
}

/// The number of characters that begin in these bytes.
fn count_characters(bytes: &[u8]) -> usize {
    bytes.iter().filter(|&&byte| byte & 0xC0 != 0x80).count()
}

/// One line of a text.
#[derive(Clone, Copy)]
pub(crate) struct Line<'a> {
    /// The line without its line end.
    pub(crate) text: &'a str,
    /// The offset of its first byte.
    pub(crate) start: usize,
    /// The offset behind its line end.
    pub(crate) next: usize,
}

impl Line<'_> {
    /// The bytes of the line without its line end.
    pub(crate) fn span(&self) -> Range<usize> {
        self.start..self.start + self.text.len()
    }
}

/// The lines of `text[range]`, ended by LF or CRLF. Offsets are offsets of `text`.
pub(crate) fn lines(text: &str, range: Range<usize>) -> impl Iterator<Item = Line<'_>> {
    let mut next = range.start;
    text[range].split_inclusive('\n').map(move |line| {
        let start = next;
        next += line.len();
        let text = line.strip_suffix('\n').unwrap_or(line);
        let text = text.strip_suffix('\r').unwrap_or(text);
        Line { text, start, next }
    })
}

/// The part of `text[range]` without blank lines around it and without its last line end. Empty at the start of the
/// range when every line is blank.
pub(crate) fn trim_blank_lines(text: &str, range: Range<usize>) -> Range<usize> {
    let slice = &text[range.clone()];
    if slice.trim().is_empty() {
        return range.start..range.start;
    }
    let indent = slice.len() - slice.trim_start().len();
    let start = slice[..indent].rfind('\n').map_or(0, |at| at + 1);
    let content = slice.trim_end().len();
    let end = slice[content..].find('\n').map_or(slice.len(), |at| content + at);
    let end = if slice[content..end].ends_with('\r') { end - 1 } else { end };
    range.start + start..range.start + end
}
