//! Names of roles, packs and tools that a prompt's Lua gives as string literals, and those of them that the frontmatter
//! does not declare.

use runvil_document::{Dialect, Document, LuaBlock, NAME_GRAMMAR, Warning, is_name, is_segment};
use runvil_lua::failure::quoted;

use crate::lua_calls::{LiteralCall, LuaSource};

/// One warning for each literal name that nothing declares, in no particular order.
///
/// A block that assigns to `models`, `tools` or `packs`, or declares a local of that name, is left alone there.
pub(crate) fn undeclared(document: &Document) -> Vec<Warning> {
    let roles: Vec<&str> = document.frontmatter.models.iter().map(|role| role.label.as_str()).collect();
    let packs: Vec<&str> = document.frontmatter.uses.iter().map(|entry| entry.pack.as_str()).collect();
    let mut warnings = Vec::new();
    for block in document.lua_blocks() {
        let source = LuaSource::new(&block.source);
        let mut warn = |call: &LiteralCall<'_>, problem: Option<String>| {
            warnings.extend(problem.map(|message| warning(document, block, call, message)));
        };
        for call in source.calls("models", &["use", "default", "get"]) {
            warn(&call, role_problem(&call, &roles));
        }
        if document.dialect != Some(Dialect::Runvil) {
            continue;
        }
        for call in source.calls("packs", &["offer"]) {
            warn(&call, pack_problem(call.text, &packs));
        }
        for call in source.calls("tools", &["offer", "call"]) {
            warn(&call, tool_problem(&call, &packs));
        }
    }
    warnings
}

fn role_problem(call: &LiteralCall<'_>, declared: &[&str]) -> Option<String> {
    let LiteralCall { function, text: name, .. } = *call;
    if declared.contains(&name) {
        return None;
    }
    Some(if is_name(name) {
        format!(
            "models.{function} names the model role {}, which the frontmatter does not declare; declare it under \
             `models:` (declared: {})",
            quoted(name),
            listed(declared)
        )
    } else if function == "get" {
        format!("models.get names {}, which is no label of a model role and can only be a raw model id", quoted(name))
    } else {
        format!("models.{function} names {}, which is no label of a model role: expected {NAME_GRAMMAR}", quoted(name))
    })
}

fn pack_problem(name: &str, declared: &[&str]) -> Option<String> {
    if declared.contains(&name) {
        return None;
    }
    Some(if is_segment(name) {
        format!("packs.offer names the pack {}, {}", quoted(name), undeclared_pack(declared))
    } else {
        format!("packs.offer names {}, which is no name of a pack", quoted(name))
    })
}

/// A script may also call a local tool, whose name has no slash.
fn tool_problem(call: &LiteralCall<'_>, declared: &[&str]) -> Option<String> {
    let LiteralCall { function, text: path, .. } = *call;
    match path.split_once('/') {
        Some((pack, tool)) if is_segment(pack) && is_segment(tool) => {
            let is_declared = declared.contains(&pack);
            (!is_declared).then(|| {
                format!(
                    "tools.{function} names {}, a tool of the pack {}, {}",
                    quoted(path),
                    quoted(pack),
                    undeclared_pack(declared)
                )
            })
        }
        None if function == "call" => None,
        _ => Some(format!("tools.{function} names {}, which is no path of a tool: expected `pack/tool`", quoted(path))),
    }
}

fn undeclared_pack(declared: &[&str]) -> String {
    format!("which the frontmatter does not declare; declare it under `uses:` (declared: {})", listed(declared))
}

fn listed(names: &[&str]) -> String {
    if names.is_empty() {
        return "none".to_owned();
    }
    names.iter().map(|name| quoted(name)).collect::<Vec<_>>().join(", ")
}

/// A warning about a literal in a block.
fn warning(document: &Document, block: &LuaBlock, call: &LiteralCall<'_>, message: String) -> Warning {
    let before = &block.source[..call.start];
    let line_start = before.rfind('\n').map_or(0, |at| at + 1);
    let start = block.span.start + call.start;
    Warning {
        message,
        line: block.line + before.matches('\n').count(),
        column: document.source[block.span.start + line_start..start].chars().count() + 1,
        span: start..block.span.start + call.end,
    }
}
