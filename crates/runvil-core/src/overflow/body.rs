//! What a provider's error body says: its codes, its messages and its counts, wherever they stand.

use serde_json::{Map, Value};

use super::patterns::{Counts, without_labels};

/// How deep an error may hold another one, as gateways wrap what they received.
const DEPTH: usize = 6;

/// Codes that say a request is larger than the context window.
const OVERFLOW_CODES: [&str; 3] = ["context_length_exceeded", "exceed_context_size_error", "request_too_large"];

/// Codes of errors whose texts look like an overflow and are none.
const OTHER_CODES: [&str; 2] = ["rate_limit_exceeded", "string_above_max_length"];

/// The parts of an error body that classify it.
#[derive(Debug, Default)]
pub(super) struct ErrorBody {
    codes: Vec<String>,
    /// The messages, the outermost first; none when the body is no JSON object, or one without a message.
    pub(super) messages: Vec<String>,
    /// Counts that stand in fields of their own.
    pub(super) counts: Counts,
}

impl ErrorBody {
    pub(super) fn read(body: &str) -> Self {
        let mut read = Self::default();
        read.add_text(body, DEPTH);
        read
    }

    /// The messages, or else the whole body.
    pub(super) fn texts<'a>(&'a self, body: &'a str) -> Vec<&'a str> {
        if self.messages.is_empty() { vec![body] } else { self.messages.iter().map(String::as_str).collect() }
    }

    /// Whether a code says that this is an overflow, or that it is none.
    pub(super) fn code_verdict(&self) -> Option<bool> {
        let holds =
            |known: &[&str]| self.codes.iter().any(|code| known.iter().any(|known| code.eq_ignore_ascii_case(known)));
        if holds(&OTHER_CODES) {
            return Some(false);
        }
        holds(&OVERFLOW_CODES).then_some(true)
    }

    /// Adds the error that a text holds as JSON; gives whether it held one.
    fn add_text(&mut self, text: &str, depth: usize) -> bool {
        let text = text.trim_start_matches('\u{feff}').trim_start();
        if depth == 0 || !text.starts_with(['{', '[']) {
            return false;
        }
        match serde_json::from_str(text) {
            // Some servers put the object into a list.
            Ok(Value::Array(values)) => match values.first() {
                Some(Value::Object(error)) => self.add(error, depth),
                _ => return false,
            },
            Ok(Value::Object(error)) => self.add(&error, depth),
            _ => return false,
        }
        true
    }

    /// Adds an object that is an error or holds one.
    fn add(&mut self, error: &Map<String, Value>, depth: usize) {
        for key in ["code", "type", "error_code", "error_type"] {
            if let Some(code) = error.get(key).and_then(Value::as_str) {
                self.codes.push(code.to_owned());
            }
        }
        let count = |key: &str| error.get(key).and_then(Value::as_u64);
        self.counts = self.counts.or(Counts { used: count("n_prompt_tokens"), limit: count("n_ctx") });
        for key in ["message", "error", "detail", "response"] {
            match error.get(key) {
                Some(Value::String(text)) if key != "response" => self.add_message(text, depth),
                Some(Value::Object(inner)) if depth > 1 => self.add(inner, depth - 1),
                _ => {}
            }
        }
        // The upstream answer as a router passes it on.
        if let Some(raw) = error.get("metadata").and_then(|metadata| metadata.get("raw")).and_then(Value::as_str) {
            self.add_message(raw, depth);
        }
    }

    /// Adds a message, or the error that it holds as JSON text, be it after a label.
    fn add_message(&mut self, text: &str, depth: usize) {
        if !without_labels(text).any(|rest| self.add_text(rest, depth - 1)) {
            self.messages.push(text.to_owned());
        }
    }
}
