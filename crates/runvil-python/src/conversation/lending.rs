//! Bytes that are lent to Python instead of being copied into an object of its own.

use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::PyMemoryView;
use runvil_core::body::{Body, BodyBuffer};

/// The buffer of a conversation that is gone, empty. Memory that is new to the process costs more than writing to it.
static SPARE: Mutex<Option<BodyBuffer>> = Mutex::new(None);

/// Bytes of a buffer that is worth keeping as the spare one. The upper bound is what the process never gives back.
const SPARE_BYTES: RangeInclusive<usize> = 1024 * 1024..=64 * 1024 * 1024;

/// The spare buffer, if it suits a body of this many bytes.
fn take_spare(len: usize) -> Option<BodyBuffer> {
    // One that is much too large would be held for as long as the body lives.
    let suits = |spare: &mut BodyBuffer| (len..=len.saturating_mul(2)).contains(&spare.capacity());
    SPARE.lock().unwrap_or_else(PoisonError::into_inner).take_if(suits)
}

/// Keeps the buffer, or the one that is kept already, whichever is larger.
fn keep_spare(buffer: BodyBuffer) {
    if !SPARE_BYTES.contains(&buffer.capacity()) {
        return;
    }
    let mut spare = SPARE.lock().unwrap_or_else(PoisonError::into_inner);
    if spare.as_ref().is_none_or(|kept| kept.capacity() < buffer.capacity()) {
        let before = spare.replace(buffer.emptied());
        drop(spare);
        drop(before);
    }
}

/// Where a conversation keeps the buffer of its last body, so that the next one can continue it.
#[derive(Clone, Default)]
pub(super) struct Shelf(Arc<Place>);

#[derive(Default)]
struct Place(Mutex<Option<BodyBuffer>>);

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(buffer) = self.0.get_mut().unwrap_or_else(PoisonError::into_inner).take() {
            keep_spare(buffer);
        }
    }
}

impl Shelf {
    fn with<R>(&self, work: impl FnOnce(&mut Option<BodyBuffer>) -> R) -> R {
        work(&mut self.0.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Writes the body, as a continuation of the one before when that buffer is not lent any more.
    fn write(&self, body: &Body) -> Lent {
        let kept = self.with(Option::take);
        let mut buffer = kept.or_else(|| take_spare(body.len())).unwrap_or_default();
        buffer.write(body);
        Lent { buffer, shelf: self.clone() }
    }
}

/// A buffer that goes back to its shelf when nobody reads it any more.
struct Lent {
    buffer: BodyBuffer,
    shelf: Shelf,
}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        self.buffer.as_bytes()
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        let buffer = std::mem::take(&mut self.buffer);
        // The shelf holds one buffer; of two, the longer one saves more.
        let spare = self.shelf.with(|kept| match kept {
            Some(kept) if kept.as_bytes().len() >= buffer.as_bytes().len() => Some(buffer),
            kept => kept.replace(buffer),
        });
        drop(spare);
    }
}

/// The body as a read-only memoryview.
pub(super) fn lend<'py>(py: Python<'py>, body: &Body, shelf: &Shelf) -> PyResult<Bound<'py, PyMemoryView>> {
    let lent = py.detach(|| shelf.write(body));
    memoryview(py, Bytes::from_owner(lent))
}

/// Bytes as a read-only memoryview.
pub(super) fn memoryview(py: Python<'_>, bytes: Bytes) -> PyResult<Bound<'_, PyMemoryView>> {
    let owner = pyo3_bytes::PyBytes::new(bytes).into_bound_py_any(py)?;
    PyMemoryView::from(&owner)
}
