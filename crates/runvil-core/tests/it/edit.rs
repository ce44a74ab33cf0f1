//! Appending, replacing, and the system records that lead a list.

use std::sync::Arc;

use runvil_core::error::{Bound, Code, ListError};
use runvil_core::list::MessageList;
use runvil_core::record::Record;
use serde_json::{Value, json};

use crate::support::{append, assistant, contents, good, list, parts, system, tool, user, values};

fn four() -> MessageList {
    list(&[user("u1"), assistant("a1"), user("u2"), assistant("a2")])
}

/// A replace as the list's method does it: the range first, then each record at its position.
fn replace(list: &mut MessageList, from: i128, to: i128, records: &[Value]) -> Result<(), ListError> {
    let (first, end) = list.check_range(from, to)?;
    let records: Result<Vec<_>, _> = records
        .iter()
        .enumerate()
        .map(|(index, record)| Record::from_value(record, first + index).map(Arc::new))
        .collect();
    list.replace(first, end, records?)
}

#[test]
fn replaces_inserts_and_removes() {
    for (case, first, last, records, expected) in [
        ("RPL-05", 3, 3, vec![user("u2b")], "u1 a1 u2b a2"),
        ("RPL-06", 2, 3, vec![], "u1 a2"),
        ("RPL-07", 4, 4, vec![], "u1 a1 u2"),
        ("RPL-08", 1, 4, vec![system("s"), user("summary")], "s summary"),
        ("RPL-09", 2, 4, vec![user("one")], "u1 one"),
        ("RPL-10", 3, 2, vec![user("mid")], "u1 a1 mid u2 a2"),
        ("RPL-11 RPL-52", 1, 0, vec![system("s")], "s u1 a1 u2 a2"),
        ("RPL-12 RPL-25", 5, 4, vec![user("e")], "u1 a1 u2 a2 e"),
        ("RPL-13", 1, 0, vec![], "u1 a1 u2 a2"),
        ("RPL-16", 1, 4, vec![], ""),
        ("RPL-17", 2, 2, vec![user("x"), assistant("y"), user("z")], "u1 x y z u2 a2"),
        ("RPL-27", 2, 4, vec![], "u1"),
    ] {
        let mut list = four();
        replace(&mut list, first, last, &records).unwrap_or_else(|error| panic!("{case}: {error}"));
        assert_eq!(contents(&list), expected, "{case}");
    }
    // RPL-14
    let mut empty = MessageList::new();
    replace(&mut empty, 1, 0, &[user("r")]).unwrap();
    assert_eq!(contents(&empty), "r");
    // RPL-43, RPL-44
    let mut extra = four();
    replace(&mut extra, 1, 1, &[json!({"role": "user", "content": "x", "extra": 1, "meta": {"k": 1}})]).unwrap();
    assert_eq!(extra.get(0).unwrap().to_value(), json!({"role": "user", "content": "x", "meta": {"k": 1}}));
}

#[test]
fn refuses_a_bad_range_with_its_bounds() {
    for (case, first, last) in [
        ("RPL-19", 0, 0),
        ("RPL-20", -1, 2),
        ("RPL-21", -1, 0),
        ("RPL-22", 3, 1),
        ("RPL-23", 2, 5),
        ("RPL-24", 6, 5),
        ("RPL-26", 6, 4),
        ("RPL-26", 5, 3),
        ("RPL-39", i128::from(i64::MAX), 1),
        ("RPL-39", 1, i128::MAX),
        ("RPL-39", i128::MIN, i128::MIN),
    ] {
        let mut list = four();
        // RPL-37: the range before any record.
        let error = replace(&mut list, first, last, &[json!(5)]).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!(
                "replace({first}, {last}) is out of bounds on a list of 4 records: it needs 1 <= first <= last + 1 <= 5"
            ),
            "{case}"
        );
        assert_eq!((error.code, error.position), (Code::RangeOutOfBounds, None));
        assert_eq!(list, four(), "{case}");
    }
    // RPL-15
    assert_eq!(
        MessageList::new().check_range(1, 1).unwrap_err().to_string(),
        "replace(1, 1) is out of bounds on a list of 0 records: it needs 1 <= first <= last + 1 <= 1"
    );
    assert!(four().replace(9, 2, Vec::new()).is_err());
}

#[test]
fn texts_of_refused_bounds() {
    // RPL-01, RPL-28 to RPL-34
    assert_eq!(
        ListError::replace_outside_compactor().to_string(),
        "replace works only inside a compactor; rewrite history with models.compact(compactor, reason)"
    );
    for (bound, got, text) in [
        (Bound::First, "1.5", "replace first must be an integer, got 1.5"),
        (Bound::Last, "string", "replace last must be an integer, got string"),
        (Bound::Last, "nil", "replace last must be an integer, got nil"),
    ] {
        assert_eq!(ListError::bound_not_integer(bound, got).to_string(), text);
    }
}

