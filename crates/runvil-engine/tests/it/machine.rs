//! The machine itself: every effect answered once, cancelling, determinism.

use std::sync::Arc;

use runvil_engine::effect::{Answer, Effect, EffectId};
use runvil_engine::error::RunErrorKind;
use runvil_engine::outcome::Ending;
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
