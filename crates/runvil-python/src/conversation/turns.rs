//! What compactors in Python need of the core.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use runvil_core::list::MessageList;
use runvil_core::record::Record;
use runvil_core::tools::ToolList;
use runvil_core::turns::TurnBounds;
use runvil_engine::effect::{Origin, Round};
use serde_json::Map;

use super::Conversation;
use crate::convert;
use crate::round::RoundRequest;

const WHAT: &str = "a model";

/// The first record after the leading system records, and the user record that the last `turns` turns begin with; None
/// when there are fewer. Positions count from 1.
#[pyfunction]
pub(crate) fn turn_bounds(conversation: &Bound<'_, Conversation>, turns: usize) -> (usize, Option<usize>) {
    let py = conversation.py();
    let list = conversation.get().shared.fork(py);
    let TurnBounds { first, cut } = py.detach(|| TurnBounds::of(&list, turns));
    (first, cut)
}

/// A request of a prompt alone to a model, given as its dict; None when it does not fit the model's window.
#[pyfunction]
pub(crate) fn single_round(prompt: &str, model: &Bound<'_, PyDict>) -> PyResult<Option<RoundRequest>> {
    let context: u64 = convert::required(model, "context", WHAT)?;
    let max_tokens: Option<u64> = convert::optional(model, "max_tokens", WHAT)?;
    let mut list = MessageList::new();
    let composed = list.append(Record::user(prompt)).and_then(|()| list.compose());
    let request = composed.map_err(super::failure::refused)?;
    let precheck = request.precheck(context, max_tokens);
    if !precheck.admitted {
        return Ok(None);
    }
    let mut options = Map::new();
    if let Some(max_tokens) = max_tokens {
        options.insert("max_tokens".to_owned(), max_tokens.into());
    }
    Ok(Some(RoundRequest::new(Round {
        round: 0,
        origin: Origin::Infer,
        section: String::new(),
        conversation: None,
        model: convert::required(model, "model", WHAT)?,
        model_id: convert::required(model, "id", WHAT)?,
        role: None,
        handle: None,
        estimate: request.estimate(),
        count: precheck.count,
        reserve: precheck.reserve,
        window: context,
        estimator: None,
        request,
        tools: ToolList::default(),
        options,
    })))
}
