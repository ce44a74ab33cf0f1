//! What `Prompt::warnings` tells.

use runvil_engine::prompt::Prompt;

fn warnings(body: &str) -> Vec<String> {
    let source = format!("---\nname: p\ndescription: d\nrunvil: 0\nmodels:\n  writer: {{}}\n---\n\n# P\n{body}");
    let prompt = Prompt::parse(source.as_bytes()).unwrap();
    prompt.warnings().iter().map(|warning| format!("{}:{}: {warning}", warning.line, warning.column)).collect()
}

#[test]
fn roles_that_are_used_but_not_declared() {
    let body = "\n```lua\nmodels.default('editor')\nmodels.use('writer')\n```\n\n## Only\n\n```lua\nlocal s = 'é' models.use(\"critic\")\n\
                local h = models.get('qwen/qwen3') or models.get('gpt-4o')\nmodels.use('not a label')\n```\n";
    assert_eq!(
        warnings(body),
        [
            "12:16: models.default names the model role \"editor\", which the frontmatter does not declare; declare it under \
         `models:` (declared: \"writer\")",
            "19:26: models.use names the model role \"critic\", which the frontmatter does not declare; declare it under \
         `models:` (declared: \"writer\")",
            "20:22: models.get names \"qwen/qwen3\", which is no label of a model role and can only be a raw model id",
            "20:50: models.get names the model role \"gpt-4o\", which the frontmatter does not declare; declare it under \
         `models:` (declared: \"writer\")",
            "21:12: models.use names \"not a label\", which is no label of a model role: expected [A-Za-z][A-Za-z0-9_-]{0,63}",
        ]
    );
}

#[test]
fn warnings_come_in_file_order() {
    let body = "\n## Only\n\n``` lua\nx\n```\n\n```lua\nmodels.use('critic')\n```\n\n``` lua\ny\n```\n";
    let lines: Vec<usize> =
        warnings(body).iter().map(|warning| warning.split(':').next().unwrap().parse().unwrap()).collect();
    assert!(lines.is_sorted(), "{lines:?}");
    assert!(lines.contains(&13) && lines.contains(&18) && lines.contains(&21), "{lines:?}");
}

#[test]
fn a_prompt_whose_roles_are_declared_warns_of_nothing() {
    assert!(warnings("\n## Only\n\n```lua\nmodels.use('writer')\nmodels.get(args)\n```\n").is_empty());
}
