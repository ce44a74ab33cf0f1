//! The machine itself: every effect answered once, cancelling, determinism.

use std::collections::BTreeSet;
use std::sync::Arc;

use runvil_core::reply::{Reply, ReplySource};
use runvil_engine::effect::{Answer, Effect, EffectId};
use runvil_engine::error::RunErrorKind;
use runvil_engine::event::Event;
use runvil_engine::outcome::{Ending, Outcome};
use runvil_engine::params::Params;
use runvil_engine::prompt::Prompt;
use runvil_engine::run::{Run, Step};
use runvil_lua::models::{CatalogModel, Thinking};

fn prompt(lua: &str) -> Arc<Prompt> {
    let source = format!(
        "---\nname: p\ndescription: d\nrunvil: 0\nmodels:\n  writer: {{}}\n---\n\n# P\n\n## Only\n\n```lua\n{lua}\n```\n"
    );
    Arc::new(Prompt::parse(source.as_bytes()).unwrap())
}

fn params() -> Params {
    let model = CatalogModel {
        estimator: runvil_core::estimator::Estimator::default(),
        name: "m".to_owned(),
        id: "m".to_owned(),
        context: 8192,
        max_tokens: None,
        thinking: Thinking::Never,
        description: String::new(),
    };
    Params { models: [("writer".to_owned(), model)].into(), ..Params::default() }
}

const LOOP: &str = "models.use('writer')\nmessages:user('hi')\nmodels.loop()\nreturn messages[2].content";

fn waiting() -> (Run, EffectId) {
    let mut run = Run::new(prompt(LOOP), params());
    match run.step() {
        Step::Pending { effects, .. } => {
            assert_eq!(effects.len(), 1);
            assert!(matches!(effects[0].1, Effect::Round(_)));
            let id = effects[0].0;
            (run, id)
        }
        Step::Done { outcome, .. } => panic!("{outcome:?}"),
    }
}

#[test]
fn a_waiting_run_hands_nothing_out_twice() {
    let (mut run, _) = waiting();
    match run.step() {
        Step::Pending { effects, events } => {
            assert!(effects.is_empty());
            assert!(events.is_empty());
        }
        Step::Done { outcome, .. } => panic!("{outcome:?}"),
    }
}

#[test]
fn a_cancelled_run_is_done_once_its_effects_are_answered() {
    let (mut run, effect) = waiting();
    assert!(!run.decided());
    run.cancel();
    assert!(run.decided());
    assert!(matches!(run.step(), Step::Pending { .. }));
    run.resume(effect, Answer::Dropped);
    match run.step() {
        Step::Done { outcome, .. } => assert_eq!(outcome.ending, Ending::Cancelled),
        Step::Pending { .. } => panic!("not done"),
    }
}

// ERR-14
#[test]
fn a_dropped_round_is_a_cancelled_error() {
    let source =
        "models.use('writer')\nmessages:user('hi')\nlocal ok, err = pcall(models.loop)\nreturn err.kind .. #messages";
    let mut run = Run::new(prompt(source), params());
    let Step::Pending { effects, .. } = run.step() else { panic!() };
    run.resume(effects[0].0, Answer::Dropped);
    match run.step() {
        Step::Done { outcome, .. } => assert_eq!(outcome.ending, Ending::Completed("cancelled1".to_owned())),
        Step::Pending { .. } => panic!("not done"),
    }
    let (mut run, effect) = waiting();
    run.resume(effect, Answer::Dropped);
    match run.step() {
        Step::Done { outcome, .. } => assert_eq!(outcome.ending, Ending::Cancelled),
        Step::Pending { .. } => panic!("not done"),
    }
}

#[test]
fn a_wrong_answer_ends_the_run_as_an_internal_error() {
    let ends_internal = |mut run: Run| match run.step() {
        Step::Done { outcome, .. } => match outcome.ending {
            Ending::Failed(error) => assert_eq!(error.kind, RunErrorKind::Internal),
            ending => panic!("{ending:?}"),
        },
        Step::Pending { .. } => panic!("not done"),
    };
    let (mut run, effect) = waiting();
    run.resume(effect, Answer::InputUnavailable);
    ends_internal(run);
    let (mut run, effect) = waiting();
    run.resume(effect, Answer::Dropped);
    run.resume(effect, Answer::Dropped);
    ends_internal(run);
    let (mut run, effect) = waiting();
    run.resume(EffectId(effect.0 + 7), Answer::Dropped);
    run.resume(effect, Answer::Dropped);
    ends_internal(run);
}

