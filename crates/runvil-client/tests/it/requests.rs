//! What is sent, and where.

use runvil_client::{Bytes, Client, RequestBody, Secret};
use runvil_core::failure::FailureKind;
use runvil_core::list::MessageList;
use runvil_core::record::Record;

use crate::server::{Act, PONG, Server, answer, complete, json, stream};

#[tokio::test]
async fn the_request_is_sent_as_given() {
    let server = Server::answering(&[json(200, PONG)]).await;
    let mut options = server.options();
    options.base_url.push('/');
    options.api_key = Some(Secret::new("hunter2"));
    options.headers = vec![("X-Team".into(), "a".into()), ("User-Agent".into(), "mine".into())];
    let client = Client::new(options).unwrap();
    let body = "{\"model\" : \"m\", \"messages\":[{\"role\":\"user\",\"content\":\"Grüße\"}]}";
    client.complete(Bytes::from(body), |_| {}).await.unwrap();
    let request = &server.requests()[0];
    assert!(request.head.starts_with("POST /v1/chat/completions HTTP/1.1\r\n"), "{}", request.head);
    assert_eq!(request.body, body.as_bytes());
    for (name, value) in [
        ("authorization", Some("Bearer hunter2")),
        ("content-type", Some("application/json")),
        ("x-team", Some("a")),
        ("user-agent", Some("mine")),
        ("content-length", Some(body.len().to_string().as_str())),
        ("transfer-encoding", None),
    ] {
        assert_eq!(request.header(name), value, "{name}");
    }
    assert!(!format!("{client:?}").contains("hunter2"), "{client:?}");
}

#[tokio::test]
async fn without_a_key_there_is_no_authorization() {
    let server = Server::answering(&[json(200, PONG)]).await;
    complete(&server.client()).await.0.unwrap();
    assert_eq!(server.requests()[0].header("authorization"), None);
}

#[tokio::test]
async fn credentials_of_the_url_become_basic_authentication() {
    let server = Server::answering(&[json(200, PONG)]).await;
    let mut options = server.options();
    options.base_url = options.base_url.replace("http://", "http://user:p%40ss@");
    let client = Client::new(options).unwrap();
    complete(&client).await.0.unwrap();
    // base64 of "user:p@ss"
    assert_eq!(server.requests()[0].header("authorization"), Some("Basic dXNlcjpwQHNz"));
    assert_eq!(client.display_url(), server.url());
}

#[tokio::test]
async fn a_connection_is_used_again() {
    let streamed = stream("data: {\"choices\":[{\"delta\":{\"content\":\"hi\"}}]}\n\ndata: [DONE]\n\n");
    // The end of the body in a write of its own.
    let (most, end) = streamed.split_at(streamed.len() - 5);
    let server = Server::start(vec![vec![
        Act::Read,
        Act::Write(json(200, PONG)),
        Act::Read,
        Act::Write(most.to_vec()),
        Act::Write(end.to_vec()),
        Act::Read,
        Act::Write(json(429, "slow down")),
        Act::Read,
        Act::Write(json(200, PONG)),
    ]])
    .await;
    let client = server.client();
    for expected in [Some("pong"), Some("hi"), None, Some("pong")] {
        assert_eq!(complete(&client.clone()).await.0.ok().and_then(|reply| reply.text).as_deref(), expected);
    }
    let connections: Vec<usize> = server.requests().iter().map(|request| request.connection).collect();
    assert_eq!(connections, [0, 0, 0, 0]);
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let other = Server::answering(&[json(200, PONG)]).await;
    for status in [301, 302, 307, 308] {
        let location = format!("Location: {}/chat/completions\r\n", other.url());
        let server = Server::answering(&[answer(status, &location, "")]).await;
        let mut options = server.options();
        options.api_key = Some(Secret::new("hunter2"));
        let failure = complete(&Client::new(options).unwrap()).await.0.unwrap_err();
        assert_eq!((failure.kind, failure.status), (FailureKind::Rejected, Some(status)));
        assert!(failure.detail.unwrap().contains(&other.url()));
    }
    assert!(other.requests().is_empty());
}

#[tokio::test]
async fn many_calls_may_share_a_client() {
    let server = Server::answering(&[json(200, PONG)]).await;
    let client = server.client();
    let tasks: Vec<_> = (0..20)
        .map(|_| {
            let client = client.clone();
            tokio::spawn(async move { complete(&client).await.0 })
        })
        .collect();
    for task in tasks {
        assert_eq!(task.await.unwrap().unwrap().text.as_deref(), Some("pong"));
    }
    assert_eq!(server.requests().len(), 20);
}

// OVF-13
#[tokio::test]
async fn a_large_request_may_be_refused_before_it_is_sent() {
    let refusal = json(413, "{\"error\":\"prompt is too long\"}");
    let script = vec![Act::Wait(std::time::Duration::from_millis(50)), Act::Write(refusal), Act::Hold];
    let server = Server::start(vec![script]).await;
    let body = Bytes::from(vec![b' '; 16 * 1024 * 1024]);
    let failure = server.client().complete(body, |_| {}).await.unwrap_err();
    assert_eq!((failure.kind, failure.status), (FailureKind::ContextOverflow, Some(413)));
}

#[tokio::test]
async fn a_conversation_is_sent_in_blocks_and_again_when_tried_again() {
    let mut list = MessageList::new();
    for number in 0..3_000 {
        let role = if number % 2 == 0 { "user" } else { "assistant" };
        let length = if number % 500 == 0 { 300_000 } else { 300 };
        let record = serde_json::json!({"role": role, "content": "ü".repeat(length)});
        list.append(Record::from_value(&record, number + 1).unwrap()).unwrap();
    }
    let body = list.compose().unwrap().body_parts("m", None, &serde_json::Map::new());
    let server = Server::answering(&[json(500, ""), json(200, PONG)]).await;
    let mut options = server.options();
    options.retries = 1;
    Client::new(options).unwrap().complete(body.clone(), |_| {}).await.unwrap();
    let requests = server.requests();
    assert_eq!(requests.len(), 2);
    for request in requests {
        assert_eq!(request.header("content-length").unwrap(), body.len().to_string());
        assert_eq!(request.header("transfer-encoding"), None);
        assert!(request.body == body.to_bytes(), "the body arrived changed");
    }
    assert_eq!(format!("{:?}", RequestBody::from(Bytes::from_static(b"secret"))), "RequestBody { len: 6, .. }");
}
