//! The list of a conversation, shared by threads.
//!
//! Whoever holds the lock neither runs Python code nor makes Python objects nor waits for the interpreter, and nobody
//! waits for the lock while attached to the interpreter. That is what keeps threads from waiting for each other forever.

use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use pyo3::prelude::*;
use runvil_core::error::ListError;
use runvil_core::list::{MessageList, Snapshot};
use runvil_core::request::Request;

use super::compaction;
use super::failure::{compaction_running, refused};

/// Records that are checked, composed or moved within a few microseconds.
pub(super) const FEW: usize = 64;
/// Records whose memory is given back within a few microseconds.
const MANY: usize = 1_000;

/// A list and what happens to it.
#[derive(Default)]
pub(super) struct State {
    pub(super) list: MessageList,
    /// How many of the first records the list has checked and composed.
    composed: usize,
    pub(super) compaction: Option<Compaction>,
}

/// A compaction that runs.
pub(super) struct Compaction {
    /// Tells it from every other compaction.
    pub(super) number: u64,
    pub(super) before: Snapshot,
}

impl State {
    pub(super) fn of(list: MessageList) -> Self {
        Self { list, ..Self::default() }
    }

    /// Whether checking and composing take longer than a thread may keep the interpreter to itself.
    fn has_much_to_compose(&self) -> bool {
        self.list.len() - self.composed.min(self.list.len()) > FEW
    }

    /// The records from this index on were replaced.
    pub(super) fn changed_from(&mut self, index: usize) {
        self.composed = self.composed.min(index);
    }

    fn compaction_number(&self) -> Option<u64> {
        self.compaction.as_ref().map(|compaction| compaction.number)
    }
}

/// A list that several threads may use.
#[derive(Default)]
pub(super) struct SharedList {
    state: Mutex<State>,
}

impl SharedList {
    pub(super) fn new(list: MessageList) -> Self {
        Self { state: Mutex::new(State::of(list)) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Work of a few microseconds.
    pub(super) fn with<R: Send>(&self, py: Python<'_>, work: impl FnOnce(&mut State) -> R + Send) -> R {
        match self.state.try_lock() {
            Ok(mut state) => work(&mut state),
            Err(TryLockError::Poisoned(broken)) => work(&mut broken.into_inner()),
            Err(TryLockError::WouldBlock) => self.with_detached(py, work),
        }
    }

    /// Work of any length.
    pub(super) fn with_detached<R: Send>(&self, py: Python<'_>, work: impl FnOnce(&mut State) -> R + Send) -> R {
        py.detach(|| work(&mut self.lock()))
    }

    /// The list as it is now. Costs the same for any length.
    pub(super) fn fork(&self, py: Python<'_>) -> MessageList {
        self.with(py, |state| state.list.clone())
    }

    pub(super) fn len(&self, py: Python<'_>) -> usize {
        self.with(py, |state| state.list.len())
    }

    /// Checks or composes.
    pub(super) fn compose_with<R: Send>(
        &self,
        py: Python<'_>,
        work: impl Fn(&mut MessageList) -> Result<R, ListError> + Send + Sync,
    ) -> PyResult<R> {
        let work = |state: &mut State| {
            let result = work(&mut state.list);
            state.composed = state.list.len();
            result
        };
        let quick = self.with(py, |state| (!state.has_much_to_compose()).then(|| work(state)));
        quick.unwrap_or_else(|| self.with_detached(py, work)).map_err(refused)
    }

    pub(super) fn compose(&self, py: Python<'_>) -> PyResult<Request> {
        self.compose_with(py, MessageList::compose)
    }

    /// Edits the list, unless a compaction runs that is not this thread's or task's own.
    pub(super) fn edit<R: Send, W>(&self, py: Python<'_>, mut work: W) -> PyResult<R>
    where
        W: FnOnce(&mut State) -> Result<R, ListError> + Send,
    {
        let mut inside = None;
        loop {
            let outcome = self.with(py, move |state| match state.compaction_number() {
                Some(number) if inside != Some(number) => Err((number, work)),
                _ => Ok(work(state)),
            });
            match outcome {
                Ok(result) => return result.map_err(refused),
                Err((number, _)) if !compaction::is_inside(py, number)? => return Err(compaction_running()),
                Err((number, same)) => {
                    inside = Some(number);
                    work = same;
                }
            }
        }
    }
}

impl Drop for SharedList {
    fn drop(&mut self) {
        let state = std::mem::take(self.state.get_mut().unwrap_or_else(PoisonError::into_inner));
        if state.list.len() > MANY {
            drop_detached(state);
        }
    }
}

/// Drops what may hold many records while other threads use the interpreter.
pub(super) fn drop_detached<T: Send>(value: T) {
    let mut value = Some(value);
    Python::try_attach(|py| {
        let value = value.take();
        py.detach(move || drop(value));
    });
}

/// As [`drop_detached`], if there are many records.
pub(super) fn drop_list(list: MessageList) {
    if list.len() > MANY {
        drop_detached(list);
    }
}
