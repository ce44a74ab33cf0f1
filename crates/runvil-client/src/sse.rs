//! Decodes an event stream (`text/event-stream`) as its bytes arrive.
//!
//! The decoder does not care where the network cuts the bytes: any split gives the same events. Lines end in LF, CRLF or
//! CR; comments and unknown fields are skipped; several `data` lines of one event are joined by LF; a byte order mark at
//! the start is dropped; an event at the end of the stream counts without its closing blank line.
//!
//! One field more than the standard has is read: `error`, in which some servers put the error object that ends a stream.
//! It is `data` in an event of kind `error`.

use std::fmt;
use std::ops::ControlFlow;

use memchr::{memchr, memchr2};

/// One event of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event<'a> {
    /// The event's kind (its `event` field); empty when it has none.
    pub kind: &'a [u8],
    /// The event's data, its lines joined by LF. Not checked to be UTF-8.
    pub data: &'a [u8],
}

/// Turns the bytes of an event stream into events.
#[derive(Default)]
pub struct Decoder {
    /// The beginning of a line whose end has not arrived.
    line: Vec<u8>,
    /// The data of the event that is being read.
    data: Vec<u8>,
    /// Its kind.
    kind: Vec<u8>,
    /// Whether it has a data line, which may be empty.
    has_data: bool,
    /// Whether the last byte was a CR, so that an LF belongs to it.
    after_carriage_return: bool,
    /// Whether a line was read, so that a byte order mark is no longer expected.
    past_first_line: bool,
}

impl fmt::Debug for Decoder {
    /// Shows lengths, never text.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decoder")
            .field("line", &self.line.len())
            .field("data", &self.data.len())
            .finish_non_exhaustive()
    }
}

impl Decoder {
    /// A decoder at the start of a stream.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next bytes and hands every event they complete to `on_event`, in order.
    ///
    /// When `on_event` breaks, the rest of `bytes` is dropped and its value is passed on.
    pub fn push<B>(
        &mut self,
        mut bytes: &[u8],
        mut on_event: impl FnMut(Event<'_>) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        while !bytes.is_empty() {
            if std::mem::take(&mut self.after_carriage_return) && bytes[0] == b'\n' {
                bytes = &bytes[1..];
                continue;
            }
            let Some(end) = memchr2(b'\n', b'\r', bytes) else {
                self.line.extend_from_slice(bytes);
                break;
            };
            self.after_carriage_return = bytes[end] == b'\r';
            let tail = &bytes[..end];
            bytes = &bytes[end + 1..];
            if self.line.is_empty() {
                self.end_line(tail, &mut on_event)?;
            } else {
                self.line.extend_from_slice(tail);
                self.end_kept_line(&mut on_event)?;
            }
        }
        ControlFlow::Continue(())
    }

    /// Ends the stream: hands out the event that was being read, if it has any data.
    pub fn finish<B>(&mut self, mut on_event: impl FnMut(Event<'_>) -> ControlFlow<B>) -> ControlFlow<B> {
        self.end_kept_line(&mut on_event)?;
        self.end_line(b"", &mut on_event)
    }

    /// Reads the line that arrived in several pieces.
    fn end_kept_line<B>(&mut self, on_event: &mut impl FnMut(Event<'_>) -> ControlFlow<B>) -> ControlFlow<B> {
        if self.line.is_empty() {
            return ControlFlow::Continue(());
        }
        let mut line = std::mem::take(&mut self.line);
        let flow = self.end_line(&line, on_event);
        line.clear();
        self.line = line;
        flow
    }

    /// Reads one line, without its end.
    fn end_line<B>(
        &mut self,
        mut line: &[u8],
        on_event: &mut impl FnMut(Event<'_>) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        if !std::mem::replace(&mut self.past_first_line, true) {
            line = line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line);
        }
        if line.is_empty() {
            let flow = if self.has_data {
                on_event(Event { kind: &self.kind, data: &self.data })
            } else {
                ControlFlow::Continue(())
            };
            self.data.clear();
            self.kind.clear();
            self.has_data = false;
            return flow;
        }
        let (field, value) = match memchr(b':', line) {
            Some(colon) => (&line[..colon], &line[colon + 1..]),
            None => (line, &b""[..]),
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match field {
            b"data" => self.add_data(value),
            b"event" => self.set_kind(value),
            b"error" => {
                self.set_kind(b"error");
                self.add_data(value);
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn add_data(&mut self, value: &[u8]) {
        if self.has_data {
            self.data.push(b'\n');
        }
        self.data.extend_from_slice(value);
        self.has_data = true;
    }

    fn set_kind(&mut self, value: &[u8]) {
        self.kind.clear();
        self.kind.extend_from_slice(value);
    }
}
