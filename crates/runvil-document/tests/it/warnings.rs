//! What is allowed but probably not meant.

use crate::support::{warnings, with_body};

const UNREAD: &str = "this text is never read: no Lua block of its section follows it";
const NO_BLOCK: &str = "this text is never read: its section has no Lua block and is not a list";

#[test]
fn text_nothing_reads_is_named() {
    let text = with_body("# T\nprose\n## S\n```lua\n```\n\n  after\n### List\n- a\n### Note\n\nnote\n");
    assert_eq!(warnings(&text), [format!("12:1 {UNREAD}"), format!("17:1 {NO_BLOCK}")]);
    let text = with_body("# T\n```lua\n```\nafter\n");
    assert_eq!(warnings(&text), [format!("9:1 {UNREAD}")]);
    // Text above a break is meant to be skipped; text above a block may be read.
    let text = with_body("# T\n## S\na\n\n---\nb\n```lua\n```\nc\n\n---\n");
    assert_eq!(warnings(&text), Vec::<String>::new());
}

#[test]
fn code_that_never_runs_is_named() {
    assert_eq!(
        warnings(&with_body("```lua\nx\n```\n\n# T\n")),
        ["6:1 this Lua block stands above the title and never runs; move it below"]
    );
    let message = "this fence is prose, not a Lua block: a Lua block opens with exactly ```lua at the start of a line";
    for opener in ["```Lua", "``` lua", "```lua ", " ```lua", "```lua title"] {
        let text = with_body(&format!("# T\n## S\n{opener}\n```\n```lua\n```\n"));
        let place = if opener.starts_with(' ') { "8:2" } else { "8:1" };
        assert_eq!(warnings(&text), [format!("{place} {message}")], "for {opener:?}");
    }
    for opener in ["````lua", "~~~lua", "```luau"] {
        let close = opener.trim_end_matches(char::is_alphabetic);
        let text = with_body(&format!("# T\n## S\n{opener}\n{close}\n```lua\n```\n"));
        assert_eq!(warnings(&text), Vec::<String>::new(), "for {opener:?}");
    }
}

#[test]
fn a_swallowed_block_is_named() {
    let text = with_body("# T\n## S\n```lua\nx()\n\n## U\n\n```lua\ny()\n```\n");
    assert_eq!(
        warnings(&text),
        ["13:1 this line opens a Lua fence inside a Lua block; is the line ``` above it missing?"]
    );
}

#[test]
fn warnings_come_with_problems_too() {
    let text = with_body("# T\n## S\nnote\n## S\nnote\n");
    assert_eq!(warnings(&text).len(), 2);
    assert_eq!(crate::support::problems(&text).len(), 1);
}
