//! Replies, streamed and whole.

use std::time::Duration;

use runvil_core::failure::FailureKind;
use runvil_core::reply::{CallArguments, ReplySource, Usage};

use crate::server::{Act, LAST_CHUNK, PONG, Server, answer, chunk, complete, json, reply_of, stream, stream_head};

/// A streamed reply with everything in it.
const STREAM: &str = concat!(
    ": keep-alive\n\n",
    "data: {\"model\":\"served\",\"choices\":[],\"prompt_filter_results\":[]}\n\n",
    "data: {\"model\":\"served\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"finish_reason\":null}]}\r\n\r\n",
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"reasoning_content\":\"hm\",\"reasoning\":\"hm\"}}]}\n\n",
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"reasoning\":\"m\"}}]}\n\n",
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Grüße, \"}}]}\n\n",
    "data: {\"choices\":[{\"index\":1,\"delta\":{\"content\":\"not this one\"}}]}\n\n",
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"\\ud83d\\ude00 Welt\\n\"}}]}\n\n",
    "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n",
    "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":4,\"total_tokens\":13,",
    "\"prompt_tokens_details\":{\"cached_tokens\":8},\"completion_tokens_details\":{\"reasoning_tokens\":2}},",
    "\"timings\":{\"prompt_n\":9,\"prompt_ms\":1.5,\"predicted_n\":4}}\n\n",
    "data: [DONE]\n\n",
);

const USAGE: Usage = Usage {
    prompt_tokens: Some(9),
    completion_tokens: Some(4),
    total_tokens: Some(13),
    reasoning_tokens: Some(2),
    cached_tokens: Some(8),
};

// LOP-37
#[tokio::test]
async fn a_stream_is_read_however_it_is_cut() {
    for size in [1, 2, 3, 7, 50, 10_000] {
        let mut script = vec![Act::Read, Act::Write(stream_head())];
        let chunks: Vec<Vec<u8>> = STREAM.as_bytes().chunks(size).map(chunk).collect();
        for chunks in chunks.chunks(40) {
            script.push(Act::Write(chunks.concat()));
            script.push(Act::Wait(Duration::from_millis(1)));
        }
        script.push(Act::Write(LAST_CHUNK.to_vec()));
        let server = Server::start(vec![script]).await;
        let (reply, fragments) = complete(&server.client()).await;
        let reply = reply.unwrap();
        assert_eq!(fragments, ["Grüße, ", "😀 Welt\n"]);
        assert_eq!(reply.text.as_deref(), Some("Grüße, 😀 Welt\n"));
        assert_eq!(reply.reasoning.as_deref(), Some("hmm"));
        assert_eq!(reply.finish_reason.as_deref(), Some("stop"));
        assert_eq!(reply.model.as_deref(), Some("served"));
        assert_eq!(reply.usage, Some(USAGE));
        assert_eq!(reply.source, ReplySource::Backend);
        assert!(reply.tool_calls.is_empty() && reply.degraded.is_empty());
        let metrics = reply.metrics.unwrap();
        assert_eq!(metrics["llama"], serde_json::json!({"prompt_n": 9, "prompt_ms": 1.5, "predicted_n": 4}));
        assert_eq!(metrics["usage"]["cached_tokens"], 8);
        for name in ["e2e_ms", "ttft_ms", "mean_itl_ms"] {
            assert!(metrics["client"][name].is_f64(), "{name}");
        }
    }
}

#[tokio::test]
async fn a_whole_reply_is_one_fragment() {
    let (reply, fragments) = reply_of(json(200, PONG)).await;
    let reply = reply.unwrap();
    assert_eq!((reply.text.as_deref(), reply.finish_reason.as_deref()), (Some("pong"), Some("stop")));
    assert_eq!(fragments, ["pong"]);
    assert!(reply.metrics.unwrap()["client"].get("ttft_ms").is_none_or(serde_json::Value::is_f64));
}

