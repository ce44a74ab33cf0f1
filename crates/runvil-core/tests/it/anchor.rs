//! Counting a request from what the provider reported for the round before.

use std::sync::Arc;

use runvil_core::anchor::{Anchor, anchored_tokens};
use runvil_core::list::MessageList;
use runvil_core::precheck::Precheck;
use runvil_core::reply::Usage;
use serde_json::Value;

use crate::support::{assistant, calls, good, list, system, tool, user};

fn usage(prompt: u64, completion: u64, reasoning: Option<u64>) -> Usage {
    Usage {
        prompt_tokens: Some(prompt),
        completion_tokens: Some(completion),
        reasoning_tokens: reasoning,
        ..Usage::default()
    }
}

/// A list that was sent on model `m` and measured.
fn served(records: &[Value], usage: &Usage) -> (MessageList, Anchor) {
    let mut list = list(records);
    let mut anchor = Anchor::new();
    anchor.served("m", &list.compose().unwrap(), Some(usage));
    (list, anchor)
}

fn add(list: &mut MessageList, records: &[Value]) {
    for record in records {
        list.append(good(record)).unwrap();
    }
}

/// The anchored count of the list as it is now.
fn count(list: &mut MessageList, anchor: &Anchor) -> Option<u64> {
    anchor.count(&list.compose().unwrap(), Some("m"))
}

#[test]
fn counts_the_measured_total_and_the_tail() {
    for (case, sent, reported, tail, expected, admitted) in [
        ("ANC-01", 5, usage(3400, 100, None), 400, 3604, false),
        ("ANC-02", 5, usage(3400, 100, None), 323, 3584, true),
        ("ANC-02", 5, usage(3400, 100, None), 324, 3585, false),
        ("ANC-03", 11_000, usage(100, 5, None), 4_000, 1109, true),
        ("ANC-05", 5, usage(3000, 1200, Some(800)), 400, 3504, true),
        ("ANC-06", 5, usage(3000, 1200, None), 400, 4304, false),
        ("ANC-07", 5, usage(5, 5, Some(100)), 400, 104, true),
    ] {
        let (mut list, anchor) = served(&[user("x".repeat(sent))], &reported);
        add(&mut list, &[assistant("ok"), user("y".repeat(tail))]);
        assert_eq!(count(&mut list, &anchor), Some(expected), "{case}");
        // ANC-32: the reserve of a 4096 token window comes on top.
        assert_eq!(Precheck::new(expected, 4096, None).admitted, admitted, "{case}");
    }
    // ANC-08, ANC-09
    let (mut list, anchor) = served(&[user("x")], &usage(1000, 50, None));
    add(&mut list, &[assistant("r".repeat(4000)), user("y".repeat(40))]);
    assert_eq!(count(&mut list, &anchor), Some(1064));
    add(&mut list, &[assistant("abc"), user("abc")]);
    assert_eq!(count(&mut list, &anchor), Some(1050 + 46 / 4 + 12));
    // ANC-10: the reply is the assistant record with the calls.
    let (mut list, anchor) = served(&[user("x")], &usage(100, 10, None));
    add(&mut list, &[calls("", &["c1"]), tool("c1", "r".repeat(40))]);
    assert_eq!(count(&mut list, &anchor), Some(110 + 14));
    // ANC-34: text merged into the reply's message is part of the reply.
    let (mut list, anchor) = served(&[user("x")], &usage(100, 10, None));
    add(&mut list, &[assistant("ok"), assistant("z".repeat(4000)), user("abcd")]);
    assert_eq!(count(&mut list, &anchor), Some(110 + 5));
}

