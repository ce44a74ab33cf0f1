//! The work follows what changed, not how long the list is.

use std::sync::Arc;
use std::time::Instant;

use runvil_core::list::{MessageList, Work};
use serde_json::Value;

use crate::support::{assistant, calls, good, list, tool, user};

fn alternating(count: usize) -> MessageList {
    let pair = [good(&user("question")), good(&assistant("answer"))];
    let mut list = MessageList::new();
    for index in 0..count {
        list.append(Arc::clone(&pair[index % 2])).unwrap();
    }
    list
}

fn since(before: Work, after: Work) -> [u64; 4] {
    [
        after.records_checked - before.records_checked,
        after.records_composed - before.records_composed,
        after.messages_touched - before.messages_touched,
        after.bytes_composed - before.bytes_composed,
    ]
}

#[test]
fn one_append_touches_one_message() {
    for count in [1_000, 2_000] {
        let mut list = alternating(count);
        list.compose().unwrap();
        let before = list.work();
        assert_eq!(before.records_checked, count as u64);
        assert_eq!(before.messages_touched, count as u64);
        list.append(good(&user("more"))).unwrap();
        list.compose().unwrap();
        assert_eq!(since(before, list.work()), [1, 1, 1, good(&user("more")).wire().len() as u64]);
        // Into a message that is there already: its text and the separator.
        let before = list.work();
        list.append(good(&user("again"))).unwrap();
        list.compose().unwrap();
        assert_eq!(since(before, list.work()), [1, 1, 1, "\\n\\nagain".len() as u64]);
        // Nothing new, nothing to do.
        let before = list.work();
        list.compose().unwrap();
        list.estimate();
        list.check().unwrap();
        assert_eq!(since(before, list.work()), [0; 4]);
    }
}

#[test]
fn merging_a_run_is_linear() {
    // CMP-37, P8
    for count in [4_000_u64, 8_000] {
        let fragment = good(&assistant("fragment"));
        let mut list = list(&[user("go")]);
        for _ in 0..count {
            list.append(Arc::clone(&fragment)).unwrap();
            list.compose().unwrap();
        }
        let work = list.work();
        assert_eq!((work.records_checked, work.records_composed), (count + 1, count + 1));
        assert_eq!(work.messages_touched, count + 1);
        let opening = good(&user("go")).wire().len() + good(&assistant("")).wire().len();
        assert_eq!(work.bytes_composed, opening as u64 + count * 8);
        assert_eq!(list.compose().unwrap().message_count(), 2);
    }
}

#[test]
fn an_edit_costs_from_its_position_on() {
    // RPL-57
    for count in [10_000, 20_000] {
        let mut list = alternating(count);
        list.compose().unwrap();
        let before = list.work();
        list.replace(count - 99, count - 99, vec![good(&user("new"))]).unwrap();
        list.compose().unwrap();
        let [checked, composed, ..] = since(before, list.work());
        assert_eq!(checked, 100);
        // Composing starts again at a checkpoint.
        assert!(composed <= 100 + 256, "{composed}");
    }
}

#[test]
fn snapshots_copy_no_text() {
    let list = alternating(5_000);
    let first = list.get(0).unwrap();
    let held = Arc::strong_count(first);
    let snapshots: Vec<_> = (0..100).map(|_| list.snapshot()).collect();
    // Not even the references to the records are copied.
    assert_eq!(Arc::strong_count(first), held);
    assert!(snapshots.iter().all(|snapshot| Arc::ptr_eq(snapshot.list().get(0).unwrap(), first)));
}

#[test]
fn checks_stay_linear_with_many_tool_rounds() {
    // XRC-37: the ids of twice the rounds are looked up in about twice the time, and no record is visited again.
    let rounds = |count: usize| {
        let mut list = list(&[user("go")]);
        for round in 0..count {
            let id = format!("call_{round}");
            list.append(good(&calls("", &[&id]))).unwrap();
            list.append(good(&tool(&id, "r"))).unwrap();
            list.check().unwrap();
        }
        list.work().records_checked
    };
    assert_eq!(rounds(5_000), 10_001);
}

#[test]
fn long_batches_answered_backwards_are_not_quadratic() {
    // TUL-45
    let ids: Vec<String> = (0..20_000).map(|call| format!("call_{call}")).collect();
    let names: Vec<&str> = ids.iter().map(String::as_str).collect();
    let mut list = MessageList::new();
    list.append(good(&calls("", &names))).unwrap();
    let results: Vec<Value> = names.iter().rev().map(|id| tool(id, "r")).collect();
    for result in &results {
        list.append(good(result)).unwrap();
    }
    let start = Instant::now();
    list.check().unwrap();
    // A search call by call would take 200 million steps.
    assert!(start.elapsed().as_secs_f64() < 2.0, "{:?}", start.elapsed());
}

#[test]
fn edited_copies_share_their_check() {
    // Every copy is edited at its end and checked; none starts over.
    let mut list = list(&[user("go")]);
    list.check().unwrap();
    let mut copies = Vec::new();
    for round in 0..300 {
        let id = format!("call_{round}");
        list.append(good(&calls("", &[&id]))).unwrap();
        list.append(good(&tool(&id, "r"))).unwrap();
        let before = list.work().records_checked;
        list.check().unwrap();
        assert_eq!(list.work().records_checked - before, 2);
        let mut copy = list.clone();
        copy.append(good(&calls("", &[&id]))).unwrap();
        let duplicate = copy.check().unwrap_err();
        assert_eq!(duplicate.position, Some(list.len() + 1));
        copies.push(copy);
    }
    assert_eq!(copies.len(), 300);
}
