//! Answers that are failures.

use runvil_client::{Bytes, Client, Progress};
use runvil_core::failure::{FailureKind, ModelFailure};
use runvil_core::overflow::{Classifier, OverflowMode};
use runvil_core::reply::Reply;

use crate::server::{Act, Server, answer, chunk, complete, json, reply_of, stream, stream_head};

const OVERFLOW: &str = "This model's maximum context length is 4096 tokens.";

/// The twelve phrases of OVF-01 to OVF-12, in order.
const PHRASES: [&str; 12] = [
    "context length",
    "context window",
    "context size",
    "context_length_exceeded",
    "maximum context length",
    "prompt is too long",
    "too many tokens",
    "exceeds the available context size",
    "exceed_context_size",
    "input is too long",
    "exceeds the maximum number of tokens",
    "too large for model",
];

// OVF-01 to OVF-14, OVF-19, OVF-33
#[tokio::test]
async fn an_overflow_is_told_by_its_phrase() {
    for phrase in PHRASES {
        for body in [format!("{{\"error\":{{\"message\":\"so: {phrase}!\"}}}}"), phrase.to_uppercase()] {
            for status in [400, 413] {
                let failure = reply_of(json(status, &body)).await.0.unwrap_err();
                assert_eq!((failure.kind, failure.status), (FailureKind::ContextOverflow, Some(status)), "{body}");
                assert_eq!(failure.detail.as_deref(), Some(body.as_str()));
            }
        }
        let event = format!("data: {{\"error\":{{\"message\":\"{phrase}\"}}}}\n\n");
        let failure = reply_of(stream(&event)).await.0.unwrap_err();
        assert_eq!((failure.kind, failure.status), (FailureKind::ContextOverflow, None), "{phrase}");
    }
    let failure = reply_of(json(400, &format!("content_policy, and {OVERFLOW}"))).await.0.unwrap_err();
    assert_eq!(failure.kind, FailureKind::ContextOverflow);
}

// OVF-15 to OVF-18, OVF-31, OVF-34
#[tokio::test]
async fn other_statuses_have_their_own_kinds_whatever_the_body_says() {
    for (status, body, kind, message) in [
        (400, "invalid request: unknown field", "Rejected", "the model backend rejected the request (status 400)"),
        (413, "too big", "Rejected", "the model backend rejected the request (status 413)"),
        (404, OVERFLOW, "Rejected", "the model backend rejected the request (status 404)"),
        (422, OVERFLOW, "Rejected", "the model backend rejected the request (status 422)"),
        (401, OVERFLOW, "Unavailable", "the model backend did not accept the credentials (status 401)"),
        (403, OVERFLOW, "Unavailable", "the model backend did not accept the credentials (status 403)"),
        (429, OVERFLOW, "RateLimited", "the model backend is limiting the request rate (status 429)"),
        (500, OVERFLOW, "ServerError", "the model backend reported a fault of its own (status 500)"),
        (502, OVERFLOW, "ServerError", "the model backend reported a fault of its own (status 502)"),
        (503, OVERFLOW, "Overloaded", "the model backend is overloaded (status 503)"),
        (504, "", "Timeout", "the model backend did not answer in time (status 504)"),
    ] {
        let failure = reply_of(json(status, body)).await.0.unwrap_err();
        assert_eq!((failure.kind.name(), failure.message().as_str()), (kind, message));
        assert_eq!(failure.detail.as_deref(), Some(body).filter(|body| !body.is_empty()));
    }
}

// OVF-19, OVF-20
#[tokio::test]
async fn an_error_inside_a_stream_is_told_by_its_body() {
    let text = "data: {\"choices\":[{\"delta\":{\"content\":\"par\"}}]}\n\n";
    for (event, kind) in [
        (format!("data: {{\"error\":{{\"message\":\"{OVERFLOW}\",\"code\":500}}}}\n\n"), FailureKind::ContextOverflow),
        ("data: {\"error\":{\"message\":\"boom\"}}\n\n".into(), FailureKind::ServerError),
        ("data: {\"object\":\"error\",\"message\":\"boom\",\"code\":400}\n\n".into(), FailureKind::ServerError),
        (format!("event: error\ndata: {OVERFLOW}\n\n"), FailureKind::ContextOverflow),
        (format!("error: {{\"message\":\"{OVERFLOW}\"}}\n\n"), FailureKind::ContextOverflow),
        ("data: {\"error\":\"Overloaded\"}\n\n".into(), FailureKind::Overloaded),
    ] {
        let (result, fragments) = reply_of(stream(&format!("{text}{event}"))).await;
        let failure = result.unwrap_err();
        assert_eq!((failure.kind, failure.status, failure.note.as_deref()), (kind, None, None), "{event}");
        assert_eq!(fragments, ["par"]);
    }
    // A server that reports the failure with a status of success.
    let failure = reply_of(json(200, &format!("{{\"error\":{{\"message\":\"{OVERFLOW}\"}}}}"))).await.0.unwrap_err();
    assert_eq!((failure.kind, failure.status), (FailureKind::ContextOverflow, None));
}

