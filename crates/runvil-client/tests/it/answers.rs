//! The reader of answers, without a connection: whatever a provider sends, and however it is cut.

use std::fmt::Write as _;

use proptest::prelude::*;
use runvil_client::answer::AnswerReader;
use runvil_core::failure::{FailureKind, ModelFailure};
use runvil_core::reply::{CallArguments, Reply, Usage};
use serde_json::{Value, json};

/// What an answer came to: the reply without its times, and the pieces of text.
type Outcome = (Result<Reply, ModelFailure>, Vec<String>);

/// Reads an answer in pieces.
fn read<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Outcome {
    let mut reader = AnswerReader::new(true);
    let mut texts = Vec::new();
    let mut keep = |text: &str| {
        assert!(!text.is_empty());
        texts.push(text.to_owned());
    };
    let mut failure = None;
    for piece in pieces {
        match reader.push(piece, &mut keep) {
            Ok(false) => {}
            Ok(true) => break,
            Err(error) => {
                failure = Some(error);
                break;
            }
        }
    }
    let result = match failure {
        Some(failure) => Err(failure),
        None => reader.finish(&mut keep),
    };
    let result = result.map(|reply| Reply { metrics: without_times(reply.metrics), ..reply });
    (result, texts)
}

fn without_times(metrics: Option<Value>) -> Option<Value> {
    let mut metrics = metrics?;
    metrics.as_object_mut()?.remove("client");
    Some(metrics)
}

/// A tool call, and how a provider sends it.
#[derive(Debug, Clone)]
struct SentCall {
    id: String,
    name: Vec<String>,
    arguments: Vec<String>,
}

/// How a provider numbers the pieces of calls.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Numbering {
    /// Each call has its index.
    Indexed,
    /// No piece has one: calls come one after the other, told apart by their ids.
    Missing,
    /// Every call has index 0: whole calls, told apart by their ids.
    Repeated,
}

/// A reply, and how a provider sends it.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "each is drawn by itself")]
struct Sent {
    texts: Vec<String>,
    reasoning: Vec<String>,
    reasoning_field: &'static str,
    calls: Vec<SentCall>,
    numbering: Numbering,
    /// Whether the pieces of several calls take turns.
    interleaved: bool,
    /// Whether pieces of different calls share a delta.
    together: bool,
    /// Whether id and name come with every piece.
    repeats_names: bool,
    finish_reason: Option<&'static str>,
    usage: Option<u64>,
    done: bool,
    line_end: &'static str,
    noise: bool,
    escapes: bool,
}

impl Sent {
    fn reply(&self) -> Reply {
        let call = |call: &SentCall| runvil_core::reply::ReplyCall {
            id: call.id.clone(),
            name: call.name.concat(),
            arguments: CallArguments::Text(call.arguments.concat()),
        };
        let usage = self.usage.map(|tokens| Usage { prompt_tokens: Some(tokens), ..Usage::default() });
        let metrics = match self.usage {
            Some(tokens) => json!({"usage": {"prompt_tokens": tokens}}),
            None => json!({}),
        };
        Reply {
            text: (!self.texts.is_empty()).then(|| self.texts.concat()),
            tool_calls: self.calls.iter().map(call).collect(),
            finish_reason: self.finish_reason.map(str::to_owned),
            usage,
            reasoning: Some(self.reasoning.concat()).filter(|reasoning| !reasoning.is_empty()),
            model: Some("m".to_owned()),
            metrics: Some(metrics),
            degraded: Vec::new(),
            source: runvil_core::reply::ReplySource::Backend,
        }
    }

