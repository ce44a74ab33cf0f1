//! Python values as JSON text, without a tree between: the quick way, for what consists of plain types alone.

use std::fmt::Write as _;

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};
use runvil_core::json::MAX_DEPTH;
use runvil_core::writer::push_string;
use serde_json::Number;

/// The text of a string of exactly that type. `None` for other types, and for text that UTF-8 cannot hold.
pub(super) fn text<'a>(value: &'a Bound<'_, PyAny>) -> Option<&'a str> {
    value.cast_exact::<PyString>().ok()?.to_str().ok()
}

/// The items of a list or tuple of exactly that type.
pub(super) fn items<'a, 'py>(value: &'a Bound<'py, PyAny>) -> Option<Items<'a, 'py>> {
    if let Ok(list) = value.cast_exact::<PyList>() {
        return Some(Items::List(list));
    }
    value.cast_exact::<PyTuple>().ok().map(Items::Tuple)
}

/// A list or a tuple.
pub(super) enum Items<'a, 'py> {
    List(&'a Bound<'py, PyList>),
    Tuple(&'a Bound<'py, PyTuple>),
}

impl<'py> Items<'_, 'py> {
    /// The item at this index, from 0; `None` past the end, which may have moved.
    pub(super) fn get(&self, index: usize) -> Option<Bound<'py, PyAny>> {
        match self {
            Self::List(list) => (index < list.len()).then(|| list.get_item(index).ok()).flatten(),
            Self::Tuple(tuple) => (index < tuple.len()).then(|| tuple.get_item(index).ok()).flatten(),
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Bound<'py, PyAny>> {
        (0..).map_while(|index| self.get(index))
    }
}

/// Appends the value in canonical form. `depth` counts the levels around it.
///
/// `None` when there is anything but plain types in it, or something JSON cannot hold; half of it may then be written.
pub(super) fn push_value(value: &Bound<'_, PyAny>, depth: usize, out: &mut String) -> Option<()> {
    if let Some(text) = text(value) {
        push_string(out, text);
    } else if let Ok(dict) = value.cast_exact::<PyDict>() {
        if depth >= MAX_DEPTH {
            return None;
        }
        out.push('{');
        for (index, (key, item)) in dict.iter().enumerate() {
            if index > 0 {
                out.push(',');
            }
            push_string(out, text(&key)?);
            out.push(':');
            push_value(&item, depth + 1, out)?;
        }
        out.push('}');
    } else if let Some(items) = items(value) {
        if depth >= MAX_DEPTH {
            return None;
        }
        out.push('[');
        for (index, item) in items.iter().enumerate() {
            if index > 0 {
                out.push(',');
            }
            push_value(&item, depth + 1, out)?;
        }
        out.push(']');
    } else {
        push_scalar(value, out)?;
    }
    Some(())
}

fn push_scalar(value: &Bound<'_, PyAny>, out: &mut String) -> Option<()> {
    if value.is_none() {
        out.push_str("null");
    } else if let Ok(flag) = value.cast_exact::<PyBool>() {
        out.push_str(if flag.is_true() { "true" } else { "false" });
    } else if value.is_exact_instance_of::<PyInt>() {
        // Printing into a `String` cannot fail.
        let _ = match value.extract::<i64>() {
            Ok(integer) => write!(out, "{integer}"),
            Err(_) => write!(out, "{}", value.extract::<u64>().ok()?),
        };
    } else {
        let float = value.cast_exact::<PyFloat>().ok()?.value();
        let _ = write!(out, "{}", Number::from_f64(float)?);
    }
    Some(())
}
