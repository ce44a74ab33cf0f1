//! One text for the records that are read or made together, so that their messages lie side by side in memory.

use std::sync::{Arc, Mutex, PoisonError};

use crate::record::{Record, Text};
use crate::wire::Draft;

/// Bytes of messages that share one text. A record that outlives its neighbours keeps their text in memory.
pub(crate) const SLAB_BYTES: usize = 62 * 1024;

/// Bytes that a full slab has room for: the message that crosses the line fits, too.
const FULL_SLAB: usize = SLAB_BYTES + SLAB_BYTES / 31;

/// How many texts of full slabs that are of no use any more are kept for the next ones, 64 MiB in all. The process never
/// gives them back: memory that is new to it costs more than what is written there.
const MOST_SPARE: usize = 1024;

static SPARE: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// The text of several records.
#[derive(Default)]
pub(crate) struct Slab {
    /// Their messages, with a comma between each two.
    pub(crate) messages: String,
    /// Their metadata.
    pub(crate) metas: String,
}

impl Slab {
    /// An empty slab, with room for this many bytes of messages.
    fn with_room(bytes: usize) -> Self {
        let spare = || SPARE.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let kept = if bytes == FULL_SLAB { spare() } else { None };
        Self { messages: kept.unwrap_or_else(|| String::with_capacity(bytes)), metas: String::new() }
    }
}

impl Drop for Slab {
    fn drop(&mut self) {
        // Nothing larger is kept: a single message can be of any size.
        if self.messages.capacity() != FULL_SLAB {
            return;
        }
        let mut spare = SPARE.lock().unwrap_or_else(PoisonError::into_inner);
        if spare.len() < MOST_SPARE {
            let mut messages = std::mem::take(&mut self.messages);
            messages.clear();
            spare.push(messages);
        }
    }
}

/// A slab that is being written.
#[derive(Default)]
pub(crate) struct SlabWriter {
    pub(crate) slab: Slab,
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
            self.slab = Slab::with_room(expected.min(SLAB_BYTES) + SLAB_BYTES / 31);
        } else {
            self.slab.messages.push(',');
        }
        self.begun = (self.slab.messages.len(), self.slab.metas.len());
    }

    /// Ends the record that was written since [`SlabWriter::begin`].
    pub(crate) fn end(&mut self, draft: Draft) {
        let (start, meta_start) = self.begun;
        let (len, meta_len) = (self.slab.messages.len() - start, self.slab.metas.len() - meta_start);
        self.open.push(Open { draft, start, len, meta_start, meta_len });
    }

    /// Whether the slab is large enough.
    pub(crate) fn is_full(&self) -> bool {
        self.slab.messages.len() >= SLAB_BYTES
    }

    /// Seals the slab and hands its records out, in their order.
    pub(crate) fn seal(&mut self, mut each: impl FnMut(Arc<Record>)) {
        let mut slab = std::mem::take(&mut self.slab);
        if slab.messages.len() < SLAB_BYTES || slab.messages.capacity() > FULL_SLAB {
            slab.messages.shrink_to_fit();
        }
        slab.metas.shrink_to_fit();
        let slab = Arc::new(slab);
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

#[cfg(test)]
mod tests {
    use super::*;

    fn full() -> Slab {
        let mut slab = Slab::with_room(FULL_SLAB);
        slab.messages.push_str("{}");
        slab.metas.push('1');
        slab
    }

    #[test]
    fn a_spare_slab_is_empty_and_has_the_same_room() {
        drop([full(), full()]);
        let slab = Slab::with_room(FULL_SLAB);
        assert_eq!((&*slab.messages, &*slab.metas, slab.messages.capacity()), ("", "", FULL_SLAB));
    }

    #[test]
    fn only_full_slabs_are_kept() {
        for room in [0, 1, FULL_SLAB - 1, FULL_SLAB * 2] {
            drop(Slab { messages: String::with_capacity(room), metas: String::new() });
        }
        let kept: Vec<_> = SPARE.lock().unwrap().iter().map(String::capacity).collect();
        assert!(kept.len() <= MOST_SPARE && kept.iter().all(|room| *room == FULL_SLAB), "{kept:?}");
    }
}
