//! Request bodies: in shared pieces, or joined in a buffer that grows with the conversation.

use std::fmt;

use crate::list::Lineage;
use crate::request::Request;

pub use crate::blocks::{Block, Blocks};
pub use crate::pieces::EmptyContent;

/// The body of a model request, in pieces.
#[derive(Clone)]
pub struct Body {
    /// Everything before the messages.
    head: String,
    request: Request,
    /// Everything behind them.
    tail: String,
    empty_content: EmptyContent,
    /// Bytes of the messages as a JSON array.
    messages_len: usize,
}

impl Body {
    pub(crate) fn new(head: String, request: Request, tail: String) -> Self {
        let messages_len = request.total_len();
        Self { head, request, tail, empty_content: EmptyContent::Text, messages_len }
    }

    /// The same body with another content beside tool calls.
    #[must_use]
    pub fn with_empty_content(mut self, empty_content: EmptyContent) -> Self {
        if self.empty_content != empty_content {
            self.empty_content = empty_content;
            self.messages_len = self.request.chunks_with(empty_content).map(<[u8]>::len).sum();
        }
        self
    }

    /// Bytes of the body.
    pub fn len(&self) -> usize {
        self.head.len() + self.messages_len + self.tail.len()
    }

    /// A body is never empty.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// The body in pieces; those of the messages are shared with the records.
    pub fn chunks(&self) -> impl Iterator<Item = &[u8]> {
        let head = std::iter::once(self.head.as_bytes());
        head.chain(self.request.chunks_with(self.empty_content)).chain(std::iter::once(self.tail.as_bytes()))
    }

    /// The body as one text.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.len());
        for chunk in self.chunks() {
            bytes.extend_from_slice(chunk);
        }
        bytes
    }

    /// The body in blocks that can be sent one after the other; see [`Blocks`].
    pub fn into_blocks(self) -> Blocks {
        Blocks::new(self)
    }

    pub(crate) fn head(&self) -> &str {
        &self.head
    }

    pub(crate) fn request(&self) -> &Request {
        &self.request
    }

    pub(crate) fn tail(&self) -> &str {
        &self.tail
    }

    pub(crate) fn empty_content(&self) -> EmptyContent {
        self.empty_content
    }
}

impl fmt::Debug for Body {
    /// Shows the length, never text.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Body").field("len", &self.len()).finish_non_exhaustive()
    }
}

/// One text for the bodies of a growing conversation.
///
/// Writing a body whose messages continue those of the body before writes only what is new; any other body is written
/// from the start. The buffer holds a copy of the messages, which is the price of a body in one piece.
#[derive(Default)]
pub struct BodyBuffer {
    text: String,
    head: String,
    empty_content: EmptyContent,
    lineage: Lineage,
    /// How many records the messages were composed from.
    records: usize,
    /// Index of the first record of the last message, and where that message begins in the text.
    last_message: (usize, usize),
}

impl BodyBuffer {
    /// An empty buffer.
    pub fn new() -> Self {
        Self::default()
    }

    /// The bytes of the last body.
    pub fn as_bytes(&self) -> &[u8] {
        self.text.as_bytes()
    }

    /// Bytes that the buffer has room for.
    pub fn capacity(&self) -> usize {
        self.text.capacity()
    }

    /// An empty buffer in the memory of this one.
    #[must_use]
    pub fn emptied(mut self) -> Self {
        self.text.clear();
        Self { text: self.text, ..Self::default() }
    }

    /// Makes the buffer hold this body. Returns how many bytes were written.
    pub fn write(&mut self, body: &Body) -> usize {
        let request = &body.request;
        let continues = self.records > 0
            && self.head == body.head
            && self.empty_content == body.empty_content
            && request.lineage().is(&self.lineage)
            && request.record_count() >= self.records;
        if continues {
            self.text.truncate(self.last_message.1);
        } else {
            self.text.clear();
            if self.text.capacity() < body.len() {
                // To grow would copy what is of no use any more.
                self.text = String::with_capacity(body.len());
            }
            self.head.clone_from(&body.head);
            self.empty_content = body.empty_content;
            self.text.push_str(&body.head);
            self.text.push('[');
            self.last_message = (0, self.text.len());
            self.lineage = request.lineage().clone();
        }
        let kept = self.text.len();
        self.text.reserve(body.len().saturating_sub(kept));
        self.last_message = request.push_messages(self.last_message.0, body.empty_content, &mut self.text);
        self.records = request.record_count();
        self.text.push(']');
        self.text.push_str(&body.tail);
        self.text.len() - kept
    }
}

impl fmt::Debug for BodyBuffer {
    /// Shows the length, never text.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BodyBuffer").field("len", &self.text.len()).finish_non_exhaustive()
    }
}
