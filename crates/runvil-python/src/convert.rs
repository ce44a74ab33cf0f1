//! JSON values between Rust and Python.

use pyo3::IntoPyObjectExt;
use pyo3::conversion::FromPyObjectOwned;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyMapping, PyString, PyTuple};
use serde_json::{Map, Number, Value};

/// The deepest nesting of a value that crosses.
const DEPTH_LIMIT: usize = 128;

/// A JSON value as Python objects.
pub(crate) fn to_python<'py>(py: Python<'py>, value: &Value) -> PyResult<Bound<'py, PyAny>> {
    match value {
        Value::Null => Ok(py.None().into_bound(py)),
        Value::Bool(flag) => flag.into_bound_py_any(py),
        Value::Number(number) => {
            if let Some(integer) = number.as_i64() {
                integer.into_bound_py_any(py)
            } else if let Some(integer) = number.as_u64() {
                integer.into_bound_py_any(py)
            } else {
                number.as_f64().into_bound_py_any(py)
            }
        }
        Value::String(text) => text.into_bound_py_any(py),
        Value::Array(items) => {
            let list = PyList::empty(py);
            for item in items {
                list.append(to_python(py, item)?)?;
            }
            Ok(list.into_any())
        }
        Value::Object(entries) => Ok(to_dict(py, entries)?.into_any()),
    }
}

/// A JSON object as a dict.
pub(crate) fn to_dict<'py>(py: Python<'py>, entries: &Map<String, Value>) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    for (key, item) in entries {
        dict.set_item(key, to_python(py, item)?)?;
    }
    Ok(dict)
}

/// A Python value as JSON; `what` names it in a refusal.
pub(crate) fn from_python(value: &Bound<'_, PyAny>, what: &str) -> PyResult<Value> {
    convert(value, what, 0)
}

fn convert(value: &Bound<'_, PyAny>, what: &str, depth: usize) -> PyResult<Value> {
    if depth > DEPTH_LIMIT {
        return Err(PyValueError::new_err(format!("{what} is nested more than {DEPTH_LIMIT} levels deep")));
    }
    if value.is_none() {
        return Ok(Value::Null);
    }
    if value.is_instance_of::<PyBool>() {
        return Ok(Value::Bool(value.extract()?));
    }
    if value.is_instance_of::<PyInt>() {
        if let Ok(integer) = value.extract::<i64>() {
            return Ok(integer.into());
        }
        return match value.extract::<u64>() {
            Ok(integer) => Ok(integer.into()),
            Err(_) => Err(PyValueError::new_err(format!("{what} holds an integer beyond 64 bits"))),
        };
    }
    if value.is_instance_of::<PyFloat>() {
        let float: f64 = value.extract()?;
        return match Number::from_f64(float) {
            Some(number) => Ok(Value::Number(number)),
            None => Err(PyValueError::new_err(format!("{what} holds {float}, which JSON cannot"))),
        };
    }
    if let Ok(text) = value.cast::<PyString>() {
        return match text.to_cow() {
            Ok(text) => Ok(Value::String(text.into_owned())),
            Err(_) => Err(PyValueError::new_err(format!("{what} holds text with a lone surrogate"))),
        };
    }
    if value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>() {
        return value
            .try_iter()?
            .map(|item| convert(&item?, what, depth + 1))
            .collect::<PyResult<Vec<_>>>()
            .map(Value::Array);
    }
    if let Ok(mapping) = value.cast::<PyMapping>() {
        let mut entries = Map::new();
        for item in mapping.items()?.iter() {
            let (key, item): (Bound<'_, PyAny>, Bound<'_, PyAny>) = item.extract()?;
            let Ok(key) = key.cast::<PyString>() else {
                return Err(PyTypeError::new_err(format!("{what} has a key that is no text")));
            };
            let Ok(key) = key.to_cow() else {
                return Err(PyValueError::new_err(format!("{what} has a key with a lone surrogate")));
            };
            entries.insert(key.into_owned(), convert(&item, what, depth + 1)?);
        }
        return Ok(Value::Object(entries));
    }
    let name = value.get_type().name()?.to_cow()?.into_owned();
    Err(PyTypeError::new_err(format!("{what} holds a {name}, which JSON cannot")))
}

/// The value of a dict's key; `None` when it is absent or `None`. `what` names the dict in a refusal.
pub(crate) fn optional<'py, T>(dict: &Bound<'py, PyDict>, key: &str, what: &str) -> PyResult<Option<T>>
where
    T: FromPyObjectOwned<'py>,
{
    match dict.get_item(key)? {
        Some(value) if !value.is_none() => value.extract().map(Some).map_err(|_| {
            if has_lone_surrogate(&value) {
                return PyValueError::new_err(format!("{key} of {what} holds text with a lone surrogate"));
            }
            let name = value.get_type().name().map_or_else(|_| "?".to_owned(), |name| name.to_string());
            PyTypeError::new_err(format!("{key} of {what} cannot be a {name}"))
        }),
        _ => Ok(None),
    }
}

/// Whether a value is a text, or a list with a text, that has half of a surrogate pair and so no form in UTF-8.
fn has_lone_surrogate(value: &Bound<'_, PyAny>) -> bool {
    if let Ok(text) = value.cast::<PyString>() {
        return text.to_cow().is_err();
    }
    value.cast::<PyList>().is_ok_and(|list| list.iter().any(|item| has_lone_surrogate(&item)))
}

/// The value of a key that must be there.
pub(crate) fn required<'py, T>(dict: &Bound<'py, PyDict>, key: &str, what: &str) -> PyResult<T>
where
    T: FromPyObjectOwned<'py>,
{
    optional(dict, key, what)?.ok_or_else(|| PyValueError::new_err(format!("{what} lacks its {key}")))
}
