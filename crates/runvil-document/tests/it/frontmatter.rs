//! The frontmatter of `runvil: 0`.

use runvil_document::{ArgDeclaration, ArgKind, Dialect, Keyword, ParseKind, RoleDeclaration, Use, Yaml, parse};

use crate::support::{assert_invalid, assert_problem, document, problems, with_keys};

#[test]
fn every_key_is_read() {
    let document = document(concat!(
        "---\n",
        "name: search chat\n",
        "description: \"Finds: things\"\n",
        "runvil: 0\n",
        "max_tool_iterations: 5\n",
        "uses:\n",
        "  - web\n",
        "  - {pack: notes.v2, optional: true, config: {depth: 3, ratio: 2.5, names: [a, ~], 7: yes}}\n",
        "models:\n",
        "  writer: {}\n",
        "  analyst:\n",
        "    keywords: [frontier, thinking]\n",
        "    min_context: 200000\n",
        "    description: Thinks.\n",
        "args:\n",
        "  query: {type: string, optional: true, default: \"x\", description: What.}\n",
        "  limit: {type: integer, default: -5}\n",
        "  ratio: {type: number, default: 1}\n",
        "  deep: {type: boolean, default: null}\n",
        "---\n",
        "# Title\n",
    ));
    let frontmatter = &document.frontmatter;
    assert_eq!((document.dialect, document.version), (Some(Dialect::Runvil), Some(0)));
    assert_eq!(frontmatter.name, "search chat");
    assert_eq!(frontmatter.description, "Finds: things");
    assert_eq!(frontmatter.max_tool_iterations, Some(5));
    let config = Yaml::Map(vec![
        ("depth".to_owned(), Yaml::Integer(3)),
        ("ratio".to_owned(), Yaml::Float(2.5)),
        ("names".to_owned(), Yaml::List(vec![Yaml::String("a".to_owned()), Yaml::Null])),
        ("7".to_owned(), Yaml::String("yes".to_owned())),
    ]);
    assert_eq!(
        frontmatter.uses,
        [
            Use { pack: "web".to_owned(), optional: false, config: None },
            Use { pack: "notes.v2".to_owned(), optional: true, config: Some(config) },
        ]
    );
    let role = |label: &str| RoleDeclaration {
        label: label.to_owned(),
        keywords: Vec::new(),
        min_context: None,
        description: None,
    };
    let analyst = RoleDeclaration {
        keywords: vec![Keyword::Frontier, Keyword::Thinking],
        min_context: Some(200_000),
        description: Some("Thinks.".to_owned()),
        ..role("analyst")
    };
    assert_eq!(frontmatter.models, [role("writer"), analyst]);
    let arg = |name: &str, kind, default| ArgDeclaration {
        name: name.to_owned(),
        kind,
        optional: false,
        default,
        description: None,
    };
    let query = ArgDeclaration {
        optional: true,
        description: Some("What.".to_owned()),
        ..arg("query", ArgKind::String, Some(Yaml::String("x".to_owned())))
    };
    assert_eq!(
        frontmatter.args.as_deref(),
        Some(
            &[
                query,
                arg("limit", ArgKind::Integer, Some(Yaml::Integer(-5))),
                arg("ratio", ArgKind::Number, Some(Yaml::Integer(1))),
                arg("deep", ArgKind::Boolean, None),
            ][..]
        )
    );
}

#[test]
fn the_least_frontmatter_has_no_declarations() {
    let document = document("---\nname: ''\ndescription: d\n---\n# T\n");
    assert_eq!((document.dialect, document.version), (None, None));
    assert_eq!(document.frontmatter.args, None);
    assert_eq!(document.frontmatter.max_tool_iterations, None);
    assert!(document.frontmatter.uses.is_empty() && document.frontmatter.models.is_empty());
}

#[test]
fn another_version_still_parses() {
    let text = with_keys("").replace("runvil: 0", "runvil: 18446744073709551615");
    assert_eq!(document(&text).version, Some(u64::MAX));
}

