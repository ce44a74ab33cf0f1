//! Section VMs driven without an engine.

mod support;

mod cancel;
mod determinism;
mod environment;
mod limits;
mod pause;
mod round_trip;
mod sandbox;
