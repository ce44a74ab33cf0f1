//! The list of a conversation, shared by threads.
//!
//! Whoever holds the lock neither runs Python code nor makes Python objects nor waits for the interpreter, and nobody
//! waits for the lock while attached to the interpreter. That is what keeps threads from waiting for each other forever.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use pyo3::prelude::*;
use runvil_core::anchor::Anchor;
use runvil_core::error::ListError;
use runvil_core::list::{MessageList, Snapshot};
use runvil_core::record::Record;
use runvil_core::reply::Usage;
use runvil_core::request::Request;

use super::compaction;
use super::failure::{compaction_running, refused};

/// Records that are checked, composed or moved within a few microseconds.
pub(super) const FEW: usize = 64;
/// Records whose memory is given back within a few microseconds.
pub(super) const MANY: usize = 1_000;

/// A list and what happens to it.
#[derive(Default)]
pub(super) struct State {
    pub(super) list: MessageList,
    /// How many of the first records the list has checked and composed.
    composed: usize,
    pub(super) compaction: Option<Compaction>,
    /// Whether a loop runs over the list.
    pub(super) looping: bool,
    pub(super) anchor: Option<Anchor>,
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

    /// Everything is checked and composed.
    pub(super) fn note_composed(&mut self) {
        self.composed = self.list.len();
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
    fn compose_with<R: Send>(
        &self,
        py: Python<'_>,
        work: impl Fn(&mut State) -> Result<R, ListError> + Send + Sync,
    ) -> PyResult<R> {
        let work = |state: &mut State| {
            let result = work(state);
            state.composed = state.list.len();
            result
        };
        let quick = self.with(py, |state| (!state.has_much_to_compose()).then(|| work(state)));
        quick.unwrap_or_else(|| self.with_detached(py, work)).map_err(refused)
    }

    /// The request that the list makes now, and the measurement that it may be counted from.
    pub(super) fn compose(&self, py: Python<'_>) -> PyResult<(Request, Option<Anchor>)> {
        self.compose_with(py, |state| Ok((state.list.compose()?, state.anchor.clone())))
    }

    pub(super) fn check(&self, py: Python<'_>) -> PyResult<()> {
        self.compose_with(py, |state| state.list.check())
    }

    /// Adds records, all of them or none.
    pub(super) fn extend(&self, py: Python<'_>, records: Vec<Arc<Record>>) -> PyResult<()> {
        let size = records.len();
        self.edit(py, size, move |state| state.list.extend(records))
    }

    /// Replaces the records `first` to `last`, counted from 1 and inclusive, by these; all of them or none.
    pub(super) fn replace(&self, py: Python<'_>, first: usize, last: usize, records: Vec<Arc<Record>>) -> PyResult<()> {
        let size = records.len() + self.len(py).saturating_sub(first);
        self.edit(py, size, move |state| {
            state.list.replace(first, last, records)?;
            state.changed_from(first - 1);
            Ok(())
        })
    }

    /// Whether the current thread or task runs inside this list's compaction.
    pub(super) fn is_inside(&self, py: Python<'_>) -> PyResult<bool> {
        match self.with(py, |state| state.compaction_number()) {
            Some(number) => compaction::is_inside(py, number),
            None => Ok(false),
        }
    }

    /// Takes note of a round that was served. `usage` holds tokens: of the prompt, of the completion, of reasoning.
    pub(super) fn anchor(&self, py: Python<'_>, sent: &Request, model: &str, usage: Option<[Option<u64>; 3]>) {
        let usage = usage.map(|[prompt_tokens, completion_tokens, reasoning_tokens]| Usage {
            prompt_tokens,
            completion_tokens,
            reasoning_tokens,
            ..Usage::default()
        });
        self.with(py, |state| state.anchor.get_or_insert_default().served(model, sent, usage.as_ref()));
    }

    /// Edits the list, unless a compaction runs that is not this thread's or task's own.
    ///
    /// `size` counts the records that the edit moves.
    pub(super) fn edit<R: Send, W>(&self, py: Python<'_>, size: usize, mut work: W) -> PyResult<R>
    where
        W: FnOnce(&mut State) -> Result<R, ListError> + Send,
    {
        let mut inside = None;
        loop {
            let admitted = move |state: &mut State| match state.compaction_number() {
                Some(number) if inside != Some(number) => Err((number, work)),
                _ => Ok(work(state)),
            };
            let outcome = if size > FEW { self.with_detached(py, admitted) } else { self.with(py, admitted) };
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
        drop_list(state.list);
        if let Some(compaction) = state.compaction {
            drop_detached(compaction);
        }
    }
}

/// Drops a list; detached from the interpreter when that takes long.
pub(super) fn drop_list(list: MessageList) {
    if list.len() > MANY && !list.shares_records() {
        drop_detached(list);
    }
}

/// Drops a value while other threads use the interpreter.
pub(super) fn drop_detached<T: Send>(value: T) {
    let mut value = Some(value);
    Python::try_attach(|py| {
        let value = value.take();
        py.detach(move || drop(value));
    });
}
