//! What holds for every input.

use proptest::prelude::*;
use runvil_document::{Block, Document, parse};

/// Pieces that documents are made of, so that random texts reach deep.
fn piece() -> impl Strategy<Value = String> {
    let fixed = prop::sample::select(vec![
        "---\n",
        "# T\n",
        "## A\n",
        "### B\n",
        "#### C\n",
        "##\n",
        "text\n",
        "text",
        "\n",
        "\r\n",
        "\r",
        "```lua\n",
        "```\n",
        "```lua shared\n",
        "````\n",
        "``` \n",
        "~~~\n",
        "- a\n",
        "- ",
        "1. b\n",
        "> q\n",
        "***\n",
        "    x\n",
        "<div>\n",
        "<!--",
        "-->",
        "===\n",
        "[a]: /u\n",
        "[a]",
        "é",
        "\u{feff}",
        "\t",
        "`",
        "*",
        "```lua\r\n",
        "```\r\n",
        "\0",
        "name: n\n",
        "description: d\n",
        "runvil: 0\n",
        "promptforge: 0\n",
        "uses:\n",
        "  - web\n",
        "models: {a: {}}\n",
        "args:\n",
        "  q: {type: string}\n",
        "&a ",
        "*a",
        "!!str ",
        "? ",
        ": ",
        "[",
        "]",
        "{",
        "}",
        "|\n",
        ">-\n",
        "\"",
        "'",
        "# c\n",
        "%TAG ! x\n",
        "...\n",
        "max_tool_iterations: 5\n",
    ])
    .prop_map(str::to_owned);
    prop_oneof![9 => fixed, 1 => "\\PC{0,6}"]
}

fn text() -> impl Strategy<Value = String> {
    let start = prop::sample::select(vec![
        "",
        "---\n",
        "---\nname: n\ndescription: d\nrunvil: 0\n---\n# T\n",
        "\u{feff}---\r\nname: n\r\ndescription: d\r\npromptforge: 0\r\n---\r\n# T\r\n",
    ]);
    (start, prop::collection::vec(piece(), 0..40)).prop_map(|(start, pieces)| start.to_owned() + &pieces.concat())
}

/// The line and column of an offset, counted the slow way.
fn location(text: &str, offset: usize) -> (usize, usize) {
    let above = text.strip_prefix('\u{feff}').map_or(&text[..offset], |_| &text[3.min(offset)..offset]);
    let line = above.rsplit('\n').next().unwrap_or_default();
    (above.matches('\n').count() + 1, line.chars().count() + 1)
}

fn check_document(document: &Document) {
    let source = &*document.source;
    let mut previous = None;
    for (id, section) in
        std::iter::once((runvil_document::SectionId::BODY, document.body())).chain(document.sections_in_order())
    {
        assert!(previous.is_none_or(|end: usize| end == section.span.start), "sections lie side by side");
        previous = Some(section.span.end);
        assert!(section.level == 1 || document.level_of(id).contains(&id));
        assert_eq!((section.line, section.column), location(source, section.span.start));
        let mut position = section.span.start;
        for block in &section.blocks {
            let span = match block {
                Block::Prose(prose) => {
                    let slice = &source[prose.span.clone()];
                    if !slice.contains("```lua shared") {
                        assert_eq!(prose.text, slice.replace("\r\n", "\n"));
                    }
                    assert_eq!(prose.line, location(source, prose.span.start).0);
                    &prose.span
                }
                Block::Lua(lua) => {
                    assert_eq!(lua.source, source[lua.span.clone()]);
                    let opener = source[..lua.span.start].lines().last();
                    assert!(opener.is_some_and(|line| line == "```lua"));
                    assert_eq!(lua.line, source[..lua.span.start].matches('\n').count() + 1);
                    assert_eq!(source[lua.span.end..].lines().next(), Some("```"));
                    assert!(!lua.source.lines().any(|line| line == "```"));
                    &lua.span
                }
            };
            assert!(position <= span.start && span.end <= section.span.end, "blocks come in order");
            position = span.end;
        }
    }
    assert!(previous.is_some());
}

fn check(text: &str) {
    let outcome = parse(text.as_bytes());
    assert_eq!(outcome.document.is_some(), outcome.problems.is_empty());
    for problem in &outcome.problems {
        let span = problem.span.clone().expect("a parser's problem has a span");
        assert!(text.get(span.clone()).is_some(), "{problem:?}");
        assert_eq!((problem.line.unwrap(), problem.column.unwrap()), location(text, span.start), "{problem:?}");
    }
    for warning in &outcome.warnings {
        assert!(text.get(warning.span.clone()).is_some(), "{warning:?}");
        assert_eq!((warning.line, warning.column), location(text, warning.span.start), "{warning:?}");
    }
    if let Some(document) = &outcome.document {
        check_document(document);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_get_an_answer(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let outcome = parse(&bytes);
        prop_assert_eq!(outcome.document.is_some(), outcome.problems.is_empty());
    }

    #[test]
    fn any_text_gets_places_that_fit(text in text()) {
        check(&text);
    }

    #[test]
    fn any_frontmatter_gets_places_that_fit(yaml in prop::collection::vec(piece(), 0..20)) {
        check(&format!("---\n{}\n---\n# T\n", yaml.concat()));
    }
}
