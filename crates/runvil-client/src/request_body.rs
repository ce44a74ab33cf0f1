//! What a request sends: bytes in one piece, or a conversation's messages in blocks that are shared with it.

use std::convert::Infallible;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use runvil_core::body::{Blocks, Body};

/// Bytes of a body that is sent in one piece, together with the request's head.
const ONE_PIECE: usize = 64 * 1024;

/// The JSON body of a request. A clone is cheap.
#[derive(Clone)]
pub struct RequestBody(Source);

#[derive(Clone)]
enum Source {
    Whole(Bytes),
    Blocks(Body),
}

impl RequestBody {
    /// Bytes of the body.
    pub fn len(&self) -> usize {
        match &self.0 {
            Source::Whole(bytes) => bytes.len(),
            Source::Blocks(body) => body.len(),
        }
    }

    /// Whether there is nothing to send.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The body as the HTTP library takes it.
    pub(crate) fn to_http(&self) -> reqwest::Body {
        match &self.0 {
            Source::Whole(bytes) => bytes.clone().into(),
            Source::Blocks(body) => reqwest::Body::wrap(Sending(body.clone().into_blocks())),
        }
    }
}

impl From<Bytes> for RequestBody {
    /// Bytes that are sent as they are and not copied.
    fn from(bytes: Bytes) -> Self {
        Self(Source::Whole(bytes))
    }
}

impl From<Body> for RequestBody {
    /// A body whose long texts are not copied. It is sent block by block, as fast as the server takes it.
    fn from(body: Body) -> Self {
        Self(if body.len() <= ONE_PIECE { Source::Whole(body.to_bytes().into()) } else { Source::Blocks(body) })
    }
}

impl fmt::Debug for RequestBody {
    /// Shows the length, never text.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestBody").field("len", &self.len()).finish_non_exhaustive()
    }
}

/// A body while it is sent.
struct Sending(Blocks);

impl HttpBody for Sending {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.next().map(|block| Ok(Frame::data(Bytes::from_owner(block)))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_empty()
    }

    /// Exact, so that the length is declared and the body is not sent in HTTP's chunks, which some servers refuse.
    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0.len() as u64)
    }
}