    /// The pieces of all calls, each with the number of its call, in the order they are sent.
    fn pieces(&self) -> Vec<(usize, Value)> {
        let mut pieces: Vec<(usize, usize, Value)> = Vec::new();
        for (number, call) in self.calls.iter().enumerate() {
            let whole = self.numbering == Numbering::Repeated;
            let (names, arguments) = if whole {
                (vec![call.name.concat()], vec![call.arguments.concat()])
            } else {
                (call.name.clone(), call.arguments.clone())
            };
            let mut sent = Vec::new();
            for (at, name) in names.iter().enumerate() {
                let id = if at == 0 { json!(call.id) } else { Value::Null };
                sent.push(json!({"id": id, "type": "function", "function": {"name": name, "arguments": ""}}));
            }
            for piece in &arguments {
                let mut value = json!({"function": {"arguments": piece}});
                if self.repeats_names && names.len() == 1 {
                    value["function"]["name"] = json!(names[0]);
                    value["id"] = json!(call.id);
                }
                sent.push(value);
            }
            if whole {
                sent = vec![json!({"id": call.id, "function": {"name": names[0], "arguments": arguments[0]}})];
            }
            for (turn, mut value) in sent.into_iter().enumerate() {
                match self.numbering {
                    Numbering::Indexed => value["index"] = json!(number),
                    Numbering::Missing => {}
                    Numbering::Repeated => value["index"] = json!(0),
                }
                pieces.push((turn, number, value));
            }
        }
        if self.interleaved && self.numbering == Numbering::Indexed {
            pieces.sort_by_key(|(turn, number, _)| (*turn, *number));
        }
        pieces.into_iter().map(|(_, number, value)| (number, value)).collect()
    }

    fn stream(&self) -> Vec<u8> {
        let mut events = vec![json!({"model": "m", "choices": [{"index": 0, "delta": {"role": "assistant"}}]})];
        let delta =
            |delta: Value| json!({"model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": null}]});
        for piece in &self.reasoning {
            let value = match self.reasoning_field {
                "reasoning_details" => json!([{"type": "reasoning.text", "text": piece}, {"type": "x", "data": "y"}]),
                _ => json!(piece),
            };
            events.push(delta(json!({ self.reasoning_field: value })));
        }
        events.extend(self.texts.iter().map(|text| delta(json!({"content": text}))));
        let mut deltas: Vec<Vec<(usize, Value)>> = Vec::new();
        for piece in self.pieces() {
            match deltas.last_mut() {
                Some(last) if self.together && last.iter().all(|(number, _)| *number != piece.0) => last.push(piece),
                _ => deltas.push(vec![piece]),
            }
        }
        for calls in deltas {
            let calls: Vec<Value> = calls.into_iter().map(|(_, value)| value).collect();
            events.push(delta(json!({"content": null, "tool_calls": calls})));
        }
        if let Some(reason) = self.finish_reason {
            events.push(json!({"model": "m", "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}));
        }
        if let Some(tokens) = self.usage {
            events.push(json!({"model": "m", "choices": [], "usage": {"prompt_tokens": tokens}}));
        }
        let mut stream = String::new();
        let end = self.line_end;
        for (number, event) in events.iter().enumerate() {
            if self.noise && number % 2 == 0 {
                write!(stream, ": keep-alive{end}{end}event: message{end}id: {number}{end}retry: 10{end}").unwrap();
            }
            let mut text = event.to_string();
            if self.escapes {
                text = ascii(&text);
            }
            write!(stream, "data: {text}{end}{end}").unwrap();
        }
        if self.done {
            write!(stream, "data: [DONE]{end}{end}").unwrap();
        }
        stream.into_bytes()
    }
}

/// JSON with every character beyond ASCII escaped, as some servers write it.
fn ascii(json: &str) -> String {
    let mut text = String::new();
    for character in json.chars() {
        if character.is_ascii() {
            text.push(character);
        } else {
            let mut units = [0; 2];
            for unit in character.encode_utf16(&mut units) {
                write!(text, "\\u{unit:04x}").unwrap();
            }
        }
    }
    text
}

fn pieces_of_text() -> impl Strategy<Value = Vec<String>> {
    let piece = prop_oneof![3 => "[a-z \\n]{1,8}", 1 => Just("\u{1F600}é漢".to_owned()), 1 => Just("\"\\\r\u{2028}".to_owned())];
    prop::collection::vec(piece, 0..4)
}

/// A call whose arguments are cut anywhere; its name comes in pieces that differ, as an equal one counts as repeated.
fn call(number: usize) -> impl Strategy<Value = SentCall> {
    let cuts = prop::collection::vec(any::<prop::sample::Index>(), 0..3);
    ("[a-z\u{e9}\"]{0,6}", cuts, any::<bool>()).prop_map(move |(value, cuts, in_pieces)| {
        let arguments: Vec<char> = json!({"value": value, "n": [1, {"a": null}]}).to_string().chars().collect();
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(arguments.len() + 1)).collect();
        cuts.extend([0, arguments.len()]);
        cuts.sort_unstable();
        cuts.dedup();
        let arguments = cuts.windows(2).map(|pair| arguments[pair[0]..pair[1]].iter().collect()).collect();
        let name =
            if in_pieces { vec!["get_".to_owned(), format!("weather_{number}")] } else { vec!["search".to_owned()] };
        SentCall { id: format!("call_{number}"), name, arguments }
    })
}

