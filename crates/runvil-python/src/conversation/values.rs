//! Python values as JSON values, with the reason when a value has no JSON form: the thorough way.

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyMapping, PyString, PyTuple};
use runvil_core::json::{MAX_DEPTH, TOO_DEEP};
use serde_json::{Map, Number, Value};

use super::view::RecordView;

/// Why a value could not be converted.
pub(super) enum Refusal {
    /// It has no JSON form.
    Reason(String),
    /// Code of its own, such as a mapping's, raised.
    Raised(PyErr),
}

impl From<PyErr> for Refusal {
    fn from(error: PyErr) -> Self {
        Self::Raised(error)
    }
}

fn reason<T>(text: impl Into<String>) -> Result<T, Refusal> {
    Err(Refusal::Reason(text.into()))
}

/// The name of the value's type, without its module.
pub(super) fn type_name(value: &Bound<'_, PyAny>) -> String {
    value.get_type().name().map_or_else(|_| "?".to_owned(), |name| name.to_string_lossy().into_owned())
}

/// One field's value, which may have [`MAX_DEPTH`] levels.
pub(super) fn field(value: &Bound<'_, PyAny>) -> Result<Value, Refusal> {
    convert(value, 0)
}

/// A whole record: the levels count from the values of its fields.
pub(super) fn record(value: &Bound<'_, PyAny>) -> Result<Value, Refusal> {
    convert_inside(value, 0, 0)
}

fn convert(value: &Bound<'_, PyAny>, depth: usize) -> Result<Value, Refusal> {
    convert_inside(value, depth, depth + 1)
}

/// `depth` counts the levels around the value, `inner` those around what is in it.
fn convert_inside(value: &Bound<'_, PyAny>, depth: usize, inner: usize) -> Result<Value, Refusal> {
    if let Ok(text) = value.cast::<PyString>() {
        return string(text).map(Value::String);
    }
    if value.is_none() {
        return Ok(Value::Null);
    }
    if let Ok(flag) = value.cast::<PyBool>() {
        return Ok(Value::Bool(flag.is_true()));
    }
    if value.is_instance_of::<PyInt>() {
        return integer(value);
    }
    if let Ok(float) = value.cast::<PyFloat>() {
        let float = float.value();
        return match Number::from_f64(float) {
            Some(number) => Ok(Value::Number(number)),
            None => reason(format!("a number is not finite: {}", if float.is_nan() { "nan" } else { "inf" })),
        };
    }
    if let Ok(view) = value.cast::<RecordView>() {
        return Ok(view.get().record().to_value());
    }
    let list = value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>();
    if !list && !value.is_instance_of::<PyDict>() && value.cast::<PyMapping>().is_err() {
        return reason(format!("unsupported value type `{}`", type_name(value)));
    }
    if depth >= MAX_DEPTH {
        return reason(TOO_DEEP);
    }
    if list {
        let items = value.try_iter()?;
        return items.map(|item| convert(&item?, inner)).collect::<Result<_, _>>().map(Value::Array);
    }
    let mut map = Map::new();
    // A copy of the entries: converting one may run code that changes the mapping.
    for entry in value.cast::<PyMapping>().map_err(PyErr::from)?.items()?.iter() {
        let (key, item): (Bound<'_, PyAny>, Bound<'_, PyAny>) = entry.extract()?;
        let Ok(key) = key.cast::<PyString>() else {
            return reason(format!("unsupported key type `{}`", type_name(&key)));
        };
        map.insert(string(key)?, convert(&item, inner)?);
    }
    Ok(Value::Object(map))
}

fn string(text: &Bound<'_, PyString>) -> Result<String, Refusal> {
    match text.to_str() {
        Ok(text) => Ok(text.to_owned()),
        Err(_) => reason("a string holds a lone surrogate"),
    }
}

fn integer(value: &Bound<'_, PyAny>) -> Result<Value, Refusal> {
    if let Ok(integer) = value.extract::<i64>() {
        return Ok(integer.into());
    }
    match value.extract::<u64>() {
        Ok(integer) => Ok(integer.into()),
        Err(_) => reason("an integer does not fit 64 bits"),
    }
}
