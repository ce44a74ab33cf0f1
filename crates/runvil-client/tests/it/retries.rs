//! What is tried again, and when.

use std::time::{Duration, Instant};

use runvil_client::{Bytes, Client, Progress};
use runvil_core::failure::FailureKind;

use crate::server::{Act, PONG, Server, answer, chunk, complete, json, stream, stream_head};

/// The outcome of a call with two retries against these connections, and the number of requests.
async fn outcome(scripts: Vec<Vec<Act>>, timeout: Duration) -> (Result<String, FailureKind>, usize) {
    let server = Server::start(scripts).await;
    let mut options = server.options();
    options.retries = 2;
    options.timeout = timeout;
    let (result, fragments) = complete(&Client::new(options).unwrap()).await;
    if let Ok(reply) = &result {
        assert_eq!(fragments.concat(), reply.text.clone().unwrap(), "no fragment of a failed try is shown");
    }
    let result = result.map(|reply| reply.text.unwrap()).map_err(|failure| failure.kind);
    (result, server.requests().len())
}

fn answering(bytes: Vec<u8>) -> Vec<Act> {
    vec![Act::Read, Act::Write(bytes)]
}

const PATIENT: Duration = Duration::from_secs(20);

#[tokio::test]
async fn what_may_pass_is_tried_again() {
    let good = answering(json(200, PONG));
    for bad in [
        answering(json(429, "slow down")),
        answering(json(500, "oops")),
        answering(json(502, "")),
        answering(json(503, "busy")),
        answering(json(529, "busy")),
        answering(json(504, "")),
        answering(stream("data: {\"error\":{\"message\":\"overloaded\"}}\n\n")),
        answering(stream(": nothing\n\n")),
        answering(stream("data: {\"choices\":[{\"delta\":{\"reasoning\":\"hm\"}}]}\n\n")),
        vec![Act::Read, Act::Reset],
        vec![Act::Read],
    ] {
        let scripts = vec![bad.clone(), bad.clone(), good.clone()];
        assert_eq!(outcome(scripts, PATIENT).await, (Ok("pong".into()), 3));
        let (result, requests) = outcome(vec![bad], PATIENT).await;
        assert!(result.is_err());
        assert_eq!(requests, 3);
    }
}

#[tokio::test]
async fn no_answer_in_time_is_tried_again_and_a_stalled_one_is_not() {
    let timeout = Duration::from_millis(300);
    let good = answering(json(200, PONG));
    let silent = vec![Act::Read, Act::Hold];
    assert_eq!(outcome(vec![silent.clone(), good.clone()], timeout).await, (Ok("pong".into()), 2));
    assert_eq!(outcome(vec![silent], timeout).await, (Err(FailureKind::Timeout), 3));
    let stalled = vec![Act::Read, Act::Write(stream_head()), Act::Hold];
    assert_eq!(outcome(vec![stalled, good], timeout).await, (Err(FailureKind::Timeout), 1));
}

// OVF-21
#[tokio::test]
async fn nothing_else_is_tried_again() {
    for (bytes, kind) in [
        (json(400, "This model's maximum context length is 4096 tokens."), FailureKind::ContextOverflow),
        (json(400, "no"), FailureKind::Rejected),
        (json(400, "content_policy"), FailureKind::Refused),
        (json(401, "no"), FailureKind::Unavailable),
        (json(402, "no"), FailureKind::QuotaExhausted),
        (json(429, "insufficient_quota"), FailureKind::QuotaExhausted),
        (json(404, "no"), FailureKind::Rejected),
        (json(200, "no"), FailureKind::MalformedResponse),
        (stream("data: {\"error\":{\"message\":\"prompt is too long\"}}\n\n"), FailureKind::ContextOverflow),
    ] {
        assert_eq!(outcome(vec![answering(bytes)], PATIENT).await, (Err(kind), 1));
    }
}

#[tokio::test]
async fn nothing_is_tried_again_after_a_fragment() {
    let text = "data: {\"choices\":[{\"delta\":{\"content\":\"par\"}}]}\n\n";
    for (rest, kind) in [
        ("data: {\"error\":{\"message\":\"overloaded\"}}\n\n", FailureKind::Overloaded),
        ("data: {\"error\":{\"message\":\"boom\"}}\n\n", FailureKind::ServerError),
        ("", FailureKind::Transport),
    ] {
        assert_eq!(outcome(vec![answering(stream(&format!("{text}{rest}")))], PATIENT).await, (Err(kind), 1));
    }
    let reset = vec![
        Act::Read,
        Act::Write([stream_head(), chunk(text.as_bytes())].concat()),
        Act::Wait(Duration::from_millis(50)),
        Act::Reset,
    ];
    assert_eq!(outcome(vec![reset], PATIENT).await, (Err(FailureKind::Transport), 1));
}

#[tokio::test]
async fn the_wait_the_server_asks_for_is_kept() {
    let good = answering(json(200, PONG));
    let past = answering(answer(503, "Retry-After: Sun, 06 Nov 1994 08:49:37 GMT\r\n", ""));
    assert_eq!(outcome(vec![past, good.clone()], PATIENT).await, (Ok("pong".into()), 2));
    let start = Instant::now();
    let soon = answering(answer(429, "Retry-After: 1\r\n", ""));
    assert_eq!(outcome(vec![soon, good.clone()], PATIENT).await, (Ok("pong".into()), 2));
    assert!(start.elapsed() >= Duration::from_secs(1));
    // Longer than the client is ready to wait: it gives up at once.
    let start = Instant::now();
    let late = answering(answer(429, "Retry-After: 3600\r\n", ""));
    assert_eq!(outcome(vec![late, good], PATIENT).await, (Err(FailureKind::RateLimited), 1));
    assert!(start.elapsed() < Duration::from_secs(2));
}

#[tokio::test]
async fn a_request_is_the_same_each_time() {
    let server = Server::answering(&[json(500, ""), json(200, PONG)]).await;
    let mut options = server.options();
    options.retries = 1;
    complete(&Client::new(options).unwrap()).await.0.unwrap();
    let requests = server.requests();
    assert_eq!(requests.len(), 2);
    assert_eq!(requests[0].body, requests[1].body);
    assert_eq!(requests[0].head, requests[1].head);
}

#[tokio::test]
async fn every_further_try_is_reported() {
    let server = Server::answering(&[json(503, "busy"), json(429, "slow"), json(200, PONG)]).await;
    let mut options = server.options();
    options.retries = 2;
    let client = Client::new(options.clone()).unwrap();
    let mut seen = Vec::new();
    let keep = |progress: Progress<'_>| match progress {
        Progress::Text(text) => seen.push(text.to_owned()),
        Progress::Retry(retry) => {
            assert!(retry.delay <= options.backoff.longest);
            seen.push(format!("{} {} {:?}", retry.number, retry.failure.kind, retry.failure.status));
        }
    };
    client.complete(Bytes::from_static(b"{}"), None, keep).await.unwrap();
    assert_eq!(seen, ["1 Overloaded Some(503)", "2 RateLimited Some(429)", "pong"]);
}
