//! What the files of the `promptforge` dialect have besides.

use runvil_document::{Dialect, FileDeclaration, ToolSlot, Use};

use crate::support::{assert_problem, document, problems, shape};

fn with_keys(keys: &str) -> String {
    format!("---\nname: n\ndescription: d\npromptforge: 0\n{keys}\n---\n# Title\n")
}

fn with_body(body: &str) -> String {
    format!("---\nname: n\ndescription: d\npromptforge: 0\n---\n{body}")
}

#[track_caller]
fn assert_invalid(keys: &str, place: &str, detail: &str) {
    assert_problem(&with_keys(keys), &format!("Frontmatter {place} invalid frontmatter: {detail}"));
}

#[test]
fn its_own_keys_are_read() {
    let document = document(&with_keys(concat!(
        "input: {path: in.txt, description: The input.}\n",
        "output: {path: out.txt, description: The output.}\n",
        "capabilities:\n",
        "  - promptforge/web\n",
        "  - {ref: a.b/c, optional: true}\n",
        "tools:\n",
        "  page: promptforge/web/fetch",
    )));
    let frontmatter = &document.frontmatter;
    assert_eq!((document.dialect, document.version), (Some(Dialect::PromptForge), Some(0)));
    assert_eq!(
        frontmatter.uses,
        [
            Use { pack: "promptforge/web".to_owned(), optional: false, config: None },
            Use { pack: "a.b/c".to_owned(), optional: true, config: None },
        ]
    );
    let slot = ToolSlot { alias: "page".to_owned(), path: "promptforge/web/fetch".to_owned() };
    assert_eq!(frontmatter.tools, [slot]);
    let file = |path: &str, description: &str| {
        Some(FileDeclaration { path: path.to_owned(), description: description.to_owned() })
    };
    assert_eq!(frontmatter.input, file("in.txt", "The input."));
    assert_eq!(frontmatter.output, file("out.txt", "The output."));
}

#[test]
fn unknown_keys_list_its_ten() {
    assert_invalid(
        "uses: [web]",
        "5:1",
        "unknown field `uses`, expected one of `name`, `description`, `promptforge`, `max_tool_iterations`, `input`, `output`, `capabilities`, `tools`, `args`, `models`",
    );
}

#[test]
fn capability_ids_have_two_segments() {
    let invalid = |text: &str, reason: &str| {
        let detail = format!("invalid capability id `{text}`: {reason}");
        assert_invalid(&format!("capabilities:\n  - {text:?}"), "6:5", &detail);
    };
    invalid("a/b/c", "a capability id has exactly 2 segments (namespace/pack)");
    for text in ["", "a", "a/b/c/d"] {
        invalid(text, "invalid global name: must have exactly 2 segments (namespace/pack) or 3 (namespace/pack/name)");
    }
    invalid("a/", "invalid global name: segments must not be empty");
    invalid("a/B", "invalid global name: segments may contain only lowercase ASCII letters, digits, '-', '_', '.'");
    assert_invalid("capabilities: [{optional: true}]", "5:16", "missing field `ref`");
    assert_invalid(
        "capabilities: [{ref: a/b, pack: x}]",
        "5:27",
        "unknown field `pack`, expected one of `ref`, `optional`, `config`",
    );
    assert_invalid(
        "capabilities: [5]",
        "5:16",
        "invalid type: integer `5`, expected a capability id string or a map with `ref`, `optional`, and `config`",
    );
}

#[test]
fn tool_slots_are_aliases_for_paths() {
    let invalid = |path: &str, reason: &str| {
        let detail = format!("invalid exact tool path `{path}`: invalid tool id: {reason}");
        assert_invalid(&format!("tools: {{t: {path:?}}}"), "5:12", &detail);
    };
    for path in ["", "a", "a/b", "a/b/c/d"] {
        invalid(path, "a tool id must have exactly 3 segments (namespace/pack/name)");
    }
    invalid("a//c", "segments must not be empty");
    invalid("a/b/C", "segments may contain only lowercase ASCII letters, digits, '-', '_', '.'");
    assert_invalid(
        "tools: {t: \"a/b/\\u0007\"}",
        "5:12",
        "invalid exact tool path `a/b/\u{7}`: invalid tool id: segments may contain only lowercase ASCII letters, digits, '-', '_', '.'",
    );
    assert_invalid("tools: {t: 5}", "5:12", "invalid type: integer `5`, expected an exact tool path string");
    assert_invalid("tools: {1: a/b/c}", "5:9", "invalid tool alias `1`: expected [A-Za-z][A-Za-z0-9_-]{0,63}");
    assert_invalid("tools: {t: a/b/c, t: a/b/c}", "5:19", "duplicate tool alias `t`: contract map keys must be unique");
}

#[test]
fn file_declarations_are_complete() {
    assert_invalid("input: {path: a}", "5:8", "missing field `description`");
    assert_invalid(
        "output: {path: a, description: b, kind: c}",
        "5:35",
        "unknown field `kind`, expected one of `path`, `description`",
    );
}

#[test]
fn the_shared_library_is_no_block() {
    let body = "# T\nDescription above.\n\n---\n```lua shared\nf = 1\n```\n\nBelow prose.\n";
    let document = document(&with_body(body));
    let library = document.shared_library.as_ref().expect("a shared library");
    assert_eq!(
        (library.source.as_str(), library.label.as_str(), library.line),
        ("f = 1\n", "prompt shared library", 11)
    );
    assert_eq!(shape(document.body()), ["\"Below prose.\""]);
    assert_eq!(document.lua_blocks().count(), 1);
    let document = crate::support::document(&with_body("# T\na\n```lua shared\n```\nb\n```lua\n```\n"));
    assert_eq!(shape(document.body()), ["\"a\\nb\"", "H1 `T` lua:12"]);
}

#[test]
fn shared_fences_have_one_place() {
    let misplaced = "`lua shared` fence is allowed only in H1";
    let shared = "```lua shared\n```\n";
    assert_problem(&with_body(&format!("# T\n## S\n{shared}")), &format!("Fence 8:1 {misplaced}"));
    assert_problem(&with_body(&format!("{shared}# T\n")), &format!("Fence 6:1 {misplaced}"));
    assert_problem(
        &with_body(&format!("# T\n{shared}{shared}")),
        "Fence 9:1 prompt allows at most one `lua shared` fence",
    );
    assert_eq!(
        problems(&with_body(&format!("# T\n## S\n{shared}{shared}"))),
        ["Fence 10:1 prompt allows at most one `lua shared` fence".to_owned(), format!("Fence 8:1 {misplaced}")]
    );
    assert_problem(&with_body("# T\n```lua shared\nx\n"), "Fence 7:1 prompt `lua shared` fence is not closed");
}
