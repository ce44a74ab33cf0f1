//! Reads an answer that reports success: one JSON object or an event stream, whichever the server chose.

use std::ops::ControlFlow;

use bytes::Bytes;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use runvil_core::failure::{FailureKind, ModelFailure};
use runvil_core::overflow::Classifier;
use runvil_core::reply::Reply;

use crate::assemble::{Assembler, malformed};
use crate::body::Body;
use crate::sse::{Decoder, Event};
use crate::wire::{self, Unreadable};

/// How much of an answer that is no reply at all is kept as the detail of the failure, in bytes.
const SHOWN: usize = 4096;

/// Takes the visible text of a reply, piece by piece.
type OnText<'a> = dyn FnMut(&str) + Send + 'a;

/// Whether the headers announce an event stream.
pub(crate) fn declares_stream(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
    kind.get(..17).is_some_and(|kind| kind.eq_ignore_ascii_case(b"text/event-stream"))
}

/// Reads a reply to its end. Its text goes to `on_text` as it arrives.
pub(crate) async fn read(
    mut body: Body,
    assembler: Assembler,
    classifier: &Classifier,
    declares_stream: bool,
    on_text: &mut OnText<'_>,
) -> Result<Reply, ModelFailure> {
    let mut head = Vec::new();
    let form = loop {
        let Some(part) = body.next().await? else { break None };
        head.extend_from_slice(&part);
        if let Some(form) = Form::of(&head) {
            break Some(form);
        }
    };
    match form {
        Some(Form::Whole) => {
            body.read_to_end(&mut head).await?;
            read_whole(&head, assembler, classifier, on_text)
        }
        Some(Form::Stream) => {
            let events = Events { assembler, classifier, on_text, any: false };
            read_stream(head, body, events, declares_stream).await
        }
        Some(Form::Unknown) => Err(unreadable(NO_REPLY, &head)),
        None if declares_stream => Err(cut_off()),
        None => Err(malformed(String::from("response body is empty"))),
    }
}

/// The form of an answer's body, which its content type does not always tell.
#[derive(Debug, PartialEq, Eq)]
enum Form {
    /// One JSON value.
    Whole,
    /// An event stream.
    Stream,
    /// Neither.
    Unknown,
}

impl Form {
    /// Tells the form by the first byte that is neither white space nor part of a byte order mark.
    fn of(head: &[u8]) -> Option<Self> {
        let byte = head.iter().find(|byte| !byte.is_ascii_whitespace() && !b"\xEF\xBB\xBF".contains(byte))?;
        Some(match byte {
            b'{' | b'[' | b'"' => Self::Whole,
            // A comment, or one of the fields data, event, error, id and retry.
            b':' | b'd' | b'e' | b'i' | b'r' => Self::Stream,
            _ => Self::Unknown,
        })
    }
}

/// Reads a reply that was not streamed.
fn read_whole(
    bytes: &[u8],
    mut assembler: Assembler,
    classifier: &Classifier,
    on_text: &mut OnText<'_>,
) -> Result<Reply, ModelFailure> {
    let start = bytes.iter().position(|byte| !b"\xEF\xBB\xBF".contains(byte)).unwrap_or(bytes.len());
    let chunk = wire::parse(&bytes[start..]).map_err(|error| unreadable(&error.note("response"), bytes))?;
    if chunk.is_error() {
        return Err(classifier.classify(None, &String::from_utf8_lossy(bytes)));
    }
    assembler.add_whole(chunk)?;
    let reply = assembler.finish()?;
    if let Some(text) = reply.text.as_deref().filter(|text| !text.is_empty()) {
        on_text(text);
    }
    Ok(reply)
}

