//! Any bytes get an answer, and every place in the answer fits the bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use runvil_document::{Block, SectionId, parse};

fuzz_target!(|bytes: &[u8]| {
    let outcome = parse(bytes);
    assert_eq!(outcome.document.is_some(), outcome.problems.is_empty());
    for problem in &outcome.problems {
        let span = problem.span.clone().expect("a parser's problem has a span");
        assert!(bytes.get(span).is_some(), "{problem:?}");
        assert!(problem.line.is_some_and(|line| line > 0) && problem.column.is_some_and(|column| column > 0));
    }
    for warning in &outcome.warnings {
        assert!(bytes.get(warning.span.clone()).is_some(), "{warning:?}");
    }
    let Some(document) = &outcome.document else { return };
    let source = &*document.source;
    assert_eq!(source.as_bytes(), bytes);
    let sections = document.sections_in_order().map(|(id, _)| id);
    for id in std::iter::once(SectionId::BODY).chain(sections) {
        let section = document.section(id);
        let text = &source[section.span.clone()];
        for block in &section.blocks {
            match block {
                Block::Prose(prose) => assert!(text.len() >= source[prose.span.clone()].len()),
                Block::Lua(lua) => assert_eq!(lua.source, source[lua.span.clone()]),
            }
        }
        for visible in document.visible_from(id) {
            assert_eq!(document.resolve(id, &document.section(visible).heading()), Ok(visible));
        }
    }
});
