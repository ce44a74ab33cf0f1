//! The tools of one section: what it offers, its local tools, and how often each was called.

use std::collections::BTreeSet;

use mlua::{Function, Table};
use runvil_core::list::ListSize;
use runvil_core::tools::ToolSchema;
use serde_json::{Map, Value as Json, json};

use crate::packs::PackTool;

/// A pack's tool that a section offers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offered {
    /// The tool.
    pub tool: PackTool,
    /// What the model reads about it instead of the pack's own words.
    pub description: Option<String>,
}

/// The type of a local tool's parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ParameterType {
    String,
    Integer,
    Number,
    Boolean,
}

impl ParameterType {
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "string" => Self::String,
            "integer" => Self::Integer,
            "number" => Self::Number,
            "boolean" => Self::Boolean,
            _ => return None,
        })
    }

    fn name(self) -> &'static str {
        match self {
            Self::String => "string",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Boolean => "boolean",
        }
    }
}

/// A parameter of a local tool.
#[derive(Debug, Clone)]
pub(crate) struct Parameter {
    pub(crate) name: String,
    pub(crate) kind: ParameterType,
    pub(crate) description: Option<String>,
}

/// The object schema of a local tool's parameters: all of them required, sorted by name.
pub(crate) fn parameter_schema(mut parameters: Vec<Parameter>) -> Map<String, Json> {
    parameters.sort_by(|left, right| left.name.cmp(&right.name));
    let required: Vec<Json> = parameters.iter().map(|parameter| parameter.name.as_str().into()).collect();
    let properties: Map<String, Json> = parameters
        .into_iter()
        .map(|parameter| {
            let mut schema = Map::new();
            schema.insert("type".to_owned(), parameter.kind.name().into());
            if let Some(description) = parameter.description {
                schema.insert("description".to_owned(), description.into());
            }
            (parameter.name, Json::Object(schema))
        })
        .collect();
    match json!({ "type": "object", "properties": properties, "required": required }) {
        Json::Object(schema) => schema,
        _ => Map::new(),
    }
}

/// A local tool.
#[derive(Debug, Clone)]
pub(crate) struct LocalTool {
    pub(crate) schema: ToolSchema,
    pub(crate) handler: Function,
}

/// What a section offers, and whether the list is still open.
#[derive(Debug, Default)]
pub(crate) struct Scope {
    pub(crate) offered: Vec<Offered>,
    pub(crate) local: Vec<LocalTool>,
    /// Set by the first loop round that builds its tools: nothing can be offered any more.
    pub(crate) is_rendered: bool,
    /// Handlers of local tools that are running, nested ones included.
    pub(crate) handlers: usize,
}

impl Scope {
    pub(crate) fn local(&self, name: &str) -> Option<&LocalTool> {
        self.local.iter().find(|tool| tool.schema.name == name)
    }

    /// What already goes by this name in the model's list, if anything does: the path of a pack's tool, or a local name.
    pub(crate) fn taken(&self, name: &str) -> Option<&str> {
        let offered = self.offered.iter().find(|offered| offered.tool.wire_name() == name);
        offered
            .map(|offered| offered.tool.path.as_str())
            .or_else(|| self.local(name).map(|tool| tool.schema.name.as_str()))
    }
}

/// The counters behind `tools.calls`, made at the section's first tool call.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    /// The table that `tools.calls` shows.
    pub(crate) counts: Option<Table>,
    /// The names it has.
    pub(crate) names: BTreeSet<String>,
}

/// What became of a compaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompactionStage {
    /// The compactor is called.
    Started,
    /// The records it left are kept.
    Accepted,
    /// The records from before it are back.
    Restored,
}

/// What a section reports of work that never left it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Report {
    /// A `log` call.
    Logged(String),
    /// A script's call of a local tool gave this result.
    LocalResult {
        /// The replies received when the call was made.
        turn: u64,
        /// The tool's name.
        name: String,
        /// What the handler returned, as text.
        content: String,
    },
    /// A compaction.
    Compaction {
        /// What became of it.
        stage: CompactionStage,
        /// The compactor's reason.
        reason: String,
        /// How large the list was before this; nothing when it was left alone.
        before: Option<ListSize>,
        /// How large it is now.
        now: ListSize,
    },
    /// The handler of a local tool raised, or returned what is no text.
    LocalFailed,
}
