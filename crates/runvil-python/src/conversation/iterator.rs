//! Walking a conversation.

use std::sync::atomic::{AtomicUsize, Ordering};

use pyo3::prelude::*;
use runvil_core::list::MessageList;

use super::shared::drop_list;
use super::view::RecordView;

/// Walks the records that a conversation held when the walk began.
#[pyclass(frozen, module = "runvil._native")]
pub(crate) struct RecordIterator {
    list: MessageList,
    next: AtomicUsize,
}

impl RecordIterator {
    pub(super) fn new(list: MessageList) -> Self {
        Self { list, next: AtomicUsize::new(0) }
    }
}

impl Drop for RecordIterator {
    fn drop(&mut self) {
        drop_list(std::mem::take(&mut self.list));
    }
}

#[pymethods]
impl RecordIterator {
    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__(&self) -> Option<RecordView> {
        let record = self.list.get(self.next.fetch_add(1, Ordering::Relaxed))?;
        Some(RecordView::new(record.clone()))
    }

    fn __length_hint__(&self) -> usize {
        self.list.len().saturating_sub(self.next.load(Ordering::Relaxed))
    }
}