#[test]
fn a_busy_block_ends_when_another_thread_cancels() {
    let mut run = Run::new(prompt("while true do end"), params());
    let flag = run.cancel_flag();
    let thread = std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(30));
        flag.cancel();
    });
    match run.step() {
        Step::Done { outcome, .. } => assert_eq!(outcome.ending, Ending::Cancelled),
        Step::Pending { .. } => panic!("not done"),
    }
    thread.join().unwrap();
}

/// Steps a run to its end, answering each effect; gives the outcome, the events and the number of effects.
fn finish(mut run: Run, mut answer: impl FnMut(&Effect) -> Answer) -> (Outcome, Vec<Event>, usize) {
    let mut seen = BTreeSet::new();
    let mut events = Vec::new();
    loop {
        match run.step() {
            Step::Done { outcome, events: last } => {
                events.extend(last);
                return (outcome, events, seen.len());
            }
            Step::Pending { effects, events: new } => {
                events.extend(new);
                assert!(!effects.is_empty(), "the run waits for nothing");
                for (id, effect) in effects {
                    assert!(seen.insert(id), "effect {id:?} came twice");
                    run.resume(id, answer(&effect));
                }
            }
        }
    }
}

fn text(text: &str) -> Answer {
    Answer::Reply(Box::new(Reply { text: Some(text.to_owned()), ..Reply::default() }))
}

fn kinds(events: &[Event]) -> Vec<(&'static str, &str)> {
    events.iter().map(|event| (event.kind, event.section.as_str())).collect()
}

#[test]
fn events_of_a_task_are_numbered_upwards_with_gaps_for_effects() {
    let run = Run::new(prompt(LOOP), params());
    let (outcome, events, effects) = finish(run, |_| text("pong"));
    assert_eq!(outcome.ending, Ending::Completed("pong".to_owned()));
    assert_eq!((outcome.turns, effects), (1, 1));
    let numbers: Vec<u64> = events.iter().map(|event| event.seq).collect();
    assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]), "{numbers:?}");
    let last = *numbers.last().unwrap();
    assert_eq!(last + 1, numbers.len() as u64 + effects as u64);
}

#[test]
fn the_same_answers_give_the_same_run() {
    let source = "models.use('writer')\nlocal out = {}\nfor i = 1, 3 do\n  messages:user(models.infer(untrusted(i)))\n  \
                  models.loop()\n  out[#out + 1] = messages[#messages].content .. math.random(1 << 30)\nend\nreturn \
                  table.concat(out, ',') .. tostring({}) .. sys.when";
    let run =
        || finish(Run::new(prompt(source), Params { seed: 9, ..params() }), |effect| text(&format!("{effect:?}")));
    assert_eq!(run(), run());
}

// EMP-19, EMP-20
#[test]
fn an_empty_reply_that_the_application_built_has_a_text_of_its_own() {
    for (reply, finish_reason) in [(Some(""), None), (Some(" \n"), Some("stop")), (None, Some("length"))] {
        let reply = Reply {
            text: reply.map(str::to_owned),
            finish_reason: finish_reason.map(str::to_owned),
            source: ReplySource::Host,
            ..Reply::default()
        };
        let run = Run::new(prompt(LOOP), params());
        let (outcome, _, _) = finish(run, |_| Answer::Reply(Box::new(reply.clone())));
        let Ending::Failed(error) = outcome.ending else { panic!("{outcome:?}") };
        assert_eq!((error.kind, error.message.as_str()), (RunErrorKind::Completion, "empty model reply"));
        assert_eq!(error.finish_reason.as_deref(), finish_reason);
    }
}

