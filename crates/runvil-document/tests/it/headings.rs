//! Heading references.

use runvil_document::{Document, Reference, ReferenceError, SectionId, parse_reference};

use crate::support::{document, with_body};

fn example() -> Document {
    document(&with_body("# T\n## A\n### Kid\n#### Grand\n### Kid two\n## Sibling\n### Other\n## C\n"))
}

fn id(document: &Document, name: &str) -> SectionId {
    document.sections_in_order().find(|(_, section)| section.name == name).expect("the section exists").0
}

#[test]
fn references_are_markers_whitespace_and_a_name() {
    let reference = |level: usize, name: &str| Ok(Reference { level, name: name.to_owned() });
    assert_eq!(parse_reference("## Name"), reference(2, "Name"));
    assert_eq!(parse_reference("  ###\t  Two  words \n"), reference(3, "Two  words"));
    assert_eq!(parse_reference("# # x"), reference(1, "# x"));
}

#[test]
fn malformed_references_say_why() {
    for (text, expected) in [
        ("Worker", "section heading must include ### markers, got bare name: Worker"),
        ("  Worker ", "section heading must include ### markers, got bare name: Worker"),
        ("", "section heading must include ### markers, got bare name: "),
        ("###", "section heading has no name: ###"),
        ("### ", "section heading has no name: ###"),
        ("###Worker", "section heading must have whitespace after the ### markers: ###Worker"),
        ("#x", "section heading must have whitespace after the # markers: #x"),
    ] {
        assert_eq!(parse_reference(text).unwrap_err().to_string(), expected);
    }
    let error = ReferenceError::NotAString { found: "integer".to_owned() };
    assert_eq!(error.to_string(), "section target must be a string, got integer");
}

#[test]
fn siblings_and_children_are_visible() {
    let document = example();
    let names = |from: SectionId| {
        let visible = document.visible_from(from);
        visible.into_iter().map(|id| document.section(id).heading()).collect::<Vec<_>>()
    };
    assert_eq!(names(SectionId::BODY), ["## A", "## Sibling", "## C"]);
    assert_eq!(names(id(&document, "A")), ["## Sibling", "## C", "### Kid", "### Kid two"]);
    assert_eq!(names(id(&document, "Kid")), ["### Kid two", "#### Grand"]);
    assert_eq!(names(id(&document, "Grand")), Vec::<String>::new());
}

#[test]
fn references_resolve_within_the_visible_set() {
    let document = example();
    let a = id(&document, "A");
    assert_eq!(document.resolve(a, "### Kid"), Ok(id(&document, "Kid")));
    assert_eq!(document.resolve(a, " ##   C "), Ok(id(&document, "C")));
    assert_eq!(document.resolve(SectionId::BODY, "## A"), Ok(a));
    for (from, text, expected) in [
        ("A", "## A", "section heading `## A` not found; available sections: ## Sibling, ## C, ### Kid, ### Kid two"),
        (
            "A",
            "## Kid",
            "section heading `## Kid` not found; available sections: ## Sibling, ## C, ### Kid, ### Kid two",
        ),
        (
            "A",
            "## sibling",
            "section heading `## sibling` not found; available sections: ## Sibling, ## C, ### Kid, ### Kid two",
        ),
        (
            "A",
            "#### Grand",
            "section heading `#### Grand` not found; available sections: ## Sibling, ## C, ### Kid, ### Kid two",
        ),
        ("Kid", "## A", "section heading `## A` not found; available sections: ### Kid two, #### Grand"),
        ("Kid", "### Other", "section heading `### Other` not found; available sections: ### Kid two, #### Grand"),
        ("Grand", " #### Grand ", "section heading `#### Grand` not found; available sections: "),
        ("A", "Kid", "section heading must include ### markers, got bare name: Kid"),
    ] {
        let error = document.resolve(id(&document, from), text).unwrap_err();
        assert_eq!(error.to_string(), expected);
    }
    let error = document.resolve(SectionId::BODY, "### Kid").unwrap_err();
    assert_eq!(error.to_string(), "section heading `### Kid` not found; available sections: ## A, ## Sibling, ## C");
}
