//! Runs every conformance file through the Engine, each case three times: a second run, and one whose
//! every step is cut short as often as can be, must show the same, byte for byte.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use runvil_engine::outcome::Ending;
use runvil_engine::params::{Pack, Params};
use runvil_engine::prompt::Prompt;
use runvil_lua::models::{CatalogModel, Thinking};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::driver::{Seen, drive, world};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(rename = "case")]
    all: Vec<Case>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    #[serde(default)]
    ids: Vec<String>,
    name: String,
    lua: Option<String>,
    prose: Option<String>,
    prompt: Option<String>,
    before: Option<String>,
    #[serde(default)]
    replies: String,
    #[serde(default)]
    args: String,
    models: Option<BTreeMap<String, Model>>,
    #[serde(default)]
    raw_models: bool,
    #[serde(default)]
    packs: Vec<String>,
    rounds: Option<u32>,
    #[serde(default)]
    libraries: BTreeMap<String, String>,
    memory_bytes: Option<usize>,
    log_events: Option<u64>,
    #[serde(default)]
    seed: u64,
    #[serde(default)]
    started_at: i64,
    ui: Option<Value>,
    #[serde(default)]
    debug: bool,
    result: Option<String>,
    result_contains: Option<Parts>,
    error: Option<Expected>,
    parse: Option<Vec<Expected>>,
    raises: Option<String>,
    raises_kind: Option<String>,
    requests: Option<Vec<Value>>,
    #[serde(default)]
    events: Vec<Value>,
    #[serde(default)]
    no_events: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Model {
    #[serde(rename = "model")]
    name: Option<String>,
    context: Option<u64>,
    max_tokens: Option<u64>,
    thinking: Option<String>,
    #[serde(default)]
    description: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Expected {
    kind: String,
    message: Option<String>,
    contains: Option<Parts>,
    reason: Option<String>,
    finish_reason: Option<String>,
    name: Option<String>,
    line: Option<usize>,
    column: Option<usize>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Parts {
    One(String),
    Many(Vec<String>),
}

impl Parts {
    fn missing_from(&self, text: &str) -> Option<&str> {
        let parts = match self {
            Self::One(part) => std::slice::from_ref(part),
            Self::Many(parts) => parts,
        };
        parts.iter().find(|part| !text.contains(part.as_str())).map(String::as_str)
    }
}

fn files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/conformance");
    let mut files: Vec<PathBuf> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "toml"))
        .collect();
    files.sort();
    files
}

#[test]
fn every_case_holds() {
    let mut report = String::new();
    let mut count = 0;
    for path in files() {
        let file = path.file_name().unwrap().to_string_lossy().into_owned();
        let text = fs::read_to_string(&path).unwrap();
        let cases: File = toml::from_str(&text).unwrap_or_else(|error| panic!("{file}: {error}"));
        let mut names = BTreeSet::new();
        for case in cases.all {
            assert!(names.insert(case.name.clone()), "{file}: two cases are called {:?}", case.name);
            count += 1;
            if let Err(problem) = check(&case) {
                writeln!(report, "{file}: {:?} {:?}\n    {problem}", case.ids, case.name).unwrap();
            }
        }
    }
    assert!(count > 0, "there are no conformance files");
    assert!(report.is_empty(), "\n{report}");
}

fn document(case: &Case) -> String {
    if let Some(prompt) = &case.prompt {
        assert!(case.lua.is_none(), "{:?} has both lua and prompt", case.name);
        return prompt.clone();
    }
    let lua = case.lua.clone().unwrap_or_default();
    let lua = if case.raises.is_some() {
        format!(
            "{}\nlocal before_count = #messages\nlocal ok, err = pcall(function()\n{lua}\nend)\nif ok then return 'did \
             not raise' end\nreturn table.concat({{ type(err), tostring(err.kind), tostring(#messages - before_count), \
             tostring(err) }}, '|')",
            case.before.clone().unwrap_or_default()
        )
    } else {
        lua
    };
    let prose = case.prose.as_ref().map_or_else(String::new, |prose| format!("{prose}\n\n"));
    format!(
        "---\nname: case\ndescription: A conformance case.\nrunvil: 0\nmodels:\n  writer: {{}}\n  reviewer: \
         {{}}\n---\n\n# Case\n\n## Only\n\n{prose}```lua\n{lua}\n```\n"
    )
}

fn check(case: &Case) -> Result<(), String> {
    let source = document(case);
    let prompt = match (Prompt::parse(source.as_bytes()), &case.parse) {
        (Ok(_), Some(_)) => return Err("the document parses".to_owned()),
        (Ok(prompt), None) => Arc::new(prompt),
        (Err(problems), None) => return Err(format!("does not parse: {problems:?}")),
        (Err(problems), Some(expected)) => {
            if problems.len() != expected.len() {
                return Err(format!("{} problems: {problems:#?}", problems.len()));
            }
            for (problem, expected) in problems.iter().zip(expected) {
                matches(expected, problem.kind.as_str(), &problem.message)?;
                if expected.line.is_some() && expected.line != problem.line {
                    return Err(format!("line {:?} of {problem}", problem.line));
                }
                if expected.column.is_some() && expected.column != problem.column {
                    return Err(format!("column {:?} of {problem}", problem.column));
                }
            }
            return Ok(());
        }
    };
    let seen = run(case, &prompt, None);
    if seen != run(case, &prompt, None) {
        return Err("a second run shows something else".to_owned());
    }
    let cut = run(case, &prompt, Some(1));
    if seen != cut {
        return Err(format!("cutting the steps short shows something else:\n  {cut:?}\n  {seen:?}"));
    }
    judge(case, &seen)
}

