//! What `Prompt::warnings` tells.

use runvil_engine::prompt::Prompt;

fn warnings(body: &str) -> Vec<String> {
    warnings_of(&format!("---\nname: p\ndescription: d\nrunvil: 0\nmodels:\n  writer: {{}}\n---\n\n# P\n{body}"))
}

fn warnings_of(source: &str) -> Vec<String> {
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
fn packs_and_tools_that_no_declared_pack_has() {
    let source = r"---
name: p
description: d
runvil: 0
uses: [web, {pack: extra, optional: true}]
---

# P

## Only

```lua
tools.offer('weeb/search')
tools.offer('web_search', 'words')
packs.offer 'mail'
packs.offer('web/search')
local text = tools.call('mail/send', {})
tools.offer('web/a/b')
tools.offer('web/search') tools.call('extra/x') packs.offer('extra') tools.call('mine')
tools.offer(path) tools.offer('weeb/' .. name) tools.offer_local('weeb/x')
```

## Next

```lua
local tools = { offer = print } tools.offer('weeb/search') packs.offer('mail')
```
";
    let undeclared = "which the frontmatter does not declare; declare it under `uses:` (declared: \"web\", \"extra\")";
    assert_eq!(
        warnings_of(source),
        [
            format!("13:13: tools.offer names \"weeb/search\", a tool of the pack \"weeb\", {undeclared}"),
            "14:13: tools.offer names \"web_search\", which is no path of a tool: expected `pack/tool`".to_owned(),
            format!("15:13: packs.offer names the pack \"mail\", {undeclared}"),
            "16:13: packs.offer names \"web/search\", which is no name of a pack".to_owned(),
            format!("17:25: tools.call names \"mail/send\", a tool of the pack \"mail\", {undeclared}"),
            "18:13: tools.offer names \"web/a/b\", which is no path of a tool: expected `pack/tool`".to_owned(),
            format!("26:72: packs.offer names the pack \"mail\", {undeclared}"),
        ]
    );
}

#[test]
fn a_prompt_without_packs_has_none_declared() {
    let body = "\n## Only\n\n```lua\ntools.offer('web/search')\n```\n";
    assert!(warnings(body)[0].ends_with("declare it under `uses:` (declared: none)"), "{:?}", warnings(body));
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
