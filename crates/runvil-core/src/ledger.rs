//! Accounting for the memory that records hold on somebody's behalf.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A running sum of the bytes held by the records charged to it.
///
/// Clones share the sum. A record is charged with
/// [`Record::charged_to`](crate::record::Record::charged_to) and gives its bytes back when its last reference is
/// dropped.
#[derive(Debug, Clone, Default)]
pub struct Ledger {
    held: Arc<AtomicUsize>,
}

impl Ledger {
    /// A ledger that holds nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Bytes held at this moment.
    pub fn held(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }

    pub(crate) fn charge(&self, bytes: usize) {
        self.held.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn release(&self, bytes: usize) {
        self.held.fetch_sub(bytes, Ordering::Relaxed);
    }
}
