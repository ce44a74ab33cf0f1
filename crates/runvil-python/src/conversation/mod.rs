//! `Conversation`: a message list, its records, and the requests it makes.

mod compaction;
mod failure;
mod iterator;
mod lending;
mod loading;
mod looping;
mod pause;
mod reading;
mod request;
mod shared;
mod text;
mod turns;
mod values;
mod view;

use std::sync::Arc;

use pyo3::exceptions::{PyIndexError, PyOverflowError, PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyFloat, PyInt, PyList, PySlice, PyString, PyTuple, PyType};
use runvil_core::error::{Bound as RangeBound, ListError};
use runvil_core::json::JsonForm;
use runvil_core::list::MessageList;
use runvil_core::record::Record;
use runvil_core::role::Role;

pub(crate) use self::compaction::variable as compaction_variable;
pub(crate) use self::iterator::RecordIterator;
pub(crate) use self::loading::Change;
pub(crate) use self::looping::{ConversationLoop, LoopStep};
pub(crate) use self::request::{ComposedRequest, Precheck};
pub(crate) use self::turns::{single_round, turn_bounds};
pub(crate) use self::view::RecordView;

use self::failure::refused;
use self::lending::Shelf;
use self::pause::Pause;
use self::reading::{Forms, Given, Reader};
use self::shared::{FEW, SharedList, State};
use self::view::role_name;

/// The ordered records of a conversation.
#[pyclass(frozen, subclass, weakref, module = "runvil._native")]
pub(crate) struct Conversation {
    shared: SharedList,
    shelf: Shelf,
}

impl Conversation {
    /// A new conversation of the given class.
    fn of<'py>(class: &Bound<'py, PyType>, list: MessageList) -> PyResult<Bound<'py, Self>> {
        Self::filled(class.call0()?, list)
    }

    /// A conversation of the given class that is a copy of another one: it is not initialized.
    fn copy_of<'py>(class: &Bound<'py, PyType>, list: MessageList) -> PyResult<Bound<'py, Self>> {
        Self::filled(class.call_method1(intern!(class.py(), "__new__"), (class,))?, list)
    }

    fn filled(made: Bound<'_, PyAny>, list: MessageList) -> PyResult<Bound<'_, Self>> {
        let made = made.cast_into::<Self>()?;
        made.get().shared.with(made.py(), |state| *state = State::of(list));
        Ok(made)
    }

    fn add(&self, py: Python<'_>, role: Role, given: &Given<'_, '_>) -> PyResult<()> {
        let record = reading::build(role, given, || self.shared.len(py) + 1)?;
        self.shared.edit(py, 1, move |state| state.list.append(record))
    }

    /// The records of an iterable.
    fn records_of(records: &Bound<'_, PyAny>, mut reader: Reader) -> PyResult<Vec<Arc<Record>>> {
        if let Ok(other) = records.cast::<Self>() {
            let py = records.py();
            let list = other.get().shared.fork(py);
            return Ok(py.detach(|| list.iter().cloned().collect()));
        }
        reader.read_all(records)?;
        Ok(reader.into_records())
    }
}

#[pymethods]
impl Conversation {
    /// Arguments are for the `__init__` of a subclass.
    #[new]
    #[classmethod]
    #[pyo3(signature = (*args, **options))]
    fn new(
        class: &Bound<'_, PyType>,
        args: &Bound<'_, PyTuple>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let py = class.py();
        if !args.is_empty() || options.is_some_and(|options| !options.is_empty()) {
            let init = intern!(py, "__init__");
            if class.getattr(init)?.is(&py.get_type::<PyAny>().getattr(init)?) {
                return Err(PyTypeError::new_err(format!("{}() takes no arguments", class.name()?)));
            }
        }
        Ok(Self { shared: SharedList::default(), shelf: Shelf::default() })
    }

