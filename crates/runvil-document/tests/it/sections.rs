//! What a section's text becomes: blocks, prose and lists.

use runvil_document::Block;

use crate::support::{assert_problem, document, problems, section, shape, with_body};

/// The shape of a section `S` with this text; the text begins on line 8.
fn shape_of(text: &str) -> Vec<String> {
    shape(section(&document(&with_body(&format!("# T\n## S\n{text}"))), "S"))
}

const LUA: &str = "```lua\nx()\n```\n";

#[test]
fn section_shapes() {
    assert_eq!(shape_of("prose\n"), ["\"prose\""]);
    assert_eq!(shape_of(LUA), ["section `S` prologue:9"]);
    assert_eq!(shape_of(&format!("\n \n{LUA}\n\n")), ["section `S` prologue:11"]);
    assert_eq!(shape_of(&format!("{LUA}after\n")), ["section `S` prologue:9", "\"after\""]);
    assert_eq!(shape_of(&format!("before\n{LUA}")), ["\"before\"", "section `S` epilog:10"]);
    assert_eq!(shape_of(&format!("{LUA}{LUA}")), ["section `S` prologue:9", "\"\"", "section `S` epilog:12"]);
    assert_eq!(shape_of(&format!("{LUA}\n  \n{LUA}")), ["section `S` prologue:9", "\"\"", "section `S` epilog:14"]);
    assert_eq!(
        shape_of(&format!("{LUA}one\n{LUA}two\n{LUA}")),
        ["section `S` prologue:9", "\"one\"", "section `S` lua:13", "\"two\"", "section `S` epilog:17"]
    );
    assert_eq!(shape_of(&format!("one\n{LUA}two\n")), ["\"one\"", "section `S` lua:10", "\"two\""]);
    assert_eq!(shape_of(""), Vec::<String>::new());
    assert_eq!(shape_of("\n  \n\t\n"), Vec::<String>::new());
    assert_eq!(shape_of("```lua\n```\n"), ["section `S` prologue:9"]);
}

#[test]
fn the_body_of_the_title_has_blocks_of_its_own() {
    let body = |text: &str| shape(document(&with_body(&format!("# T\n{text}\n## S\n"))).body());
    assert_eq!(body(""), Vec::<String>::new());
    assert_eq!(body("Only prose.\n"), ["\"Only prose.\""]);
    assert_eq!(body(&format!("a\n{LUA}{LUA}")), ["\"a\"", "H1 `T` lua:9", "\"\"", "H1 `T` lua:12"]);
    let document = document(&with_body("# T\n- a\n- b\n"));
    assert_eq!(document.body().items, None);
}

#[test]
fn prose_loses_surrounding_blank_lines_only() {
    assert_eq!(shape_of("\n \n    indented\n\n  text  \n\n\t\n"), ["\"    indented\\n\\n  text  \""]);
    assert_eq!(shape_of("no line end"), ["\"no line end\""]);
    assert_eq!(shape_of("a {{ b\n```lua x\nc\n```\n"), ["\"a {{ b\\n```lua x\\nc\\n```\""]);
}

#[test]
fn only_text_below_the_last_thematic_break_counts() {
    for line in ["---", "***", "___", "- - -", "  ---  "] {
        assert_eq!(shape_of(&format!("above\n\n{line}\n\nbelow\n{LUA}")), ["\"below\"", "section `S` epilog:14"]);
    }
    assert_eq!(shape_of(&format!("a\n\n---\nb\n\n---\nc\n\n{LUA}")), ["\"c\"", "section `S` epilog:17"]);
    // Nothing below the break: the fence opens the section.
    assert_eq!(shape_of(&format!("a\n\n---\n{LUA}")), ["section `S` prologue:12"]);
    assert_eq!(
        shape_of(&format!("{LUA}a\n\n---\n{LUA}b\n\n---\nc")),
        ["section `S` prologue:9", "\"\"", "section `S` lua:15", "\"c\""]
    );
    assert_eq!(shape_of(&format!("{LUA}a\n\n---\n")), ["section `S` prologue:9"]);
    // Inert inside fences, quotes and lists.
    assert_eq!(shape_of("a\n\n~~~\n---\n~~~\n\n> ---\n"), ["\"a\\n\\n~~~\\n---\\n~~~\\n\\n> ---\""]);
    assert_eq!(shape_of("a\n```lua\n\n---\n```\n"), ["\"a\"", "section `S` epilog:10"]);
    let document = document(&with_body("# T\nDescription.\n\n---\nBelow.\n"));
    assert_eq!(shape(document.body()), ["\"Below.\""]);
}

