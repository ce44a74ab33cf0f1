//! Reads a prompt document into frontmatter, sections and blocks.
//!
//! [`parse`] takes the bytes of one Markdown file and returns a [`ParseOutcome`]: the [`Document`] when the file is
//! well formed, otherwise every [`Problem`] found in it. Lua blocks are located, never compiled.

mod block;
mod dialect;
mod document;
mod fence;
mod frontmatter;
mod heading;
mod list;
mod markdown;
mod name;
mod outline;
mod parse;
mod problem;
mod source;
mod yaml;

pub use block::{Block, LuaBlock, Prose};
pub use dialect::Dialect;
pub use document::{Document, Section, SectionId};
pub use frontmatter::{ArgDeclaration, ArgKind, FileDeclaration, Frontmatter, Keyword, RoleDeclaration, ToolSlot, Use};
pub use heading::{Reference, ReferenceError, parse_reference};
pub use name::{NAME_GRAMMAR, is_name, is_segment};
pub use parse::{ParseOutcome, parse};
pub use problem::{ParseKind, Problem, Warning};
pub use yaml::Yaml;
