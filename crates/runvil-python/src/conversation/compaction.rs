//! Who is inside which compaction: a context variable, so that it follows threads and tasks alike.

use std::sync::atomic::{AtomicU64, Ordering};

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyTuple;
use runvil_core::error::ListError;

use super::failure::{error, refused};
use super::shared::{Compaction, SharedList, State};

static LAST_NUMBER: AtomicU64 = AtomicU64::new(0);

/// The context variable with the numbers of the compactions that the current code runs inside.
pub(crate) fn variable(py: Python<'_>) -> PyResult<&Bound<'_, PyAny>> {
    static VARIABLE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let variable = VARIABLE.get_or_try_init(py, || {
        let class = py.import("contextvars")?.getattr("ContextVar")?;
        class.call1(("runvil compactions",)).map(Bound::unbind)
    })?;
    Ok(variable.bind(py))
}

fn numbers(py: Python<'_>) -> PyResult<Vec<u64>> {
    variable(py)?.call_method1(intern!(py, "get"), (PyTuple::empty(py),))?.extract()
}

/// Whether the current thread or task runs inside the compaction with this number.
pub(super) fn is_inside(py: Python<'_>, number: u64) -> PyResult<bool> {
    Ok(numbers(py)?.contains(&number))
}

/// Starts a compaction and enters it. Returns its number, and the token that leaves it.
pub(super) fn enter<'py>(py: Python<'py>, shared: &SharedList, in_loop: bool) -> PyResult<(u64, Bound<'py, PyAny>)> {
    let number = LAST_NUMBER.fetch_add(1, Ordering::Relaxed) + 1;
    let mut inside = numbers(py)?;
    inside.push(number);
    let started = shared.with(py, |state| {
        let free = state.compaction.is_none() && state.looping == in_loop;
        if free {
            state.compaction = Some(Compaction { number, before: state.list.snapshot() });
        }
        free
    });
    if !started {
        return Err(error(
            "compaction_running",
            "models.compact cannot start while a loop or a compactor is running in this section",
        ));
    }
    let token = PyTuple::new(py, inside).and_then(|inside| variable(py)?.call_method1(intern!(py, "set"), (inside,)));
    if token.is_err() {
        shared.with(py, |state| state.compaction = None);
    }
    Ok((number, token?))
}

/// Ends a compaction. `keep` keeps the records if they pass the rules that span records; in any other case those from
/// before come back.
pub(super) fn leave(py: Python<'_>, shared: &SharedList, number: u64, keep: bool) -> PyResult<()> {
    shared.with_detached(py, |state| end(state, number, keep)).map_err(refused)
}

fn end(state: &mut State, number: u64, keep: bool) -> Result<(), ListError> {
    let Some(compaction) = state.compaction.take_if(|compaction| compaction.number == number) else { return Ok(()) };
    let verdict = if keep { state.list.check() } else { Ok(()) };
    if !keep || verdict.is_err() {
        state.list.restore(compaction.before);
        state.changed_from(0);
    }
    verdict
}