#[tokio::test]
async fn the_form_of_an_answer_is_told_by_its_bytes() {
    let event = format!("data: {PONG}\n\ndata: [DONE]\n\n");
    for bytes in [
        // A plain reply under a stream's content type, after blank lines that keep the connection alive.
        answer(200, "Content-Type: text/event-stream\r\n", &format!("\n\n\n{PONG}")),
        // A stream under JSON's content type, and under none.
        json(200, &event),
        answer(200, "", &event),
        // A byte order mark before either.
        json(200, &format!("\u{FEFF}{PONG}")),
        answer(200, "Content-Type: text/event-stream\r\n", &format!("\u{FEFF}{event}")),
    ] {
        let (reply, fragments) = reply_of(bytes.clone()).await;
        assert_eq!(reply.unwrap().text.as_deref(), Some("pong"), "{}", String::from_utf8_lossy(&bytes));
        assert_eq!(fragments, ["pong"]);
    }
}

#[tokio::test]
async fn streamed_tool_calls_are_put_together() {
    let body = concat!(
        "data: {\"model\":\"m\",\"choices\":[{\"delta\":{\"content\":null,\"tool_calls\":[",
        "{\"index\":0,\"id\":\"c1\",\"type\":\"function\",\"function\":{\"name\":\"search\",\"arguments\":\"\"}}]}}]}\n\n",
        "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\"{\\\"q\\\":\"}}]}}]}\n\n",
        "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":1,\"id\":\"c2\",\"function\":{\"name\":\"now\",\"arguments\":\"{}\"}}]}}]}\n\n",
        "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":null,\"function\":{\"name\":null,\"arguments\":\"\\\"x\\\"}\"}}]}}]}\n\n",
        "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"tool_calls\"}]}\n\ndata: [DONE]\n\n",
    );
    let (reply, fragments) = reply_of(stream(body)).await;
    let reply = reply.unwrap();
    assert!(fragments.is_empty());
    assert_eq!(reply.text, None);
    assert_eq!(reply.finish_reason.as_deref(), Some("tool_calls"));
    let calls: Vec<_> = reply.tool_calls.into_iter().map(|call| (call.id, call.name, call.arguments)).collect();
    assert_eq!(
        calls,
        [
            ("c1".into(), "search".into(), CallArguments::Text("{\"q\":\"x\"}".into())),
            ("c2".into(), "now".into(), CallArguments::Text("{}".into())),
        ]
    );
}

// TUL-29, TUL-30: the client hands blank and repeated ids on as they came, for the caller to judge.
#[tokio::test]
async fn whole_tool_calls_are_handed_on_unjudged() {
    let body = r#"{"model":"m","choices":[{"message":{"content":null,"tool_calls":[
        {"id":"c","function":{"name":"t","arguments":{"b":1,"a":2}}},{"id":"c","function":{"name":" ","arguments":null}},
        {"function":{}}]},"finish_reason":"stop"}]}"#;
    let (reply, _) = reply_of(json(200, body)).await;
    let calls = reply.unwrap().tool_calls;
    assert_eq!(calls.len(), 3);
    let CallArguments::Value(arguments) = &calls[0].arguments else { panic!("{calls:?}") };
    assert_eq!(arguments.to_string(), r#"{"b":1,"a":2}"#);
    assert_eq!((calls[1].id.as_str(), calls[1].name.as_str()), ("c", " "));
    assert_eq!(calls[1].arguments, CallArguments::Absent);
    assert_eq!((calls[2].id.as_str(), calls[2].name.as_str()), ("", ""));
}

