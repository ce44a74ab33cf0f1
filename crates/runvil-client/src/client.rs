//! The client: one request, one answer, and as many tries as it takes.

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use reqwest::header::LOCATION;
use reqwest::{Response, redirect};
use runvil_core::failure::{FailureKind, ModelFailure};
use runvil_core::reply::Reply;
use tokio::time::{sleep, timeout};

use crate::assemble::Assembler;
use crate::body::{Body, failed};
use crate::endpoint::Endpoint;
use crate::metadata::Clock;
use crate::options::{ClientOptions, OptionsError};
use crate::retry::{Failed, retry_after};
use crate::{answer, tls};

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
        let http = reqwest::Client::builder()
            .tls_backend_preconfigured(tls.map_err(|error| setup(error.to_string()))?)
            .redirect(redirect::Policy::none())
            .no_proxy()
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
    /// `body` is the JSON of the request, sent as it is and not copied; whether it asks for a stream is the caller's
    /// choice, and either kind of answer is understood. `on_fragment` gets the visible text in the order it arrives, never
    /// an empty piece; a reply that was not streamed is one fragment. The fragments joined are the reply's text. A call
    /// that fails after its first fragment is not tried again.
    ///
    /// `window` is the model's context window in tokens, when it is known: an extended
    /// [`ClientOptions::classifier`] compares the reported token counts with it, and a reply to a request that was too
    /// large is a failure, although its text was handed out.
    ///
    /// Needs a tokio runtime with its I/O and time drivers. Dropping the future closes the connection at once.
    pub async fn complete(
        &self,
        body: Bytes,
        window: Option<u64>,
        on_fragment: impl FnMut(&str) + Send,
    ) -> Result<Reply, ModelFailure> {
        let mut fragments = Fragments { on_fragment, delivered: false };
        let mut retry = 0;
        loop {
            let failed = match self.inner.attempt(body.clone(), &mut fragments).await {
                Ok(reply) => {
                    let overflow = self.inner.options.classifier.judge_reply(&reply, window);
                    return overflow.map_or(Ok(reply), Err);
                }
                Err(failed) => failed,
            };
            if fragments.delivered || retry >= self.inner.options.retries {
                return Err(failed.failure);
            }
            let Some(delay) = failed.delay(retry, &self.inner.options.backoff) else {
                return Err(failed.failure);
            };
            retry += 1;
            sleep(delay).await;
        }
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Client").field(&self.inner.options).finish()
    }
}

/// Hands fragments on and remembers that it did.
struct Fragments<F> {
    on_fragment: F,
    delivered: bool,
}

impl<F: FnMut(&str)> Fragments<F> {
    fn push(&mut self, text: &str) {
        self.delivered = true;
        (self.on_fragment)(text);
    }
}

impl Inner {
    /// Sends the request once.
    async fn attempt<F: FnMut(&str) + Send>(&self, body: Bytes, fragments: &mut Fragments<F>) -> Result<Reply, Failed> {
        let clock = Clock::start();
        let request = self.http.post(self.endpoint.url.clone()).headers(self.endpoint.headers.clone()).body(body);
        let response = timeout(self.options.timeout, request.send())
            .await
            .map_err(|_| Failed::unanswered(ModelFailure::new(FailureKind::Timeout)))?
            .map_err(|error| Failed::unanswered(failed(error)))?;
        let retry_after = retry_after(response.headers(), SystemTime::now());
        if !response.status().is_success() {
            let failure = self.read_error(response).await;
            return Err(Failed { failure, begun: false, retry_after });
        }
        let read = async {
            let declares_stream = answer::declares_stream(response.headers());
            let body = Body::new(response, self.options.timeout, self.options.max_response_bytes)?;
            let assembler = Assembler::new(clock);
            let classifier = &self.options.classifier;
            answer::read(body, assembler, classifier, declares_stream, &mut |text| fragments.push(text)).await
        };
        read.await.map_err(|failure| Failed { failure, begun: true, retry_after })
    }

    /// Reads the body of an answer that reports a failure, and classifies it.
    async fn read_error(&self, response: Response) -> ModelFailure {
        let status = response.status();
        let location = response.headers().get(LOCATION).and_then(|location| location.to_str().ok());
        let location = location.filter(|_| status.is_redirection()).map(str::to_owned);
        let mut bytes = Vec::new();
        let read = match Body::new(response, self.options.timeout, self.options.max_response_bytes) {
            Ok(mut body) => body.read_to_end(&mut bytes).await,
            Err(failure) => Err(failure),
        };
        if let Err(failure) = read
            && failure.kind == FailureKind::MalformedResponse
        {
            return ModelFailure { status: Some(status.as_u16()), ..failure };
        }
        // A body that broke off still says more than the broken connection does.
        let body = String::from_utf8_lossy(&bytes);
        let mut failure = self.options.classifier.classify(Some(status.as_u16()), &body);
        if let Some(location) = location {
            failure.detail = Some(format!("redirects are not followed; the server names {location}"));
        }
        failure
    }
}
