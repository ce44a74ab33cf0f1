//! Runs of whole prompts, driven without Python.

mod conformance;
mod driver;
mod machine;
mod tool_rounds;
mod warnings;
