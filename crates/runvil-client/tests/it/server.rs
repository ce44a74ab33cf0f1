//! A server on loopback that answers with scripted bytes, one script a connection.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use runvil_client::{Backoff, Bytes, Client, ClientOptions, Progress};
use runvil_core::failure::ModelFailure;
use runvil_core::reply::Reply;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

/// What the server does next on a connection.
#[derive(Clone)]
pub(crate) enum Act {
    /// Reads one request.
    Read,
    /// Writes bytes.
    Write(Vec<u8>),
    /// Waits.
    Wait(Duration),
    /// Keeps the connection open until the client closes it, and reports when it did.
    Hold,
    /// Closes the connection with a reset.
    Reset,
}

/// A running server.
pub(crate) struct Server {
    port: u16,
    requests: Arc<Mutex<Vec<Request>>>,
    closed: mpsc::UnboundedReceiver<()>,
}

/// A request the server read.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    /// The number of the connection it came on, from 0.
    pub(crate) connection: usize,
    /// The request line and the headers.
    pub(crate) head: String,
    /// The body.
    pub(crate) body: Vec<u8>,
}

impl Request {
    /// The value of a header, by its lower-case name.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().skip(1).find_map(|line| {
            let (found, value) = line.split_once(": ")?;
            found.eq_ignore_ascii_case(name).then_some(value)
        })
    }
}

impl Server {
    /// Starts a server. Connection `n` follows script `n`; the last script repeats.
    pub(crate) async fn start(scripts: Vec<Vec<Act>>) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (sender, closed) = mpsc::unbounded_channel();
        let log = requests.clone();
        tokio::spawn(async move {
            for connection in 0.. {
                let Ok((stream, _)) = listener.accept().await else { return };
                let script = scripts[connection.min(scripts.len() - 1)].clone();
                tokio::spawn(play(stream, connection, script, log.clone(), sender.clone()));
            }
        });
        Self { port, requests, closed }
    }

    /// A server that reads one request a connection and answers with these bytes.
    pub(crate) async fn answering(answers: &[Vec<u8>]) -> Self {
        Self::start(answers.iter().map(|answer| vec![Act::Read, Act::Write(answer.clone())]).collect()).await
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}/v1", self.port)
    }

    /// Options for a client of this server that hardly waits between tries and does not retry.
    pub(crate) fn options(&self) -> ClientOptions {
        let mut options = ClientOptions::new(self.url());
        options.retries = 0;
        options.timeout = Duration::from_secs(20);
        let moment = Duration::from_millis(4);
        options.backoff = Backoff { first: moment, longest: moment, longest_requested: Duration::from_secs(2) };
        options
    }

    pub(crate) fn client(&self) -> Client {
        Client::new(self.options()).unwrap()
    }

    /// The requests so far.
    pub(crate) fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }

    /// Waits until the client has closed a connection that is held.
    pub(crate) async fn wait_for_close(&mut self) {
        timeout(Duration::from_secs(10), self.closed.recv()).await.expect("the connection is closed").unwrap();
    }
}

async fn play(
    mut stream: TcpStream,
    connection: usize,
    script: Vec<Act>,
    requests: Arc<Mutex<Vec<Request>>>,
    closed: mpsc::UnboundedSender<()>,
) {
    stream.set_nodelay(true).unwrap();
    for act in script {
        match act {
            Act::Read => match read_request(&mut stream, connection).await {
                Some(request) => requests.lock().unwrap().push(request),
                None => return,
            },
            Act::Write(bytes) => {
                if stream.write_all(&bytes).await.is_err() {
                    return;
                }
            }
            Act::Wait(duration) => sleep(duration).await,
            Act::Hold => {
                let mut rest = [0; 64];
                while stream.read(&mut rest).await.is_ok_and(|read| read > 0) {}
                // Nobody listens in tests that do not care.
                let _ = closed.send(());
            }
            Act::Reset => {
                stream.set_zero_linger().unwrap();
                return;
            }
        }
    }
    // A close with the peer's bytes unread would be a reset.
    let _ = stream.shutdown().await;
}

async fn read_request(stream: &mut TcpStream, connection: usize) -> Option<Request> {
    let mut bytes = Vec::new();
    loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
            let mut request = Request { connection, head, body: bytes[end + 4..].to_vec() };
            let length: usize = request.header("content-length").unwrap().parse().unwrap();
            while request.body.len() < length {
                let read = stream.read_buf(&mut request.body).await.unwrap();
                assert!(read > 0, "the request ends early");
            }
            return Some(request);
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
}

/// A whole answer whose length is declared.
pub(crate) fn answer(status: u16, headers: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!("HTTP/1.1 {status} Status\r\nContent-Length: {length}\r\n{headers}\r\n{body}").into_bytes()
}

/// A JSON answer.
pub(crate) fn json(status: u16, body: &str) -> Vec<u8> {
    answer(status, "Content-Type: application/json\r\n", body)
}

/// The head of a chunked event stream.
pub(crate) fn stream_head() -> Vec<u8> {
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec()
}

/// One chunk of a chunked body.
pub(crate) fn chunk(bytes: &[u8]) -> Vec<u8> {
    let mut chunk = format!("{:x}\r\n", bytes.len()).into_bytes();
    chunk.extend_from_slice(bytes);
    chunk.extend_from_slice(b"\r\n");
    chunk
}

/// The end of a chunked body.
pub(crate) const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

/// A whole chunked event stream in one piece.
pub(crate) fn stream(body: &str) -> Vec<u8> {
    [stream_head(), chunk(body.as_bytes()), LAST_CHUNK.to_vec()].concat()
}

/// A reply that was not streamed.
pub(crate) const PONG: &str =
    r#"{"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"pong"},"finish_reason":"stop"}]}"#;

/// Sends a request and collects the fragments.
pub(crate) async fn complete(client: &Client) -> (Result<Reply, ModelFailure>, Vec<String>) {
    let mut fragments = Vec::new();
    let collect = |progress: Progress<'_>| {
        if let Progress::Text(text) = progress {
            fragments.push(text.to_owned());
        }
    };
    let result = client.complete(Bytes::from_static(b"{\"messages\":[]}"), None, collect).await;
    (result, fragments)
}

/// The reply of a server that answers with these bytes.
pub(crate) async fn reply_of(answer: Vec<u8>) -> (Result<Reply, ModelFailure>, Vec<String>) {
    let server = Server::answering(&[answer]).await;
    complete(&server.client()).await
}