    /// Appends a system record. System records lead the list.
    #[pyo3(signature = (content, meta = None))]
    fn system<'py>(
        slf: Bound<'py, Self>,
        content: &Bound<'py, PyAny>,
        meta: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, Self>> {
        let given = Given { content: Some(content), meta, ..Given::default() };
        slf.get().add(slf.py(), Role::System, &given)?;
        Ok(slf)
    }

    /// Appends a user record.
    #[pyo3(signature = (content, meta = None))]
    fn user<'py>(
        slf: Bound<'py, Self>,
        content: &Bound<'py, PyAny>,
        meta: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, Self>> {
        let given = Given { content: Some(content), meta, ..Given::default() };
        slf.get().add(slf.py(), Role::User, &given)?;
        Ok(slf)
    }

    /// Appends an assistant record. A tool call is `{"id": …, "name": …, "arguments": {…}}`.
    #[pyo3(signature = (content, tool_calls = None, meta = None))]
    fn assistant<'py>(
        slf: Bound<'py, Self>,
        content: &Bound<'py, PyAny>,
        tool_calls: Option<&Bound<'py, PyAny>>,
        meta: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, Self>> {
        let given = Given { content: Some(content), tool_calls, meta, ..Given::default() };
        slf.get().add(slf.py(), Role::Assistant, &given)?;
        Ok(slf)
    }

    /// Appends a tool record: the result of the call with this id.
    #[pyo3(signature = (content, tool_call_id, meta = None))]
    fn tool<'py>(
        slf: Bound<'py, Self>,
        content: &Bound<'py, PyAny>,
        tool_call_id: &Bound<'py, PyAny>,
        meta: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, Self>> {
        let given = Given { content: Some(content), tool_call_id: Some(tool_call_id), meta, ..Given::default() };
        slf.get().add(slf.py(), Role::Tool, &given)?;
        Ok(slf)
    }

    /// Appends a record: a dict with its fields, or a record that was read. Other keys of the dict are dropped.
    fn append<'py>(slf: Bound<'py, Self>, record: &Bound<'py, PyAny>) -> PyResult<Bound<'py, Self>> {
        let py = slf.py();
        let record = reading::record(record, Forms::Record, || slf.get().shared.len(py) + 1)?;
        slf.get().shared.edit(py, 1, move |state| state.list.append(record))?;
        Ok(slf)
    }

    /// Appends the records of an iterable or of another conversation: all of them or none.
    fn extend<'py>(slf: Bound<'py, Self>, records: &Bound<'py, PyAny>) -> PyResult<Bound<'py, Self>> {
        let py = slf.py();
        let shared = &slf.get().shared;
        let (len, leading) = shared.with(py, |state| (state.list.len(), state.list.leading_system_len()));
        let reader = Reader::new(Forms::Record, len + 1).placed_after(leading < len);
        let records = Self::records_of(records, reader)?;
        shared.extend(py, records)?;
        Ok(slf)
    }

