//! Letting other threads in during work that needs the interpreter all along.

use std::time::{Duration, Instant};

use pyo3::prelude::*;

/// Records between two looks at the clock.
const STRIDE: u32 = 32;
/// How long a thread keeps the interpreter to itself.
const SPELL: Duration = Duration::from_millis(1);

/// Hands the interpreter to a waiting thread from time to time.
pub(super) struct Pause<'py> {
    py: Python<'py>,
    since: Instant,
    records: u32,
}

impl<'py> Pause<'py> {
    pub(super) fn new(py: Python<'py>) -> Self {
        Self { py, since: Instant::now(), records: 0 }
    }

    /// Notes that a record was dealt with. Whatever Python objects the caller looks at may change meanwhile.
    pub(super) fn after_record(&mut self) {
        self.records += 1;
        if self.records.is_multiple_of(STRIDE) && self.since.elapsed() >= SPELL {
            self.py.detach(std::thread::yield_now);
            self.since = Instant::now();
        }
    }
}
