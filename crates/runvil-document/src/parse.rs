//! From bytes to a document.

use std::ops::Range;
use std::sync::Arc;

use crate::block::LuaBlock;
use crate::dialect;
use crate::document::{Document, Section};
use crate::frontmatter;
use crate::outline::{self, Outline};
use crate::problem::{ParseKind, Problem, Warning};
use crate::source::{Source, lines};

const DELIMITER: &str = "---";

/// The result of [`parse`].
#[derive(Clone, Debug, PartialEq)]
pub struct ParseOutcome {
    /// The document; present exactly when there are no problems.
    pub document: Option<Document>,
    /// Everything wrong with the file: the frontmatter first, then headings, fences and lists, each in file order. The
    /// first one is the parse error of the file.
    pub problems: Vec<Problem>,
    /// What is allowed but probably not meant, in file order.
    pub warnings: Vec<Warning>,
    /// The Lua blocks of a file with problems, in file order, so that their Lua can be checked too. A document holds its
    /// own; then this is empty.
    pub lua_blocks: Vec<LuaBlock>,
}

/// Parses the bytes of a prompt document.
pub fn parse(source: &[u8]) -> ParseOutcome {
    match std::str::from_utf8(source) {
        Ok(text) => parse_text(text),
        Err(error) => {
            let (valid, rest) = source.split_at(error.valid_up_to());
            let valid = std::str::from_utf8(valid).unwrap_or_default();
            failed(vec![invalid_byte(&Source::new(valid), rest.first().copied().unwrap_or_default())])
        }
    }
}

fn failed(problems: Vec<Problem>) -> ParseOutcome {
    ParseOutcome { document: None, problems, warnings: Vec::new(), lua_blocks: Vec::new() }
}

/// The problem of a file whose text ends at a byte that is not UTF-8.
fn invalid_byte(source: &Source<'_>, byte: u8) -> Problem {
    let offset = source.text.len();
    let kind = if split(source).is_ok() { ParseKind::Structure } else { ParseKind::Frontmatter };
    let message = format!("file is not valid UTF-8: unexpected byte 0x{byte:02X}; save the file as UTF-8");
    source.problem(kind, message, offset..offset + 1)
}

fn parse_text(text: &str) -> ParseOutcome {
    let source = Source::new(text);
    let Split { yaml, body } = match split(&source) {
        Ok(split) => split,
        Err(problem) => return failed(vec![problem]),
    };
    let decoded = frontmatter::decode(&source, yaml);
    let rules = dialect::rules(decoded.dialect);
    let Outline { title, sections, top_level, shared_library, problems, warnings } =
        outline::outline(&source, body, rules.shared_fence_refusal);

    let name = decoded.has_name.then(|| decoded.frontmatter.name.clone());
    let below = problems.into_iter().map(|problem| Problem { name: name.clone(), ..problem });
    let problems: Vec<Problem> = decoded.problems.into_iter().chain(below).collect();
    let lua_blocks = if problems.is_empty() {
        Vec::new()
    } else {
        shared_library.iter().chain(sections.iter().flat_map(Section::lua_blocks)).cloned().collect()
    };
    let document = problems.is_empty().then(|| Document {
        dialect: decoded.dialect,
        version: decoded.version,
        frontmatter: decoded.frontmatter,
        title,
        shared_library,
        source: Arc::from(text),
        sections,
        top_level,
    });
    ParseOutcome { document, problems, warnings, lua_blocks }
}

/// The two parts of a file.
struct Split {
    yaml: Range<usize>,
    body: Range<usize>,
}

fn split(source: &Source<'_>) -> Result<Split, Problem> {
    let text = source.text;
    let mut lines = lines(text, source.start..text.len());
    let opening = lines.next().filter(|line| line.text.trim() == DELIMITER);
    let Some(opening) = opening else {
        let message = "file must begin with a --- frontmatter delimiter";
        return Err(source.problem(ParseKind::Frontmatter, message, source.start..source.start));
    };
    let Some(closing) = lines.find(|line| line.text.trim() == DELIMITER) else {
        let message = "frontmatter was not closed with ---";
        return Err(source.problem(ParseKind::Frontmatter, message, opening.span()));
    };
    Ok(Split { yaml: opening.next..closing.start, body: closing.next..text.len() })
}
