//! Reads an answer that reports success: one JSON object or an event stream, whichever the server chose.
//!
//! Nothing here waits or knows of a connection: bytes go in as they arrive, text comes out, and where the network cuts
//! the bytes makes no difference.

use std::fmt;
use std::ops::ControlFlow;

use runvil_core::failure::{FailureKind, ModelFailure};
use runvil_core::overflow::Classifier;
use runvil_core::reply::Reply;

use crate::assemble::{Assembler, malformed};
use crate::sse::{Decoder, Event};
use crate::wire::{self, Unreadable};

/// How much of an answer that is no reply at all is kept as the detail of the failure, in bytes.
const SHOWN: usize = 4096;

/// The data of the event that announces the end of a stream.
const DONE: &[u8] = b"[DONE]";

/// What is wrong with an answer of neither form.
const NO_REPLY: &str = "response is neither JSON nor an event stream";

/// Takes the visible text of a reply, piece by piece.
type OnText<'a> = dyn FnMut(&str) + 'a;

/// Reads one answer as it arrives.
///
/// ```
/// use runvil_client::answer::AnswerReader;
///
/// let mut text = String::new();
/// let mut reader = AnswerReader::new(true);
/// let stream = b"data: {\"choices\":[{\"delta\":{\"content\":\"hi\"}}]}\n\ndata: [DONE]\n\n";
/// for byte in stream {
///     reader.push(&[*byte], &mut |piece| text.push_str(piece)).unwrap();
/// }
/// let reply = reader.finish(&mut |_| {}).unwrap();
/// assert_eq!((text.as_str(), reply.text.as_deref()), ("hi", Some("hi")));
/// ```
pub struct AnswerReader {
    declares_stream: bool,
    classifier: Classifier,
    assembler: Assembler,
    form: Form,
}

/// The form of an answer's body, which its content type does not always tell.
enum Form {
    /// Only white space has arrived.
    Undecided,
    /// One JSON value, as far as it has arrived.
    Whole(Vec<u8>),
    /// An event stream, and whether it had any event.
    Stream { decoder: Decoder, any: bool },
    /// An event stream whose end was announced.
    Ended,
    /// Neither; the beginning of it.
    Unknown(Vec<u8>),
}

impl Form {
    /// Tells the form by the first byte that is neither white space nor part of a byte order mark.
    fn of(byte: u8) -> Self {
        match byte {
            b'{' | b'[' | b'"' => Self::Whole(Vec::new()),
            // A comment, or one of the fields data, event, error, id and retry.
            b':' | b'd' | b'e' | b'i' | b'r' => Self::Stream { decoder: Decoder::new(), any: false },
            _ => Self::Unknown(Vec::new()),
        }
    }
}

impl AnswerReader {
    /// A reader at the start of an answer. `declares_stream` says whether its content type is `text/event-stream`.
    ///
    /// The times of the reply's metrics count from here.
    pub fn new(declares_stream: bool) -> Self {
        Self::with(Assembler::new(crate::metadata::Clock::start()), Classifier::default(), declares_stream)
    }

    pub(crate) fn with(assembler: Assembler, classifier: Classifier, declares_stream: bool) -> Self {
        Self { declares_stream, classifier, assembler, form: Form::Undecided }
    }

    /// Takes the next bytes; text that they complete goes to `on_text`, an event's text at a time and never empty.
    ///
    /// Returns whether the reply is complete, so that nothing more need be read: a stream announced its end.
    ///
    /// A failure inside a stream ends it; the text that had arrived is part of the failure's detail alone.
    pub fn push(&mut self, bytes: &[u8], on_text: &mut OnText<'_>) -> Result<bool, ModelFailure> {
        let mut bytes = bytes;
        if matches!(self.form, Form::Undecided) {
            let ignored = |byte: &u8| byte.is_ascii_whitespace() || b"\xEF\xBB\xBF".contains(byte);
            let Some(start) = bytes.iter().position(|byte| !ignored(byte)) else { return Ok(false) };
            bytes = &bytes[start..];
            self.form = Form::of(bytes[0]);
        }
        match &mut self.form {
            Form::Undecided | Form::Ended => {}
            Form::Whole(whole) => whole.extend_from_slice(bytes),
            Form::Unknown(head) => {
                head.extend_from_slice(bytes);
                if head.len() >= SHOWN {
                    return Err(unreadable(NO_REPLY, head));
                }
            }
            Form::Stream { decoder, any } => {
                let (assembler, classifier) = (&mut self.assembler, &self.classifier);
                match decoder.push(bytes, |event| read_event(event, assembler, classifier, any, on_text)) {
                    ControlFlow::Continue(()) => {}
                    ControlFlow::Break(Ok(())) => self.form = Form::Ended,
                    ControlFlow::Break(Err(unread)) => return Err(self.after_text(unread.into_failure())),
                }
            }
        }
        Ok(matches!(self.form, Form::Ended))
    }