#[test]
fn a_failing_input_source_is_an_error_of_its_own() {
    let failure = || Answer::InputFailure { message: "the terminal is gone".to_owned() };
    let run = Run::new(prompt("local ok, err = pcall(user_input)\nreturn err.kind .. '|' .. tostring(err)"), params());
    let (outcome, events, _) = finish(run, |_| failure());
    let caught = "internal|user input request was not answered: the terminal is gone";
    assert_eq!(outcome.ending, Ending::Completed(caught.to_owned()));
    assert!(events.iter().all(|event| event.kind != "user_input"));

    let (outcome, _, _) = finish(Run::new(prompt("user_input()"), params()), |_| failure());
    let Ending::Failed(error) = outcome.ending else { panic!("{outcome:?}") };
    assert_eq!(error.kind, RunErrorKind::Input);
    assert_eq!(error.message, "user input request was not answered: the terminal is gone");
}

#[test]
fn abandoned_waits_are_cancelled_errors() {
    for call in ["user_input", "require, 'lib'", "models.infer, 'x'", "models.loop"] {
        let source = format!(
            "models.use('writer') messages:user('hi')\nlocal ok, err = pcall({call})\nreturn err.kind .. ' ' .. tostring(err)"
        );
        let (outcome, events, _) = finish(Run::new(prompt(&source), params()), |_| Answer::Dropped);
        assert_eq!(outcome.ending, Ending::Completed("cancelled interrupted by Ctrl-C".to_owned()), "{call}");
        assert!(events.iter().all(|event| event.kind != "model_turn_failed"), "{call}");

        let source = source.replace("pcall(", "(function(f, ...) return f(...) end)(");
        let (outcome, _, _) = finish(Run::new(prompt(&source), params()), |_| Answer::Dropped);
        assert_eq!(outcome.ending, Ending::Cancelled, "{call}");
    }
}

#[test]
fn a_cancelled_run_tears_its_sections_down_innermost_first() {
    let source = "---\nname: p\ndescription: d\nrunvil: 0\n---\n\n# P\n\n## Outer\n\n```lua\ncall('## Inner')\n```\n\n## \
                  Inner\n\n```lua\nuser_input()\n```\n";
    let mut run = Run::new(Arc::new(Prompt::parse(source.as_bytes()).unwrap()), params());
    let Step::Pending { effects, .. } = run.step() else { panic!("done") };
    run.cancel();
    let Step::Pending { events, .. } = run.step() else { panic!("done before its effect was answered") };
    assert_eq!(
        kinds(&events),
        [
            ("lua_teardown_started", "Inner"),
            ("lua_teardown_succeeded", "Inner"),
            ("lua_teardown_started", "Outer"),
            ("lua_teardown_succeeded", "Outer"),
            ("run_failed", "P"),
        ]
    );
    run.resume(effects[0].0, Answer::UserInput { text: "late".to_owned() });
    let Step::Done { outcome, events } = run.step() else { panic!("not done") };
    assert_eq!(outcome.ending, Ending::Cancelled);
    assert!(events.is_empty(), "{events:?}");
}

#[test]
fn a_run_cancelled_before_its_first_step_runs_no_lua() {
    let mut run = Run::new(prompt("log('ran')"), params());
    run.cancel();
    let Step::Done { outcome, events } = run.step() else { panic!("not done") };
    assert_eq!(outcome.ending, Ending::Cancelled);
    assert!(events.iter().all(|event| event.kind != "lua_chunk_started" && event.kind != "lua"), "{events:?}");
    assert_eq!(events.last().map(|event| event.kind), Some("run_failed"));
}

#[test]
fn a_result_that_came_first_stands() {
    let mut run = Run::new(prompt("return 'done first'"), params());
    let Step::Done { outcome, .. } = run.step() else { panic!("not done") };
    run.cancel();
    let Step::Done { outcome: again, events } = run.step() else { panic!("not done") };
    assert_eq!(outcome, again);
    assert_eq!(outcome.ending, Ending::Completed("done first".to_owned()));
    assert!(events.is_empty());
}