#[test]
fn empty_maps_declare_nothing() {
    let document = document(&with_keys("models: {}\nargs: {}\nuses: []"));
    assert_eq!(document.frontmatter.args, Some(Vec::new()));
    assert!(document.frontmatter.models.is_empty());
}

#[test]
fn delimiters_decide_where_the_frontmatter_is() {
    let begin = "Frontmatter 1:1 file must begin with a --- frontmatter delimiter";
    for text in ["", "\n", "# Title\n", "\n---\nname: x\n---\n", "----\n---\n", "-- -\n"] {
        assert_problem(text, begin);
    }
    let close = "Frontmatter 1:1 frontmatter was not closed with ---";
    for text in ["---", "---\n", "---\nname: x\n# Title\n", "---\r\nname: x\r\n--- x\r\n"] {
        assert_problem(text, close);
    }
    // Spaces around a delimiter, a byte order mark and CRLF do not matter.
    let text = "\u{feff} --- \r\nname: x\r\ndescription: d\r\n\t---\r\n# T\r\n";
    assert_eq!(document(text).frontmatter.name, "x");
}

#[test]
fn a_frontmatter_problem_carries_no_name_and_a_body_problem_does() {
    let outcome = parse(b"---\nname: the name\ndescription: d\nfoo: 1\n---\n");
    let names: Vec<_> = outcome.problems.iter().map(|problem| (problem.kind, problem.name.as_deref())).collect();
    assert_eq!(names, [(ParseKind::Frontmatter, None), (ParseKind::Structure, Some("the name"))]);
}

#[test]
fn every_problem_is_reported_in_file_order() {
    let text = "---\nzzz: 1\nname: 5\nuses: [A]\nrunvil: -1\n---\n# T\n";
    assert_eq!(
        problems(text),
        [
            "Frontmatter 2:1 invalid frontmatter: unknown field `zzz`, expected one of `name`, `description`, `runvil`, `max_tool_iterations`, `uses`, `models`, `args`",
            "Frontmatter 3:7 invalid frontmatter: invalid type: integer `5`, expected a string for `name`; put it in quotes",
            "Frontmatter 4:8 invalid frontmatter: invalid pack name `A`: invalid global name: segments may contain only lowercase ASCII letters, digits, '-', '_', '.'",
            "Frontmatter 5:9 invalid frontmatter: invalid value: integer `-1`, expected a non-negative integer for `runvil`",
            "Frontmatter 2:1 invalid frontmatter: missing field `description`",
        ]
    );
}

#[test]
fn name_and_description_are_required_strings() {
    assert_problem("---\ndescription: d\n---\n# T\n", "Frontmatter 2:1 invalid frontmatter: missing field `name`");
    assert_problem("---\nname: n\n---\n# T\n", "Frontmatter 2:1 invalid frontmatter: missing field `description`");
    assert_eq!(
        problems("---\n# only a comment\n---\n# T\n"),
        [
            "Frontmatter 2:1 invalid frontmatter: missing field `name`",
            "Frontmatter 2:1 invalid frontmatter: missing field `description`",
        ]
    );
    for (value, found) in [
        ("5", "integer `5`, expected a string for `description`; put it in quotes"),
        ("true", "boolean `true`, expected a string for `description`; put it in quotes"),
        ("1.5", "floating point `1.5`, expected a string for `description`; put it in quotes"),
        ("", "null, expected a string for `description`"),
        ("[a]", "sequence, expected a string for `description`"),
        ("{}", "map, expected a string for `description`"),
    ] {
        let column = if value.is_empty() { 1 } else { 14 };
        let text = format!("---\nname: n\ndescription: {value}\n---\n# T\n");
        assert_problem(&text, &format!("Frontmatter 3:{column} invalid frontmatter: invalid type: {found}"));
    }
    for text in ["\"5\"", "'true'", "!!str 5", "! 5", "2024-01-01", "0x", "1_000", "nan", "inf", "+", "."] {
        let document = document(&format!("---\nname: n\ndescription: {text}\n---\n# T\n"));
        assert!(text.contains(&document.frontmatter.description), "{text}: {:?}", document.frontmatter.description);
    }
}

