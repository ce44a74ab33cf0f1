//! The packs of a run: which the prompt declares, and which tools the active ones have.

use runvil_core::tools::wire_name;

/// A tool of an active pack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackTool {
    /// Its path, `pack/tool`.
    pub path: String,
    /// Whether its output is passed on bare.
    pub trusted: bool,
    /// Whether its output is JSON that a script receives decoded.
    pub structured: bool,
}

impl PackTool {
    /// The name a model calls it by.
    pub fn wire_name(&self) -> String {
        wire_name(&self.path)
    }
}

/// The packs that the prompt declares, in its order. A declared pack that is not active has no tools.
#[derive(Debug, Clone, Default)]
pub struct Packs {
    declared: Vec<(String, Vec<PackTool>)>,
}

impl Packs {
    /// The declared packs, each with the tools it brings.
    pub fn new(declared: Vec<(String, Vec<PackTool>)>) -> Self {
        Self { declared }
    }

    /// The names of the declared packs.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.declared.iter().map(|(name, _)| name.as_str())
    }

    /// The tools of a declared pack; `None` when none of this name is declared.
    pub fn tools(&self, pack: &str) -> Option<&[PackTool]> {
        self.declared.iter().find(|(name, _)| name == pack).map(|(_, tools)| tools.as_slice())
    }

    /// Every tool, in declaration order.
    pub fn all(&self) -> impl Iterator<Item = &PackTool> {
        self.declared.iter().flat_map(|(_, tools)| tools)
    }

    /// The tool at a path.
    pub fn find(&self, path: &str) -> Option<&PackTool> {
        let (pack, _) = path.split_once('/')?;
        self.tools(pack)?.iter().find(|tool| tool.path == path)
    }
}
