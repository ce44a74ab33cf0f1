//! Runs a prompt document as a state machine that asks for effects.
//!
//! A [`prompt::Prompt`] is parsed once; a [`run::Run`] of it hands out [`effect::Effect`]s, takes their answers and ends
//! with an [`outcome::Outcome`]. Nothing here waits, does I/O or reads a clock.

mod chain;
pub mod effect;
mod entry;
pub mod error;
pub mod event;
mod infer;
mod instant;
mod literal_names;
mod lua_calls;
pub mod outcome;
pub mod params;
mod prepare;
pub mod prompt;
pub mod reports;
mod rounds;
pub mod run;
mod tools;
mod walk;
