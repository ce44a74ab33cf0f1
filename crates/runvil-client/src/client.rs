//! The client: one request, one answer, and as many tries as it takes.

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderValue, LOCATION};
use reqwest::{Response, redirect};
use runvil_core::failure::{FailureKind, ModelFailure};
use runvil_core::reply::Reply;
use tokio::time::{sleep, timeout};

use crate::answer::AnswerReader;
use crate::assemble::Assembler;
use crate::body::{Body, failed};
use crate::endpoint::Endpoint;
use crate::metadata::Clock;
use crate::options::{ClientOptions, OptionsError};
use crate::request_body::RequestBody;
use crate::retry::{Failed, Retry, retry_after};
use crate::tls;

/// Talks to one model server. A clone is cheap and shares its connections.
#[derive(Clone)]
pub struct Client {
    inner: Arc<Inner>,
}

struct Inner {
    http: reqwest::Client,
    endpoint: Endpoint,
    options: ClientOptions,
}

impl Client {
    /// Checks the settings and makes a client. Nothing is sent yet.
    pub fn new(options: ClientOptions) -> Result<Self, OptionsError> {
        for (option, duration) in [("timeout", options.timeout), ("connect_timeout", options.connect_timeout)] {
            if duration.is_zero() {
                return Err(OptionsError::Duration { option });
            }
        }
        if options.max_response_bytes == 0 {
            return Err(OptionsError::MaxResponseBytes);
        }
        let endpoint = Endpoint::new(&options)?;
        let tls = if endpoint.is_https() { tls::trusting() } else { tls::unused() };
        let setup = |reason: String| OptionsError::Setup { reason };
        let mut builder = reqwest::Client::builder();
        if !options.proxy_from_environment {
            builder = builder.no_proxy();
        }
        let http = builder
            .tls_backend_preconfigured(tls.map_err(|error| setup(error.to_string()))?)
            .redirect(redirect::Policy::none())
            .referer(false)
            .connect_timeout(options.connect_timeout)
            .build()
            .map_err(|error| setup(error.without_url().to_string()))?;
        Ok(Self { inner: Arc::new(Inner { http, endpoint, options }) })
    }

    /// The base URL without credentials; a query shows as `?..`.
    pub fn display_url(&self) -> &str {
        &self.inner.endpoint.shown
    }

    /// Sends one chat completion request and gives back the reply.
    ///
    /// `body` is the JSON of the request, sent as it is; whether it asks for a stream is the caller's choice, and either
    /// kind of answer is understood. `on_progress` gets the visible text in the order it arrives, never an empty piece; a
    /// reply that was not streamed is one piece. The pieces joined are the reply's text. A call that fails after its first
    /// piece is not tried again; before each other try `on_progress` gets the failure.
    ///
    /// `window` is the model's context window in tokens, when it is known: an extended
    /// [`ClientOptions::classifier`] compares the reported token counts with it, and a reply to a request that was too
    /// large is a failure, although its text was handed out.
    ///
    /// Needs a tokio runtime with its I/O and time drivers. Dropping the future closes the connection at once.
    pub async fn complete(
        &self,
        body: impl Into<RequestBody>,
        window: Option<u64>,
        mut on_progress: impl FnMut(Progress<'_>) + Send,
    ) -> Result<Reply, ModelFailure> {
        let body = body.into();
        let mut number = 0;
        loop {
            let mut delivered = false;
            let mut on_text = |text: &str| {
                delivered = true;
                on_progress(Progress::Text(text));
            };
            let failed = match self.inner.attempt(&body, &mut on_text).await {
                Ok(reply) => {
                    let overflow = self.inner.options.classifier.judge_reply(&reply, window);
                    return overflow.map_or(Ok(reply), Err);
                }
                Err(failed) => failed,
            };
            if delivered || number >= self.inner.options.retries {
                return Err(failed.failure);
            }
            let Some(delay) = failed.delay(number, &self.inner.options.backoff) else {
                return Err(failed.failure);
            };
            number += 1;
            on_progress(Progress::Retry(&Retry { number, delay, failure: failed.failure }));
            sleep(delay).await;
        }
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Client").field(&self.inner.options).finish()
    }
}

/// What happens while a request is under way.
#[derive(Debug)]
pub enum Progress<'a> {
    /// Visible text of the reply arrived.
    Text(&'a str),
    /// A try failed, and after a wait the request is sent again.
    Retry(&'a Retry),
}

/// Whether the headers announce an event stream.
fn declares_stream(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
    kind.get(..17).is_some_and(|kind| kind.eq_ignore_ascii_case(b"text/event-stream"))
}

impl Inner {
    /// Sends the request once.
    async fn attempt(&self, body: &RequestBody, on_text: &mut (dyn FnMut(&str) + Send)) -> Result<Reply, Failed> {
        let clock = Clock::start();
        let request = self.http.post(self.endpoint.url.clone()).headers(self.endpoint.headers.clone());
        let request = request.body(body.to_http());
        let response = timeout(self.options.timeout, request.send())
            .await
            .map_err(|_| Failed::unanswered(ModelFailure::new(FailureKind::Timeout)))?
            .map_err(|error| Failed::unanswered(failed(error)))?;
        let retry_after = retry_after(response.headers(), SystemTime::now());
        if !response.status().is_success() {
            let failure = self.read_error(response).await;
            return Err(Failed { failure, begun: false, retry_after });
        }
        let reader = AnswerReader::with(
            Assembler::new(clock),
            self.options.classifier.clone(),
            declares_stream(response.headers()),
        );
        let read = match Body::new(response, self.options.timeout, self.options.max_response_bytes) {
            Ok(body) => read_reply(body, reader, on_text).await,
            Err(failure) => Err(failure),
        };
        read.map_err(|failure| Failed { failure, begun: true, retry_after })
    }

    /// Reads the body of an answer that reports a failure, and classifies it.
    async fn read_error(&self, response: Response) -> ModelFailure {
        let status = response.status();
        let location = response.headers().get(LOCATION).and_then(|location| location.to_str().ok());
        let location = location.filter(|_| status.is_redirection()).map(str::to_owned);
        let mut bytes = Vec::new();
        let read = match Body::of_error(response, self.options.timeout, self.options.max_response_bytes) {
            Ok(mut body) => body.read_to_end(&mut bytes).await,
            Err(failure) => Err(failure),
        };
        if let Err(failure) = read
            && failure.kind == FailureKind::MalformedResponse
        {
            return ModelFailure { status: Some(status.as_u16()), ..failure };
        }
        // A body that broke off still says more than the broken connection does.
        let mut failure = self.options.classifier.classify(Some(status.as_u16()), &String::from_utf8_lossy(&bytes));
        if let Some(location) = location {
            failure.detail = Some(format!("redirects are not followed; the server names {location}"));
        }
        failure
    }
}

/// Reads a reply to its end. Its text goes to `on_text` as it arrives.
async fn read_reply(
    mut body: Body,
    mut reader: AnswerReader,
    on_text: &mut (dyn FnMut(&str) + Send),
) -> Result<Reply, ModelFailure> {
    loop {
        match body.next().await {
            Ok(Some(part)) => {
                if reader.push(&part, on_text)? {
                    let reply = reader.finish(on_text);
                    body.expect_end().await;
                    return reply;
                }
            }
            Ok(None) => return reader.finish(on_text),
            Err(failure) => return reader.break_off(failure, on_text),
        }
    }
}
