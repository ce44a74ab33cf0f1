//! What a provider reports about a reply: token counts and timings, its own and the client's.

use std::time::Instant;

use runvil_core::reply::Usage;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::wire::Object;

/// The metadata of one reply, as it arrived.
#[derive(Default)]
pub(crate) struct Metadata {
    model: Option<String>,
    usage: Option<Value>,
    timings: Option<Value>,
    metrics: Option<Value>,
}

/// The metadata of one reply, read.
#[derive(Default)]
pub(crate) struct ReadMetadata {
    pub(crate) model: Option<String>,
    pub(crate) usage: Option<Usage>,
    /// The metric groups `usage`, `llama` and `vllm`, each when it has any member.
    pub(crate) metrics: Map<String, Value>,
    pub(crate) degraded: Vec<String>,
}

impl Metadata {
    /// Takes the metadata of one JSON object of the answer. What comes later replaces what came before.
    pub(crate) fn add(
        &mut self,
        model: Option<&str>,
        usage: Option<Value>,
        timings: Option<Value>,
        metrics: Option<Value>,
    ) {
        if let Some(model) = model
            && self.model.as_deref().is_none_or(str::is_empty)
        {
            self.model = Some(model.to_owned());
        }
        for (place, value) in [(&mut self.usage, usage), (&mut self.timings, timings), (&mut self.metrics, metrics)] {
            if value.is_some() {
                *place = value;
            }
        }
    }

    /// Reads it. Whatever is malformed is left out and named.
    pub(crate) fn read(self) -> ReadMetadata {
        let mut read = ReadMetadata { model: self.model, ..ReadMetadata::default() };
        if read.model.is_none() {
            read.degraded.push(String::from("completion response named no string `model`; recorded as empty"));
        }
        if let Some(wire) = parse::<WireUsage>("usage", self.usage, &mut read.degraded) {
            let usage = wire.usage();
            read.usage = (usage != Usage::default()).then_some(usage);
            let mut group = Group::default();
            group.count("prompt_tokens", usage.prompt_tokens);
            group.count("completion_tokens", usage.completion_tokens);
            group.count("total_tokens", usage.total_tokens);
            group.count("cached_tokens", usage.cached_tokens);
            group.count("reasoning_tokens", usage.reasoning_tokens);
            group.put("usage", &mut read.metrics);
        }
        if let Some(timings) = parse::<LlamaTimings>("timings", self.timings, &mut read.degraded) {
            let mut group = Group::default();
            group.count("prompt_n", timings.prompt_n);
            group.float("prompt_ms", timings.prompt_ms);
            group.float("prompt_per_second", timings.prompt_per_second);
            group.count("predicted_n", timings.predicted_n);
            group.float("predicted_ms", timings.predicted_ms);
            group.float("predicted_per_second", timings.predicted_per_second);
            group.count("draft_n", timings.draft_n);
            group.count("draft_n_accepted", timings.draft_n_accepted);
            group.put("llama", &mut read.metrics);
        }
        if let Some(metrics) = parse::<VllmMetrics>("metrics", self.metrics, &mut read.degraded) {
            let mut group = Group::default();
            group.float("time_to_first_token_ms", metrics.time_to_first_token_ms);
            group.float("generation_time_ms", metrics.generation_time_ms);
            group.float("queue_time_ms", metrics.queue_time_ms);
            group.float("mean_itl_ms", metrics.mean_itl_ms);
            group.float("tokens_per_second", metrics.tokens_per_second);
            group.put("vllm", &mut read.metrics);
        }
        read
    }
}

/// Reads one piece of metadata, or notes why it is ignored.
fn parse<T: for<'de> Deserialize<'de>>(key: &str, value: Option<Value>, degraded: &mut Vec<String>) -> Option<T> {
    match serde_json::from_value(value?) {
        Ok(Object(parsed)) => Some(parsed),
        Err(reason) => {
            degraded.push(format!("malformed `{key}` in completion response ignored: {reason}"));
            None
        }
    }
}

/// Token counts as providers send them.
#[derive(Deserialize)]
struct WireUsage {
    prompt_tokens: Option<u64>,
    completion_tokens: Option<u64>,
    total_tokens: Option<u64>,
    prompt_tokens_details: Option<PromptDetails>,
    completion_tokens_details: Option<CompletionDetails>,
    /// One provider's name for the cached part of the prompt.
    prompt_cache_hit_tokens: Option<u64>,
}

#[derive(Deserialize)]
struct PromptDetails {
    cached_tokens: Option<u64>,
}

#[derive(Deserialize)]
struct CompletionDetails {
    reasoning_tokens: Option<u64>,
}

impl WireUsage {
    fn usage(&self) -> Usage {
        Usage {
            prompt_tokens: self.prompt_tokens,
            completion_tokens: self.completion_tokens,
            total_tokens: self.total_tokens,
            reasoning_tokens: self.completion_tokens_details.as_ref().and_then(|details| details.reasoning_tokens),
            cached_tokens: self
                .prompt_tokens_details
                .as_ref()
                .and_then(|details| details.cached_tokens)
                .or(self.prompt_cache_hit_tokens),
        }
    }
}

/// What a llama.cpp server reports as `timings`.
#[derive(Deserialize)]
struct LlamaTimings {
    prompt_n: Option<u64>,
    prompt_ms: Option<f64>,
    prompt_per_second: Option<f64>,
    predicted_n: Option<u64>,
    predicted_ms: Option<f64>,
    predicted_per_second: Option<f64>,
    draft_n: Option<u64>,
    draft_n_accepted: Option<u64>,
}

