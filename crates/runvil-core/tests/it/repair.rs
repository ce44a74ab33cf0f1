//! Mending histories from elsewhere.

use std::sync::Arc;

use proptest::prelude::*;
use runvil_core::json::read_records;
use runvil_core::record::Record;
use runvil_core::repair::{MISSING_RESULT, repair};
use serde_json::{Value, json};

use crate::properties;
use crate::support::{assistant, calls, good, parts, system, tool, user, values};

fn repaired(records: &[Value]) -> (Vec<Value>, Vec<String>) {
    let (list, changes) = repair(records.iter().map(good));
    (values(&list), changes.iter().map(ToString::to_string).collect())
}

fn renamed(mut record: Value, ids: &[&str]) -> Value {
    for (call, id) in record["tool_calls"].as_array_mut().unwrap().iter_mut().zip(ids) {
        call["id"] = json!(id);
    }
    record
}

#[test]
fn a_sound_list_stays_as_it_is() {
    let records = [
        system(parts(&["t:s", "i:u"])),
        user("u"),
        calls("x", &["c1", "c2"]),
        tool("c2", "r2"),
        tool("c1", "r1"),
        assistant(""),
        assistant("done"),
    ];
    assert_eq!(repaired(&records), (records.to_vec(), Vec::new()));
}

/// What is wrong, the records, the mended ones, and the report.
type Case = (&'static str, Vec<Value>, Vec<Value>, Vec<&'static str>);

fn mends(cases: Vec<Case>) {
    for (what, records, expected, changes) in cases {
        let changes: Vec<String> = changes.into_iter().map(str::to_owned).collect();
        assert_eq!(repaired(&records), (expected, changes), "{what}");
    }
}

