//! Runs the Lua of one section in a sandbox.
//!
//! A [`vm::SectionVm`] runs the blocks of one section entry. A block that needs the outside world yields a
//! [`request::Request`]; [`vm::SectionVm::resume`] goes on with the [`request::Answer`].

pub mod budget;
mod compaction;
mod decode;
mod dialect;
pub mod envelope;
mod error_value;
pub mod failure;
mod guards;
mod host;
mod host_calls;
mod json;
mod library;
mod messages;
mod model_calls;
pub mod models;
mod names;
pub mod packs;
mod parts;
mod pattern;
pub mod program;
pub mod request;
mod sandbox;
pub mod section;
mod strings;
mod substitute;
mod tool_calls;
pub mod tools;
mod view;
pub mod vm;