    /// The reply of an answer that is over. A reply that was not streamed gives its text to `on_text` here.
    pub fn finish(mut self, on_text: &mut OnText<'_>) -> Result<Reply, ModelFailure> {
        match std::mem::replace(&mut self.form, Form::Ended) {
            Form::Ended => self.finish_stream(),
            Form::Whole(bytes) => read_whole(&bytes, self.assembler, &self.classifier, on_text),
            Form::Unknown(head) => Err(unreadable(NO_REPLY, &head)),
            Form::Undecided if self.declares_stream => Err(cut_off()),
            Form::Undecided => Err(malformed(String::from("response body is empty"))),
            Form::Stream { mut decoder, mut any } => {
                let (assembler, classifier) = (&mut self.assembler, &self.classifier);
                match decoder.finish(|event| read_event(event, assembler, classifier, &mut any, on_text)) {
                    ControlFlow::Break(Ok(())) => self.finish_stream(),
                    ControlFlow::Break(Err(Unread::Failure(failure))) => Err(self.after_text(failure)),
                    // An event that is incomplete is so because the stream is.
                    ControlFlow::Break(Err(Unread::CutShort)) | ControlFlow::Continue(()) => {
                        if self.assembler.is_finished() {
                            self.finish_stream()
                        } else if any || self.declares_stream {
                            Err(self.after_text(cut_off()))
                        } else {
                            Err(malformed(String::from(NO_REPLY)))
                        }
                    }
                }
            }
        }
    }

    /// What becomes of an answer that broke off with this failure: the failure, unless the provider had said why it
    /// stopped, so that only what describes the reply can be missing.
    pub fn break_off(self, failure: ModelFailure, on_text: &mut OnText<'_>) -> Result<Reply, ModelFailure> {
        let is_stream = matches!(self.form, Form::Stream { .. } | Form::Ended);
        // An answer that is too large is not read in part.
        if is_stream && self.assembler.is_finished() && failure.kind != FailureKind::MalformedResponse {
            return self.finish(on_text);
        }
        Err(self.after_text(failure))
    }

    /// The reply of a stream that is over.
    fn finish_stream(self) -> Result<Reply, ModelFailure> {
        if !self.assembler.has_choice() {
            return Err(malformed(String::from("stream holds no `choices`")));
        }
        self.assembler.finish()
    }

    /// A failure inside a stream: text that had arrived is no reply, but its reader may want to see it.
    fn after_text(&self, mut failure: ModelFailure) -> ModelFailure {
        let text = self.assembler.text();
        if !text.is_empty() {
            let before = failure.detail.map(|detail| format!("{detail}\n")).unwrap_or_default();
            failure.detail = Some(format!("{before}the text that had arrived: {text}"));
        }
        failure
    }
}

impl fmt::Debug for AnswerReader {
    /// Shows what was recognised, never text.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let form = match self.form {
            Form::Undecided => "undecided",
            Form::Whole(_) => "whole",
            Form::Stream { .. } => "stream",
            Form::Ended => "ended",
            Form::Unknown(_) => "unknown",
        };
        f.debug_struct("AnswerReader").field("form", &form).finish_non_exhaustive()
    }
}

/// Reads a reply that was not streamed.
fn read_whole(
    bytes: &[u8],
    mut assembler: Assembler,
    classifier: &Classifier,
    on_text: &mut OnText<'_>,
) -> Result<Reply, ModelFailure> {
    let chunk = wire::parse(bytes).map_err(|error| unreadable(&error.note("response"), bytes))?;
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

/// Why an event gave nothing.
enum Unread {
    /// It is a failure, or brings one.
    Failure(ModelFailure),
    /// Its JSON ends too early.
    CutShort,
}

impl Unread {
    /// The failure when the event itself was complete.
    fn into_failure(self) -> ModelFailure {
        match self {
            Self::Failure(failure) => failure,
            Self::CutShort => malformed(Unreadable::CutShort.note("stream event")),
        }
    }
}

/// Reads one event; breaks at the announced end of the stream and at a failure.
fn read_event(
    event: Event<'_>,
    assembler: &mut Assembler,
    classifier: &Classifier,
    any: &mut bool,
    on_text: &mut OnText<'_>,
) -> ControlFlow<Result<(), Unread>> {
    *any = true;
    let data = event.data.trim_ascii();
    if data.is_empty() {
        return ControlFlow::Continue(());
    }
    if data == DONE {
        return ControlFlow::Break(Ok(()));
    }
    if data.len() > 1 && DONE.starts_with(data) {
        return ControlFlow::Break(Err(Unread::CutShort));
    }
    let failure = |failure| ControlFlow::Break(Err(Unread::Failure(failure)));
    if event.kind == b"error" {
        return failure(classifier.classify(None, &String::from_utf8_lossy(data)));
    }
    let chunk = match wire::parse(data) {
        Ok(chunk) => chunk,
        Err(Unreadable::CutShort) => return ControlFlow::Break(Err(Unread::CutShort)),
        Err(error) => return failure(unreadable(&error.note("stream event"), data)),
    };
    if chunk.is_error() {
        return failure(classifier.classify(None, &String::from_utf8_lossy(data)));
    }
    match assembler.add_event(chunk, on_text) {
        Ok(()) => ControlFlow::Continue(()),
        Err(error) => failure(error),
    }
}

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