// EMP-02, EMP-03, EMP-05, EMP-06, EMP-23
#[tokio::test]
async fn an_empty_reply_is_a_reply() {
    for (message, finish, text, reasoning) in [
        (r#"{"content":""}"#, r#""length""#, Some(""), None),
        (r#"{"content":null}"#, r#""STOP""#, None, None),
        (r#"{"reasoning_content":"hm"}"#, "null", None, Some("hm")),
        (r#"{"content":" \n"}"#, "7", Some(" \n"), None),
    ] {
        let (reply, _) =
            reply_of(json(200, &format!(r#"{{"choices":[{{"message":{message},"finish_reason":{finish}}}]}}"#))).await;
        let reply = reply.unwrap();
        assert!(reply.is_empty());
        assert_eq!((reply.text.as_deref(), reply.reasoning.as_deref()), (text, reasoning));
        assert_eq!(
            reply.finish_reason.as_deref(),
            finish.strip_prefix('"').and_then(|reason| reason.strip_suffix('"'))
        );
    }
}

#[tokio::test]
async fn malformed_metadata_is_noted() {
    let body = r#"{"model":null,"usage":{"prompt_tokens":"lots"},"timings":[1],"metrics":"x",
        "choices":[{"message":{"content":"hi"},"finish_reason":"stop"}]}"#;
    let (reply, _) = reply_of(json(200, body)).await;
    let reply = reply.unwrap();
    assert_eq!(reply.text.as_deref(), Some("hi"));
    assert_eq!((reply.model, reply.usage), (None, None));
    assert_eq!(
        reply.degraded,
        [
            "completion response named no string `model`; recorded as empty",
            "malformed `usage` in completion response ignored: invalid type: string \"lots\", expected u64",
            "malformed `timings` in completion response ignored: invalid type: sequence, expected a JSON object",
            "malformed `metrics` in completion response ignored: invalid type: string \"x\", expected a JSON object",
        ]
    );
}

#[tokio::test]
async fn a_stream_may_lack_its_closing_lines() {
    let text = "data: {\"model\":\"m\",\"choices\":[{\"delta\":{\"content\":\"hi\"},\"finish_reason\":\"stop\"}]}";
    let unfinished = "data: {\"model\":\"m\",\"choices\":[{\"delta\":{\"content\":\"hi\"}}]}";
    for body in [
        text.to_owned(),
        format!("{text}\n\n"),
        format!("{text}\n\ndata: [DONE]"),
        // No finish reason at all, but an end.
        format!("{unfinished}\n\ndata: [DONE]\n\n"),
        // The usage that follows the finish is cut off: only what describes the reply is lost.
        format!("{text}\n\ndata: {{\"usage\":{{\"prompt"),
    ] {
        let (reply, fragments) = reply_of(stream(&body)).await;
        assert_eq!(reply.unwrap_or_else(|error| panic!("{error:?} {body}")).text.as_deref(), Some("hi"));
        assert_eq!(fragments, ["hi"]);
    }
}

#[tokio::test]
async fn a_connection_lost_after_the_finish_loses_nothing() {
    let event = chunk(b"data: {\"choices\":[{\"delta\":{\"content\":\"hi\"},\"finish_reason\":\"stop\"}]}\n\n");
    for end in [Act::Reset, Act::Hold] {
        let mut script = vec![Act::Read, Act::Write(stream_head()), Act::Write(event.clone())];
        script.extend([Act::Wait(Duration::from_millis(50)), end]);
        let server = Server::start(vec![script]).await;
        let mut options = server.options();
        options.timeout = Duration::from_millis(300);
        let (reply, _) = complete(&runvil_client::Client::new(options).unwrap()).await;
        assert_eq!(reply.unwrap().text.as_deref(), Some("hi"));
    }
}

#[tokio::test]
async fn a_bare_refusal_is_a_failure() {
    let body = r#"{"choices":[{"message":{"content":null,"refusal":"I cannot."},"finish_reason":"stop"}]}"#;
    let failure = reply_of(json(200, body)).await.0.unwrap_err();
    assert_eq!((failure.kind, failure.detail.as_deref()), (FailureKind::Refused, Some("I cannot.")));
    assert_eq!(failure.message(), "the model backend refused the request on content policy grounds");
}

#[tokio::test]
async fn a_compressed_reply_is_understood() {
    // gzip of PONG's shape, as `gzip -n` writes it with its data stored uncompressed.
    let body = PONG.as_bytes();
    let length = u16::try_from(body.len()).unwrap();
    let mut gzip = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff, 1];
    gzip.extend(length.to_le_bytes());
    gzip.extend((!length).to_le_bytes());
    gzip.extend(body);
    gzip.extend(crc32(body).to_le_bytes());
    gzip.extend(u32::from(length).to_le_bytes());
    let mut bytes =
        format!("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {}\r\n\r\n", gzip.len()).into_bytes();
    bytes.extend(gzip);
    assert_eq!(reply_of(bytes).await.0.unwrap().text.as_deref(), Some("pong"));
}

fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ (0xEDB8_8320 & 0_u32.wrapping_sub(crc & 1)))
    })
}