/// The outcome of a call whose answers are judged in extended mode, the text that came, and the number of requests.
async fn extended(bytes: Vec<u8>, window: Option<u64>) -> (Result<Reply, ModelFailure>, String, usize) {
    let server = Server::start(vec![vec![Act::Read, Act::Write(bytes)]]).await;
    let mut options = server.options();
    options.classifier = Classifier::new(OverflowMode::Extended, Vec::new());
    let mut text = String::new();
    let on_progress = |progress: Progress<'_>| match progress {
        Progress::Text(piece) => text.push_str(piece),
        Progress::Retry(retry) => panic!("{retry:?}"),
    };
    let result = Client::new(options).unwrap().complete(Bytes::from_static(b"{}"), window, on_progress).await;
    (result, text, server.requests().len())
}

#[tokio::test]
async fn the_extended_rule_judges_errors_inside_a_stream_too() {
    let started = "data: {\"choices\":[{\"delta\":{\"content\":\"par\"}}]}\n\n";
    let counts = "{\"error\":{\"message\":\"Current length is 9000 while limit is 8192\"}}";
    for (event, kind, used, limit) in [
        (format!("data: {counts}\n\n"), FailureKind::ContextOverflow, Some(9000), Some(8192)),
        (format!("event: error\ndata: {counts}\n\n"), FailureKind::ContextOverflow, Some(9000), Some(8192)),
        (
            "data: {\"error\":{\"message\":\"no\",\"code\":\"context_length_exceeded\"}}\n\n".into(),
            FailureKind::ContextOverflow,
            None,
            None,
        ),
        (
            "data: {\"error\":{\"message\":\"too many tokens\",\"code\":\"rate_limit_exceeded\"}}\n\n".into(),
            FailureKind::RateLimited,
            None,
            None,
        ),
        ("data: {\"error\":{\"message\":\"boom\"}}\n\n".into(), FailureKind::ServerError, None, None),
    ] {
        let (result, text, requests) = extended(stream(&format!("{started}{event}")), Some(4096)).await;
        let failure = result.unwrap_err();
        assert_eq!((failure.kind, failure.status), (kind, None), "{event}");
        assert_eq!((failure.used, failure.limit), (used, limit), "{event}");
        assert_eq!((text.as_str(), requests), ("par", 1));
        let detail = failure.detail.unwrap();
        assert!(detail.ends_with("the text that had arrived: par"), "{detail}");
    }
    // Before any text it is the same failure, and not sent again.
    let (result, text, requests) = extended(stream(&format!("data: {counts}\n\n")), None).await;
    assert_eq!((result.unwrap_err().kind, text.as_str(), requests), (FailureKind::ContextOverflow, "", 1));
}

#[tokio::test]
async fn the_extended_rule_judges_a_streamed_reply_by_its_counts() {
    let reply = "data: {\"choices\":[{\"delta\":{\"content\":\"text\"},\"finish_reason\":\"stop\"}]}\n\n\
                 data: {\"choices\":[],\"usage\":{\"prompt_tokens\":5000,\"completion_tokens\":1}}\n\n\
                 data: [DONE]\n\n";
    let (result, text, requests) = extended(stream(reply), Some(4096)).await;
    let failure = result.unwrap_err();
    assert_eq!((failure.kind, failure.used, failure.limit), (FailureKind::ContextOverflow, Some(5000), Some(4096)));
    assert_eq!((text.as_str(), requests), ("text", 1));
    for window in [None, Some(5000)] {
        assert_eq!(extended(stream(reply), window).await.0.unwrap().text.as_deref(), Some("text"));
    }
}