fn run(case: &Case, prompt: &Arc<Prompt>, budget: Option<u64>) -> Seen {
    let mut world = world(&case.replies);
    world.libraries.clone_from(&case.libraries);
    let mut models = BTreeMap::new();
    for role in &prompt.document().frontmatter.models {
        let given = case.models.as_ref().map(|models| models.get(&role.label));
        let model = match given {
            Some(None) => continue,
            Some(Some(model)) => catalog(&role.label, model),
            None => catalog(
                &role.label,
                &Model { name: None, context: None, max_tokens: None, thinking: None, description: String::new() },
            ),
        };
        models.insert(role.label.clone(), model);
    }
    let defaults = Params::default();
    let mut packs = world.pack_params();
    packs.extend(case.packs.iter().map(|name| Pack { name: name.clone(), ..Pack::default() }));
    let params = Params {
        args: case.args.clone(),
        execution: "case".to_owned(),
        seed: case.seed,
        started_at: case.started_at,
        models,
        raw_models: case.raw_models,
        packs,
        rounds: case.rounds.unwrap_or(defaults.rounds),
        memory_bytes: case.memory_bytes.unwrap_or(defaults.memory_bytes),
        log_events: case.log_events.unwrap_or(defaults.log_events),
        ui: case.ui.clone(),
        debug: case.debug,
    };
    drive(prompt, params, world, budget)
}

fn catalog(label: &str, model: &Model) -> CatalogModel {
    let name = model.name.clone().unwrap_or_else(|| label.to_owned());
    CatalogModel {
        estimator: runvil_core::estimator::Estimator::default(),
        id: name.clone(),
        name,
        context: model.context.unwrap_or(8192),
        max_tokens: model.max_tokens,
        thinking: match model.thinking.as_deref() {
            None | Some("never") => Thinking::Never,
            Some("always") => Thinking::Always,
            Some("switchable") => Thinking::Switchable,
            Some(other) => panic!("thinking {other}"),
        },
        description: model.description.clone(),
    }
}

fn matches(expected: &Expected, kind: &str, message: &str) -> Result<(), String> {
    if expected.kind != kind {
        return Err(format!("kind {kind}: {message}"));
    }
    if let Some(text) = &expected.message
        && text != message
    {
        return Err(format!("message {message:?}"));
    }
    match expected.contains.as_ref().and_then(|parts| parts.missing_from(message)) {
        Some(part) => Err(format!("message {message:?} lacks {part:?}")),
        None => Ok(()),
    }
}

/// Whether every key of `expected` has an equal value in `found`.
fn is_part(expected: &Value, found: &Value) -> bool {
    match (expected, found) {
        (Value::Object(expected), Value::Object(found)) => {
            expected.iter().all(|(key, value)| found.get(key).is_some_and(|other| same(value, other)))
        }
        _ => same(expected, found),
    }
}

/// Equality that takes `3` and `3.0` as one number: TOML has no null and files may write either.
fn same(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => left.as_f64() == right.as_f64(),
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(left, right)| same(left, right))
        }
        (Value::Object(left), Value::Object(right)) => {
            left.len() == right.len()
                && left.iter().all(|(key, value)| right.get(key).is_some_and(|other| same(value, other)))
        }
        _ => left == right,
    }
}

fn judge(case: &Case, seen: &Seen) -> Result<(), String> {
    let raised =
        case.raises.as_ref().map(|text| format!("table|{}|0|{text}", case.raises_kind.as_deref().unwrap_or("lua")));
    let expects_text = case.result.is_some() || case.result_contains.is_some() || raised.is_some();
    if !expects_text && case.error.is_none() && case.requests.is_none() && case.events.is_empty() {
        return Err("the case expects nothing".to_owned());
    }
    match (&seen.outcome.ending, &case.error) {
        (Ending::Completed(text), None) => {
            if let Some(expected) = case.result.as_ref().or(raised.as_ref())
                && expected != text
            {
                return Err(format!("result {text:?}\n  expected {expected:?}"));
            }
            if let Some(part) = case.result_contains.as_ref().and_then(|parts| parts.missing_from(text)) {
                return Err(format!("result {text:?} lacks {part:?}"));
            }
        }
        (Ending::Failed(error), Some(expected)) => {
            matches(expected, error.kind.as_str(), &error.message)?;
            for (what, expected, found) in [
                ("reason", &expected.reason, &error.reason),
                ("finish_reason", &expected.finish_reason, &error.finish_reason),
                ("name", &expected.name, &error.name),
            ] {
                if expected.is_some() && expected != found {
                    return Err(format!("{what} {found:?}"));
                }
            }
            let line = error.location.as_ref().map(|location| location.line);
            if expected.line.is_some() && expected.line != line {
                return Err(format!("line {line:?}"));
            }
        }
        (ending, _) => return Err(format!("ended as {ending:?}")),
    }
    if let Some(expected) = &case.requests {
        if expected.len() != seen.requests.len() {
            return Err(format!("{} requests: {}", seen.requests.len(), json!(seen.requests)));
        }
        for (expected, found) in expected.iter().zip(&seen.requests) {
            if !is_part(expected, found) {
                return Err(format!("request {found}\n  expected {expected}"));
            }
        }
    }
    let mut events = seen.events.iter();
    for expected in &case.events {
        if !events.any(|event| is_part(expected, event)) {
            return Err(format!("no event {expected} (in this order) in {}", json!(seen.events)));
        }
    }
    match seen.events.iter().find(|event| case.no_events.iter().any(|kind| event["kind"] == kind.as_str())) {
        Some(event) => Err(format!("event {event}")),
        None => Ok(()),
    }
}
