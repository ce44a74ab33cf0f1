//! A parsed prompt with its Lua compiled.

use std::sync::Arc;

use runvil_document::{Block, Document, ParseKind, Problem, SectionId, Warning, parse};
use runvil_lua::program::{Compiler, Program};

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
        let Some(document) = outcome.document else { return Err(outcome.problems) };
        let compiler = Compiler::new();
        let mut problems = outcome.problems;
        let count = document.sections_in_order().count() + 1;
        let mut steps = Vec::with_capacity(count);
        for id in 0..count {
            let blocks = &document.section(SectionId(id)).blocks;
            steps.push(
                blocks
                    .iter()
                    .filter_map(|block| match block {
                        Block::Prose(prose) => Some(Step::Prose(prose.text.clone())),
                        Block::Lua(lua) => match compiler.compile(&lua.source, &lua.label, lua.line) {
                            Ok(program) => Some(Step::Lua(program)),
                            Err(error) => {
                                problems.push(Problem {
                                    kind: ParseKind::Lua,
                                    message: error.message,
                                    line: Some(error.line.unwrap_or(lua.line)),
                                    column: Some(1),
                                    span: Some(lua.span.clone()),
                                    name: Some(document.frontmatter.name.clone()),
                                });
                                None
                            }
                        },
                    })
                    .collect(),
            );
        }
        if problems.is_empty() { Ok(Self { document, steps, warnings: outcome.warnings }) } else { Err(problems) }
    }

    /// The document.
    pub fn document(&self) -> &Document {
        &self.document
    }

    /// What `check` warns of.
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    pub(crate) fn steps(&self, section: SectionId) -> &[Step] {
        &self.steps[section.0]
    }

    /// Whether the H1 body has anything for the H1 pass.
    pub(crate) fn has_h1_pass(&self) -> bool {
        !self.steps[SectionId::BODY.0].is_empty()
    }
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
