//! Python objects as records.
//!
//! What consists of plain types alone, and breaks no rule, is written down directly. Everything else takes the thorough
//! way, which also says what is wrong.

use std::cell::RefCell;
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use runvil_core::error::{Field, ListError};
use runvil_core::json::JsonLoadError;
use runvil_core::record::{Record, RecordFields};
use runvil_core::role::Role;
use runvil_core::writer::{RecordBatch, RecordWriter};
use serde_json::Value;

use super::failure::{refused, unreadable};
use super::pause::Pause;
use super::text::{Items, items, push_value, text};
use super::values::{self, Refusal};
use super::view::RecordView;

/// The forms of records that are taken.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Forms {
    /// The record form alone.
    Record,
    /// The record form, or that of `OpenAI`'s chat API: each record shows which.
    Either,
}

/// What a builder was given; Python's `None` is an absent field.
#[derive(Default)]
pub(super) struct Given<'a, 'py> {
    pub(super) content: Option<&'a Bound<'py, PyAny>>,
    pub(super) tool_calls: Option<&'a Bound<'py, PyAny>>,
    pub(super) tool_call_id: Option<&'a Bound<'py, PyAny>>,
    pub(super) meta: Option<&'a Bound<'py, PyAny>>,
}

/// Writes records directly.
#[derive(Default)]
struct Quick {
    writer: RecordWriter,
    scratch: String,
}

thread_local! {
    static QUICK: RefCell<Quick> = RefCell::default();
}

/// Writes one record with the thread's writer, unless that is in use further up the stack.
fn quickly(write: impl FnOnce(&mut Quick) -> Option<Role>) -> Option<Arc<Record>> {
    QUICK.with(|quick| {
        let mut quick = quick.try_borrow_mut().ok()?;
        write(&mut quick)?;
        quick.writer.finish().map(Arc::new)
    })
}

/// Makes the record that a builder adds. `position` says which position errors name.
pub(super) fn build(role: Role, given: &Given<'_, '_>, position: impl FnOnce() -> usize) -> PyResult<Arc<Record>> {
    if let Some(record) = quickly(|quick| quick.fields(role, given, Forms::Record)) {
        return Ok(record);
    }
    let position = position();
    let mut fields = RecordFields { role: Some(Value::from(role.as_str())), ..RecordFields::default() };
    let slots = [
        (Field::Content, given.content, &mut fields.content),
        (Field::ToolCalls, given.tool_calls, &mut fields.tool_calls),
        (Field::ToolCallId, given.tool_call_id, &mut fields.tool_call_id),
        (Field::Meta, given.meta, &mut fields.meta),
    ];
    for (field, value, slot) in slots {
        *slot = match value.map(values::field).transpose() {
            Ok(value) => value.filter(|value| !value.is_null()),
            Err(Refusal::Reason(reason)) => return Err(refused(ListError::not_json_field(position, field, reason))),
            Err(Refusal::Raised(error)) => return Err(error),
        };
    }
    drop_null_arguments(fields.tool_calls.as_mut());
    Record::from_fields(fields, position).map(Arc::new).map_err(refused)
}

/// Makes a record from a dict or a view. `position` says which position errors name.
pub(super) fn record(
    value: &Bound<'_, PyAny>,
    forms: Forms,
    position: impl FnOnce() -> usize,
) -> PyResult<Arc<Record>> {
    if let Ok(view) = value.cast_exact::<RecordView>() {
        return Ok(Arc::clone(view.get().record()));
    }
    if let Ok(dict) = value.cast_exact::<PyDict>()
        && let Some(record) = quickly(|quick| quick.record(dict, forms))
    {
        return Ok(record);
    }
    thoroughly(value, forms, position())
}

/// Reads many records, which may share their text.
pub(super) struct Reader {
    quick: Quick,
    batch: RecordBatch,
    forms: Forms,
    /// The position of the first record.
    first: usize,
    /// Whether a system record would stand behind a record of another role. `None` when that does not matter yet.
    late: Option<bool>,
}

impl Reader {
    pub(super) fn new(forms: Forms, first: usize) -> Self {
        Self { quick: Quick::default(), batch: RecordBatch::new(), forms, first, late: None }
    }