#[test]
fn a_frontmatter_that_is_no_map_is_refused() {
    assert_problem(
        "---\n- a\n---\n# T\n",
        "Frontmatter 2:1 invalid frontmatter: invalid type: sequence, expected a map of frontmatter keys",
    );
    assert_problem(
        "---\njust \"text\"\n---\n# T\n",
        "Frontmatter 2:1 invalid frontmatter: invalid type: string \"just \\\"text\\\"\", expected a map of frontmatter keys",
    );
    assert_invalid("[a]: 1", "5:1", "invalid type: sequence, expected a field name");
}

#[test]
fn keys_of_other_dialects_are_unknown() {
    for key in ["input", "output", "capabilities", "tools", "<<"] {
        assert_invalid(
            &format!("{key}: x"),
            "5:1",
            &format!(
                "unknown field `{key}`, expected one of `name`, `description`, `runvil`, `max_tool_iterations`, `uses`, `models`, `args`"
            ),
        );
    }
    assert_invalid("name: again", "5:1", "duplicate field `name`");
}

#[test]
fn two_version_keys_are_refused() {
    assert_invalid(
        "promptforge: 0",
        "5:1",
        "`runvil` and `promptforge` are both present; keep the one that names the prompt's dialect",
    );
}

#[test]
fn the_version_is_a_non_negative_integer() {
    for (value, detail) in [
        ("-1", "invalid value: integer `-1`, expected a non-negative integer for `runvil`"),
        (
            "18446744073709551616",
            "invalid value: integer `18446744073709551616`, expected a non-negative integer for `runvil` up to 18446744073709551615",
        ),
        ("\"0\"", "invalid type: string \"0\", expected a non-negative integer for `runvil`"),
        ("0.0", "invalid type: floating point `0.0`, expected a non-negative integer for `runvil`"),
        ("~", "invalid type: null, expected a non-negative integer for `runvil`"),
    ] {
        let text = with_keys("").replace("runvil: 0", &format!("runvil: {value}"));
        assert_problem(&text, &format!("Frontmatter 4:9 invalid frontmatter: {detail}"));
    }
}

// CAP-19
#[test]
fn a_round_cap_from_1_to_1000_is_accepted() {
    for (text, value) in [("1", 1), ("50", 50), ("1000", 1000), ("+7", 7), ("0x10", 16)] {
        let document = document(&with_keys(&format!("max_tool_iterations: {text}")));
        assert_eq!(document.frontmatter.max_tool_iterations, Some(value));
    }
}

// CAP-20 CAP-21
#[test]
fn a_round_cap_out_of_range_is_echoed_as_written() {
    for raw in ["0", "-3", "-0", "-100000000000000000000000"] {
        let detail = format!("max_tool_iterations must be a positive integer (>= 1), got {raw}");
        assert_invalid(&format!("max_tool_iterations: {raw}"), "5:22", &detail);
    }
    for raw in ["1001", "100000000000", "4294967297", "18446744073709551617", "0xFFFF"] {
        let detail = format!("max_tool_iterations must be <= 1000, got {raw}");
        assert_invalid(&format!("max_tool_iterations: {raw}"), "5:22", &detail);
    }
}

// CAP-22
#[test]
fn a_round_cap_that_is_no_integer_is_refused() {
    for (value, found, column) in [
        ("3.5", "floating point `3.5`", 22),
        ("\"5\"", "string \"5\"", 22),
        ("true", "boolean `true`", 22),
        ("", "null", 1),
        ("[5]", "sequence", 22),
        (".nan", "floating point `.nan`", 22),
    ] {
        assert_invalid(
            &format!("max_tool_iterations: {value}"),
            &format!("5:{column}"),
            &format!("invalid type: {found}, expected an integer for `max_tool_iterations`"),
        );
    }
}

