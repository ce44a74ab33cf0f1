//! The blocks a section's own text is made of.

use std::ops::Range;

/// One block of a section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Block {
    /// Text between fences.
    Prose(Prose),
    /// A live `lua` fence.
    Lua(LuaBlock),
}

/// Text that a Lua block below it can read as `prose`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prose {
    /// The text below the last thematic break, without surrounding blank lines, with `\n` line ends. Placeholders are
    /// still in it. Empty between two adjacent fences.
    pub text: String,
    /// 1-based file line of the first line of the text.
    pub line: usize,
    /// The bytes of the file the text was read from. A `lua shared` fence inside them is not part of the text.
    pub span: Range<usize>,
}

/// The Lua source of one live fence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LuaBlock {
    /// Every line between the opening and the closing line, as written.
    pub source: String,
    /// The location label messages and chunk names use, such as ``section `Chat` prologue``.
    pub label: String,
    /// 1-based file line of the first Lua line, the line after the opening one.
    pub line: usize,
    /// The bytes of the file that hold the source.
    pub span: Range<usize>,
}
