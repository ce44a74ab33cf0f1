//! A parsed document: its frontmatter, its title and its sections.

use std::ops::Range;
use std::sync::Arc;

use crate::block::{Block, LuaBlock};
use crate::dialect::Dialect;
use crate::frontmatter::Frontmatter;

/// The place of a section in its [`Document`]. Ids follow file order; 0 is the H1 body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SectionId(pub usize);

impl SectionId {
    /// The H1 body.
    pub const BODY: Self = Self(0);
}

/// One heading and the text up to the next heading of any level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    /// The heading's text without markup; the title for the H1 body.
    pub name: String,
    /// The heading's level: 1 for the H1 body, 2 to 6 for sections.
    pub level: u8,
    /// 1-based file line of the heading.
    pub line: usize,
    /// 1-based column of the heading in its line, in characters.
    pub column: usize,
    /// The bytes of the file from the heading to the next heading of any level.
    pub span: Range<usize>,
    /// The section's blocks in file order.
    pub blocks: Vec<Block>,
    /// The items of a list section; `None` for any other section.
    pub items: Option<Vec<String>>,
    /// The section one level up; `None` for the H1 body and for top-level sections.
    pub parent: Option<SectionId>,
    /// The sections one level down, in file order. Empty for the H1 body: see [`Document::top_level`].
    pub children: Vec<SectionId>,
}

impl Section {
    /// The heading as a reference to this section is written: markers, one space, name.
    pub fn heading(&self) -> String {
        format!("{} {}", "#".repeat(usize::from(self.level)), self.name)
    }

    /// The section's Lua blocks in file order.
    pub fn lua_blocks(&self) -> impl Iterator<Item = &LuaBlock> {
        self.blocks.iter().filter_map(|block| match block {
            Block::Lua(lua) => Some(lua),
            Block::Prose(_) => None,
        })
    }
}

/// A prompt document without problems.
#[derive(Clone, Debug, PartialEq)]
pub struct Document {
    /// The dialect its version key names; `None` without a version key.
    pub dialect: Option<Dialect>,
    /// The value of the version key.
    pub version: Option<u64>,
    /// The decoded frontmatter.
    pub frontmatter: Frontmatter,
    /// The text of the H1.
    pub title: String,
    /// The shared library of a dialect that has `lua shared` fences.
    pub shared_library: Option<LuaBlock>,
    /// The whole file as text. Every span is a range of its bytes.
    pub source: Arc<str>,
    pub(crate) sections: Vec<Section>,
    pub(crate) top_level: Vec<SectionId>,
}

impl Document {
    /// The section with this id. Ids come from the same document.
    pub fn section(&self, id: SectionId) -> &Section {
        &self.sections[id.0]
    }

    /// The H1 body.
    pub fn body(&self) -> &Section {
        self.section(SectionId::BODY)
    }

    /// The H2 sections in file order.
    pub fn top_level(&self) -> &[SectionId] {
        &self.top_level
    }

    /// Every section below the title in file order, at any depth. The H1 body is not among them.
    pub fn sections_in_order(&self) -> impl Iterator<Item = (SectionId, &Section)> {
        self.sections.iter().enumerate().skip(1).map(|(index, section)| (SectionId(index), section))
    }

    /// The sections that share this section's parent, itself included, in file order. Empty for the H1 body.
    pub fn level_of(&self, id: SectionId) -> &[SectionId] {
        match self.section(id).parent {
            Some(parent) => &self.section(parent).children,
            None if id == SectionId::BODY => &[],
            None => &self.top_level,
        }
    }

    /// The section that follows this one at its level.
    pub fn next_sibling(&self, id: SectionId) -> Option<SectionId> {
        let level = self.level_of(id);
        let position = level.binary_search(&id).ok()?;
        level.get(position + 1).copied()
    }

    /// Every Lua block in file order, the shared library first.
    pub fn lua_blocks(&self) -> impl Iterator<Item = &LuaBlock> {
        self.shared_library.iter().chain(self.sections.iter().flat_map(Section::lua_blocks))
    }
}