    /// Minds the placement of system records; `late` says whether the records before allow none any more.
    pub(super) fn placed_after(self, late: bool) -> Self {
        Self { late: Some(late), ..self }
    }

    /// Reads one more record. Returns whether to go on: behind a late system record nothing matters any more, as the
    /// list refuses it.
    pub(super) fn read(&mut self, value: &Bound<'_, PyAny>) -> PyResult<bool> {
        let role = self.read_one(value)?;
        Ok(match &mut self.late {
            Some(late) if role == Role::System => !*late,
            Some(late) => {
                *late = true;
                true
            }
            None => true,
        })
    }

    fn read_one(&mut self, value: &Bound<'_, PyAny>) -> PyResult<Role> {
        if let Ok(dict) = value.cast_exact::<PyDict>()
            && let Some(role) = self.quick.record(dict, self.forms)
            && self.batch.add(&mut self.quick.writer)
        {
            return Ok(role);
        }
        let record = match value.cast_exact::<RecordView>() {
            Ok(view) => Arc::clone(view.get().record()),
            Err(_) => thoroughly(value, self.forms, self.first + self.batch.len())?,
        };
        let role = record.role();
        self.batch.push(record);
        Ok(role)
    }

    /// Reads the records of a list, a tuple or any other iterable.
    pub(super) fn read_all(&mut self, records: &Bound<'_, PyAny>) -> PyResult<()> {
        if let Some(items) = items(records) {
            let mut pause = Pause::new(records.py());
            for item in items.iter() {
                if !self.read(&item)? {
                    break;
                }
                pause.after_record();
            }
        } else {
            for item in records.try_iter()? {
                if !self.read(&item?)? {
                    break;
                }
            }
        }
        Ok(())
    }

    pub(super) fn into_records(self) -> Vec<Arc<Record>> {
        self.batch.into_records()
    }
}

fn thoroughly(value: &Bound<'_, PyAny>, forms: Forms, position: usize) -> PyResult<Arc<Record>> {
    let mut tree = match values::record(value) {
        Ok(tree) => tree,
        Err(Refusal::Reason(reason)) => return Err(refused(ListError::not_json_record(position, reason))),
        Err(Refusal::Raised(error)) => return Err(error),
    };
    if let Value::Object(map) = &mut tree {
        // Content is none beside the calls of a chat API's record.
        map.retain(|key, value| key == "content" || !value.is_null());
        drop_null_arguments(map.get_mut("tool_calls"));
    }
    let record = match forms {
        Forms::Record => Record::from_value(&tree, position).map_err(JsonLoadError::from),
        Forms::Either => Record::from_json(&tree.to_string(), position),
    };
    record.map(Arc::new).map_err(unreadable)
}

/// Python's `None` is an absent field: so it is for the arguments of a call.
fn drop_null_arguments(calls: Option<&mut Value>) {
    for call in calls.and_then(Value::as_array_mut).into_iter().flatten().filter_map(Value::as_object_mut) {
        call.retain(|key, value| key != "arguments" || !value.is_null());
    }
}

fn given<'a, 'py>(value: Option<&'a Bound<'py, PyAny>>) -> Option<&'a Bound<'py, PyAny>> {
    value.filter(|value| !value.is_none())
}

impl Quick {
    /// Writes a record. `None` when it takes the thorough way.
    fn record(&mut self, dict: &Bound<'_, PyDict>, forms: Forms) -> Option<Role> {
        let (mut role, mut content, mut tool_calls, mut tool_call_id, mut meta) = (None, None, None, None, None);
        for (key, value) in dict.iter() {
            match text(&key)? {
                "role" => role = Some(value),
                "content" => content = Some(value),
                "tool_calls" => tool_calls = Some(value),
                "tool_call_id" => tool_call_id = Some(value),
                "meta" => meta = Some(value),
                _ => self.dropped(&value, 0)?,
            }
        }
        let role = Role::parse(text(role.as_ref()?)?)?;
        let fields = Given {
            content: given(content.as_ref()),
            tool_calls: given(tool_calls.as_ref()),
            tool_call_id: given(tool_call_id.as_ref()),
            meta: given(meta.as_ref()),
        };
        self.fields(role, &fields, forms)
    }