#[test]
fn pack_names_have_one_segment() {
    let invalid = |text: &str, reason: &str| {
        assert_invalid(&format!("uses:\n  - {text:?}"), "6:5", &format!("invalid pack name `{text}`: {reason}"));
        let map = format!("uses:\n  - pack: {text:?}");
        assert_invalid(&map, "6:11", &format!("invalid pack name `{text}`: {reason}"));
    };
    invalid("web/search", "a pack name has exactly 1 segment (pack)");
    for text in ["", "a/b/c", "//"] {
        invalid(text, "invalid global name: must have exactly 1 segment (pack) or 2 (pack/tool)");
    }
    for text in ["/", "web/", "/web", "/Web"] {
        invalid(text, "invalid global name: segments must not be empty");
    }
    for text in ["Web", "web search", "é", "a+b", "A/"] {
        invalid(text, "invalid global name: segments may contain only lowercase ASCII letters, digits, '-', '_', '.'");
    }
    assert_invalid(
        "uses: [\"a\\tB\"]",
        "5:8",
        "invalid pack name `a\tB`: invalid global name: segments must not contain a control character",
    );
    let document = document(&with_keys("uses: [a, \"9\", -x_, ..]"));
    let names: Vec<_> = document.frontmatter.uses.iter().map(|entry| entry.pack.as_str()).collect();
    assert_eq!(names, ["a", "9", "-x_", ".."]);
}

#[test]
fn pack_entries_are_strings_or_maps() {
    let form = "a pack name string or a map with `pack`, `optional`, and `config`";
    for (entry, found) in [("5", "integer `5`"), ("[a]", "sequence"), ("~", "null"), ("true", "boolean `true`")] {
        assert_invalid(&format!("uses: [{entry}]"), "5:8", &format!("invalid type: {found}, expected {form}"));
    }
    assert_invalid("uses: [{optional: true}]", "5:8", "missing field `pack`");
    assert_invalid("uses: [{pack: a, pack: b}]", "5:18", "duplicate field `pack`");
    assert_invalid(
        "uses: [{pack: a, ref: b}]",
        "5:18",
        "unknown field `ref`, expected one of `pack`, `optional`, `config`",
    );
    assert_invalid(
        "uses: [{pack: a, optional: \"true\"}]",
        "5:28",
        "invalid type: string \"true\", expected a boolean for `optional`",
    );
    assert_invalid("uses: web", "5:7", "invalid type: string \"web\", expected a list of pack names for `uses`");
    assert_invalid("uses:", "5:1", "invalid type: null, expected a list of pack names for `uses`");
}

#[test]
fn pack_configuration_is_any_yaml_within_reason() {
    assert_invalid(
        "uses: [{pack: a, config: {n: 9223372036854775808}}]",
        "5:30",
        "integer `9223372036854775808` does not fit in 64 bits; quote it to pass it as text",
    );
    assert_invalid("uses: [{pack: a, config: {n: 1, n: 2}}]", "5:33", "duplicate field `n`");
    assert_invalid("uses: [{pack: a, config: {[n]: 1}}]", "5:27", "invalid type: sequence, expected a string key");
    assert_invalid(
        "uses: [{pack: a, config: {<<: {b: 1}}}]",
        "5:27",
        "merge keys (`<<`) are not supported; write the entries out",
    );
    let document = document(&with_keys("uses: [{pack: a, config: [-9223372036854775808, .inf, +1e3, 0o17]}]"));
    let expected =
        [Yaml::Integer(i64::MIN), Yaml::Float(f64::INFINITY), Yaml::Float(1000.0), Yaml::Integer(15)].to_vec();
    assert_eq!(document.frontmatter.uses[0].config, Some(Yaml::List(expected)));
}

#[test]
fn role_labels_follow_the_name_grammar() {
    let long = "a".repeat(65);
    for label in ["1st", "_x", "a b", "é", "a.b", &long] {
        let detail = format!("invalid model role label `{label}`: expected [A-Za-z][A-Za-z0-9_-]{{0,63}}");
        assert_invalid(&format!("models:\n  {label}: {{}}"), "6:3", &detail);
    }
    assert_invalid("models:\n  '': {}", "6:3", "invalid model role label ``: expected [A-Za-z][A-Za-z0-9_-]{0,63}");
    assert_invalid(
        "models:\n  a: {}\n  a: {}",
        "7:3",
        "duplicate model role label `a`: contract map keys must be unique",
    );
    assert_invalid(
        "models: [a]",
        "5:9",
        "invalid type: sequence, expected a map of model role label keys to declarations",
    );
    assert_invalid("models:", "5:1", "invalid type: null, expected a map of model role label keys to declarations");
    let text = with_keys(&format!("models: {{{}: {{}}, A-_9: {{}}, true: {{}}}}", &long[1..]));
    assert_eq!(document(&text).frontmatter.models.len(), 3);
}