#[tokio::test]
async fn garbage_is_malformed_and_never_repeated() {
    for (bytes, note) in [
        (json(200, ""), "response body is empty"),
        (json(200, "<html>hunter2</html>"), "response is neither JSON nor an event stream"),
        (answer(200, "", "internal hunter2 error"), "response is neither JSON nor an event stream"),
        (json(200, "{\"hunter2\""), "response ends in the middle of its JSON"),
        (json(200, "{\"choices\":hunter2}"), "response is not valid JSON at line 1, column 12"),
        (json(200, "[\"hunter2\"]"), "response must be a JSON object"),
        (json(200, "{\"model\":\"hunter2\"}"), "response holds no `choices`"),
        (json(200, "{\"choices\":[]}"), "response holds no `choices`"),
        (json(200, "{\"choices\":[{}]}"), "response holds no `choices[0].message`"),
        (
            json(200, "{\"choices\":[{\"message\":\"hunter2\"}]}"),
            "response has a wrong `choices[0].message`: it must be a JSON object",
        ),
        (
            json(200, "{\"choices\":[{\"message\":{\"tool_calls\":[{\"function\":{\"name\":1}}]}}]}"),
            "response has a wrong `choices[0].message.tool_calls[0].function.name`: it must be a string",
        ),
        (stream("data: {\"choices\":hunter2}\n\n"), "stream event is not valid JSON at line 1, column 12"),
        (stream("data: {\"choices\"\n\ndata: [DONE]\n\n"), "stream event ends in the middle of its JSON"),
        (stream("data: hunter2\n\n"), "stream event is not valid JSON at line 1, column 1"),
        (stream("data: [DONE]\n\n"), "stream holds no `choices`"),
        (
            stream("data: {\"choices\":[{\"delta\":{\"content\":7}}]}\n\n"),
            "stream event has a wrong `choices[0].delta.content`: it must be a string, a list of content parts or null",
        ),
    ] {
        let failure = reply_of(bytes).await.0.unwrap_err();
        assert_eq!((failure.kind, failure.note.as_deref()), (FailureKind::MalformedResponse, Some(note)));
        assert_eq!(failure.message(), format!("the model backend sent a reply that could not be understood: {note}"));
    }
}

#[tokio::test]
async fn a_stream_cut_off_is_never_a_partial_reply() {
    let text = "data: {\"choices\":[{\"delta\":{\"content\":\"par\"}}]}\n\n";
    for (body, count) in [("", 0), (": ping\n\n", 0), (text, 1)] {
        let (result, fragments) = reply_of(stream(body)).await;
        let failure = result.unwrap_err();
        assert_eq!((failure.kind, fragments.len()), (FailureKind::Transport, count), "{body}");
        assert_eq!(failure.message(), "the connection to the model backend failed");
    }
    // In the middle of an event, by an end, by a close before the end, and by a reset.
    let (result, _) = reply_of(stream(&format!("{text}data: {{\"choices\":[{{\"del"))).await;
    assert_eq!(result.unwrap_err().kind, FailureKind::Transport);
    for end in [None, Some(Act::Reset)] {
        let mut script = vec![Act::Read, Act::Write([stream_head(), chunk(text.as_bytes())].concat())];
        script.extend([Act::Wait(std::time::Duration::from_millis(50))]);
        script.extend(end);
        let server = Server::start(vec![script]).await;
        let (result, fragments) = complete(&server.client()).await;
        assert_eq!((result.unwrap_err().kind, fragments), (FailureKind::Transport, vec!["par".to_owned()]));
    }
}

#[tokio::test]
async fn a_connection_that_fails_names_its_cause_without_the_address() {
    // A port nobody listens on: bound and released again.
    let port = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap().local_addr().unwrap().port();
    let mut options = runvil_client::ClientOptions::new(format!("http://user:hunter2@127.0.0.1:{port}/v1?key=hunter2"));
    options.retries = 0;
    let client = runvil_client::Client::new(options).unwrap();
    let failure = complete(&client).await.0.unwrap_err();
    assert_eq!((failure.kind, failure.status, failure.note.as_deref()), (FailureKind::Transport, None, None));
    assert!(failure.detail.as_deref().unwrap().contains("refused"), "{failure:?}");
    assert!(!format!("{failure:?} {client:?}").contains("hunter2"), "{failure:?} {client:?}");
    // What is not HTTP at all.
    let failure = reply_of(b"SSH-2.0-x\r\n\r\n".to_vec()).await.0.unwrap_err();
    assert_eq!(failure.kind, FailureKind::Transport);
}

#[tokio::test]
async fn an_error_body_that_breaks_off_is_classified_by_what_arrived() {
    let broken = format!("HTTP/1.1 400 Bad\r\nContent-Length: 500\r\n\r\n{OVERFLOW}").into_bytes();
    let failure = reply_of(broken).await.0.unwrap_err();
    assert_eq!((failure.kind, failure.status), (FailureKind::ContextOverflow, Some(400)));
}
