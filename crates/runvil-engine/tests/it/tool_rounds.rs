//! Tool rounds of whole runs: parallel calls, answers in any order, calls that are given up, growth.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use runvil_core::estimator::Estimator;
use runvil_core::reply::{CallArguments, Reply, ReplyCall, Usage};
use runvil_engine::effect::{Answer, Caller, Effect, EffectId, RenderedTool};
use runvil_engine::outcome::{Ending, Outcome};
use runvil_engine::params::{Pack, PackTool, Params};
use runvil_engine::prompt::Prompt;
use runvil_engine::run::{Run, Step};
use runvil_lua::models::{CatalogModel, Thinking};
use serde_json::{Map, Value, json};

const OFFERS: &str = "models.use('writer')\npacks.offer('web')\nmessages:user('go')\n";

fn run(lua: &str) -> Run {
    let source = format!(
        "---\nname: p\ndescription: d\nrunvil: 0\nuses: [web]\nmodels:\n  writer: {{}}\n---\n\n# P\n\n## \
         Only\n\n```lua\n{lua}\n```\n"
    );
    let tools =
        ["one", "two", "three"].map(|name| PackTool { name: name.to_owned(), trusted: true, structured: false });
    let model = CatalogModel {
        name: "m".to_owned(),
        id: "m".to_owned(),
        context: 1 << 30,
        max_tokens: None,
        thinking: Thinking::Never,
        description: String::new(),
        estimator: Estimator::Specified,
    };
    let params = Params {
        models: [("writer".to_owned(), model)].into(),
        packs: vec![Pack { name: "web".to_owned(), tools: tools.into(), conflicts: Vec::new() }],
        rounds: 1000,
        ..Params::default()
    };
    Run::new(Arc::new(Prompt::parse(source.as_bytes()).unwrap()), params)
}

fn asks(names: &[&str], round: usize) -> Answer {
    let calls = names.iter().enumerate().map(|(at, name)| ReplyCall {
        id: format!("{round}.{at}"),
        name: (*name).to_owned(),
        arguments: CallArguments::Value(json!({ "at": at })),
    });
    Answer::Reply(Box::new(Reply { tool_calls: calls.collect(), ..Reply::default() }))
}

fn says(text: &str) -> Answer {
    Answer::Reply(Box::new(Reply { text: Some(text.to_owned()), ..Reply::default() }))
}

fn rendered(tools: &[String]) -> Answer {
    let tool = |_: &String| RenderedTool { description: String::new(), parameters: Value::Object(Map::new()) };
    Answer::Rendered { tools: tools.iter().map(tool).collect() }
}

/// Everything a step gives, with the events of before added.
fn step(run: &mut Run, events: &mut Vec<Value>) -> Result<Vec<(EffectId, Effect)>, Outcome> {
    match run.step() {
        Step::Pending { effects, events: new } => {
            events.extend(new.iter().map(runvil_engine::event::Event::to_value));
            Ok(effects)
        }
        Step::Done { outcome, events: new } => {
            events.extend(new.iter().map(runvil_engine::event::Event::to_value));
            Err(outcome)
        }
    }
}

/// A run up to the moment its batch is out.
fn batch(lua: &str, names: &[&str]) -> (Run, Vec<(EffectId, Effect)>, Vec<Value>) {
    let (mut run, mut events) = (run(lua), Vec::new());
    let (id, effect) = step(&mut run, &mut events).unwrap().remove(0);
    let Effect::RenderPacks { tools } = effect else { panic!("{effect:?}") };
    assert_eq!(tools, ["web/one", "web/two", "web/three"]);
    run.resume(id, rendered(&tools));
    let (id, effect) = step(&mut run, &mut events).unwrap().remove(0);
    assert!(matches!(effect, Effect::Round(_)));
    run.resume(id, asks(names, 0));
    let calls = step(&mut run, &mut events).unwrap();
    (run, calls, events)
}

