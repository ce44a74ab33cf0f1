//! Short forms for the tests.

use runvil_document::{Block, Document, ParseOutcome, Section, parse};

/// A document with the least frontmatter that runs; the body begins on line 6.
pub(crate) fn with_body(body: &str) -> String {
    format!("---\nname: test\ndescription: A test.\nrunvil: 0\n---\n{body}")
}

/// A document with more frontmatter from line 5 on.
pub(crate) fn with_keys(keys: &str) -> String {
    format!("---\nname: test\ndescription: A test.\nrunvil: 0\n{keys}\n---\n# Title\n")
}

pub(crate) fn document(text: &str) -> Document {
    let outcome = parse(text.as_bytes());
    assert_eq!(problems_of(&outcome), Vec::<String>::new(), "in {text:?}");
    outcome.document.expect("no problems, so a document")
}

/// Every problem as `Kind line:column message`.
pub(crate) fn problems(text: &str) -> Vec<String> {
    problems_of(&parse(text.as_bytes()))
}

pub(crate) fn problems_of(outcome: &ParseOutcome) -> Vec<String> {
    assert_eq!(outcome.document.is_some(), outcome.problems.is_empty());
    let place = |value: Option<usize>| value.map_or("-".to_owned(), |value| value.to_string());
    let text = |problem: &runvil_document::Problem| {
        format!("{} {}:{} {problem}", problem.kind, place(problem.line), place(problem.column))
    };
    outcome.problems.iter().map(text).collect()
}

/// Every warning as `line:column message`.
pub(crate) fn warnings(text: &str) -> Vec<String> {
    let outcome = parse(text.as_bytes());
    outcome.warnings.iter().map(|warning| format!("{}:{} {warning}", warning.line, warning.column)).collect()
}

/// Asserts that a file has exactly one problem.
#[track_caller]
pub(crate) fn assert_problem(text: &str, expected: &str) {
    assert_eq!(problems(text), [expected], "in {text:?}");
}

/// Asserts that frontmatter keys (from line 5 on) have exactly one problem: a place and a detail.
#[track_caller]
pub(crate) fn assert_invalid(keys: &str, place: &str, detail: &str) {
    assert_problem(&with_keys(keys), &format!("Frontmatter {place} invalid frontmatter: {detail}"));
}

/// The section with this name.
pub(crate) fn section<'a>(document: &'a Document, name: &str) -> &'a Section {
    document.sections_in_order().find(|(_, section)| section.name == name).expect("the section exists").1
}

/// The blocks of a section: prose as its text in quotes, Lua as its label and line.
pub(crate) fn shape(section: &Section) -> Vec<String> {
    let text = |block: &Block| match block {
        Block::Prose(prose) => format!("{:?}", prose.text),
        Block::Lua(lua) => format!("{}:{}", lua.label, lua.line),
    };
    section.blocks.iter().map(text).collect()
}
