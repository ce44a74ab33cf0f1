//! A parsed prompt with its Lua compiled.

use std::sync::Arc;

use runvil_document::{Block, Document, LuaBlock, ParseKind, Problem, SectionId, Warning, parse};
use runvil_lua::program::{Compiler, Program};

use crate::literal_names;

/// A block of a section as it runs.
#[derive(Debug)]
pub(crate) enum Step {
    /// Prose that the next Lua block may read.
    Prose(String),
    /// A Lua block.
    Lua(Program),
}

/// A prompt ready to run, any number of times.
#[derive(Debug)]
pub struct Prompt {
    document: Document,
    /// The blocks of each section, by section id.
    steps: Vec<Vec<Step>>,
    warnings: Vec<Warning>,
}

impl Prompt {
    /// Parses a prompt file and compiles its Lua.
    ///
    /// Fails with every problem of the file; the first one is the parse error.
    pub fn parse(source: &[u8]) -> Result<Self, Vec<Problem>> {
        let outcome = parse(source);
        let compiler = Compiler::new();
        let mut problems = outcome.problems;
        let Some(document) = outcome.document else {
            for block in &outcome.lua_blocks {
                if let Err(problem) = compile(&compiler, block, None) {
                    problems.push(problem);
                }
            }
            return Err(problems);
        };
        let name = document.frontmatter.name.as_str();
        let sections = std::iter::once(document.body()).chain(document.sections_in_order().map(|(_, section)| section));
        let mut steps = Vec::new();
        for section in sections {
            let mut blocks = Vec::with_capacity(section.blocks.len());
            for block in &section.blocks {
                match block {
                    Block::Prose(prose) => blocks.push(Step::Prose(prose.text.clone())),
                    Block::Lua(lua) => match compile(&compiler, lua, Some(name)) {
                        Ok(program) => blocks.push(Step::Lua(program)),
                        Err(problem) => problems.push(problem),
                    },
                }
            }
            steps.push(blocks);
        }
        if !problems.is_empty() {
            return Err(problems);
        }
        let mut warnings = outcome.warnings;
        warnings.extend(literal_names::undeclared(&document));
        warnings.sort_by_key(|warning| warning.span.start);
        Ok(Self { document, steps, warnings })
    }

    /// The document.
    pub fn document(&self) -> &Document {
        &self.document
    }

    /// What is allowed but probably not meant, in file order: what the parser warns of, and roles, packs and tools
    /// that the Lua names but the frontmatter does not declare.
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    pub(crate) fn steps(&self, section: SectionId) -> &[Step] {
        &self.steps[section.0]
    }

    /// About what starting a run of this prompt has to look at, in bytes.
    pub(crate) fn size(&self) -> usize {
        self.steps.iter().map(|steps| (steps.len() + 1) * size_of::<Step>()).sum()
    }

    /// Whether the H1 body has anything for the H1 pass.
    pub(crate) fn has_h1_pass(&self) -> bool {
        !self.steps[SectionId::BODY.0].is_empty()
    }
}

fn compile(compiler: &Compiler, block: &LuaBlock, name: Option<&str>) -> Result<Program, Problem> {
    compiler.compile(&block.source, &block.label, block.line).map_err(|error| Problem {
        kind: ParseKind::Lua,
        message: error.message,
        line: Some(error.line.unwrap_or(block.line)),
        column: Some(1),
        span: Some(block.span.clone()),
        name: name.map(str::to_owned),
    })
}

/// The items of list sections, for one section of a prompt.
pub(crate) struct Visible {
    pub(crate) prompt: Arc<Prompt>,
    pub(crate) section: SectionId,
}

impl runvil_lua::section::Headings for Visible {
    fn items(&self, reference: &str) -> Result<Vec<String>, String> {
        let document = self.prompt.document();
        let id = document.resolve(self.section, reference).map_err(|error| error.to_string())?;
        let section = document.section(id);
        section.items.clone().ok_or_else(|| format!("section `{}` has no pre-parsed items", section.name))
    }
}
