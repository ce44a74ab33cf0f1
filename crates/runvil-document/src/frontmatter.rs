//! What the frontmatter declares, and how it is decoded.

mod args;
mod decode;
mod decoder;
mod models;
mod uses;

pub(crate) use decode::decode;

use crate::yaml::Yaml;

/// The decoded frontmatter of a document.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Frontmatter {
    /// The prompt's name, as written.
    pub name: String,
    /// What the prompt is for, as written.
    pub description: String,
    /// The most rounds of one model loop, 1 to 1000; `None` leaves it to the Host.
    pub max_tool_iterations: Option<u32>,
    /// The packs the prompt asks for, in file order.
    pub uses: Vec<Use>,
    /// The model roles the prompt declares, in file order.
    pub models: Vec<RoleDeclaration>,
    /// The declared arguments in file order; `None` without an `args` key.
    pub args: Option<Vec<ArgDeclaration>>,
    /// The tool slots, in file order, of a dialect that has them.
    pub tools: Vec<ToolSlot>,
    /// The file a Host places before the run, in a dialect that has the key.
    pub input: Option<FileDeclaration>,
    /// The file a Host collects after the run, in a dialect that has the key.
    pub output: Option<FileDeclaration>,
}

/// A pack the prompt asks for.
#[derive(Clone, Debug, PartialEq)]
pub struct Use {
    /// The pack's name: one segment, or `namespace/pack` in a dialect with capabilities.
    pub pack: String,
    /// Whether the prompt runs without the pack.
    pub optional: bool,
    /// The pack's configuration, unchecked; `None` without the key.
    pub config: Option<Yaml>,
}

/// A model role the prompt declares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoleDeclaration {
    /// The role's name in Lua.
    pub label: String,
    /// What the model should be like, in file order.
    pub keywords: Vec<Keyword>,
    /// The smallest context window that will do, in tokens.
    pub min_context: Option<u32>,
    /// What the role is for.
    pub description: Option<String>,
}

/// A wish about the model of a role.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Keyword {
    /// The model must be able to think; thinking is switched on.
    Thinking,
    /// The model must be able to answer without thinking; thinking is switched off.
    NoThinking,
    /// Intent only: the strongest model.
    Frontier,
    /// Intent only: a fast model.
    Fast,
    /// Intent only: a small model.
    Small,
    /// Intent only: a creative model.
    Creative,
    /// Intent only: a conversational model.
    Chat,
}

impl Keyword {
    /// Every keyword, in the order messages list them.
    pub const ALL: [Self; 7] =
        [Self::Thinking, Self::NoThinking, Self::Frontier, Self::Fast, Self::Small, Self::Creative, Self::Chat];

    /// The keyword as documents spell it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Thinking => "thinking",
            Self::NoThinking => "no-thinking",
            Self::Frontier => "frontier",
            Self::Fast => "fast",
            Self::Small => "small",
            Self::Creative => "creative",
            Self::Chat => "chat",
        }
    }
}

/// An argument the prompt advertises.
#[derive(Clone, Debug, PartialEq)]
pub struct ArgDeclaration {
    /// The argument's name.
    pub name: String,
    /// The type of its value.
    pub kind: ArgKind,
    /// Whether it may be left out.
    pub optional: bool,
    /// The advertised default, of the declared type.
    pub default: Option<Yaml>,
    /// What the argument is for.
    pub description: Option<String>,
}

/// The type of an argument's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ArgKind {
    /// Text.
    String,
    /// `true` or `false`.
    Boolean,
    /// A whole number of 64 bits.
    Integer,
    /// Any number.
    Number,
}

impl ArgKind {
    /// Every type, in the order messages list them.
    pub const ALL: [Self; 4] = [Self::String, Self::Boolean, Self::Integer, Self::Number];

    /// The type as documents spell it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::String => "string",
            Self::Boolean => "boolean",
            Self::Integer => "integer",
            Self::Number => "number",
        }
    }
}

/// A tool under a name of the prompt's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolSlot {
    /// The name the prompt and the model use.
    pub alias: String,
    /// The tool's path `namespace/pack/name`.
    pub path: String,
}

/// A file a prompt reads or writes. Information for the Host only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileDeclaration {
    /// The file's path in the prompt's store.
    pub path: String,
    /// What the file holds.
    pub description: String,
}
