//! Records, message lists, checks, composing and the tool loop of a conversation.

pub mod anchor;
pub mod body;
mod build;
mod check;
mod compose;
pub mod error;
pub mod failure;
pub mod json;
pub mod judge;
pub mod ledger;
pub mod list;
mod pairing;
mod pieces;
pub mod precheck;
pub mod quote;
pub mod record;
pub mod repair;
pub mod reply;
pub mod request;
pub mod role;
mod seen;
mod sequence;
mod slab;
pub mod tool_loop;
pub mod tools;
mod wire;
pub mod writer;