    fn fields(&mut self, role: Role, given: &Given<'_, '_>, forms: Forms) -> Option<Role> {
        self.writer.begin(role);
        let calls = match given.tool_calls {
            Some(calls) if !calls.is_none() => Some(items(calls)?),
            _ => None,
        };
        let chat_form = forms == Forms::Either && calls.as_ref().is_some_and(is_chat_form);
        match given.content {
            None if chat_form => self.writer.text(""),
            None => return None,
            Some(content) => match text(content) {
                Some(text) => self.writer.text(text),
                None => items(content)?.iter().try_for_each(|part| self.part(&part))?,
            },
        }
        if let Some(calls) = calls {
            calls.iter().try_for_each(|call| self.call(&call, chat_form))?;
        }
        if let Some(id) = given.tool_call_id.filter(|id| !id.is_none()) {
            self.writer.tool_call_id(text(id)?);
        }
        if let Some(meta) = given.meta.filter(|meta| !meta.is_none()) {
            push_value(meta, 0, self.writer.meta())?;
        }
        Some(role)
    }

    /// Looks at a value that the record does not keep, which must be JSON all the same.
    fn dropped(&mut self, value: &Bound<'_, PyAny>, depth: usize) -> Option<()> {
        self.scratch.clear();
        push_value(value, depth, &mut self.scratch)
    }

    fn part(&mut self, part: &Bound<'_, PyAny>) -> Option<()> {
        let (mut kind, mut words, mut image) = (None, None, None);
        for (key, value) in part.cast_exact::<PyDict>().ok()?.iter() {
            match text(&key)? {
                "type" => kind = Some(value),
                "text" => words = Some(value),
                "image_url" => image = Some(value),
                _ => self.dropped(&value, 2)?,
            }
        }
        match text(kind.as_ref()?)? {
            "text" => {
                if let Some(image) = image {
                    self.dropped(&image, 2)?;
                }
                self.writer.text_part(text(words.as_ref()?)?);
            }
            "image_url" => {
                if let Some(words) = words {
                    self.dropped(&words, 2)?;
                }
                let mut url = None;
                for (key, value) in image.as_ref()?.cast_exact::<PyDict>().ok()?.iter() {
                    match text(&key)? {
                        "url" => url = Some(value),
                        _ => self.dropped(&value, 3)?,
                    }
                }
                self.writer.image_part(text(url.as_ref()?)?);
            }
            _ => return None,
        }
        Some(())
    }

    fn call(&mut self, call: &Bound<'_, PyAny>, chat_form: bool) -> Option<()> {
        let (mut id, mut name, mut arguments, mut function) = (None, None, None, None);
        for (key, value) in call.cast_exact::<PyDict>().ok()?.iter() {
            match text(&key)? {
                "id" => id = Some(value),
                "name" if !chat_form => name = Some(value),
                "arguments" if !chat_form => arguments = Some(value),
                "function" if chat_form => function = Some(value),
                _ => self.dropped(&value, 2)?,
            }
        }
        let mut depth = 2;
        if chat_form {
            depth = 3;
            for (key, value) in function.as_ref()?.cast_exact::<PyDict>().ok()?.iter() {
                match text(&key)? {
                    "name" => name = Some(value),
                    "arguments" => arguments = Some(value),
                    _ => self.dropped(&value, depth)?,
                }
            }
        }
        let (id, name) = (text(id.as_ref()?)?, text(name.as_ref()?)?);
        match given(arguments.as_ref()) {
            None => self.writer.call(id, name, "{}"),
            Some(arguments) if chat_form && text(arguments).is_some() => {
                self.writer.call_with_text(id, name, text(arguments)?);
            }
            Some(arguments) => {
                self.scratch.clear();
                push_value(arguments.cast_exact::<PyDict>().ok()?, depth, &mut self.scratch)?;
                self.writer.call(id, name, &self.scratch);
            }
        }
        Some(())
    }
}

/// Whether calls are in the form of `OpenAI`'s chat API: the first one shows it.
fn is_chat_form(calls: &Items<'_, '_>) -> bool {
    let first = calls.get(0);
    let function = first.as_ref().and_then(|call| call.cast_exact::<PyDict>().ok()?.get_item("function").ok()?);
    function.is_some_and(|function| !function.is_none())
}
