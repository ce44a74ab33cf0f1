//! The parameters of a run, read from the dict the Python layer builds.

use std::collections::BTreeMap;

use pyo3::conversion::FromPyObjectOwned;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use runvil_core::estimator::Estimator;
use runvil_engine::params::{Pack, PackTool, Params};
use runvil_lua::models::{CatalogModel, Thinking};

use crate::convert::{self, from_python};

const WHAT: &str = "the run parameters";

fn optional<'py, T: FromPyObjectOwned<'py>>(dict: &Bound<'py, PyDict>, key: &str) -> PyResult<Option<T>> {
    convert::optional(dict, key, WHAT)
}

fn required<'py, T: FromPyObjectOwned<'py>>(dict: &Bound<'py, PyDict>, key: &str) -> PyResult<T> {
    convert::required(dict, key, WHAT)
}

/// Reads the parameters; the keys are those of `Params`, with `models` a dict of dicts and `packs` a list of dicts.
pub(crate) fn read(dict: &Bound<'_, PyDict>) -> PyResult<Params> {
    let defaults = Params::default();
    let mut models = BTreeMap::new();
    if let Some(bound) = optional::<Bound<'_, PyDict>>(dict, "models")? {
        for (label, model) in bound {
            models.insert(label.extract::<String>()?, catalog_model(model.cast::<PyDict>()?)?);
        }
    }
    let mut packs = Vec::new();
    if let Some(list) = optional::<Vec<Bound<'_, PyDict>>>(dict, "packs")? {
        for pack in list {
            packs.push(pack_spec(&pack)?);
        }
    }
    let ui = match dict.get_item("ui")? {
        Some(value) if !value.is_none() => Some(from_python(&value, "ui")?),
        _ => None,
    };
    Ok(Params {
        args: optional(dict, "args")?.unwrap_or_default(),
        execution: optional(dict, "execution")?.unwrap_or(defaults.execution),
        seed: optional(dict, "seed")?.unwrap_or(defaults.seed),
        started_at: optional(dict, "started_at_ms")?.unwrap_or(defaults.started_at),
        models,
        raw_models: optional(dict, "raw_models")?.unwrap_or(false),
        packs,
        rounds: optional(dict, "rounds")?.unwrap_or(defaults.rounds),
        memory_bytes: optional(dict, "memory_bytes")?.unwrap_or(defaults.memory_bytes),
        log_events: optional(dict, "log_events")?.unwrap_or(defaults.log_events),
        ui,
        debug: optional(dict, "debug")?.unwrap_or(false),
    })
}

fn pack_spec(dict: &Bound<'_, PyDict>) -> PyResult<Pack> {
    let mut tools = Vec::new();
    for tool in optional::<Vec<Bound<'_, PyDict>>>(dict, "tools")?.unwrap_or_default() {
        tools.push(PackTool {
            name: required(&tool, "name")?,
            trusted: optional(&tool, "trusted")?.unwrap_or(false),
            structured: optional(&tool, "structured")?.unwrap_or(false),
        });
    }
    Ok(Pack { name: required(dict, "name")?, tools, conflicts: optional(dict, "conflicts")?.unwrap_or_default() })
}

fn catalog_model(dict: &Bound<'_, PyDict>) -> PyResult<CatalogModel> {
    let name: String = required(dict, "model")?;
    let thinking = match optional::<String>(dict, "thinking")?.as_deref() {
        None | Some("never") => Thinking::Never,
        Some("always") => Thinking::Always,
        Some("switchable") => Thinking::Switchable,
        Some(other) => {
            return Err(PyValueError::new_err(format!("thinking must be never, always or switchable, got {other}")));
        }
    };
    Ok(CatalogModel {
        id: optional(dict, "id")?.unwrap_or_else(|| name.clone()),
        context: required(dict, "context")?,
        max_tokens: optional(dict, "max_tokens")?,
        thinking,
        description: optional(dict, "description")?.unwrap_or_default(),
        estimator: estimator(dict)?,
        name,
    })
}

/// A model's estimator: absent, or `{kind: "detailed", image_tokens}`, or `{kind: "external", name}`.
pub(crate) fn estimator(model: &Bound<'_, PyDict>) -> PyResult<Estimator> {
    let Some(dict) = optional::<Bound<'_, PyDict>>(model, "estimator")? else { return Ok(Estimator::Specified) };
    match required::<String>(&dict, "kind")?.as_str() {
        "detailed" => Ok(Estimator::Detailed { image_tokens: required(&dict, "image_tokens")? }),
        "external" => Ok(Estimator::External { name: required(&dict, "name")? }),
        other => Err(PyValueError::new_err(format!("{other:?} is no kind of estimator"))),
    }
}