fn sent() -> impl Strategy<Value = Sent> {
    let fields = prop::sample::select(vec!["reasoning_content", "reasoning", "thinking", "reasoning_details"]);
    let numbering = prop::sample::select(vec![Numbering::Indexed, Numbering::Missing, Numbering::Repeated]);
    let calls = prop_oneof![
        Just(Vec::new()).boxed(),
        call(0).prop_map(|call| vec![call]).boxed(),
        (call(0), call(1), call(2)).prop_map(|(a, b, c)| vec![a, b, c]).boxed(),
    ];
    let finish = prop::option::of(prop::sample::select(vec!["stop", "length", "tool_calls", "Some_Other"]));
    let how = (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>());
    let form = (prop::sample::select(vec!["\n", "\r\n", "\r"]), prop::option::of(0..9_u64), finish);
    (pieces_of_text(), pieces_of_text(), fields, calls, numbering, form, how).prop_map(
        |(texts, reasoning, reasoning_field, calls, numbering, (line_end, usage, finish_reason), how)| {
            let (interleaved, together, repeats_names, done, noise, escapes) = how;
            // A stream has one end at least.
            let done = done || finish_reason.is_none();
            Sent {
                texts,
                reasoning,
                reasoning_field,
                calls,
                numbering,
                interleaved,
                together: together && numbering == Numbering::Indexed,
                repeats_names,
                finish_reason,
                usage,
                done,
                line_end,
                noise,
                escapes,
            }
        },
    )
}