#[test]
fn role_declarations_are_checked() {
    let invalid = |role: &str, column: usize, detail: &str| {
        assert_invalid(&format!("models:\n  a: {role}"), &format!("6:{column}"), detail);
    };
    invalid(
        "x",
        6,
        "invalid type: string \"x\", expected a role map with `keywords`, `min_context`, and `description`",
    );
    invalid("{model: x}", 7, "unknown field `model`, expected one of `keywords`, `min_context`, `description`");
    invalid(
        "{keywords: [thinking, quick]}",
        28,
        "unknown variant `quick`, expected one of `thinking`, `no-thinking`, `frontier`, `fast`, `small`, `creative`, `chat`",
    );
    invalid("{keywords: fast}", 17, "invalid type: string \"fast\", expected a list of keywords for `keywords`");
    for raw in ["0", "-1", "4294967296"] {
        let detail =
            format!("invalid value: integer `{raw}`, expected a whole number from 1 to 4294967295 for `min_context`");
        invalid(&format!("{{min_context: {raw}}}"), 20, &detail);
    }
    invalid(
        "{min_context: \"1\"}",
        20,
        "invalid type: string \"1\", expected a whole number from 1 to 4294967295 for `min_context`",
    );
    let document = document(&with_keys("models: {a: {min_context: 4294967295}, b: {min_context: 1}}"));
    assert_eq!(document.frontmatter.models[0].min_context, Some(u32::MAX));
}

#[test]
fn arg_declarations_are_checked() {
    let invalid = |declaration: &str, column: usize, detail: &str| {
        assert_invalid(&format!("args:\n  a: {declaration}"), &format!("6:{column}"), detail);
    };
    invalid("{}", 6, "missing field `type`");
    invalid("{type: text}", 13, "unknown variant `text`, expected one of `string`, `boolean`, `integer`, `number`");
    invalid("{type: 5}", 13, "unknown variant `5`, expected one of `string`, `boolean`, `integer`, `number`");
    invalid("{type: [string]}", 13, "invalid type: sequence, expected one of `string`, `boolean`, `integer`, `number`");
    invalid(
        "{type: string, requird: true}",
        21,
        "unknown field `requird`, expected one of `type`, `optional`, `default`, `description`",
    );
    invalid(
        "string",
        6,
        "invalid type: string \"string\", expected an arg declaration map with `type`, `optional`, `default`, and `description`",
    );
    invalid("{type: string, optional: 1}", 31, "invalid type: integer `1`, expected a boolean for `optional`");
    for (kind, default) in [
        ("string", "5"),
        ("string", "[x]"),
        ("boolean", "\"true\""),
        ("integer", "1.5"),
        ("integer", "5.0"),
        ("integer", "9223372036854775808"),
        ("number", "\"1\""),
        ("number", "true"),
    ] {
        invalid(
            &format!("{{type: {kind}, default: {default}}}"),
            24 + kind.len(),
            &format!("the default does not match the declared type `{kind}`"),
        );
    }
    assert_invalid("args:\n  1a: {type: string}", "6:3", "invalid arg name `1a`: expected [A-Za-z][A-Za-z0-9_-]{0,63}");
    assert_invalid(
        "args:\n  a: {type: string}\n  a: {type: string}",
        "7:3",
        "duplicate arg name `a`: contract map keys must be unique",
    );
    assert_invalid("args: x", "5:7", "invalid type: string \"x\", expected a map of arg name keys to declarations");
    let document = document(&with_keys("args: {a: {type: number, default: 100000000000000000000}}"));
    assert_eq!(document.frontmatter.args.unwrap()[0].default, Some(Yaml::Float(1e20)));
}