#[test]
fn the_bound_calls_of_a_batch_are_handed_out_together() {
    // TUL-05
    let (_, calls, _) = batch(&format!("{OFFERS}models.loop()"), &["web_one", "web_two", "web_one"]);
    let paths: Vec<_> = calls
        .iter()
        .map(|(_, effect)| match effect {
            Effect::ToolCall(call) => (call.path.as_str(), call.call_id.as_str(), call.caller, call.section.as_str()),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(
        paths,
        [
            ("web/one", "0.0", Caller::Model, "Only"),
            ("web/two", "0.1", Caller::Model, "Only"),
            ("web/one", "0.2", Caller::Model, "Only"),
        ]
    );
}

#[test]
fn a_dropped_call_raises_cancelled_once_its_siblings_are_answered() {
    // TUL-28
    let lua = format!("{OFFERS}local ok, err = pcall(models.loop)\nreturn err.kind .. #messages");
    let (mut run, calls, mut events) = batch(&lua, &["web_one", "web_two"]);
    run.resume(calls[1].0, Answer::Dropped);
    assert!(step(&mut run, &mut events).unwrap().is_empty());
    run.resume(calls[0].0, Answer::ToolOutput { text: "r".to_owned() });
    let outcome = step(&mut run, &mut events).unwrap_err();
    assert_eq!(outcome.ending, Ending::Completed("cancelled1".to_owned()));
    let kinds: Vec<_> = events.iter().filter_map(|event| event["kind"].as_str()).collect();
    let reported: Vec<_> = kinds.iter().filter(|kind| kind.starts_with("tool_") && !kind.contains("scope")).collect();
    assert_eq!(reported, [&"tool_call_succeeded", &"tool_result", &"tool_call_failed"]);
}

#[test]
fn a_tool_whose_schema_is_no_object_fails_the_round_and_fixes_nothing() {
    // LOP-24
    let lua = format!(
        "{OFFERS}local ok, err = pcall(models.loop)\nlocal again = pcall(tools.offer_local, 'a', 'b', {{}}, function() \
         end)\nreturn err.kind .. ':' .. tostring(err) .. tostring(again)"
    );
    for answer in [
        Answer::RenderFailure { path: "web/two".to_owned() },
        Answer::Rendered {
            tools: vec![
                RenderedTool { description: String::new(), parameters: json!({}) },
                RenderedTool { description: String::new(), parameters: json!([]) },
                RenderedTool { description: String::new(), parameters: json!({}) },
            ],
        },
    ] {
        let (mut run, mut events) = (run(&lua), Vec::new());
        let (id, _) = step(&mut run, &mut events).unwrap().remove(0);
        run.resume(id, answer);
        let outcome = step(&mut run, &mut events).unwrap_err();
        let text = "internal:model-facing schema build failure for tool \"web/two\"true";
        assert_eq!(outcome.ending, Ending::Completed(text.to_owned()));
        assert!(events.iter().any(|event| event["kind"] == "tool_scope_validation_failed"));
    }
}

#[test]
fn a_run_cancelled_inside_a_batch_ends_once_every_call_is_answered() {
    let (mut run, calls, mut events) =
        batch(&format!("{OFFERS}pcall(models.loop)\nreturn 'caught'"), &["web_one", "web_two"]);
    run.cancel();
    assert!(step(&mut run, &mut events).unwrap().is_empty());
    for (id, _) in calls {
        run.resume(id, Answer::Dropped);
    }
    assert_eq!(step(&mut run, &mut events).unwrap_err().ending, Ending::Cancelled);
}

/// Answers a batch of four calls in an order; gives what the run then shows.
fn in_order(order: &[usize]) -> (Outcome, Vec<Value>, Vec<Value>) {
    let lua = format!(
        "{OFFERS}models.loop()\nlocal texts = {{}}\nfor i = 1, #messages do texts[i] = messages[i].content end\nreturn \
         table.concat(texts, '|')"
    );
    let (mut run, calls, mut events) = batch(&lua, &["web_one", "web_two", "web_three", "web_one"]);
    let mut requests = Vec::new();
    for &index in order {
        let (id, _) = calls[index];
        run.resume(
            id,
            match index {
                2 => Answer::ToolFailure { message: "down".to_owned() },
                _ => Answer::ToolOutput { text: format!("result {index}") },
            },
        );
        match step(&mut run, &mut events) {
            Ok(effects) => {
                for (id, effect) in effects {
                    let Effect::Round(round) = effect else { panic!("{effect:?}") };
                    requests.push(Value::Array(round.request.messages()));
                    run.resume(id, says("done"));
                }
            }
            Err(outcome) => panic!("{outcome:?}"),
        }
    }
    let outcome = step(&mut run, &mut events).unwrap_err();
    (outcome, events, requests)
}

proptest! {
    /// Any order of answers to independent calls gives the same result, events and requests.
    #[test]
    fn the_order_of_answers_changes_nothing(order in Just(vec![0, 1, 2, 3]).prop_shuffle()) {
        let expected = in_order(&[0, 1, 2, 3]);
        prop_assert_eq!(in_order(&order), expected);
    }
}

#[test]
fn structured_output_reaches_a_script_decoded() {
    let source = "---\nname: p\ndescription: d\nrunvil: 0\nuses: [web]\n---\n\n# P\n\n## Only\n\n```lua\nlocal r = \
                  tools.call('web/data')\nlocal ok, err = pcall(tools.call, 'web/wrapped')\nreturn r.text .. #r.images .. '|' \
                  .. err.kind .. ':' .. tostring(err)\n```\n";
    let tool = |name: &str, trusted| PackTool { name: name.to_owned(), trusted, structured: true };
    let pack =
        Pack { name: "web".to_owned(), tools: vec![tool("data", true), tool("wrapped", false)], ..Pack::default() };
    let params = Params { packs: vec![pack], models: BTreeMap::new(), ..Params::default() };
    let mut run = Run::new(Arc::new(Prompt::parse(source.as_bytes()).unwrap()), params);
    let mut events = Vec::new();
    let outcome = loop {
        match step(&mut run, &mut events) {
            Ok(effects) => {
                for (id, _) in effects {
                    run.resume(id, Answer::ToolOutput { text: r#"{"text":"typed","images":[]}"#.to_owned() });
                }
            }
            Err(outcome) => break outcome,
        }
    };
    let text = "typed0|tool:tool call failure: structured tool \"web/wrapped\" returned invalid JSON";
    assert_eq!(outcome.ending, Ending::Completed(text.to_owned()));
}

#[test]
fn packs_that_exclude_each_other_are_reported_once_a_pair_after_the_missing_ones() {
    let source = "---\nname: p\ndescription: d\nrunvil: 0\nuses: [web, mail, gone, news]\n---\n\n# P\n\n## Only\n\n```lua\nreturn \
                  'ran'\n```\n";
    let pack = |name: &str, conflicts: &[&str]| Pack {
        name: name.to_owned(),
        conflicts: conflicts.iter().map(|name| (*name).to_owned()).collect(),
        ..Pack::default()
    };
    // Either side may say so; a pack that the prompt does not use excludes nothing.
    let packs = vec![
        pack("news", &["web", "other"]),
        pack("mail", &[]),
        pack("web", &["news", "web"]),
        pack("other", &["mail"]),
    ];
    let mut run = Run::new(Arc::new(Prompt::parse(source.as_bytes()).unwrap()), Params { packs, ..Params::default() });
    let Ending::Failed(error) = step(&mut run, &mut Vec::new()).unwrap_err().ending else { panic!("did not fail") };
    assert_eq!(
        (error.kind.as_str(), error.message.as_str()),
        (
            "RequirementsUnmet",
            "the environment cannot satisfy this prompt:\n- missing required Pack: gone\n- conflicting Packs: web and news \
             cannot be activated together; declare one or the other"
        )
    );
}

#[test]
fn a_tool_whose_schema_is_no_object_fails_the_run_as_kind_binding() {
    let (mut run, mut events) = (run(&format!("{OFFERS}models.loop()")), Vec::new());
    let (id, _) = step(&mut run, &mut events).unwrap().remove(0);
    run.resume(id, Answer::RenderFailure { path: "web/two".to_owned() });
    let Ending::Failed(error) = step(&mut run, &mut events).unwrap_err().ending else { panic!("did not fail") };
    let message = "model-facing schema build failure for tool \"web/two\"";
    assert_eq!((error.kind.as_str(), error.message.lines().next()), ("Binding", Some(message)));
}

#[test]
fn a_run_cancelled_while_a_handler_waits_goes_on_with_nothing() {
    // TUL-39: neither the handler nor the code around the loop can catch it.
    let lua = format!(
        "models.use('writer')\ntools.offer_local('mine', 'd', {{}}, function() pcall(tools.call, 'web/one') log('on') \
         error('mine', 0) end)\n{OFFERS}pcall(models.loop)\nreturn 'caught'"
    );
    let (mut run, calls, mut events) = batch(&lua, &["mine", "web_two"]);
    assert_eq!(calls.len(), 1);
    run.cancel();
    run.resume(calls[0].0, Answer::Dropped);
    assert_eq!(step(&mut run, &mut events).unwrap_err().ending, Ending::Cancelled);
    assert!(!events.iter().any(|event| event["kind"] == "lua"), "{events:?}");
}

#[test]
fn a_dropped_call_keeps_the_later_ones_of_its_batch_from_being_issued() {
    // TUL-28
    let lua = format!(
        "models.use('writer')\nlocal runs = 0\ntools.offer_local('mine', 'd', {{}}, function() runs = runs + 1 end)\n\
         {OFFERS}local ok, err = pcall(models.loop)\nlocal first = err.kind .. #messages .. runs\nmodels.loop()\nreturn \
         first .. messages[2].content"
    );
    let (mut run, calls, mut events) = batch(&lua, &["web_one", "mine"]);
    run.resume(calls[0].0, Answer::Dropped);
    // The block caught it, and the next loop is an ordinary one.
    let (id, effect) = step(&mut run, &mut events).unwrap().remove(0);
    assert!(matches!(effect, Effect::Round(_)));
    run.resume(id, says("done"));
    let outcome = step(&mut run, &mut events).unwrap_err();
    assert_eq!(outcome.ending, Ending::Completed("cancelled10done".to_owned()));
}

#[test]
fn tokens_of_a_reply_that_cannot_be_used_are_counted_too() {
    for lua in ["pcall(models.loop)\nreturn 'x'", "pcall(models.infer, 'hi')\nreturn 'x'"] {
        let (mut run, mut events) = (run(&format!("models.use('writer')\nmessages:user('go')\n{lua}")), Vec::new());
        let (id, _) = step(&mut run, &mut events).unwrap().remove(0);
        let Answer::Reply(mut reply) = asks(&["cut"], 0) else { panic!("no reply") };
        reply.finish_reason = Some("length".to_owned());
        reply.usage = Some(Usage { prompt_tokens: Some(5), completion_tokens: Some(7), ..Usage::default() });
        run.resume(id, Answer::Reply(reply));
        let outcome = step(&mut run, &mut events).unwrap_err();
        assert_eq!(
            (outcome.turns, outcome.usage.prompt_tokens, outcome.usage.completion_tokens),
            (0, Some(5), Some(7))
        );
    }
}
