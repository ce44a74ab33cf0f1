//! What must hold before any Lua runs: the version, the packs and the roles' demands.

use std::collections::BTreeSet;

use runvil_document::{Dialect, Document};
use runvil_lua::models::{CatalogModel, Models, Role, Thinking};
use runvil_lua::packs::{PackTool, Packs};

use crate::error::{RunError, RunErrorKind};
use crate::params::{Pack, Params};

/// The one major version of the language this build runs.
const MAJOR: u64 = 0;

/// Refuses a prompt of another version or dialect.
pub(crate) fn check_version(document: &Document) -> Result<(), Box<RunError>> {
    match (document.dialect, document.version) {
        (Some(Dialect::Runvil), Some(MAJOR)) => Ok(()),
        (Some(dialect), Some(version)) => {
            let key = dialect.version_key();
            let builds = if version == MAJOR { "documents of the key `runvil`" } else { "major 0" };
            Err(Box::new(RunError::new(
                RunErrorKind::Version,
                format!("unsupported {key} version: {version} (this build supports {builds})"),
            )))
        }
        _ => Err(Box::new(RunError {
            parse_kind: Some("Structure"),
            ..RunError::new(RunErrorKind::Parse, "not a runvil prompt: no runvil version")
        })),
    }
}

/// What a prompt gets of its environment.
pub(crate) struct Bound {
    pub(crate) models: Models,
    pub(crate) packs: Packs,
}

/// Binds the packs and the roles and reports everything the environment lacks, in one notice.
pub(crate) fn bind(document: &Document, params: &Params) -> Result<Bound, Box<RunError>> {
    let mut gaps = Vec::new();
    let packs = bind_packs(document, params, &mut gaps);
    let mut declarations: Vec<_> = document.frontmatter.models.iter().collect();
    declarations.sort_by(|left, right| left.label.cmp(&right.label));
    let mut roles = Vec::with_capacity(declarations.len());
    for declaration in declarations {
        let Some(model) = params.models.get(&declaration.label) else { continue };
        let keywords: Vec<String> = declaration.keywords.iter().map(|keyword| keyword.as_str().to_owned()).collect();
        check_role(&declaration.label, declaration.min_context, &keywords, model, &mut gaps);
        roles.push(Role {
            label: declaration.label.clone(),
            keywords,
            description: declaration.description.clone(),
            model: model.clone(),
        });
    }
    if gaps.is_empty() {
        return Ok(Bound { models: Models::new(roles, params.raw_models), packs });
    }
    let mut notice = String::from("the environment cannot satisfy this prompt:");
    for gap in gaps {
        notice.push_str("\n- ");
        notice.push_str(&gap);
    }
    Err(Box::new(RunError::new(RunErrorKind::RequirementsUnmet, notice)))
}

/// The declared packs with their tools; a pack that the Host lacks has none.
fn bind_packs(document: &Document, params: &Params, gaps: &mut Vec<String>) -> Packs {
    let mut declared = Vec::new();
    let mut active: Vec<&Pack> = Vec::new();
    let mut missing = BTreeSet::new();
    for entry in &document.frontmatter.uses {
        let supplied = params.packs.iter().find(|pack| pack.name == entry.pack);
        if supplied.is_none() && !entry.optional && missing.insert(&entry.pack) {
            gaps.push(format!("missing required Pack: {}", entry.pack));
        }
        if declared.iter().any(|(name, _)| *name == entry.pack) {
            continue;
        }
        let tools = supplied.map_or_else(Vec::new, |pack| {
            let tool = |tool: &crate::params::PackTool| PackTool {
                path: format!("{}/{}", pack.name, tool.name),
                trusted: tool.trusted,
                structured: tool.structured,
            };
            pack.tools.iter().map(tool).collect()
        });
        declared.push((entry.pack.clone(), tools));
        active.extend(supplied);
    }
    for (index, first) in active.iter().enumerate() {
        for second in &active[index + 1..] {
            if first.conflicts.contains(&second.name) || second.conflicts.contains(&first.name) {
                gaps.push(format!(
                    "conflicting Packs: {} and {} cannot be activated together; declare one or the other",
                    first.name, second.name
                ));
            }
        }
    }
    Packs::new(declared)
}

fn check_role(
    label: &str,
    min_context: Option<u32>,
    keywords: &[String],
    model: &CatalogModel,
    gaps: &mut Vec<String>,
) {
    if let Some(minimum) = min_context.map(u64::from)
        && model.context < minimum
    {
        gaps.push(format!(
            "role '{label}': requires a context of at least {minimum} tokens; the current model provides {}",
            model.context
        ));
    }
    for keyword in keywords {
        let refused = match keyword.as_str() {
            "thinking" => model.thinking == Thinking::Never,
            "no-thinking" => model.thinking == Thinking::Always,
            _ => false,
        };
        if refused {
            gaps.push(format!(
                "role '{label}': requires '{keyword}'; the current model's thinking capability is {}",
                model.thinking.name()
            ));
        }
    }
}
