//! The tool loop as a machine: what it decides for each answer, in the order the chapter gives.

use proptest::prelude::*;
use runvil_core::anchor::Anchor;
use runvil_core::failure::{FailureKind, ModelFailure, classify};
use runvil_core::list::MessageList;
use runvil_core::precheck::{ContextOverflow, OverflowReason};
use runvil_core::record::Record;
use runvil_core::reply::{CallArguments, Reply, ReplyCall};
use runvil_core::tool_loop::{
    CallAnswer, Dispatch, LoopError, RoundModel, Step, ToolLoop, read_calls, read_calls_leniently,
};

const MODEL: RoundModel<'_> = RoundModel { name: "small", context: 4096, max_tokens: None, must_shrink: true };

const PROVIDER: ContextOverflow = ContextOverflow { reason: OverflowReason::Provider, used: None, limit: None };

/// Bound tools `a` and `b`, and a local one.
const SCOPE: [(&str, Dispatch); 3] = [("a", Dispatch::Bound), ("b", Dispatch::Bound), ("local", Dispatch::Alone)];

struct Bench {
    machine: ToolLoop,
    list: MessageList,
    anchor: Anchor,
}

impl Bench {
    fn new(cap: u32) -> Self {
        let mut list = MessageList::new();
        list.append(Record::user("go")).unwrap();
        Self { machine: ToolLoop::new(cap), list, anchor: Anchor::new() }
    }

    fn send(&mut self) -> Step {
        self.machine.send(&mut self.list, MODEL, &self.anchor)
    }

    fn reply(&mut self, reply: &Reply) -> Step {
        match read_calls(reply) {
            Ok(calls) => self.machine.replied(&mut self.list, &mut self.anchor, reply, calls, &SCOPE),
            Err(failure) => self.machine.request_failed(&mut self.list, failure),
        }
    }

    /// Sends a round and answers it.
    fn round(&mut self, reply: &Reply) -> Step {
        assert!(matches!(self.send(), Step::Send { .. }));
        self.reply(reply)
    }

    fn answer(&mut self, index: usize, text: &str) -> Step {
        self.machine.call_answered(&mut self.list, index, CallAnswer::Text(text.to_owned()))
    }

    fn overflow(&mut self) -> Step {
        assert!(matches!(self.send(), Step::Send { .. }));
        let failure = classify(Some(400), "prompt is too long");
        self.machine.request_failed(&mut self.list, failure)
    }

    fn contents(&self) -> Vec<String> {
        self.list.iter().map(|record| record.content_text().unwrap_or_default().into_owned()).collect()
    }
}

fn text(text: &str) -> Reply {
    Reply { text: Some(text.to_owned()), ..Reply::default() }
}

fn empty(finish_reason: Option<&str>) -> Reply {
    Reply { finish_reason: finish_reason.map(str::to_owned), ..Reply::default() }
}

fn call(id: &str, name: &str, arguments: &str) -> ReplyCall {
    ReplyCall { id: id.to_owned(), name: name.to_owned(), arguments: CallArguments::Text(arguments.to_owned()) }
}

fn calls(names: &[&str]) -> Reply {
    let calls = names.iter().enumerate().map(|(at, name)| call(&format!("c{at}"), name, "{}"));
    Reply { tool_calls: calls.collect(), ..Reply::default() }
}

fn failed(step: Step) -> LoopError {
    match step {
        Step::Failed(error) => error,
        other => panic!("{other:?}"),
    }
}

