//! One text for the records that are read or made together, so that their messages lie side by side in memory.

use std::sync::Arc;

use crate::record::{Record, Text};
use crate::wire::Draft;

/// Bytes of messages that share one text. A record that outlives its neighbours keeps their text in memory.
pub(crate) const SLAB_BYTES: usize = 62 * 1024;

/// The text of several records.
pub(crate) struct Slab {
    /// Their messages, with a comma between each two.
    pub(crate) messages: Box<str>,
    /// Their metadata.
    pub(crate) metas: Box<str>,
}

/// A slab that is being written.
#[derive(Default)]
pub(crate) struct SlabWriter {
    pub(crate) messages: String,
    pub(crate) metas: String,
    open: Vec<Open>,
    /// Where the record begins that is being written.
    begun: (usize, usize),
}

/// A record of the open slab.
struct Open {
    draft: Draft,
    start: usize,
    len: usize,
    meta_start: usize,
    meta_len: usize,
}

impl SlabWriter {
    /// How many records wait for the slab to be sealed.
    pub(crate) fn len(&self) -> usize {
        self.open.len()
    }

    /// Makes ready for one more record. `expected` is a guess at the bytes of the messages still to come.
    pub(crate) fn begin(&mut self, expected: usize) {
        if self.open.is_empty() {
            // Room for the message that crosses the line; with it, a full slab is 64 KiB.
            self.messages.reserve_exact(expected.min(SLAB_BYTES) + SLAB_BYTES / 31);
        } else {
            self.messages.push(',');
        }
        self.begun = (self.messages.len(), self.metas.len());
    }

    /// Ends the record that was written since [`SlabWriter::begin`].
    pub(crate) fn end(&mut self, draft: Draft) {
        let (start, meta_start) = self.begun;
        let (len, meta_len) = (self.messages.len() - start, self.metas.len() - meta_start);
        self.open.push(Open { draft, start, len, meta_start, meta_len });
    }

    /// Whether the slab is large enough.
    pub(crate) fn is_full(&self) -> bool {
        self.messages.len() >= SLAB_BYTES
    }

    /// Seals the slab and hands its records out, in their order.
    pub(crate) fn seal(&mut self, mut each: impl FnMut(Arc<Record>)) {
        let messages = std::mem::take(&mut self.messages).into_boxed_str();
        let slab = Arc::new(Slab { messages, metas: std::mem::take(&mut self.metas).into_boxed_str() });
        for Open { draft, start, len, meta_start, meta_len } in self.open.drain(..) {
            let places = (u32::try_from(start), u32::try_from(len), u32::try_from(meta_start));
            let record = if let (Ok(start), Ok(len), Ok(meta_start)) = places {
                let text = Text::Shared { slab: Arc::clone(&slab), start, len };
                Record::new(&draft, text, meta_start, meta_len)
            } else {
                let text = slab.messages[start..start + len].to_owned();
                Record::own(&draft, text, &slab.metas[meta_start..meta_start + meta_len])
            };
            each(Arc::new(record));
        }
    }
}