// CPT-43
#[test]
fn cancelling_ends_a_run_whose_compactor_waits() {
    let source = "models.use('writer')\nmessages:user(string.rep('x', 100000))\npcall(models.loop, function() \
                  pcall(models.infer, 'sum up') error('mine', 0) end)\nreturn 'caught'";
    let mut run = Run::new(prompt(source), params());
    let Step::Pending { effects, .. } = run.step() else { panic!("done") };
    run.cancel();
    run.resume(effects[0].0, Answer::Dropped);
    let Step::Done { outcome, .. } = run.step() else { panic!("not done") };
    assert_eq!(outcome.ending, Ending::Cancelled);
}

/// Finishes a step that is cut short after this much work; gives how often it was.
fn in_pieces(run: &mut Run, work: u64) -> (usize, Step) {
    let mut cuts = 0;
    loop {
        match run.step_within(work) {
            Some(step) => return (cuts, step),
            None => cuts += 1,
        }
    }
}

#[test]
fn a_step_is_cut_short_in_the_middle_of_a_block() {
    let source = "local sum = 0 for i = 1, 20000 do sum = sum + i end return sum";
    let mut run = Run::new(prompt(source), params());
    let (cuts, Step::Done { outcome, .. }) = in_pieces(&mut run, 10_000) else { panic!("not done") };
    assert_eq!(outcome.ending, Ending::Completed("200010000".to_owned()));
    // Four pieces for the loop and one for the section's entry, with some room for how Lua counts.
    assert!((3..=8).contains(&cuts), "{cuts}");
}

#[test]
fn a_short_run_is_not_cut_short() {
    let mut run = Run::new(prompt(LOOP), params());
    let (0, Step::Pending { effects, .. }) = in_pieces(&mut run, 20_000) else { panic!("cut short or done") };
    run.resume(effects[0].0, Answer::Reply(Box::new(Reply { text: Some("pong".to_owned()), ..Reply::default() })));
    let (0, Step::Done { .. }) = in_pieces(&mut run, 20_000) else { panic!("cut short or not done") };
}

#[test]
fn a_limited_step_leaves_a_large_answer_for_later() {
    let (mut run, effect) = waiting();
    let reply = Reply { text: Some("x".repeat(50_000)), ..Reply::default() };
    run.resume(effect, Answer::Reply(Box::new(reply)));
    assert!(run.step_within(20_000).is_none());
    assert!(matches!(run.step(), Step::Done { .. }));
}

#[test]
fn a_limited_step_enters_few_sections() {
    let sections = "\n## Another\n\n```lua\nvar.count = (var.count or 0) + 1\n```\n";
    let mut source = "---\nname: p\ndescription: d\nrunvil: 0\n---\n\n# P\n".to_owned();
    for at in 0..20 {
        source.push_str(&sections.replace("Another", &format!("Section {at}")));
    }
    let mut run = Run::new(Arc::new(Prompt::parse(source.as_bytes()).unwrap()), params());
    let (cuts, Step::Done { .. }) = in_pieces(&mut run, 20_000) else { panic!("not done") };
    assert!(cuts >= 9, "{cuts}");
}

#[test]
fn a_large_heap_is_no_work_for_a_limited_step() {
    let source = "local text = 'x' while #text < 1 << 20 do text = text .. text end \
                  for _ = 1, 100 do text = text .. 'x' end return #text";
    let mut run = Run::new(prompt(source), params());
    assert!(run.step_within(1 << 40).is_none());
    let Step::Done { outcome, .. } = run.step() else { panic!("not done") };
    assert_eq!(outcome.ending, Ending::Completed("1048676".to_owned()));
}

#[test]
fn a_paused_block_can_be_cancelled() {
    let source = "local guard <close> = setmetatable({}, { __close = function() log('closed') end }) while true do \
                  pcall(function() while true do end end) end";
    let mut run = Run::new(prompt(source), params());
    assert!(run.step_within(20_000).is_none());
    run.cancel();
    let Some(Step::Done { outcome, events }) = run.step_within(20_000) else { panic!("not done") };
    assert_eq!(outcome.ending, Ending::Cancelled);
    assert!(events.iter().all(|event| event.kind != "lua"));
}