/// Reads a streamed reply; `head` is what was read of it already.
async fn read_stream(
    head: Vec<u8>,
    mut body: Body,
    mut events: Events<'_, '_>,
    declares_stream: bool,
) -> Result<Reply, ModelFailure> {
    let mut decoder = Decoder::new();
    let mut next = Some(Bytes::from(head));
    while let Some(part) = next {
        match decoder.push(&part, |event| events.read(event)) {
            ControlFlow::Continue(()) => {}
            ControlFlow::Break(Ok(())) => {
                body.expect_end().await;
                return events.finish();
            }
            ControlFlow::Break(Err(end)) => return Err(end.into_failure()),
        }
        next = match body.next().await {
            Ok(part) => part,
            // Only what describes the reply can still be missing.
            Err(failure) if events.assembler.is_finished() && failure.kind != FailureKind::MalformedResponse => None,
            Err(failure) => return Err(failure),
        };
    }
    match decoder.finish(|event| events.read(event)) {
        ControlFlow::Break(Ok(())) => events.finish(),
        ControlFlow::Break(Err(Unread::Failure(failure))) => Err(failure),
        // The event is incomplete because the stream is.
        ControlFlow::Break(Err(Unread::CutShort)) | ControlFlow::Continue(()) => {
            if events.assembler.is_finished() {
                events.finish()
            } else if events.any || declares_stream {
                Err(cut_off())
            } else {
                Err(malformed(String::from(NO_REPLY)))
            }
        }
    }
}

/// Reads the events of a stream into a reply.
struct Events<'a, 'f> {
    assembler: Assembler,
    classifier: &'a Classifier,
    on_text: &'a mut OnText<'f>,
    /// Whether there was any event.
    any: bool,
}

/// Why an event gave nothing.
enum Unread {
    /// It is a failure, or brings one.
    Failure(ModelFailure),
    /// Its JSON ends too early.
    CutShort,
}

impl Unread {
    /// The failure when more of the stream followed the event.
    fn into_failure(self) -> ModelFailure {
        match self {
            Self::Failure(failure) => failure,
            Self::CutShort => malformed(Unreadable::CutShort.note("stream event")),
        }
    }
}

impl Events<'_, '_> {
    /// Reads one event; breaks at the end of the stream and at a failure.
    fn read(&mut self, event: Event<'_>) -> ControlFlow<Result<(), Unread>> {
        self.any = true;
        let data = event.data.trim_ascii();
        if data.is_empty() {
            return ControlFlow::Continue(());
        }
        if data == b"[DONE]" {
            return ControlFlow::Break(Ok(()));
        }
        let failure = |failure| ControlFlow::Break(Err(Unread::Failure(failure)));
        if event.kind == b"error" {
            return failure(self.classifier.classify(None, &String::from_utf8_lossy(data)));
        }
        let chunk = match wire::parse(data) {
            Ok(chunk) => chunk,
            Err(Unreadable::CutShort) => return ControlFlow::Break(Err(Unread::CutShort)),
            Err(error) => return failure(unreadable(&error.note("stream event"), data)),
        };
        if chunk.is_error() {
            return failure(self.classifier.classify(None, &String::from_utf8_lossy(data)));
        }
        match self.assembler.add_event(chunk, self.on_text) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => failure(error),
        }
    }

    /// The reply of a stream that is over.
    fn finish(self) -> Result<Reply, ModelFailure> {
        if !self.assembler.has_choice() {
            return Err(malformed(String::from("stream holds no `choices`")));
        }
        self.assembler.finish()
    }
}

/// What is wrong with an answer of neither form.
const NO_REPLY: &str = "response is neither JSON nor an event stream";

/// An answer that could not be understood; its beginning is kept as the detail.
fn unreadable(note: &str, bytes: &[u8]) -> ModelFailure {
    let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(SHOWN)]).into_owned();
    ModelFailure { detail: Some(shown), ..malformed(note.to_owned()) }
}

/// A stream that ended before the reply did.
fn cut_off() -> ModelFailure {
    let detail = String::from("the stream ended before the reply was finished");
    ModelFailure { detail: Some(detail), ..ModelFailure::new(FailureKind::Transport) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_form_is_told_by_the_first_byte_that_counts() {
        for (head, form) in [
            (&b"{\"a\":1}"[..], Some(Form::Whole)),
            (b"\xEF\xBB\xBF {", Some(Form::Whole)),
            (b"\r\n\n", None),
            (b"\xEF", None),
            (b"data: x", Some(Form::Stream)),
            (b": ping", Some(Form::Stream)),
            (b"<html>", Some(Form::Unknown)),
            (b"\0", Some(Form::Unknown)),
        ] {
            assert_eq!(Form::of(head), form, "{head:?}");
        }
    }
}
