//! YAML as a tree of values that know where they stand in the file.

mod node;
mod reader;
mod scalar;
mod value;

pub(crate) use node::{Node, Value};
pub(crate) use reader::{YamlError, read};
pub(crate) use scalar::{Integer, Scalar};
pub use value::Yaml;
pub(crate) use value::to_yaml;
