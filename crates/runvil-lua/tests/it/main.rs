//! Section VMs driven without an engine.

mod support;

mod environment;
mod limits;