#[test]
fn mends_results_apart_from_their_calls() {
    mends(vec![
        (
            "orphan result",
            vec![user("u"), tool("c9", "r"), assistant("a")],
            vec![user("u"), assistant("a")],
            vec![r#"messages[2] answers no tool call with id "c9": removed"#],
        ),
        (
            "second answer",
            vec![calls("", &["c1"]), tool("c1", "r"), tool("c1", "again")],
            vec![calls("", &["c1"]), tool("c1", "r")],
            vec![r#"messages[3] answers no tool call with id "c1": removed"#],
        ),
        (
            "unanswered call",
            vec![calls("", &["c1", "c2"]), tool("c2", "r"), user("u")],
            vec![calls("", &["c1", "c2"]), tool("c2", "r"), tool("c1", MISSING_RESULT), user("u")],
            vec![r#"messages[1] tool call "c1" has no tool result: one that says so was added"#],
        ),
        (
            "late result",
            vec![calls("", &["c1"]), user("u"), tool("c1", "r")],
            vec![calls("", &["c1"]), tool("c1", "r"), user("u")],
            vec![r#"messages[3] stands apart from its tool call "c1": moved behind it"#],
        ),
        (
            "calls of one round in several records",
            vec![calls("", &["c1"]), calls("", &["c2"]), tool("c1", "r1"), tool("c2", "r2")],
            vec![calls("", &["c1"]), tool("c1", "r1"), calls("", &["c2"]), tool("c2", "r2")],
            vec![r#"messages[3] stands apart from its tool call "c1": moved behind it"#],
        ),
    ]);
}

#[test]
fn mends_repeated_ids() {
    mends(vec![
        (
            "repeated id",
            vec![
                calls("", &["c"]),
                tool("c", "r1"),
                user("u"),
                calls("", &["c"]),
                tool("c", "r2"),
                calls("", &["c_2"]),
                tool("c_2", "r3"),
            ],
            vec![
                calls("", &["c"]),
                tool("c", "r1"),
                user("u"),
                renamed(calls("", &["c"]), &["c_3"]),
                tool("c_3", "r2"),
                calls("", &["c_2"]),
                tool("c_2", "r3"),
            ],
            vec![r#"messages[4] tool call id "c" duplicates an earlier tool call: renamed to "c_3""#],
        ),
        (
            "repeated id in one record, answered in order",
            vec![calls("", &["c", "c"]), tool("c", "r1"), tool("c", "r2")],
            vec![renamed(calls("", &["c", "c"]), &["c", "c_2"]), tool("c", "r1"), tool("c_2", "r2")],
            vec![r#"messages[1] tool call id "c" duplicates an earlier tool call: renamed to "c_2""#],
        ),
        (
            "repeated id whose first call was never answered",
            vec![calls("", &["c"]), user("u"), calls("", &["c"]), tool("c", "r")],
            vec![
                calls("", &["c"]),
                tool("c", MISSING_RESULT),
                user("u"),
                renamed(calls("", &["c"]), &["c_2"]),
                tool("c_2", "r"),
            ],
            vec![
                r#"messages[1] tool call "c" has no tool result: one that says so was added"#,
                r#"messages[3] tool call id "c" duplicates an earlier tool call: renamed to "c_2""#,
            ],
        ),
    ]);
}

#[test]
fn mends_records_out_of_place() {
    mends(vec![
        (
            "late system record",
            vec![system("s1"), user("u"), system("s2"), system(parts(&["t:a", "i:u", "t:b"]))],
            vec![system("s1"), system("s2"), system("a\n\nb"), user("u")],
            vec![
                "messages[3] is a system message after a non-system message: moved to the end of the leading block",
                "messages[4] is a system message after a non-system message: moved to the end of the leading block",
                "messages[4] is one of several leading system messages and has content parts: only its text was kept, \
                 1 images were dropped",
            ],
        ),
        (
            "empty parts",
            vec![user(parts(&["t:", "t:a", "t:", "i:"])), assistant(parts(&["t:"]))],
            vec![user(parts(&["t:a", "i:"])), assistant("")],
            vec![
                "messages[1] has text parts without text: 2 removed",
                "messages[2] has text parts without text: 1 removed",
            ],
        ),
        (
            "misplaced calls",
            vec![
                json!({"role": "user", "content": "u", "tool_calls": [{"id": "c", "name": "n"}], "meta": 1}),
                tool("c", "r"),
            ],
            vec![json!({"role": "user", "content": "u", "meta": 1})],
            vec![
                "messages[1] sets tool_calls but is not an assistant message: 1 calls removed",
                r#"messages[2] answers no tool call with id "c": removed"#,
            ],
        ),
    ]);
}

#[test]
fn histories_are_read_without_their_order() {
    let text = br#"[{"role":"user","content":"u"},{"role":"system","content":"s"}]"#;
    let (list, changes) = repair(read_records(text).unwrap());
    assert_eq!((values(&list), changes.len()), (vec![system("s"), user("u")], 1));
    assert!(read_records(b"[{}]").is_err());
}

#[test]
fn many_repeated_ids_are_not_quadratic() {
    let mut records = Vec::new();
    for _ in 0..20_000 {
        records.push(good(&calls("", &["call_0"])));
        records.push(good(&tool("call_0", "r")));
    }
    let (mut list, changes) = repair(records);
    assert_eq!((list.len(), changes.len()), (40_000, 19_999));
    list.check().unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Whatever comes in, the list passes the checks, no call is lost, and mending it again changes nothing.
    #[test]
    fn mended_lists_pass_and_stay(records in prop::collection::vec(properties::record(), 0..30)) {
        let given: Vec<Arc<Record>> = records.iter().map(good).collect();
        let (mut list, changes) = repair(given.clone());
        prop_assert_eq!(list.check(), Ok(()));
        let calls_in = |records: &[Value]| records.iter()
            .filter(|record| record["role"] == "assistant")
            .map(|record| record["tool_calls"].as_array().map_or(0, Vec::len))
            .sum::<usize>();
        prop_assert_eq!(calls_in(&values(&list)), calls_in(&records));
        prop_assert!(changes.iter().all(|change| (1..=records.len()).contains(&change.position)));
        let unchanged = values(&list) == records;
        prop_assert_eq!(changes.is_empty(), unchanged);
        let (again, more) = repair(list.iter().cloned());
        prop_assert_eq!(&again, &list);
        prop_assert!(more.is_empty(), "{:?}", more);
        let (same, reported) = repair(given);
        prop_assert_eq!((same, reported), (list, changes));
    }
}
