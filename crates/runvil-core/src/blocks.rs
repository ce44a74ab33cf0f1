//! A request body in blocks that own what they hold, so that they can be sent from anywhere.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use crate::body::Body;
use crate::pieces::Span;
use crate::record::Record;

/// Bytes of a block that is filled from small pieces. Larger blocks save no more calls of the system.
const BLOCK_BYTES: usize = 64 * 1024;

/// Bytes of a piece that is shared instead of copied. Below that, copying it costs less than one more part to send.
const SHARED_BYTES: usize = 8 * 1024;

/// A part of a body.
pub struct Block(Held);

enum Held {
    /// Small pieces, side by side.
    Copied(String),
    /// A stretch of the text of a record, or of the text it shares with others.
    Shared { record: Arc<Record>, start: usize, end: usize },
}

impl AsRef<[u8]> for Block {
    fn as_ref(&self) -> &[u8] {
        match &self.0 {
            Held::Copied(text) => text.as_bytes(),
            Held::Shared { record, start, end } => &record.place().0.as_bytes()[*start..*end],
        }
    }
}

impl fmt::Debug for Block {
    /// Shows the length, never text.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shared = matches!(self.0, Held::Shared { .. });
        f.debug_struct("Block").field("len", &self.as_ref().len()).field("shared", &shared).finish_non_exhaustive()
    }
}

/// The blocks of a body, made one by one as they are asked for.
///
/// Long texts are shared with their records. Short ones are copied side by side into a block of about 64 KiB, so that at
/// any time only one such block exists beside the records, however long the conversation is; a message that was merged
/// of several records is cut into blocks all at once.
#[derive(Debug)]
pub struct Blocks {
    body: Body,
    /// The index of the record that the next message begins with; `None` when the tail was made.
    next: Option<usize>,
    ready: VecDeque<Block>,
    /// Bytes that were not handed out yet.
    left: usize,
}

impl Blocks {
    pub(crate) fn new(body: Body) -> Self {
        Self { next: Some(0), ready: VecDeque::new(), left: body.len(), body }
    }

    /// Bytes still to come.
    pub fn len(&self) -> usize {
        self.left
    }

    /// Whether every block was handed out.
    pub fn is_empty(&self) -> bool {
        self.left == 0
    }

    /// Makes the blocks of the messages from this record on: one block, or those of one message.
    fn fill(&mut self, from: usize) {
        let request = self.body.request();
        let count = request.record_count();
        let mut writer = Writer { block: String::new(), ready: &mut self.ready };
        if from == 0 {
            writer.push(self.body.head());
            writer.push("[");
        }
        let mut pieces = request.pieces_with(from, count, self.body.empty_content());
        if from > 0 {
            pieces = pieces.continued();
        }
        self.next = loop {
            let Some(span) = pieces.next_span() else {
                writer.push("]");
                writer.push(self.body.tail());
                break None;
            };
            writer.add(span);
            if let Some(boundary) = pieces.boundary()
                && boundary < count
                && !writer.ready.is_empty()
            {
                while let Some(span) = pieces.next_queued() {
                    writer.add(span);
                }
                break Some(boundary);
            }
        };
        writer.end_block();
    }
}

impl Iterator for Blocks {
    type Item = Block;

    fn next(&mut self) -> Option<Block> {
        while self.ready.is_empty() {
            self.fill(self.next?);
        }
        let block = self.ready.pop_front()?;
        self.left = self.left.saturating_sub(block.as_ref().len());
        Some(block)
    }
}

/// Writes blocks.
struct Writer<'a> {
    block: String,
    ready: &'a mut VecDeque<Block>,
}

impl Writer<'_> {
    fn add(&mut self, span: Span<'_>) {
        match span.place() {
            Some((record, start, end)) if end - start >= SHARED_BYTES => self.share(record, start, end),
            _ => self.push(span.as_str()),
        }
    }

    fn push(&mut self, text: &str) {
        if self.block.is_empty() {
            self.block.reserve_exact(BLOCK_BYTES.max(text.len()));
        }
        self.block.push_str(text);
        if self.block.len() + SHARED_BYTES > BLOCK_BYTES {
            self.end_block();
        }
    }

    fn share(&mut self, record: &Arc<Record>, start: usize, end: usize) {
        self.end_block();
        self.ready.push_back(Block(Held::Shared { record: Arc::clone(record), start, end }));
    }

    fn end_block(&mut self) {
        if !self.block.is_empty() {
            self.ready.push_back(Block(Held::Copied(std::mem::take(&mut self.block))));
        }
    }
}
