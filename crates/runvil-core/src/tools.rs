//! The tools a model is offered: their schemas, and the list that one section or loop sends with every round.

use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value, json};

/// One tool as the model sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolSchema {
    /// The name the model calls it by.
    pub name: String,
    /// What the model reads about it; may be empty.
    pub description: String,
    /// The JSON Schema of its arguments, an object.
    pub parameters: Map<String, Value>,
}

impl ToolSchema {
    /// The tool in the form of an entry of a request's `tools`.
    pub fn to_wire(&self) -> Value {
        let mut function = Map::new();
        function.insert("name".to_owned(), self.name.as_str().into());
        if !self.description.is_empty() {
            function.insert("description".to_owned(), self.description.as_str().into());
        }
        function.insert("parameters".to_owned(), Value::Object(self.parameters.clone()));
        json!({ "type": "function", "function": function })
    }
}

/// A rendered list of tools. It never changes; cloning shares it.
#[derive(Clone, Default)]
pub struct ToolList(Arc<Rendered>);

#[derive(Default)]
struct Rendered {
    names: Vec<String>,
    wire: Vec<Value>,
}

impl ToolList {
    /// Renders tools in the order they are offered in. Their names must differ.
    pub fn new(tools: &[ToolSchema]) -> Self {
        Self(Arc::new(Rendered {
            names: tools.iter().map(|tool| tool.name.clone()).collect(),
            wire: tools.iter().map(ToolSchema::to_wire).collect(),
        }))
    }

    /// The names, in order.
    pub fn names(&self) -> &[String] {
        &self.0.names
    }

    /// The entries of a request's `tools`.
    pub fn to_wire(&self) -> &[Value] {
        &self.0.wire
    }

    /// Whether no tool is offered; such a request has no `tools` field.
    pub fn is_empty(&self) -> bool {
        self.0.names.is_empty()
    }
}

impl fmt::Debug for ToolList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.0.names).finish()
    }
}

/// The name a model calls a pack's tool by: the path with `/` and `.` as `_`.
pub fn wire_name(path: &str) -> String {
    path.replace(['/', '.'], "_")
}
