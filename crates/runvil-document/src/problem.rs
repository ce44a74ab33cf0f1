//! What can be wrong with a document, and where.

use std::fmt;
use std::ops::Range;

/// The kind of a parse error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ParseKind {
    /// The frontmatter is missing, not closed, not YAML, or breaks a rule of its keys.
    Frontmatter,
    /// The title or a section heading breaks a rule.
    Structure,
    /// A Lua fence is not closed or not allowed where it stands.
    Fence,
    /// A list section holds an item without text.
    List,
    /// A Lua block does not compile. This crate never reports it; whoever compiles the blocks does.
    Lua,
}

impl ParseKind {
    /// The kind's name as messages and JSON output spell it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Frontmatter => "Frontmatter",
            Self::Structure => "Structure",
            Self::Fence => "Fence",
            Self::List => "List",
            Self::Lua => "Lua",
        }
    }
}

impl fmt::Display for ParseKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// One reason why a file is not a document. Displays as its message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The kind of parse error.
    pub kind: ParseKind,
    /// The full text, without a location.
    pub message: String,
    /// 1-based line in the file.
    pub line: Option<usize>,
    /// 1-based column in that line, counted in characters.
    pub column: Option<usize>,
    /// The bytes of the file the problem is about.
    pub span: Option<Range<usize>>,
    /// The frontmatter's `name`, for problems below the frontmatter when the name could be read.
    pub name: Option<String>,
}

impl fmt::Display for Problem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.message)
    }
}

impl std::error::Error for Problem {}

/// Something that is allowed but probably not meant. Displays as its message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// The full text, without a location.
    pub message: String,
    /// 1-based line in the file.
    pub line: usize,
    /// 1-based column in that line, counted in characters.
    pub column: usize,
    /// The bytes of the file the warning is about.
    pub span: Range<usize>,
}

impl fmt::Display for Warning {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.message)
    }
}
