//! Talks to an OpenAI-compatible model server.
//!
//! [`Client::complete`] sends one chat completion request, whose JSON body the caller already made, and gives back one
//! [`Reply`](runvil_core::reply::Reply) or one [`ModelFailure`](runvil_core::failure::ModelFailure). Whether the server
//! streams its answer or sends it whole, the caller sees the same reply.
//!
//! ```no_run
//! use runvil_client::{Bytes, Client, ClientOptions, Progress};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let client = Client::new(ClientOptions::new("http://127.0.0.1:8080/v1"))?;
//! let body = r#"{"model": "qwen3-8b", "messages": [{"role": "user", "content": "hi"}], "stream": true}"#;
//! let show = |progress: Progress<'_>| {
//!     if let Progress::Text(text) = progress {
//!         eprint!("{text}");
//!     }
//! };
//! let reply = client.complete(Bytes::from(body), None, show).await?;
//! assert!(!reply.is_empty());
//! # Ok(())
//! # }
//! ```
//!
//! # What the client decides
//!
//! - **Where a request goes.** To `{base_url}/chat/completions` and nowhere else: redirects are not followed, so that a
//!   key never reaches another host, and proxies of the environment are used only on request
//!   ([`ClientOptions::proxy_from_environment`]).
//! - **What is trusted.** For `https`, the certificates of the operating system (`SSL_CERT_FILE` and `SSL_CERT_DIR`
//!   are honoured where the system's store is a set of files); on a machine that has none, Mozilla's, which come with
//!   this crate. Plain `http` needs no certificates.
//! - **How long it waits.** [`ClientOptions::timeout`] for the answer to begin, then as long again for each next part.
//!   There is no limit on the whole call.
//! - **What is tried again.** See [`ClientOptions::retries`].
//! - **What is shown.** Keys, header values and credentials in a URL are in no `Debug` output, message or failure.
//!
//! Dropping the future of [`Client::complete`] closes its connection at once.

pub mod answer;
mod assemble;
mod body;
mod calls;
mod client;
mod endpoint;
mod metadata;
mod options;
mod request_body;
mod retry;
pub mod sse;
mod tls;
mod wire;

/// The bytes of a request body, shared and not copied.
pub use bytes::Bytes;
pub use client::{Client, Progress};
pub use options::{Backoff, ClientOptions, OptionsError, Secret};
pub use request_body::RequestBody;
pub use retry::Retry;