/// How many cases to try: few, as each is read as often as it has bytes. `PROPTEST_CASES` asks for more.
fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(48)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(cases()) })]

    /// Every way to send a reply, cut at every byte, comes to that reply.
    #[test]
    fn a_reply_is_put_together_however_it_is_sent(sent in sent()) {
        let stream = sent.stream();
        let (expected, texts) = (sent.reply(), sent.texts.clone());
        let check = |outcome: Outcome| {
            prop_assert_eq!(outcome.0.as_ref(), Ok(&expected));
            prop_assert_eq!(&outcome.1, &texts);
            Ok(())
        };
        check(read([&stream[..]]))?;
        check(read(stream.chunks(1)))?;
        for cut in 1..stream.len() {
            check(read([&stream[..cut], &stream[cut..]]))?;
        }
    }

    /// A stream that was cut off is a failure until the provider said why it stopped, and its text is in the detail alone.
    #[test]
    fn a_stream_cut_off_is_never_a_reply(sent in sent(), cut in any::<prop::sample::Index>()) {
        let stream = sent.stream();
        let cut = cut.index(stream.len());
        let (result, texts) = read([&stream[..cut]]);
        let text = texts.concat();
        match result {
            Ok(reply) => {
                let ended = reply.finish_reason.is_some() || stream[..cut].ends_with(b"[DONE]")
                    || stream[..cut].windows(6).any(|window| window == b"[DONE]");
                prop_assert!(ended);
                prop_assert_eq!(reply.text.unwrap_or_default(), sent.texts.concat());
            }
            Err(failure) => {
                prop_assert_eq!(failure.kind, FailureKind::Transport);
                prop_assert!(text.is_empty() || failure.detail.as_ref().unwrap().ends_with(&text));
                prop_assert_eq!(failure.message(), "the connection to the model backend failed");
            }
        }
    }

    /// Any bytes give the same outcome however they are cut.
    #[test]
    fn any_bytes_read_the_same_however_they_are_cut(
        start in prop::sample::select(vec!["data: ", "{", "", ": x\n\n", "\u{FEFF} ", "event: error\n"]),
        bytes in prop::collection::vec(prop_oneof![4 => prop::sample::select(b"data: {}[]\"\n\r:,01".to_vec()), 1 => any::<u8>()], 0..60),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
    ) {
        let bytes = [start.as_bytes(), &bytes].concat();
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
        cuts.extend([0, bytes.len()]);
        cuts.sort_unstable();
        let whole = read([&bytes[..]]);
        prop_assert_eq!(&read(cuts.windows(2).map(|pair| &bytes[pair[0]..pair[1]])), &whole);
        prop_assert_eq!(&read(bytes.chunks(1)), &whole);
    }
}

#[test]
fn reasoning_is_read_under_every_name_and_once() {
    for (delta, expected) in [
        (json!({"reasoning_content": "a", "reasoning": "a", "thinking": "a"}), "a"),
        (json!({"reasoning_content": "", "reasoning": null, "thinking": "b"}), "b"),
        (json!({"reasoning": "c", "reasoning_details": [{"type": "reasoning.text", "text": "c"}]}), "c"),
        (json!({"reasoning_details": [{"type": "reasoning.summary", "summary": "d"}, {"data": "x"}, 7]}), "d"),
        (json!({"thinking": {"budget": 1}, "reasoning_details": "none", "reasoning": true}), ""),
    ] {
        let event = json!({"choices": [{"delta": delta, "finish_reason": "stop"}]});
        let (reply, _) = read([format!("data: {event}\n\n").as_bytes()]);
        assert_eq!(reply.unwrap().reasoning.unwrap_or_default(), expected, "{event}");
    }
}

#[test]
fn an_error_in_a_started_stream_is_a_failure_with_the_text_in_its_detail() {
    let start = "data: {\"choices\":[{\"delta\":{\"content\":\"part\"}}]}\n\n";
    for (rest, kind) in [
        ("data: {\"error\":{\"message\":\"boom\"}}\n\n", FailureKind::ServerError),
        ("event: error\ndata: overloaded\n\n", FailureKind::Overloaded),
        ("error: {\"message\":\"rate limit\"}\n\n", FailureKind::RateLimited),
        ("data: {\"choices\":7}\n\n", FailureKind::MalformedResponse),
        ("data: {\"choices\":[\n\n:", FailureKind::MalformedResponse),
    ] {
        let (result, texts) = read([format!("{start}{rest}").as_bytes()]);
        let failure = result.unwrap_err();
        assert_eq!((failure.kind, texts), (kind, vec!["part".to_owned()]), "{rest}");
        assert!(failure.detail.as_deref().unwrap().ends_with("the text that had arrived: part"), "{failure:?}");
        assert!(!failure.message().contains("part") && !failure.message().contains("boom"));
    }
}

#[test]
fn a_reader_shows_no_text() {
    let mut reader = AnswerReader::new(true);
    reader.push(b"data: {\"choices\":[{\"delta\":{\"content\":\"secret\"}}]}\n\ndata: secret", &mut |_| {}).unwrap();
    let shown = format!("{reader:?}");
    assert!(shown.contains("stream") && !shown.contains("secret"), "{shown}");
}
