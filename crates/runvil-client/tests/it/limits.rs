//! Limits on time and size, and cancelling.

use std::time::{Duration, Instant};

use runvil_client::{Bytes, Client, ClientOptions};

use runvil_core::failure::FailureKind;

use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::server::{Act, PONG, Server, answer, chunk, complete, json, stream_head};

const TINY: Duration = Duration::from_millis(120);

fn piece(text: &str) -> Vec<u8> {
    chunk(format!("data: {{\"choices\":[{{\"delta\":{{\"content\":\"{text}\"}}}}]}}\n\n").as_bytes())
}

#[tokio::test]
async fn a_hanging_server_is_left_and_its_connection_closed() {
    for head in [None, Some(stream_head()), Some([stream_head(), piece("par")].concat())] {
        let mut script = vec![Act::Read];
        script.extend(head.map(Act::Write));
        script.push(Act::Hold);
        let mut server = Server::start(vec![script]).await;
        let mut options = server.options();
        options.timeout = TINY;
        let client = Client::new(options).unwrap();
        let start = Instant::now();
        let failure = complete(&client).await.0.unwrap_err();
        assert_eq!(failure.kind, FailureKind::Timeout);
        assert_eq!(failure.message(), "the model backend did not answer in time");
        assert!(start.elapsed() >= TINY && start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
        server.wait_for_close().await;
    }
}

#[tokio::test]
async fn the_timeout_is_for_each_part_and_not_for_the_whole() {
    let mut script = vec![Act::Read, Act::Write(stream_head())];
    for _ in 0..6 {
        script.extend([Act::Wait(Duration::from_millis(100)), Act::Write(piece("x"))]);
    }
    script.push(Act::Write(chunk(b"data: [DONE]\n\n")));
    let server = Server::start(vec![script]).await;
    let mut options = server.options();
    options.timeout = Duration::from_millis(400);
    let (reply, fragments) = complete(&Client::new(options).unwrap()).await;
    assert_eq!(reply.unwrap().text.as_deref(), Some("xxxxxx"));
    assert_eq!(fragments.len(), 6);
}

#[tokio::test]
async fn a_large_answer_is_refused() {
    let limit = PONG.len();
    let stream = format!("response stream exceeds the {limit}-byte limit");
    let body = format!("response body exceeds the {limit}-byte limit");
    let declared = format!("response body of 99999999999 bytes exceeds the {limit}-byte limit");
    let endless = |head: &str| {
        let bytes = [head.as_bytes(), "x".repeat(limit + 1).as_bytes()].concat();
        vec![Act::Read, Act::Write(bytes), Act::Hold]
    };
    for (script, status, note) in [
        // Declared to be large: refused before any of it arrives.
        (
            vec![
                Act::Read,
                Act::Write(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", limit + 1).into()),
                Act::Hold,
            ],
            None,
            &stream,
        ),
        (
            vec![Act::Read, Act::Write(b"HTTP/1.1 500 Oh\r\nContent-Length: 99999999999\r\n\r\n".to_vec()), Act::Hold],
            Some(500),
            &declared,
        ),
        // Not declared.
        (endless("HTTP/1.1 200 OK\r\n\r\n{\"a\":\""), None, &stream),
        (endless("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: "), None, &stream),
        (endless("HTTP/1.1 400 Oh\r\n\r\n"), Some(400), &body),
    ] {
        let mut server = Server::start(vec![script]).await;
        let mut options = server.options();
        options.max_response_bytes = limit as u64;
        let client = Client::new(options).unwrap();
        let failure = complete(&client).await.0.unwrap_err();
        assert_eq!((failure.kind, failure.status), (FailureKind::MalformedResponse, status));
        assert_eq!(failure.note.as_deref(), Some(note.as_str()));
        server.wait_for_close().await;
    }
    // As large as allowed.
    let server = Server::answering(&[json(200, PONG)]).await;
    let mut options = server.options();
    options.max_response_bytes = limit as u64;
    assert!(complete(&Client::new(options).unwrap()).await.0.is_ok());
}

#[tokio::test]
async fn the_limit_counts_what_compression_hides() {
    // A million zero bytes.
    let zeros = include_bytes!("zeros.gz");
    let head = format!("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {}\r\n\r\n", zeros.len());
    let server = Server::answering(&[[head.as_bytes(), zeros].concat()]).await;
    let mut options = server.options();
    options.max_response_bytes = 10_000;
    assert!(zeros.len() < 10_000);
    let failure = complete(&Client::new(options).unwrap()).await.0.unwrap_err();
    assert_eq!(failure.kind, FailureKind::MalformedResponse);
}

#[tokio::test]
async fn dropping_the_call_closes_its_connection_at_once() {
    for head in [None, Some(stream_head()), Some([stream_head(), piece("par")].concat())] {
        let mut script = vec![Act::Read];
        script.extend(head.map(Act::Write));
        script.push(Act::Hold);
        let mut server = Server::start(vec![script]).await;
        let client = server.client();
        let task = tokio::spawn(async move { client.complete(Bytes::from_static(b"{}"), None, |_| {}).await });
        while server.requests().is_empty() {
            tokio::task::yield_now().await;
        }
        tokio::time::sleep(Duration::from_millis(30)).await;
        assert!(!task.is_finished());
        task.abort();
        let start = Instant::now();
        server.wait_for_close().await;
        assert!(start.elapsed() < Duration::from_secs(5));
    }
}

#[tokio::test]
async fn an_answer_to_be_read_to_its_end_may_come_late() {
    // The end of the body follows the end of the stream late: the reply does not wait for it.
    let event = "data: {\"choices\":[{\"delta\":{\"content\":\"hi\"}}]}\n\ndata: [DONE]\n\n";
    let server =
        Server::start(vec![vec![Act::Read, Act::Write([stream_head(), chunk(event.as_bytes())].concat()), Act::Hold]])
            .await;
    let start = Instant::now();
    assert_eq!(complete(&server.client()).await.0.unwrap().text.as_deref(), Some("hi"));
    assert!(start.elapsed() < Duration::from_secs(2));
    // An answer whose end is the end of the connection.
    let server = Server::answering(&[answer(200, "", PONG)]).await;
    assert!(complete(&server.client()).await.0.is_ok());
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_server_that_accepts_no_connection_is_given_up_soon() {
    // A server whose queue is full lets further connections wait.
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind(([127, 0, 0, 1], 0).into()).unwrap();
    let listener = socket.listen(1).unwrap();
    let address = listener.local_addr().unwrap();
    let mut queued = Vec::new();
    while let Ok(connection) = timeout(Duration::from_millis(300), TcpStream::connect(address)).await {
        queued.push(connection.unwrap());
        assert!(queued.len() < 100, "the queue is never full");
    }
    let mut options = ClientOptions::new(format!("http://{address}/v1"));
    options.connect_timeout = TINY;
    options.retries = 0;
    let start = Instant::now();
    let failure = complete(&Client::new(options).unwrap()).await.0.unwrap_err();
    assert_eq!(failure.kind, FailureKind::Timeout);
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    assert_eq!(ClientOptions::new("http://host").connect_timeout, Duration::from_secs(10));
    assert_eq!(ClientOptions::new("http://host").timeout, Duration::from_mins(2));
}