#[test]
fn a_refused_record_leaves_the_list_alone() {
    // RPL-40, RPL-41, RPL-45, ORD-20
    for (first, last, records, text) in [
        (
            1,
            1,
            vec![user("ok"), json!({"role": "user"})],
            "messages[2] content must be a string or a non-empty array of content parts",
        ),
        (
            3,
            3,
            vec![user("ok"), json!({"role": "user", "content": "x", "tool_call_id": "c"})],
            "messages[4] sets a tool_call_id but is not a tool message",
        ),
    ] {
        let mut list = four();
        assert_eq!(replace(&mut list, first, last, &records).unwrap_err().to_string(), text);
        assert_eq!(list, four());
    }
    // REC-61
    let mut list = four();
    assert!(append(&mut list, &user(5)).is_err());
    assert_eq!(list, four());
    append(&mut list, &user("next")).unwrap();
    assert_eq!(list.len(), 5);
}

fn late(position: usize) -> String {
    format!(
        "messages[{position}] is a system message after a non-system message; system messages lead the list, \
         and only a compactor can change the leading block"
    )
}

#[test]
fn system_records_lead() {
    // SYS-01, SYS-05, SYS-06
    list(&[system("s"), system("s"), system("s"), user("u")]);
    list(&[user("u"), assistant("a")]);
    // SYS-02, SYS-03, SYS-04, BLD-39
    for before in [user("u"), assistant("a"), tool("c", "t")] {
        let mut list = list(&[system("s1"), system("s2"), before]);
        let error = append(&mut list, &system("late")).unwrap_err();
        assert_eq!(error.to_string(), late(4));
        assert_eq!((error.code.register(), list.len()), ("R18", 3));
    }
    let mut cleared = four();
    cleared.clear();
    append(&mut cleared, &system("s")).unwrap();
    assert_eq!(contents(&cleared), "s");
}

#[test]
fn a_replace_keeps_system_records_leading() {
    let before = || list(&[system("s1"), system("s2"), user("u")]);
    for (case, first, last, records, expected) in [
        ("RPL-46", 1, 2, vec![system("one"), system("two"), system("three")], Ok("one two three u")),
        ("RPL-47", 4, 3, vec![system("late")], Err(4)),
        ("RPL-48", 1, 1, vec![user("u0")], Err(2)),
        ("RPL-49", 1, 2, vec![], Ok("u")),
        ("RPL-50", 3, 3, vec![system("s3")], Ok("s1 s2 s3")),
        ("RPL-51 CPT-49", 1, 1, vec![system("new")], Ok("new s2 u")),
        ("RPL-54", 1, 0, vec![user("x"), user("y")], Err(3)),
        ("RPL-53", 4, 3, vec![user("x"), system("s")], Err(5)),
        ("", 2, 2, vec![user("x"), system("s")], Err(3)),
        ("", 3, 2, vec![system("s3")], Ok("s1 s2 s3 u")),
    ] {
        let mut list = before();
        match (replace(&mut list, first, last, &records), expected) {
            (Ok(()), Ok(expected)) => assert_eq!(contents(&list), expected, "{case}"),
            (Err(error), Err(position)) => {
                assert_eq!(error.to_string(), late(position), "{case}");
                assert_eq!(list, before(), "{case}");
            }
            (result, expected) => panic!("{case}: {result:?}, expected {expected:?}"),
        }
    }
}

#[test]
fn the_leading_block_follows_edits() {
    // XRC-24, XRC-34
    let mut list = list(&[system(parts(&["t:a"])), system("b"), user("u")]);
    assert_eq!(list.leading_system_len(), 2);
    assert_eq!(list.check().unwrap_err().code, Code::SystemParts);
    replace(&mut list, 2, 2, &[]).unwrap();
    assert_eq!(list.leading_system_len(), 1);
    list.check().unwrap();
    replace(&mut list, 1, 0, &[system("first")]).unwrap();
    assert_eq!(list.check().unwrap_err().position, Some(2));
    replace(&mut list, 1, 2, &[]).unwrap();
    assert_eq!(list.leading_system_len(), 0);
    list.check().unwrap();
}

#[test]
fn snapshots_restore_everything() {
    // CPT-10, CPT-13
    let mut list = four();
    list.compose().unwrap();
    let kept = values(&list);
    let snapshot = list.snapshot();
    replace(&mut list, 1, 3, &[system("s")]).unwrap();
    append(&mut list, &user("more")).unwrap();
    list.compose().unwrap();
    assert_eq!(snapshot.list().len(), 4);
    list.restore(snapshot);
    assert_eq!(values(&list), kept);
    assert_eq!(list.compose().unwrap().messages(), kept);
    assert!(append(&mut list, &system("late")).is_err());
}

#[test]
fn forks_go_their_own_ways() {
    let mut list = four();
    list.compose().unwrap();
    let mut fork = list.clone();
    append(&mut fork, &user("fork")).unwrap();
    append(&mut list, &user("list")).unwrap();
    assert_eq!(contents(&list), "u1 a1 u2 a2 list");
    assert_eq!(contents(&fork), "u1 a1 u2 a2 fork");
    assert_eq!(list.compose().unwrap().messages()[4], user("list"));
    assert_eq!(fork.compose().unwrap().messages()[4], user("fork"));
    assert_ne!(list, fork);
    // VEW-09: a record outlives its place in the list.
    let held = list.get(0).unwrap().clone();
    list.clear();
    assert_eq!(*held, *good(&user("u1")));
}
