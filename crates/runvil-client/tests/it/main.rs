//! The client against a server on loopback whose answers the tests script byte by byte.

mod answers;
mod failures;
mod limits;
mod replies;
mod requests;
mod retries;
mod server;
mod sse;
