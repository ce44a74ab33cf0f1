//! The title and section headings.

use runvil_document::{Document, SectionId};

use crate::support::{assert_problem, document, problems, section, with_body};

fn outline(document: &Document) -> Vec<String> {
    document
        .sections_in_order()
        .map(|(_, section)| {
            let parent = section.parent.map_or("-", |parent| &document.section(parent).name);
            format!("{} in {parent} at {}:{}", section.heading(), section.line, section.column)
        })
        .collect()
}

#[test]
fn sections_nest_by_level() {
    let document = document(&with_body("# Title\n## A\n### B\n#### C\n### D\n  ## E\n### B\n"));
    assert_eq!(
        outline(&document),
        [
            "## A in - at 7:1",
            "### B in A at 8:1",
            "#### C in B at 9:1",
            "### D in A at 10:1",
            "## E in - at 11:3",
            "### B in E at 12:1",
        ]
    );
    assert_eq!(document.top_level(), [SectionId(1), SectionId(5)]);
    assert_eq!(document.section(SectionId(1)).children, [SectionId(2), SectionId(4)]);
    assert_eq!(document.next_sibling(SectionId(1)), Some(SectionId(5)));
    assert_eq!(document.next_sibling(SectionId(4)), None);
    assert_eq!(document.next_sibling(SectionId::BODY), None);
    assert_eq!((document.body().level, document.body().line, document.body().column), (1, 6, 1));
    assert_eq!(document.body().parent, None);
}

#[test]
fn names_are_the_text_of_headings() {
    for (heading, name) in [
        ("## Run `fetch`", "Run fetch"),
        ("##   Wide   inside  ##", "Wide   inside"),
        ("## *One* __two__ [three](/url) ![four](x) <b>five</b>", "One two three four five"),
        ("## A &amp; B \\*", "A & B *"),
        ("Two\nlines\n---", "Two lines"),
        ("Set **ext**\n-----", "Set ext"),
        ("## See [docs][d]\n\n[d]: /url", "See docs"),
        ("##\tTab", "Tab"),
    ] {
        let document = document(&with_body(&format!("# T\n\n{heading}\n")));
        let names: Vec<_> = document.sections_in_order().map(|(_, section)| section.name.clone()).collect();
        assert_eq!(names, [name], "for {heading:?}");
    }
    assert_eq!(document(&with_body("Some `title`\n===\n")).title, "Some title");
}

#[test]
fn lines_that_are_no_top_level_headings_make_no_sections() {
    let body = "# T\n\n~~~\n## in code\n~~~\n\n```text\n# in code\n```\n\n> # quoted\n\n- ## in a list\n\n    # indented\n\n<div>\n# in html\n</div>\n\n#hashtag\n\n####### seven\n";
    assert_eq!(document(&with_body(body)).sections_in_order().count(), 0);
    let body = "# T\n```lua\n-- x\n## not a heading\nlocal s = [[\n---\n]]\n```\n";
    assert_eq!(document(&with_body(body)).sections_in_order().count(), 0);
}

#[test]
fn exactly_one_title_is_required() {
    assert_problem(&with_body(""), "Structure 5:1 prompt requires an H1 title");
    assert_problem(&with_body("\n\n"), "Structure 5:1 prompt requires an H1 title");
    assert_problem(&with_body("## A\n"), "Structure 6:1 prompt requires an H1 title");
    assert_problem(&with_body("# A\n\n# B\n"), "Structure 8:1 prompt must contain exactly one H1 title");
    assert_problem(&with_body("# A\nB\n===\n"), "Structure 7:1 prompt must contain exactly one H1 title");
    assert_problem(&with_body("#\n"), "Structure 6:1 prompt H1 title must not be empty");
    assert_problem(&with_body("#   \t\n## A\n"), "Structure 6:1 prompt H1 title must not be empty");
    assert_eq!(
        problems(&with_body("# A\n## S\n# \n## S\n")),
        ["Structure 8:1 prompt must contain exactly one H1 title", "Structure 8:1 prompt H1 title must not be empty",]
    );
}

#[test]
fn notes_above_the_title_are_ignored() {
    let document = document(&with_body("Notes\n\n## Not a section\n\n#### Nor this\n\n# Title\n\n## A\n"));
    assert_eq!(outline(&document), ["## A in - at 14:1"]);
    assert_eq!(document.title, "Title");
}

#[test]
fn headings_must_have_text() {
    assert_problem(&with_body("# T\n##\n"), "Structure 7:1 an H2 section heading must not be empty");
    assert_problem(&with_body("# T\n## A\n### <b></b>\n"), "Structure 8:1 an H3 section heading must not be empty");
}

#[test]
fn orphans_are_refused() {
    assert_problem(
        &with_body("# T\n## A\n#### B\n"),
        "Structure 8:1 section `B` is an orphan H4 heading with no parent H3",
    );
    assert_problem(&with_body("# T\n#### B\n"), "Structure 7:1 section `B` is an orphan H4 heading with no parent H2");
    assert_eq!(
        problems(&with_body("# T\n### A\n#### B\n###### C\n")),
        [
            "Structure 7:1 section `A` is an orphan H3 heading with no parent H2",
            "Structure 9:1 section `C` is an orphan H6 heading with no parent H5",
        ]
    );
}

#[test]
fn siblings_have_different_names() {
    let text = "---\nname: dup\ndescription: d\nrunvil: 0\n---\n\n# T\n\n## A\n\ntext\n\n## A\n\n## A\n";
    assert_eq!(
        problems(text),
        [
            "Structure 13:1 duplicate sibling section name `A`: first declared at line 9, again at line 13; sibling section names must be unique",
            "Structure 15:1 duplicate sibling section name `A`: first declared at line 9, again at line 15; sibling section names must be unique",
        ]
    );
    let outcome = runvil_document::parse(text.as_bytes());
    assert_eq!(outcome.problems[0].name.as_deref(), Some("dup"));
    document(&with_body("# A\n## A\n### A\n## B\n### A\n## a\n"));
}

#[test]
fn problems_come_in_order_of_kind() {
    let body = "# T\n## L\n- a\n-\n\n### Q\n```lua\nx\n``` \n\n## L\n```lua\n";
    assert_eq!(
        problems(&with_body(body)),
        [
            "Structure 16:1 duplicate sibling section name `L`: first declared at line 7, again at line 16; sibling section names must be unique",
            "Fence 12:1 section `Q` `lua` fence is not closed exactly",
            "Fence 17:1 section `L` prologue `lua` fence is not closed",
            "List 9:1 empty bullet item in list section `L`",
        ]
    );
}

#[test]
fn a_lone_carriage_return_ends_a_line_for_markdown() {
    let document = document(&with_body("# T\rab\ncd\n---\nx\n"));
    assert_eq!(outline(&document), ["## ab cd in - at 6:5"]);
    assert!(document.body().blocks.is_empty());
}

#[test]
fn a_section_spans_its_heading_and_its_own_text() {
    let text = with_body("# T\nx\n\n## A\ny\n### B\n\nC\n---\nz");
    let document = document(&text);
    let spans: Vec<_> = document.sections_in_order().map(|(_, section)| &text[section.span.clone()]).collect();
    assert_eq!(spans, ["## A\ny\n", "### B\n\n", "C\n---\nz"]);
    assert_eq!(&text[document.body().span.clone()], "# T\nx\n\n");
    assert_eq!(section(&document, "C").level, 2);
}
