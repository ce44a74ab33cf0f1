//! What must hold before any Lua runs: the version, the packs and the roles' demands.

use runvil_document::{Dialect, Document};
use runvil_lua::models::{CatalogModel, Models, Role, Thinking};

use crate::error::{RunError, RunErrorKind};
use crate::params::Params;

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

/// Binds the roles and reports everything the environment lacks, in one notice.
pub(crate) fn bind(document: &Document, params: &Params) -> Result<Models, Box<RunError>> {
    let mut gaps = Vec::new();
    for pack in &document.frontmatter.uses {
        if !pack.optional && !params.packs.iter().any(|supplied| supplied.name == pack.pack) {
            gaps.push(format!("missing required Pack: {}", pack.pack));
        }
    }
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
        return Ok(Models::new(roles, params.raw_models));
    }
    let mut notice = String::from("the environment cannot satisfy this prompt:");
    for gap in gaps {
        notice.push_str("\n- ");
        notice.push_str(&gap);
    }
    Err(Box::new(RunError::new(RunErrorKind::RequirementsUnmet, notice)))
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