#[test]
fn applies_to_the_very_messages_only() {
    let start = || served(&[system("s"), user("a"), user("b")], &usage(100, 10, None));
    let (mut list, anchor) = start();
    // ANC-11
    assert_eq!(count(&mut list, &anchor), None);
    // ANC-13
    add(&mut list, &[user("c")]);
    assert_eq!(count(&mut list, &anchor), None);
    // An empty record that vanishes changes no message.
    let (mut list, anchor) = start();
    add(&mut list, &[user(""), assistant("ok")]);
    assert_eq!(count(&mut list, &anchor), Some(110));
    for (case, edit, expected) in [
        ("ANC-12", (2, 4, vec![]), None),
        ("ANC-14", (2, 2, vec![user("other")]), None),
        ("ANC-14", (3, 3, vec![assistant("b")]), None),
        ("ANC-15", (1, 4, vec![user("summary")]), None),
        ("ANC-16", (4, 4, vec![user("c")]), None),
        ("ANC-17", (1, 1, vec![system("other")]), None),
        ("ANC-18", (2, 1, vec![system("t")]), None),
        ("ANC-35", (5, 5, vec![]), Some(110)),
        // By value: two records put together by hand read the same.
        ("ANC-33", (2, 3, vec![user("a\n\nb")]), Some(115)),
        ("ANC-33 MET-29", (3, 3, vec![serde_json::json!({"role": "user", "content": "b", "meta": 1})]), Some(115)),
    ] {
        let (mut list, anchor) = start();
        add(&mut list, &[assistant("ok"), user("next")]);
        assert_eq!(count(&mut list, &anchor), Some(115));
        let (from, to, records) = edit;
        list.replace(from, to, records.iter().map(good).collect()).unwrap();
        assert_eq!(count(&mut list, &anchor), expected, "{case}");
    }
    // A fork and a restored list are compared by value, too.
    let (mut list, anchor) = start();
    let snapshot = list.snapshot();
    add(&mut list, &[assistant("ok")]);
    let mut fork = list.clone();
    add(&mut fork, &[user("abcd")]);
    assert_eq!(count(&mut fork, &anchor), Some(115));
    list.restore(snapshot);
    assert_eq!(count(&mut list, &anchor), None);
    add(&mut list, &[assistant("another")]);
    assert_eq!(count(&mut list, &anchor), Some(110));
}

#[test]
fn belongs_to_the_latest_measured_model() {
    let (mut list, mut anchor) = served(&[user("x")], &usage(100, 10, None));
    add(&mut list, &[assistant("ok"), user("next")]);
    let second = list.compose().unwrap();
    // ANC-23, ANC-26
    assert_eq!(anchor.count(&second, Some("other")), None);
    assert_eq!(anchor.count(&second, Some("m")), Some(112 + 3));
    assert_eq!(anchor.count(&second, None), Some(115));
    // ANC-04, ANC-19: no usage keeps the measurement.
    anchor.served("m", &second, None);
    add(&mut list, &[assistant("fine"), user("more")]);
    let third = list.compose().unwrap();
    assert_eq!(anchor.count(&third, Some("m")), Some(110 + 3 + 12));
    // ANC-20
    anchor.served("m", &second, Some(&usage(200, 20, None)));
    assert_eq!(anchor.count(&third, Some("m")), Some(220 + 5));
    // ANC-24, ANC-25: another model's round takes it over, or drops it.
    anchor.served("other", &second, Some(&usage(300, 30, None)));
    assert_eq!(anchor.count(&third, Some("other")), Some(335));
    assert_eq!(anchor.count(&third, Some("m")), None);
    anchor.served("m", &second, None);
    assert_eq!(anchor.count(&third, None), None);
    assert_eq!(Anchor::new().count(&third, Some("m")), None);
    assert!(!format!("{anchor:?}").contains("next"));
}

#[test]
fn needs_both_counts() {
    assert_eq!(anchored_tokens(&usage(u64::MAX, 5, Some(1))), Some(u64::MAX - 1));
    assert_eq!(anchored_tokens(&Usage { prompt_tokens: Some(5), ..Usage::default() }), None);
    assert_eq!(anchored_tokens(&Usage { completion_tokens: Some(5), ..Usage::default() }), None);
}

#[test]
fn extending_costs_what_was_added() {
    // 100 000 records, then a round: the anchored count must not walk them.
    let pair = [good(&user("question")), good(&assistant("answer"))];
    let mut list = MessageList::new();
    let mut anchor = Anchor::new();
    for index in 0..100_001 {
        list.append(Arc::clone(&pair[index % 2])).unwrap();
    }
    anchor.served("m", &list.compose().unwrap(), Some(&usage(1, 1, None)));
    add(&mut list, &[assistant("ok"), user("next")]);
    let request = list.compose().unwrap();
    let start = std::time::Instant::now();
    for _ in 0..1000 {
        assert_eq!(anchor.count(&request, Some("m")), Some(7));
    }
    assert!(start.elapsed().as_secs_f64() < 1.0, "{:?}", start.elapsed());
}
