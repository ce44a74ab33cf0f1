//! How a client is set up, and what can be wrong with that.

use std::fmt;
use std::time::Duration;

use runvil_core::overflow::Classifier;

/// A text that is never shown, such as an API key.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a text that must not be shown.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text itself, for the one place that sends it.
    pub(crate) fn expose(&self) -> &str {
        &self.0
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// How long the client waits before it tries a request again.
///
/// The wait before retry `n` (0-based) is drawn evenly from zero to `first * 2^n`, at most `longest`. A server that says
/// how long to wait (`Retry-After`) is obeyed instead, up to `longest_requested`; one that asks for more than that gets
/// no retry, since an earlier one would be refused as well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    /// The upper bound of the first wait.
    pub first: Duration,
    /// The upper bound of every wait the client chooses.
    pub longest: Duration,
    /// The longest wait a server may ask for.
    pub longest_requested: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self {
            first: Duration::from_millis(500),
            longest: Duration::from_secs(8),
            longest_requested: Duration::from_mins(1),
        }
    }
}

/// The settings of a [`Client`](crate::Client).
#[derive(Clone)]
pub struct ClientOptions {
    /// The address of the server's API, such as `http://127.0.0.1:8080/v1`, with or without a slash at the end.
    ///
    /// `/chat/completions` is appended to its path; a query is kept. Credentials in it (`http://user:password@host`) are
    /// sent as basic authentication.
    pub base_url: String,
    /// The key that is sent as `Authorization: Bearer ...`.
    pub api_key: Option<Secret>,
    /// Further headers, sent as given. One of these replaces the client's own of the same name.
    pub headers: Vec<(String, String)>,
    /// The longest wait for the answer to begin, and then for each next part of it.
    pub timeout: Duration,
    /// The longest wait for a connection.
    pub connect_timeout: Duration,
    /// How many times a failed request is sent again.
    ///
    /// Only failures that may pass are tried again: a limited rate, an overloaded server, a fault of the server, a failed
    /// connection, and no answer in time. Once a fragment of text was handed out nothing is tried again, and neither is
    /// an answer that began and then stalled.
    pub retries: u32,
    /// How long to wait between those tries.
    pub backoff: Backoff,
    /// The largest answer that is read, in bytes after decompression.
    pub max_response_bytes: u64,
    /// Tells what failed, and whether it is a context overflow.
    pub classifier: Classifier,
    /// Whether requests go through the proxies that the environment names (`HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY`,
    /// except for the hosts of `NO_PROXY`). Otherwise they go straight to the server, whatever the environment says.
    pub proxy_from_environment: bool,
}

impl ClientOptions {
    /// The default limit on the size of an answer: 16 MiB.
    pub const DEFAULT_MAX_RESPONSE_BYTES: u64 = 16 * 1024 * 1024;

    /// Default settings for a server: no key, 120 seconds of patience, 10 seconds to connect, 2 retries, 16 MiB, no proxy,
    /// failures classified by the rules of the language alone.
    pub fn new(base_url: impl Into<String>) -> Self {
        Self {
            base_url: base_url.into(),
            api_key: None,
            headers: Vec::new(),
            timeout: Duration::from_mins(2),
            connect_timeout: Duration::from_secs(10),
            retries: 2,
            backoff: Backoff::default(),
            max_response_bytes: Self::DEFAULT_MAX_RESPONSE_BYTES,
            classifier: Classifier::default(),
            proxy_from_environment: false,
        }
    }
}

/// Shows no credentials: of the URL only what [`Client::display_url`](crate::Client::display_url) shows, of the headers
/// only their names.
impl fmt::Debug for ClientOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.headers.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("ClientOptions")
            .field("base_url", &crate::endpoint::shown(&self.base_url))
            .field("api_key", &self.api_key)
            .field("headers", &names)
            .field("timeout", &self.timeout)
            .field("connect_timeout", &self.connect_timeout)
            .field("retries", &self.retries)
            .field("backoff", &self.backoff)
            .field("max_response_bytes", &self.max_response_bytes)
            .field("classifier", &self.classifier)
            .field("proxy_from_environment", &self.proxy_from_environment)
            .finish()
    }
}

/// Settings a client cannot be made from.
///
/// No message holds a key, a header's value or the URL, which may hold credentials.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OptionsError {
    /// The base URL is not one.
    #[error("base_url must be an absolute http or https URL such as \"http://127.0.0.1:8080/v1\": {reason}")]
    BaseUrl {
        /// What is wrong with it.
        reason: String,
    },
    /// The API key cannot be sent.
    #[error("api_key {reason}")]
    ApiKey {
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A header cannot be sent.
    #[error("header {name:?} {reason}")]
    Header {
        /// The header's name as it was given.
        name: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A wait of no time at all.
    #[error("{option} must be longer than 0 seconds")]
    Duration {
        /// The option's name.
        option: &'static str,
    },
    /// A limit under which no answer can be read.
    #[error("max_response_bytes must be at least 1")]
    MaxResponseBytes,
    /// Two sources of credentials.
    #[error("{first} and {second} both give credentials: give one of them")]
    Credentials {
        /// One source.
        first: &'static str,
        /// The other.
        second: &'static str,
    },
    /// The HTTP or TLS machinery could not be set up.
    #[error("the HTTP client could not be set up: {reason}")]
    Setup {
        /// What went wrong.
        reason: String,
    },
}
