//! Keeps tokio's threads out of an interpreter that ends.
//!
//! A thread that waits for the interpreter when it is finalized never returns: before Python 3.14 it is torn out of the
//! middle of its code, which crashes the process. So threads that Python does not know ask here before they attach, and
//! Python's `atexit` closes the door, once those inside have left, while the interpreter still works.

use std::process;
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

/// Who is inside.
struct Door {
    state: Mutex<State>,
    left: Condvar,
}

struct State {
    closed: bool,
    /// Threads that are attached or about to be.
    inside: usize,
}

static DOOR: Door = Door { state: Mutex::new(State { closed: false, inside: 0 }), left: Condvar::new() };

impl Door {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs something attached to the interpreter, in a thread that Python does not know. `None` when the interpreter has
/// ended or is about to.
pub(crate) fn attached<R>(work: impl FnOnce(Python<'_>) -> R) -> Option<R> {
    {
        let mut state = DOOR.state();
        if state.closed {
            return None;
        }
        state.inside += 1;
    }
    let _inside = Inside;
    Python::try_attach(work)
}

/// A thread that is inside.
struct Inside;

impl Drop for Inside {
    fn drop(&mut self) {
        DOOR.state().inside -= 1;
        DOOR.left.notify_all();
    }
}

/// Makes sure that the door is closed before the interpreter ends; needed before the first use of [`attached`].
pub(crate) fn close_at_exit(py: Python<'_>) -> PyResult<()> {
    static REGISTERED: OnceLock<()> = OnceLock::new();
    if DOOR.state().closed {
        return Err(PyRuntimeError::new_err("a model cannot be called any more: the interpreter is shutting down"));
    }
    if REGISTERED.set(()).is_ok() {
        py.import("atexit")?.call_method1("register", (Close { process: process::id() },))?;
    }
    Ok(())
}

/// Closes the door; `atexit` calls it.
#[pyclass(frozen)]
struct Close {
    /// The process whose door it is. One that was forked from it has none of its threads, and cannot know who was inside.
    process: u32,
}

#[pymethods]
impl Close {
    fn __call__(&self, py: Python<'_>) {
        if self.process != process::id() {
            return;
        }
        // Those inside may be waiting for the interpreter.
        py.detach(|| {
            let mut state = DOOR.state();
            state.closed = true;
            while state.inside > 0 {
                state = DOOR.left.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
        });
    }
}