    /// Replaces the records `first` to `last`, counted from 1 and inclusive, by these: all of them or none.
    ///
    /// Only a compactor may do so; see `compact`. `replace(n, n - 1, ...)` inserts before record `n`.
    #[pyo3(signature = (first, last, *records))]
    fn replace<'py>(
        slf: Bound<'py, Self>,
        first: &Bound<'py, PyAny>,
        last: &Bound<'py, PyAny>,
        records: &Bound<'py, PyTuple>,
    ) -> PyResult<Bound<'py, Self>> {
        let py = slf.py();
        let shared = &slf.get().shared;
        if !shared.is_inside(py)? {
            return Err(refused(ListError::replace_outside_compactor()));
        }
        let (first, last) = (range_bound(first, RangeBound::First)?, range_bound(last, RangeBound::Last)?);
        let (from, to) = shared.with(py, |state| state.list.check_range(first, last)).map_err(refused)?;
        let records = Self::records_of(records, Reader::new(Forms::Record, from))?;
        shared.replace(py, from, to, records)?;
        Ok(slf)
    }

    fn __len__(&self, py: Python<'_>) -> usize {
        self.shared.len(py)
    }

    fn __getitem__<'py>(&self, py: Python<'py>, key: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let index = match key.extract::<isize>() {
            Ok(index) => index,
            Err(_) if key.is_instance_of::<PySlice>() => return self.slice(py, key.cast::<PySlice>()?),
            Err(error) if error.is_instance_of::<PyOverflowError>(py) => return Err(out_of_range()),
            Err(_) => {
                let name = values::type_name(key);
                return Err(PyTypeError::new_err(format!("conversation indices are integers or slices, not {name}")));
            }
        };
        let record = self.shared.with(py, |state| {
            let index = if index < 0 { state.list.len().checked_add_signed(index)? } else { index.unsigned_abs() };
            state.list.get(index).cloned()
        });
        let record = record.ok_or_else(out_of_range)?;
        Ok(Bound::new(py, RecordView::new(record))?.into_any())
    }

    fn __iter__(&self, py: Python<'_>) -> RecordIterator {
        RecordIterator::new(self.shared.fork(py))
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> Option<bool> {
        let other = other.cast::<Self>().ok()?;
        let py = other.py();
        let (ours, theirs) = (self.shared.fork(py), other.get().shared.fork(py));
        Some(if ours.len() == theirs.len() && ours.len() > FEW { py.detach(|| ours == theirs) } else { ours == theirs })
    }

    fn __repr__(slf: &Bound<'_, Self>) -> PyResult<String> {
        let len = slf.get().shared.len(slf.py());
        let name = slf.get_type().name()?.to_string();
        Ok(format!("<{name} of {len} record{}>", if len == 1 { "" } else { "s" }))
    }

    /// The role of each record.
    fn roles<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let list = self.shared.fork(py);
        PyList::new(py, list.iter().map(|record| role_name(py, record.role())))
    }

    /// The text of each record; of content parts, their texts one after the other.
    fn texts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let list = self.shared.fork(py);
        let texts = PyList::empty(py);
        let mut pause = Pause::new(py);
        for record in &list {
            texts.append(match record.content_text() {
                Some(text) => PyString::new(py, &text),
                None => PyString::new(py, &view::part_texts(record)),
            })?;
            pause.after_record();
        }
        Ok(texts)
    }

    /// A fork: a conversation with the same records, of the same class. It costs the same for any length.
    fn copy<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, Self>> {
        Self::copy_of(&slf.get_type(), slf.get().shared.fork(slf.py()))
    }

    /// Checks the rules that span records: the leading system block, unique call ids, one result for every call.
    fn check(&self, py: Python<'_>) -> PyResult<()> {
        self.shared.check(py)
    }

    /// Composes the request that the records make now; `check` comes first. An empty conversation makes none.
    fn compose(&self, py: Python<'_>) -> PyResult<ComposedRequest> {
        let (request, anchor) = self.shared.compose(py)?;
        Ok(ComposedRequest::new(request, anchor, self.shelf.clone()))
    }

    /// The records as a JSON array: in the record form, or one message each in the form of `OpenAI`'s chat API.
    #[pyo3(signature = (form = "record"))]
    fn to_json<'py>(&self, py: Python<'py>, form: &str) -> PyResult<Bound<'py, PyBytes>> {
        let form = match form {
            "record" => JsonForm::Record,
            "openai" => JsonForm::OpenAi,
            _ => return Err(PyValueError::new_err(format!("form must be \"record\" or \"openai\", got \"{form}\""))),
        };
        let list = self.shared.fork(py);
        let bytes = py.detach(|| list.to_json(form));
        Ok(PyBytes::new(py, &bytes))
    }

    /// Reads a JSON array of messages, as text or as a list, in the record form or in the form of `OpenAI`'s chat API.
    ///
    /// Each message shows which form it has. The rules that span records are left to `check`.
    #[classmethod]
    fn from_json<'py>(class: &Bound<'py, PyType>, data: &Bound<'py, PyAny>) -> PyResult<Bound<'py, Self>> {
        Self::of(class, loading::from_json(data)?)
    }

    /// Makes a conversation that passes `check` out of a history that may not. Returns it, and what was changed.
    #[classmethod]
    fn repair<'py>(
        class: &Bound<'py, PyType>,
        records: &Bound<'py, PyAny>,
    ) -> PyResult<(Bound<'py, Self>, Vec<Change>)> {
        let records = match loading::history_from_text(records)? {
            Some(records) => records,
            None => Self::records_of(records, Reader::new(Forms::Either, 1))?,
        };
        let (list, report) = loading::repair(class.py(), records);
        Ok((Self::of(class, list)?, report))
    }

    /// What unpickling calls.
    #[classmethod]
    fn _unpickled<'py>(class: &Bound<'py, PyType>, data: &Bound<'py, PyAny>) -> PyResult<Bound<'py, Self>> {
        Self::copy_of(class, loading::from_json(data)?)
    }

    /// Takes note of a reply, which was served by `model`.
    #[pyo3(signature = (request, model, usage))]
    fn _anchor(
        &self,
        py: Python<'_>,
        request: &Bound<'_, ComposedRequest>,
        model: &str,
        usage: Option<[Option<u64>; 3]>,
    ) {
        self.shared.anchor(py, request.get().request(), model, usage);
    }

    /// Starts a compaction; `in_loop` tells one that a loop asked for.
    #[pyo3(signature = (in_loop = false))]
    fn _enter_compaction<'py>(&self, py: Python<'py>, in_loop: bool) -> PyResult<(u64, Bound<'py, PyAny>)> {
        compaction::enter(py, &self.shared, in_loop)
    }

    fn _leave_compaction(&self, py: Python<'_>, number: u64, keep: bool) -> PyResult<()> {
        compaction::leave(py, &self.shared, number, keep)
    }
}