fn issued(step: Step) -> Vec<usize> {
    match step {
        Step::Calls(calls) => calls,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_text_is_the_terminal_record_verbatim() {
    // LOP-01, LOP-02, LOP-03
    let mut bench = Bench::new(24);
    assert!(matches!(bench.round(&text("  hi \n")), Step::Finished));
    assert_eq!(bench.contents(), ["go", "  hi \n"]);
    assert_eq!((bench.machine.rounds(), bench.machine.answered()), (1, 0));
}

#[test]
fn an_empty_list_does_not_open_a_round() {
    // LOP-08
    let error = ToolLoop::opens(&MessageList::new()).unwrap_err();
    assert_eq!((error.kind(), error.to_string()), ("lua", "messages must not be empty".to_owned()));
}

#[test]
fn calls_come_before_text_and_before_the_finish_reason() {
    // LOP-28, TUL-13, TUL-15, EMP-17
    let mut bench = Bench::new(24);
    let reply = Reply { text: Some("thinking...".to_owned()), finish_reason: Some("stop".to_owned()), ..calls(&["a"]) };
    assert_eq!(issued(bench.round(&reply)), [0]);
    assert!(matches!(bench.answer(0, "r"), Step::Round));
    assert_eq!(bench.contents(), ["go", "", "r"]);
}

#[test]
fn bound_calls_go_together_and_a_local_one_alone() {
    // TUL-06, TUL-07
    let mut bench = Bench::new(24);
    assert_eq!(issued(bench.round(&calls(&["a", "b", "local", "b", "a"]))), [0, 1]);
    assert_eq!(bench.list.len(), 1);
    assert!(matches!(bench.answer(1, "second"), Step::Wait));
    assert_eq!(issued(bench.answer(0, "first")), [2]);
    assert_eq!(issued(bench.answer(2, "third")), [3, 4]);
    assert!(matches!(bench.answer(4, "fifth"), Step::Wait));
    // Nothing lands before the last answer, and a second answer is ignored.
    assert!(matches!(bench.answer(4, "again"), Step::Wait));
    assert_eq!(bench.list.len(), 1);
    assert!(matches!(bench.answer(3, "fourth"), Step::Round));
    assert_eq!(bench.contents(), ["go", "", "first", "second", "third", "fourth", "fifth"]);
    assert_eq!(bench.machine.answered(), 5);
    bench.list.check().unwrap();
}

#[test]
fn two_hundred_calls_keep_their_order() {
    // TUL-45
    let mut bench = Bench::new(24);
    let names = vec!["a"; 200];
    let issued = issued(bench.round(&calls(&names)));
    for index in issued.into_iter().rev() {
        bench.answer(index, &index.to_string());
    }
    assert_eq!(bench.list.len(), 202);
    assert_eq!(bench.contents()[2..5], ["0", "1", "2"]);
}

#[test]
fn one_name_out_of_scope_keeps_the_batch_from_running() {
    // TUL-26
    let mut bench = Bench::new(24);
    let error = failed(bench.round(&calls(&["a", "rogue"])));
    assert_eq!(error.kind(), "out_of_scope_tool");
    assert_eq!(
        error.to_string(),
        r#"tool "rogue" is not in this section's scope; in-scope tools: ["a", "b", "local"]"#
    );
    assert_eq!(bench.list.len(), 1);
}

#[test]
fn a_call_that_is_given_up_leaves_the_list_as_it_was() {
    // TUL-28: whichever sibling is answered first.
    for dropped_first in [true, false] {
        let mut bench = Bench::new(24);
        issued(bench.round(&calls(&["a", "b"])));
        let drop = |bench: &mut Bench| bench.machine.call_answered(&mut bench.list, 1, CallAnswer::Dropped);
        let last = if dropped_first {
            assert!(matches!(drop(&mut bench), Step::Wait));
            bench.answer(0, "r")
        } else {
            assert!(matches!(bench.answer(0, "r"), Step::Wait));
            drop(&mut bench)
        };
        assert_eq!(failed(last), LoopError::Cancelled);
        assert_eq!(bench.list.len(), 1);
    }
}

#[test]
fn finished_results_are_kept_on_demand() {
    let mut bench = Bench::new(24);
    bench.machine = ToolLoop::new(24).keeping_finished(true);
    issued(bench.round(&calls(&["a", "b", "local"])));
    bench.answer(0, "r");
    let last = bench.machine.call_answered(&mut bench.list, 1, CallAnswer::Dropped);
    assert_eq!(failed(last), LoopError::Cancelled);
    assert_eq!(bench.contents(), ["go", "", "r", "the call was cancelled", "the call was cancelled"]);
    bench.list.check().unwrap();
}

#[test]
fn malformed_calls_fail_the_round() {
    // TUL-29, TUL-30
    let malformed = [
        (call(" ", "a", "{}"), "tool call 1 has a blank id"),
        (call("c", "\t", "{}"), "tool call 1 has a blank name"),
        (call("c", "a", "not json"), "tool call 1 has arguments that are not valid JSON"),
        (call("c", "a", ""), "tool call 1 has arguments that are not valid JSON"),
        (call("c", "a", r#"{"n":98765432109876543210}"#), "tool call 1 has arguments with a number that is too large"),
        (call("c", "a", r#"{"n":1e999}"#), "tool call 1 has arguments with a number that is too large"),
        (
            call("c", "a", &format!("{{\"a\":{}}}", "[".repeat(200))),
            "tool call 1 has arguments that nest deeper than 128 levels",
        ),
        (call("c", "a", "[]"), "tool call 1 has arguments that are not a JSON object"),
        (call("c", "a", "1"), "tool call 1 has arguments that are not a JSON object"),
        (call("c", "a", "null"), "tool call 1 has arguments that are not a JSON object"),
        (ReplyCall { arguments: CallArguments::Absent, ..call("c", "a", "") }, "tool call 1 has no arguments"),
    ];
    for (call, what) in malformed {
        let mut bench = Bench::new(24);
        let error = failed(bench.round(&Reply { tool_calls: vec![call], ..Reply::default() }));
        assert_eq!(error.kind(), "internal");
        assert_eq!(error.to_string(), format!("the model backend sent a reply that could not be understood: {what}"));
        assert_eq!(bench.list.len(), 1);
    }
    let twice = Reply { tool_calls: vec![call("c", "a", "{}"), call("c", "a", "{}")], ..Reply::default() };
    let note = read_calls(&twice).unwrap_err().note;
    assert_eq!(note.as_deref(), Some("tool call 2 repeats the id of an earlier call"));
}

#[test]
fn a_batch_that_was_cut_short_never_runs() {
    // TUL-34, TUL-35
    for reason in ["length", "content_filter"] {
        let mut bench = Bench::new(24);
        let reply = Reply { finish_reason: Some(reason.to_owned()), ..calls(&["a"]) };
        let error = failed(bench.round(&reply));
        assert_eq!(
            error.to_string(),
            format!(
                "the model backend sent a reply that could not be understood: tool-call batch truncated by finish_reason \
                 \"{reason}\": partial arguments must not execute"
            )
        );
        assert!(read_calls_leniently(&reply).is_err());
    }
}

#[test]
fn arguments_keep_their_order_and_lenient_reading_lets_bad_ones_pass() {
    let reply =
        Reply { tool_calls: vec![call("1", "a", r#"{"b":1,"a":2}"#), call("2", "a", "nope")], ..Reply::default() };
    let read = read_calls_leniently(&reply).unwrap();
    assert_eq!(read[0].0.arguments.keys().collect::<Vec<_>>(), ["b", "a"]);
    assert_eq!((read[0].1, read[1].1), (None, Some("has arguments that are not valid JSON")));
}

#[test]
fn the_clean_exit_needs_an_answered_call_and_stop() {
    // EMP-01, EMP-02, EMP-03, EMP-07, EMP-11, EMP-12, EMP-23
    let mut bench = Bench::new(24);
    assert_eq!(failed(bench.round(&empty(Some("stop")))).kind(), "empty_model_reply");
    let mut bench = Bench::new(24);
    issued(bench.round(&calls(&["a"])));
    bench.answer(0, "r");
    for reason in [Some("length"), Some("STOP"), Some("tool_calls"), None] {
        let error = failed(bench.round(&empty(reason)));
        let LoopError::EmptyReply(empty) = &error else { panic!("{error:?}") };
        assert_eq!(empty.finish_reason.as_deref(), reason);
        assert_eq!(bench.list.len(), 3);
    }
    assert!(matches!(bench.round(&empty(Some("stop"))), Step::Finished));
    assert_eq!(bench.contents(), ["go", "", "r", ""]);
}

#[test]
fn the_cap_counts_rounds_as_they_start() {
    // CAP-05, CAP-06, CAP-08, CAP-10
    let mut bench = Bench::new(2);
    for round in 1..=2 {
        issued(bench.round(&calls(&["a", "b"])));
        bench.answer(0, "r");
        let step = bench.answer(1, "r");
        if round == 2 {
            assert_eq!(failed(step).to_string(), "tool-call loop did not converge");
        }
        // The ids come again, so the list has to be put right for the next round.
        let last = bench.list.len();
        bench.list.replace(last - 2, last, vec![Record::assistant("done").into()]).unwrap();
    }
    assert_eq!(bench.machine.rounds(), 2);
}

#[test]
fn a_retry_is_no_round_of_its_own() {
    // CAP-11, CPT-51
    let mut bench = Bench::new(1);
    bench.list.append(Record::user(&"x".repeat(400))).unwrap();
    let before = bench.list.snapshot();
    assert!(matches!(bench.overflow(), Step::Compact(PROVIDER)));
    bench.list.replace(2, 2, Vec::new()).unwrap();
    assert!(matches!(bench.machine.compacted(&mut bench.list, before), Step::Round));
    assert!(bench.machine.is_retry());
    assert!(matches!(bench.round(&text("fits")), Step::Finished));
    assert_eq!((bench.machine.rounds(), bench.contents()), (1, vec!["go".to_owned(), "fits".to_owned()]));
}

#[test]
fn a_retry_that_overflows_brings_the_records_back() {
    let mut bench = Bench::new(24);
    bench.list.append(Record::user(&"x".repeat(400))).unwrap();
    let before = bench.list.snapshot();
    bench.overflow();
    bench.list.replace(2, 2, Vec::new()).unwrap();
    bench.machine.compacted(&mut bench.list, before);
    assert_eq!(failed(bench.overflow()), LoopError::ContextExhausted(PROVIDER));
    assert_eq!(bench.list.len(), 2);
}

#[test]
fn a_retry_that_fails_otherwise_keeps_what_the_compactor_left() {
    let replies = [
        Err(ModelFailure::new(FailureKind::ServerError)),
        Ok(empty(Some("stop"))),
        Ok(Reply { tool_calls: vec![call("", "a", "{}")], ..Reply::default() }),
        Ok(calls(&["rogue"])),
    ];
    for answer in replies {
        let mut bench = Bench::new(24);
        bench.list.append(Record::user(&"x".repeat(400))).unwrap();
        let before = bench.list.snapshot();
        bench.overflow();
        bench.list.replace(2, 2, Vec::new()).unwrap();
        bench.machine.compacted(&mut bench.list, before);
        bench.send();
        let step = match answer {
            Ok(reply) => bench.reply(&reply),
            Err(failure) => bench.machine.request_failed(&mut bench.list, failure),
        };
        failed(step);
        assert_eq!(bench.contents(), ["go"]);
    }
}

#[test]
fn a_later_round_has_a_compaction_of_its_own() {
    let mut bench = Bench::new(24);
    for id in ["1", "2"] {
        let last = bench.list.len() + 1;
        bench.list.append(Record::user(&"x".repeat(400))).unwrap();
        let before = bench.list.snapshot();
        assert!(matches!(bench.overflow(), Step::Compact(_)));
        bench.list.replace(last, last, Vec::new()).unwrap();
        assert!(matches!(bench.machine.compacted(&mut bench.list, before), Step::Round));
        let reply = Reply { tool_calls: vec![call(id, "a", "{}")], ..Reply::default() };
        issued(bench.round(&reply));
        assert!(!bench.machine.is_retry());
        assert!(matches!(bench.answer(0, "r"), Step::Round));
    }
    assert!(matches!(bench.round(&empty(Some("stop"))), Step::Finished));
    assert_eq!((bench.machine.rounds(), bench.machine.answered()), (3, 2));
}

#[test]
fn structure_is_judged_before_size() {
    let mut bench = Bench::new(24);
    let before = bench.list.snapshot();
    bench.overflow();
    bench.list.append(Record::tool("longer", "nobody")).unwrap();
    let error = failed(bench.machine.compacted(&mut bench.list, before));
    assert_eq!(
        (error.kind(), error.to_string().as_str()),
        ("lua", "messages[2] is an orphan tool record: no pending assistant tool call with id \"nobody\"")
    );
    assert_eq!(bench.list.len(), 1);
    let before = bench.list.snapshot();
    bench.overflow();
    assert_eq!(failed(bench.machine.compacted(&mut bench.list, before)), LoopError::ContextExhausted(PROVIDER));
}

#[test]
fn a_failed_request_goes_to_no_compactor() {
    // LOP-32
    for kind in [FailureKind::ServerError, FailureKind::Transport, FailureKind::Rejected] {
        let mut bench = Bench::new(24);
        bench.send();
        let failure = ModelFailure::new(kind);
        let error = failed(bench.machine.request_failed(&mut bench.list, failure.clone()));
        assert_eq!(error, LoopError::Model(failure));
    }
}

#[test]
fn a_round_on_a_long_history_costs_what_it_adds() {
    // LOP-40
    let work = |records: usize| {
        let mut bench = Bench::new(1000);
        for _ in 0..records / 2 {
            bench.list.append(Record::assistant("x")).unwrap();
            bench.list.append(Record::user("y")).unwrap();
        }
        bench.machine.send(&mut bench.list, RoundModel { context: 1 << 30, ..MODEL }, &bench.anchor);
        let before = bench.list.work();
        for round in 0..50 {
            let mut reply = calls(&["a"]);
            reply.tool_calls[0].id = round.to_string();
            issued(bench.reply(&reply));
            assert!(matches!(bench.answer(0, "r"), Step::Round));
            bench.machine.send(&mut bench.list, RoundModel { context: 1 << 30, ..MODEL }, &bench.anchor);
        }
        let after = bench.list.work();
        (after.records_checked - before.records_checked, after.records_composed - before.records_composed)
    };
    assert_eq!(work(2000), (100, 100));
    assert_eq!(work(4000), work(2000));
}

/// What the world does with a request.
#[derive(Debug, Clone)]
enum Answered {
    Reply(Box<Reply>),
    /// The provider says that it is too large; the compactor then drops so many records from the end.
    Overflow(usize),
    Failure,
}

fn any_answer() -> impl Strategy<Value = Answered> {
    let reply = |reply| Answered::Reply(Box::new(reply));
    prop_oneof![
        4 => prop::collection::vec(prop::sample::select(vec!["a", "b", "local", "rogue"]), 1..5)
            .prop_map(move |names| reply(calls(&names))),
        1 => Just(reply(text("done"))),
        1 => Just(reply(empty(Some("stop")))),
        1 => Just(reply(Reply { tool_calls: vec![call("", "a", "{}")], ..Reply::default() })),
        2 => (0..4_usize).prop_map(Answered::Overflow),
        1 => Just(Answered::Failure),
    ]
}

/// Answers the calls that are out, in an order; the second call of a batch may be given up.
fn answer_all(bench: &mut Bench, mut step: Step, drops: bool, mut order: u64) -> Step {
    let before = bench.contents();
    while let Step::Calls(mut open) = step {
        step = Step::Wait;
        while !open.is_empty() {
            assert!(matches!(step, Step::Wait));
            assert_eq!(bench.contents(), before, "nothing lands before the last answer");
            let at = usize::try_from(order % open.len() as u64).unwrap();
            order = order.rotate_right(3);
            let index = open.remove(at);
            let dropped = drops && index == 1;
            let answer = if dropped { CallAnswer::Dropped } else { CallAnswer::Text(index.to_string()) };
            step = bench.machine.call_answered(&mut bench.list, index, answer);
        }
    }
    step
}

proptest! {
    /// Whatever a model asks for, whatever becomes of the calls and whatever a compactor leaves: the list holds whole
    /// batches only, results stand in the order of their calls, and a loop that fails has added nothing since its last
    /// whole round.
    #[test]
    fn the_list_never_holds_half_a_batch(
        script in prop::collection::vec((any_answer(), any::<bool>(), any::<u64>()), 1..10),
    ) {
        let mut bench = Bench::new(4);
        let mut uncompacted = Vec::new();
        for (number, (answered, drops, order)) in script.into_iter().enumerate() {
            let before = bench.contents();
            let is_sent = matches!(bench.send(), Step::Send { .. });
            prop_assert!(is_sent);
            let (retried, answered_before) = (bench.machine.is_retry(), bench.machine.answered());
            let step = match answered {
                Answered::Reply(mut reply) => {
                    for call in &mut reply.tool_calls {
                        if !call.id.is_empty() {
                            call.id = format!("{number}.{}", call.id);
                        }
                    }
                    let step = bench.reply(&reply);
                    answer_all(&mut bench, step, drops, order)
                }
                Answered::Failure => {
                    bench.machine.request_failed(&mut bench.list, ModelFailure::new(FailureKind::Transport))
                }
                Answered::Overflow(dropped) => {
                    let snapshot = bench.list.snapshot();
                    let failure = ModelFailure::new(FailureKind::ContextOverflow);
                    match bench.machine.request_failed(&mut bench.list, failure) {
                        Step::Compact(_) => {
                            prop_assert!(!retried);
                            uncompacted.clone_from(&before);
                            let last = bench.list.len();
                            let first = last + 1 - dropped.min(last - 1);
                            bench.list.replace(first, last, Vec::new()).unwrap();
                            let step = bench.machine.compacted(&mut bench.list, snapshot);
                            if matches!(step, Step::Failed(_)) {
                                prop_assert_eq!(&bench.contents(), &before);
                            }
                            step
                        }
                        step => {
                            prop_assert!(retried);
                            prop_assert_eq!(&bench.contents(), &uncompacted);
                            step
                        }
                    }
                }
            };
            prop_assert!(bench.list.check().is_ok());
            prop_assert!(bench.machine.rounds() <= 4);
            let contents = bench.contents();
            if bench.machine.answered() > answered_before {
                // The batch: an assistant record, then its results.
                let results: Vec<String> = (0..contents.len() - before.len() - 1).map(|index| index.to_string()).collect();
                prop_assert_eq!(&contents[before.len()], "");
                prop_assert_eq!(&contents[before.len() + 1..], &results[..]);
            } else if matches!(step, Step::Failed(_)) && !retried {
                prop_assert_eq!(contents, before);
            }
            if !matches!(step, Step::Round) {
                break;
            }
        }
    }
}
