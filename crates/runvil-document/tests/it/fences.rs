//! Which fences are live, and how they end.

use runvil_document::{Block, LuaBlock};

use crate::support::{assert_problem, document, problems, with_body};

/// The Lua sources of a document with this body below a section `S`, whose text begins on line 8.
fn sources(text: &str) -> Vec<String> {
    let document = document(&with_body(&format!("# T\n## S\n{text}")));
    document.lua_blocks().map(|lua| lua.source.clone()).collect()
}

#[test]
fn only_exact_top_level_lines_open_a_block() {
    for text in [
        "```Lua\nx\n```\n",
        "```lua \nx\n```\n",
        "``` lua\nx\n```\n",
        "````lua\nx\n````\n",
        "~~~lua\nx\n~~~\n",
        " ```lua\nx\n ```\n",
        "```lua local\nx\n```\n",
        "```\nx\n```\n",
        "- ```lua\n  x\n  ```\n",
        "> ```lua\n> x\n> ```\n",
        "````md\n```lua\nx\n```\n````\n",
        "~~~\n```lua\nx\n```\n~~~\n",
        "<div>\n```lua\nx\n```\n</div>\n",
        "<!--\n\n```lua\nx\n```\n-->\n",
        "    ```lua\n    x\n    ```\n",
        "text ```lua\n",
    ] {
        assert_eq!(sources(text), Vec::<String>::new(), "for {text:?}");
    }
    for text in ["para\n```lua\nx\n```\n", "- item\n```lua\nx\n```\n", "> quote\n```lua\nx\n```\n", "```lua\nx\n```"] {
        assert_eq!(sources(text), ["x\n"], "for {text:?}");
    }
    assert_eq!(sources("- ```\n  x\n```lua\ny\n```\n"), ["y\n"]);
}

#[test]
fn only_an_exact_line_closes_a_block() {
    assert_eq!(sources("```lua\n````\n```\n"), ["````\n"]);
    assert_eq!(sources("```lua\n``` \n ```\n``\n~~~\n```x\n```\n"), ["``` \n ```\n``\n~~~\n```x\n"]);
    assert_eq!(sources("```lua\n## x\n---\n# y\n```\n"), ["## x\n---\n# y\n"]);
    // What CommonMark would read below such a line is still Lua.
    assert_eq!(sources("```lua\n````\n## x\n\n# y\n```\n\n```lua\nz\n```\n"), ["````\n## x\n\n# y\n", "z\n"]);
    assert_eq!(sources("```lua\r\nx\r\n```\r\n"), ["x\r\n"]);
    assert_eq!(sources("```lua\n```\n```lua\n```\n"), ["", ""]);
    // A line that opens a fence is Lua source too.
    assert_eq!(sources("```lua\nlocal s = [[\n```lua\n]]\n```\n"), ["local s = [[\n```lua\n]]\n"]);
}

#[test]
fn blocks_know_their_lines_and_labels() {
    let document = document(&with_body("# T\n```lua\na\n```\n## S\n\n```lua\nb\n```\nmid\n```lua\nc\n```\n"));
    let blocks: Vec<_> = document
        .lua_blocks()
        .map(|LuaBlock { label, line, source, .. }| (label.as_str(), *line, source.as_str()))
        .collect();
    assert_eq!(
        blocks,
        [("H1 `T` lua", 8, "a\n"), ("section `S` prologue", 13, "b\n"), ("section `S` epilog", 17, "c\n")]
    );
    assert!(matches!(document.body().blocks[..], [Block::Lua(_)]));
}

#[test]
fn unclosed_fences_are_named_by_their_place() {
    let unclosed = |text: &str, expected: &str| assert_problem(&with_body(&format!("# T\n{text}")), expected);
    unclosed("## S\n```lua\nx\n", "Fence 8:1 section `S` prologue `lua` fence is not closed");
    unclosed("## S\n\n```lua", "Fence 9:1 section `S` prologue `lua` fence is not closed");
    unclosed("## S\nprose\n```lua\nx\n", "Fence 9:1 section `S` epilog `lua` fence is not closed");
    unclosed("## S\n```lua\n```\n```lua\nx\n", "Fence 10:1 section `S` epilog `lua` fence is not closed");
    unclosed("```lua\nx\n", "Fence 7:1 section `T` prologue `lua` fence is not closed");
    unclosed("x\n```lua\nx\n", "Fence 8:1 section `T` epilog `lua` fence is not closed");
    unclosed("## S\n```lua\nx\n``` \n\n## After\n", "Fence 8:1 section `S` prologue `lua` fence is not closed");
    // Neither the first nor the last: the line that looks like its end ends it for everything below.
    unclosed("## S\nprose\n```lua\nx\n````\n~~~lua\n~~~\n", "Fence 9:1 section `S` epilog `lua` fence is not closed");
}

#[test]
fn a_bad_closing_line_above_another_block_is_not_exact() {
    let text = "# T\n## S\n```lua\nx\n``` \n\n## U\n```lua\ny\n```\n";
    assert_problem(&with_body(text), "Fence 8:1 section `S` `lua` fence is not closed exactly");
    assert_problem(
        &with_body(&text.replace("``` \n", "````\n")),
        "Fence 8:1 section `S` `lua` fence is not closed exactly",
    );
    // Each block is judged on its own.
    assert_eq!(
        problems(&with_body("# T\n## S\n```lua\nx\n ```\n```lua\ny\n```  \n```lua\nz\n")),
        [
            "Fence 8:1 section `S` `lua` fence is not closed exactly",
            "Fence 11:1 section `S` `lua` fence is not closed exactly",
            "Fence 14:1 section `S` epilog `lua` fence is not closed",
        ]
    );
}

#[test]
fn shared_fences_are_refused_wherever_they_stand() {
    let refusal = "`lua shared` fence is not part of a runvil prompt: move the code to a file beside the prompt and load it with `require`";
    for (text, place) in [
        ("# T\n```lua shared\nx\n```\n", "7:1"),
        ("# T\n## S\n\n```lua shared\nx\n```\n", "9:1"),
        ("```lua shared\nx\n```\n\n# T\n", "6:1"),
    ] {
        assert_problem(&with_body(text), &format!("Fence {place} {refusal}"));
    }
    for text in ["```lua  shared\nx\n```\n", "````\n```lua shared\n```\n````\n", "```lua shared \nx\n```\n"] {
        assert_eq!(sources(text), Vec::<String>::new());
    }
}
