//! Hostile YAML and input that is not text.

use std::fmt::Write as _;

use runvil_document::parse;

use crate::support::{assert_invalid, assert_problem, document, problems, problems_of, with_keys};

#[test]
fn yaml_syntax_errors_have_a_position() {
    for (keys, place) in [("uses: [a", "6:1"), ("a: b: c", "5:5"), ("x: *nowhere", "5:4"), ("  x: 1", "5:4")] {
        let problems = problems(&with_keys(keys));
        assert_eq!(problems.len(), 1, "{problems:?}");
        let expected = format!("Frontmatter {place} invalid frontmatter: ");
        assert!(problems[0].starts_with(&expected), "{keys:?}: {problems:?}");
    }
}

#[test]
fn columns_count_characters() {
    assert_invalid(
        &format!("uses: [{{pack: a, config: {{{}: 1, 2: 3, 2: 4}}}}]", "é".repeat(3000)),
        "5:3038",
        "duplicate field `2`",
    );
    assert_problem(
        "---\nname: n\ndescription: d\nuses: [{pack: x, config: {éé: 1, éé: 2}}]\n---\n# T\n",
        "Frontmatter 4:34 invalid frontmatter: duplicate field `éé`",
    );
}

#[test]
fn aliases_stand_for_values_and_problems_point_at_the_alias() {
    let text = with_keys("models:\n  a: &base {keywords: [fast]}\n  b: *base");
    let document = document(&text);
    assert_eq!(document.frontmatter.models[0].keywords, document.frontmatter.models[1].keywords);
    assert_eq!(
        problems(&with_keys("models: {a: &r {min_context: &n 0}, b: *r}\nargs: *n")),
        [
            "Frontmatter 5:30 invalid frontmatter: invalid value: integer `0`, expected a whole number from 1 to 4294967295 for `min_context`",
            "Frontmatter 5:30 invalid frontmatter: invalid value: integer `0`, expected a whole number from 1 to 4294967295 for `min_context`",
            "Frontmatter 6:7 invalid frontmatter: invalid type: integer `0`, expected a map of arg name keys to declarations",
        ]
    );
    assert_invalid("uses: [{pack: a, config: &c [*c]}]", "5:30", "an alias cannot stand inside the value it refers to");
}

#[test]
fn aliases_cannot_multiply_without_end() {
    let mut keys = "uses:\n  - pack: a\n    config:\n      l0: &l0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..30 {
        let below = vec![format!("*l{}", level - 1); 10].join(", ");
        writeln!(keys, "      l{level}: &l{level} [{below}]").unwrap();
    }
    let problems = problems(&with_keys(keys.trim_end()));
    assert_eq!(problems.len(), 1);
    assert!(problems[0].ends_with("invalid frontmatter: frontmatter holds more than 65536 values"), "{problems:?}");
}

#[test]
fn nesting_is_limited() {
    let nested = |levels: usize| format!("uses: [{{pack: a, config: {}{}}}]", "[".repeat(levels), "]".repeat(levels));
    document(&with_keys(&nested(61)));
    assert_invalid(&nested(62), "5:87", "frontmatter is nested more than 64 levels deep");
    for deep in ["[".repeat(100_000), "- ".repeat(100_000), "{a: ".repeat(50_000), "? ".repeat(50_000)] {
        let problems = problems(&with_keys(&format!("uses:\n  {deep}")));
        assert_eq!(problems.len(), 1);
        assert!(problems[0].contains("nested more than 64 levels deep"), "{problems:?}");
    }
    // Depth that aliases add up counts too.
    let mut keys = "uses:\n  - pack: a\n    config:\n      - &l0 []\n".to_owned();
    for level in 1..70 {
        writeln!(keys, "      - &l{level} [*l{}]", level - 1).unwrap();
    }
    let problems = problems(&with_keys(keys.trim_end()));
    assert!(problems[0].contains("nested more than 64 levels deep"), "{problems:?}");
}

#[test]
fn the_frontmatter_has_a_size_limit() {
    let text = with_keys(&format!("# {}", "x".repeat(256 * 1024)));
    assert_problem(&text, "Frontmatter 2:1 invalid frontmatter: frontmatter is longer than 262144 bytes");
}

#[test]
fn tags_outside_the_core_schema_are_refused() {
    let detail = |tag: &str| format!("tag `{tag}` is not supported; write the value without a tag");
    for (value, tag) in [("!mine x", "!mine"), ("!!binary aGk=", "!!binary"), ("!!set {}", "!!set"), ("!x [a]", "!x")] {
        let problems = problems(&with_keys(&format!("uses: [{{pack: a, config: {value}}}]")));
        assert_eq!(problems.len(), 1);
        assert!(problems[0].ends_with(&detail(tag)), "{problems:?}");
    }
    let problems = problems(&with_keys("max_tool_iterations: !!int x"));
    assert!(problems[0].ends_with("`x` does not fit its tag `!!int`"), "{problems:?}");
    let document = document(&with_keys("max_tool_iterations: !!int \"5\"\nuses: !!seq [!!str a]"));
    assert_eq!(document.frontmatter.max_tool_iterations, Some(5));
}

#[test]
fn several_documents_are_refused() {
    let problems = problems(&with_keys("...\n--- x"));
    assert_eq!(problems.len(), 1);
    assert_eq!(problems[0], "Frontmatter 6:1 invalid frontmatter: frontmatter must be a single YAML document");
}

#[test]
fn control_characters_are_refused() {
    assert_invalid("# \u{0}", "5:3", "control character U+0000 is not allowed");
    assert_invalid("# \u{7f}", "5:3", "control character U+007F is not allowed");
}

#[test]
fn bytes_that_are_not_utf_8_have_a_position() {
    let outcome = parse(b"---\nname: \xff\n---\n");
    assert_eq!(
        problems_of(&outcome),
        ["Frontmatter 2:7 file is not valid UTF-8: unexpected byte 0xFF; save the file as UTF-8"]
    );
    let outcome = parse("---\nname: x\n---\n# é".bytes().chain([0xC3]).collect::<Vec<_>>().as_slice());
    assert_eq!(
        problems_of(&outcome),
        ["Structure 4:4 file is not valid UTF-8: unexpected byte 0xC3; save the file as UTF-8"]
    );
    assert_eq!(outcome.problems[0].span, Some(20..21));
}

#[test]
fn fences_closed_in_odd_ways_stay_cheap() {
    let body = "# T\n## A\n".to_owned() + &"```lua\n````\n```\n".repeat(20_000);
    let document = document(&crate::support::with_body(&body));
    assert_eq!(document.lua_blocks().count(), 20_000);
    let nested = "# T\n## A\n````\n".to_owned() + &"```lua\nx\n```\n".repeat(20_000) + "````\n";
    let document = crate::support::document(&crate::support::with_body(&nested));
    assert_eq!(document.lua_blocks().count(), 0);
}
