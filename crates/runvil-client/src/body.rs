//! Reads the body of an answer: part by part, each in its time, and never more than the limit.

use std::error::Error;
use std::time::Duration;

use bytes::Bytes;
use reqwest::Response;
use runvil_core::failure::{FailureKind, ModelFailure};
use tokio::time::timeout;

use crate::assemble::malformed;

/// The body of one answer.
pub(crate) struct Body {
    response: Response,
    patience: Duration,
    limit: u64,
    is_error: bool,
    /// How much was read, in bytes.
    read: u64,
}

impl Body {
    /// Begins to read a body. One that declares more than `limit` bytes is refused at once.
    pub(crate) fn new(response: Response, patience: Duration, limit: u64) -> Result<Self, ModelFailure> {
        if response.content_length().is_some_and(|length| length > limit) {
            return Err(too_large(limit));
        }
        Ok(Self { response, patience, limit, is_error: false, read: 0 })
    }

    /// Begins to read the body of an answer that reports a failure.
    pub(crate) fn of_error(response: Response, patience: Duration, limit: u64) -> Result<Self, ModelFailure> {
        match response.content_length() {
            Some(length) if length > limit => {
                Err(malformed(format!("response body of {length} bytes exceeds the {limit}-byte limit")))
            }
            _ => Ok(Self { response, patience, limit, is_error: true, read: 0 }),
        }
    }

    /// The next part; `None` at the end.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, ModelFailure> {
        let part = timeout(self.patience, self.response.chunk())
            .await
            .map_err(|_| ModelFailure::new(FailureKind::Timeout))?
            .map_err(failed)?;
        let Some(part) = part else { return Ok(None) };
        self.read = self.read.saturating_add(part.len() as u64);
        if self.read > self.limit {
            let note = format!("response body exceeds the {}-byte limit", self.limit);
            return Err(if self.is_error { malformed(note) } else { too_large(self.limit) });
        }
        Ok(Some(part))
    }

    /// Reads to the end and appends it to `bytes`.
    pub(crate) async fn read_to_end(&mut self, bytes: &mut Vec<u8>) -> Result<(), ModelFailure> {
        while let Some(part) = self.next().await? {
            bytes.extend_from_slice(&part);
        }
        Ok(())
    }

    /// Waits a moment for the end of a body whose content is complete, so that its connection can be used again.
    pub(crate) async fn expect_end(mut self) {
        // What follows is of no use, whatever it is.
        let _ = timeout(Duration::from_millis(50), self.read_to_end(&mut Vec::new())).await;
    }
}

fn too_large(limit: u64) -> ModelFailure {
    malformed(format!("response stream exceeds the {limit}-byte limit"))
}

/// A failure of the connection. Its causes become the detail, without the address, which may hold credentials.
pub(crate) fn failed(error: reqwest::Error) -> ModelFailure {
    let kind = if error.is_timeout() { FailureKind::Timeout } else { FailureKind::Transport };
    let error = error.without_url();
    let mut detail = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let text = error.to_string();
        if !detail.ends_with(&text) {
            detail.push_str(": ");
            detail.push_str(&text);
        }
        cause = error.source();
    }
    ModelFailure { detail: Some(detail), ..ModelFailure::new(kind) }
}
