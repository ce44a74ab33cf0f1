//! Puts a reply together from the JSON objects of an answer: one, or the events of a stream.

use runvil_core::failure::{FailureKind, ModelFailure};
use runvil_core::reply::{Reply, ReplySource};

use crate::calls::Calls;
use crate::metadata::{Clock, Metadata};
use crate::wire::{Choice, Chunk, Message, Object};

/// A reply as far as it has arrived.
pub(crate) struct Assembler {
    clock: Clock,
    text: Option<String>,
    reasoning: String,
    refusal: String,
    calls: Calls,
    finish_reason: Option<String>,
    metadata: Metadata,
    has_choice: bool,
}

impl Assembler {
    pub(crate) fn new(clock: Clock) -> Self {
        Self {
            clock,
            text: None,
            reasoning: String::new(),
            refusal: String::new(),
            calls: Calls::default(),
            finish_reason: None,
            metadata: Metadata::default(),
            has_choice: false,
        }
    }

    /// Takes the one object of an answer that was not streamed.
    pub(crate) fn add_whole(&mut self, chunk: Chunk<'_>) -> Result<(), ModelFailure> {
        let choice = self.take_metadata(chunk);
        let Some(choice) = choice else {
            return Err(malformed(String::from("response holds no `choices`")));
        };
        let Some(Object(message)) = choice.message else {
            return Err(malformed(String::from("response holds no `choices[0].message`")));
        };
        self.add_message(message, true, &mut |_| {})
    }

    /// Takes one event of a stream. New text goes to `on_text` as well.
    pub(crate) fn add_event(&mut self, chunk: Chunk<'_>, on_text: &mut dyn FnMut(&str)) -> Result<(), ModelFailure> {
        let Some(choice) = self.take_metadata(chunk) else { return Ok(()) };
        let whole = choice.delta.is_none();
        match choice.delta.or(choice.message) {
            Some(Object(message)) => self.add_message(message, whole, on_text),
            None => Ok(()),
        }
    }

    /// Whether the provider said why it stopped, so that nothing of the reply itself is missing.
    pub(crate) fn is_finished(&self) -> bool {
        self.finish_reason.as_deref().is_some_and(|reason| !reason.is_empty())
    }

    /// Whether any part of a reply has arrived, were it an empty one.
    pub(crate) fn has_choice(&self) -> bool {
        self.has_choice
    }

    /// The text that has arrived.
    pub(crate) fn text(&self) -> &str {
        self.text.as_deref().unwrap_or_default()
    }

    /// The whole reply.
    ///
    /// A message that holds a refusal and nothing else is the failure [`FailureKind::Refused`].
    pub(crate) fn finish(self) -> Result<Reply, ModelFailure> {
        if self.calls.is_empty() && self.text().is_empty() && !self.refusal.is_empty() {
            return Err(ModelFailure { detail: Some(self.refusal), ..ModelFailure::new(FailureKind::Refused) });
        }
        let read = self.metadata.read();
        let mut metrics = read.metrics;
        self.clock.put(&mut metrics);
        Ok(Reply {
            text: self.text,
            tool_calls: self.calls.finish(),
            finish_reason: self.finish_reason,
            usage: read.usage,
            reasoning: Some(self.reasoning).filter(|reasoning| !reasoning.is_empty()),
            model: read.model,
            metrics: Some(metrics.into()),
            degraded: read.degraded,
            source: ReplySource::Backend,
        })
    }

    /// Keeps what describes the reply and gives the choice that holds it: the first alternative.
    fn take_metadata<'a>(&mut self, chunk: Chunk<'a>) -> Option<Choice<'a>> {
        let choices = chunk.choices.unwrap_or_default().into_iter().map(|Object(choice)| choice);
        let mut choice = choices.into_iter().find(|choice| choice.index.unwrap_or(0) == 0);
        let usage = chunk.usage.or_else(|| choice.as_mut()?.usage.take());
        self.metadata.add(chunk.model.as_deref(), usage, chunk.timings, chunk.metrics);
        if let Some(choice) = &choice {
            self.has_choice = true;
            if let Some(reason) = choice.finish_reason.as_deref()
                && (!reason.is_empty() || self.finish_reason.is_none())
            {
                self.finish_reason = Some(reason.to_owned());
            }
        }
        choice
    }

    fn add_message(
        &mut self,
        message: Message<'_>,
        whole: bool,
        on_text: &mut dyn FnMut(&str),
    ) -> Result<(), ModelFailure> {
        let reasoning = message.reasoning();
        self.reasoning.push_str(reasoning);
        let mut is_delta = !reasoning.is_empty();
        if let Some(refusal) = message.refusal.as_deref() {
            self.refusal.push_str(refusal);
        }
        if let Some(content) = &message.content {
            self.reasoning.push_str(&content.reasoning);
            self.text.get_or_insert_default().push_str(&content.text);
            is_delta |= !content.text.is_empty() || !content.reasoning.is_empty();
        }
        let calls = message.tool_calls.unwrap_or_default();
        is_delta |= !calls.is_empty();
        if is_delta {
            self.clock.delta();
        }
        if let Some(content) = &message.content
            && !content.text.is_empty()
        {
            on_text(&content.text);
        }
        for Object(call) in calls {
            let added = if whole { self.calls.push_whole(call) } else { self.calls.push_piece(call) };
            added.map_err(|note| malformed(format!("response {note}")))?;
        }
        Ok(())
    }
}

/// An answer that could not be understood, with our own words for what is wrong with it.
pub(crate) fn malformed(note: String) -> ModelFailure {
    ModelFailure { note: Some(note), ..ModelFailure::new(FailureKind::MalformedResponse) }
}
