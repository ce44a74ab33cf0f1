//! The conversation core through its public interface.

mod anchor;
mod blocks;
mod compose;
mod cost;
mod edit;
mod json;
mod judge;
mod model;
mod overflow;
mod pairing;
mod precheck;
mod properties;
mod record;
mod repair;
mod support;
mod tool_loop;
mod writer;