#[test]
fn a_break_line_below_text_makes_a_heading() {
    let document = document(&with_body("# T\nSome prose\n---\nx\n"));
    assert_eq!(shape(section(&document, "Some prose")), ["\"x\""]);
    assert_eq!(shape(document.body()), Vec::<String>::new());
}

#[test]
fn line_ends_make_no_difference() {
    let unix = with_body(
        "# T\n\nintro\n\n---\nkept\nmore\n\n## S\n\ntwo\nlines\n\n```lua\nlocal a = 1\nreturn a\n```\n\n### L\n\n- a\n- b\n",
    );
    let windows = unix.replace('\n', "\r\n");
    let (unix, windows) = (document(&unix), document(&windows));
    let places = |document: &runvil_document::Document| {
        let rows =
            document.sections_in_order().map(|(_, section)| (section.line, shape(section), section.items.clone()));
        rows.collect::<Vec<_>>()
    };
    assert_eq!(places(&unix), places(&windows));
    assert_eq!(shape(unix.body()), shape(windows.body()));
    let Block::Lua(lua) = &section(&windows, "S").blocks[1] else { panic!("a Lua block") };
    assert_eq!(lua.source, "local a = 1\r\nreturn a\r\n");
}

#[test]
fn list_sections_have_items() {
    let items = |text: &str| section(&document(&with_body(&format!("# T\n## S\n{text}"))), "S").items.clone();
    let list = |items: &[&str]| Some(items.iter().map(|&item| item.to_owned()).collect::<Vec<_>>());
    assert_eq!(items("- alpha\n* beta\n- gamma\n"), list(&["alpha", "beta", "gamma"]));
    assert_eq!(items("1. first\n2. second\n3) third\n"), list(&["first", "second", "third"]));
    assert_eq!(items("- alpha\n\n---\n- beta\n"), list(&["beta"]));
    assert_eq!(items("\n- a\n\n   \n    - nested \n"), list(&["a", "nested"]));
    assert_eq!(items("-   spaced\t\n0042) x"), list(&["  spaced", "x"]));
    assert_eq!(items("- a\nplain\n"), None);
    assert_eq!(items("-a\n"), None);
    assert_eq!(items("-\ta\n"), None);
    assert_eq!(items("+ a\n"), None);
    assert_eq!(items(". a\n"), None);
    assert_eq!(items(""), None);
    assert_eq!(items(&format!("- a\n{LUA}")), None);
    let document = document(&with_body("# T\n## S\n### Deep\n- a\n"));
    assert_eq!(section(&document, "Deep").items, list(&["a"]));
}

#[test]
fn list_items_must_have_text() {
    for (text, place) in
        [("- a\n-\n", "9:1"), ("- \n", "8:1"), ("  *   \n- a\n", "8:3"), ("1.\n", "8:1"), ("2) \n", "8:1")]
    {
        assert_problem(
            &with_body(&format!("# T\n## S\n{text}")),
            &format!("List {place} empty bullet item in list section `S`"),
        );
    }
    // Not a list: no problem.
    assert_eq!(problems(&with_body("# T\n## S\n- a\n-\nplain\n")), Vec::<String>::new());
}