/// What a vLLM server reports as `metrics`.
#[derive(Deserialize)]
struct VllmMetrics {
    time_to_first_token_ms: Option<f64>,
    generation_time_ms: Option<f64>,
    queue_time_ms: Option<f64>,
    mean_itl_ms: Option<f64>,
    tokens_per_second: Option<f64>,
}

/// One group of metrics.
#[derive(Default)]
struct Group(Map<String, Value>);

impl Group {
    fn count(&mut self, name: &str, value: Option<u64>) {
        if let Some(value) = value {
            self.0.insert(name.to_owned(), value.into());
        }
    }

    fn float(&mut self, name: &str, value: Option<f64>) {
        if let Some(value) = value {
            self.0.insert(name.to_owned(), value.into());
        }
    }

    fn put(self, name: &str, metrics: &mut Map<String, Value>) {
        if !self.0.is_empty() {
            metrics.insert(name.to_owned(), Value::Object(self.0));
        }
    }
}

/// Measures one call from the moment its request is sent. Tries that failed before are not part of it.
pub(crate) struct Clock {
    start: Instant,
    first: Option<Instant>,
    last: Instant,
    deltas: u32,
}

impl Clock {
    pub(crate) fn start() -> Self {
        let start = Instant::now();
        Self { start, first: None, last: start, deltas: 0 }
    }

    /// A piece of a streamed reply arrived.
    pub(crate) fn delta(&mut self) {
        self.last = Instant::now();
        self.first.get_or_insert(self.last);
        self.deltas = self.deltas.saturating_add(1);
    }

    /// Adds the group `client`: the time of the whole call, to the first piece, and on average between pieces.
    pub(crate) fn put(&self, metrics: &mut Map<String, Value>) {
        let milliseconds = |from: Instant, to: Instant| to.duration_since(from).as_secs_f64() * 1000.0;
        let mut group = Group::default();
        group.float("e2e_ms", Some(milliseconds(self.start, Instant::now())));
        group.float("ttft_ms", self.first.map(|first| milliseconds(self.start, first)));
        if let Some(first) = self.first.filter(|_| self.deltas > 1) {
            group.float("mean_itl_ms", Some(milliseconds(first, self.last) / f64::from(self.deltas - 1)));
        }
        group.put("client", metrics);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(usage: Value, timings: Value, metrics: Value) -> ReadMetadata {
        let mut metadata = Metadata::default();
        metadata.add(Some("m"), Some(usage), Some(timings), Some(metrics));
        metadata.read()
    }

    #[test]
    fn everything_is_read_in_its_group() {
        let read = read(
            json!({"prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 12, "extra": "x",
                   "prompt_tokens_details": {"cached_tokens": 3}, "completion_tokens_details": {"reasoning_tokens": 2}}),
            json!({"prompt_n": 7, "prompt_ms": 2, "cache_n": 1, "predicted_per_second": 10.5}),
            json!({"time_to_first_token_ms": 1.5, "tokens_per_second": null}),
        );
        let usage = Usage {
            prompt_tokens: Some(7),
            completion_tokens: Some(5),
            total_tokens: Some(12),
            reasoning_tokens: Some(2),
            cached_tokens: Some(3),
        };
        assert_eq!(read.usage, Some(usage));
        assert_eq!(
            Value::Object(read.metrics).to_string(),
            r#"{"usage":{"prompt_tokens":7,"completion_tokens":5,"total_tokens":12,"cached_tokens":3,"reasoning_tokens":2},"llama":{"prompt_n":7,"prompt_ms":2.0,"predicted_per_second":10.5},"vllm":{"time_to_first_token_ms":1.5}}"#
        );
        assert!(read.degraded.is_empty());
    }

    #[test]
    fn malformed_metadata_is_named_and_left_out() {
        let mut metadata = Metadata::default();
        metadata.add(None, Some(json!({"prompt_tokens": "lots"})), Some(json!([])), Some(json!({"mean_itl_ms": true})));
        let read = metadata.read();
        assert_eq!(
            read.degraded,
            [
                "completion response named no string `model`; recorded as empty",
                "malformed `usage` in completion response ignored: invalid type: string \"lots\", expected u64",
                "malformed `timings` in completion response ignored: invalid type: sequence, expected a JSON object",
                "malformed `metrics` in completion response ignored: invalid type: boolean `true`, expected f64",
            ]
        );
        assert!(read.usage.is_none() && read.metrics.is_empty());
    }

    #[test]
    fn counts_left_out_stay_unknown() {
        let read = read(json!({"prompt_tokens": null, "prompt_cache_hit_tokens": 4}), json!({}), json!({}));
        assert_eq!(read.usage, Some(Usage { cached_tokens: Some(4), ..Usage::default() }));
        let read = self::read(json!({}), json!({}), json!({}));
        assert!(read.usage.is_none() && read.metrics.is_empty() && read.degraded.is_empty());
    }

    #[test]
    fn the_clock_tells_what_it_saw() {
        let shown = |clock: &Clock| {
            let mut metrics = Map::new();
            clock.put(&mut metrics);
            metrics["client"].as_object().unwrap().keys().cloned().collect::<Vec<_>>()
        };
        let mut clock = Clock::start();
        assert_eq!(shown(&clock), ["e2e_ms"]);
        clock.delta();
        assert_eq!(shown(&clock), ["e2e_ms", "ttft_ms"]);
        clock.delta();
        assert_eq!(shown(&clock), ["e2e_ms", "ttft_ms", "mean_itl_ms"]);
    }
}