impl Conversation {
    fn slice<'py>(&self, py: Python<'py>, slice: &Bound<'py, PySlice>) -> PyResult<Bound<'py, PyAny>> {
        let list = self.shared.fork(py);
        let indices = slice.indices(isize::try_from(list.len()).unwrap_or(isize::MAX))?;
        let views = PyList::empty(py);
        let mut pause = Pause::new(py);
        let mut index = indices.start;
        for _ in 0..indices.slicelength {
            if let Some(record) = usize::try_from(index).ok().and_then(|index| list.get(index)) {
                views.append(Bound::new(py, RecordView::new(record.clone()))?)?;
            }
            index = index.saturating_add(indices.step);
            pause.after_record();
        }
        Ok(views.into_any())
    }
}

fn out_of_range() -> PyErr {
    PyIndexError::new_err("conversation index out of range")
}

/// A bound of `replace`.
fn range_bound(value: &Bound<'_, PyAny>, which: RangeBound) -> PyResult<i128> {
    let got = if value.is_exact_instance_of::<pyo3::types::PyBool>() {
        values::type_name(value)
    } else if value.is_instance_of::<PyInt>() {
        match value.extract::<i64>() {
            Ok(integer) => return Ok(integer.into()),
            Err(_) => "an integer beyond 64 bits".to_owned(),
        }
    } else if let Ok(float) = value.cast::<PyFloat>() {
        let float = float.value();
        // Between these, an integral float is an exact integer.
        if float.fract() == 0.0 && float.abs() < 9.3e18 {
            #[allow(clippy::cast_possible_truncation)]
            return Ok(float as i128);
        }
        if float.is_finite() { value.repr()?.to_string() } else { values::type_name(value) }
    } else {
        values::type_name(value)
    };
    Err(refused(ListError::bound_not_integer(which, got)))
}
