//! The rules that span records.

use serde_json::{Value, json};

use crate::support::{assistant, calls, list, parts, system, tool, user};

fn user_with_calls() -> Value {
    json!({"role": "user", "content": "u", "tool_calls": [{"id": "x", "name": "n"}]})
}

fn tool_with_calls(id: &str) -> Value {
    json!({"role": "tool", "content": "r", "tool_call_id": id, "tool_calls": [{"id": "x", "name": "n"}]})
}

fn system_with_calls() -> Value {
    json!({"role": "system", "content": "s", "tool_calls": [{"id": "x", "name": "n"}]})
}

fn x1(position: usize) -> String {
    format!(
        "messages[{position}] is a system message with content parts; only plain text system messages can be composed"
    )
}

fn x2(position: usize) -> String {
    format!("messages[{position}] sets tool_calls but is not an assistant message")
}

fn x3(position: usize, id: &str) -> String {
    format!("messages[{position}] tool call id \"{id}\" duplicates an earlier tool call")
}

fn x4(position: usize, id: &str) -> String {
    format!("messages[{position}] tool call \"{id}\" has no tool result")
}

fn x5(position: usize, id: &str) -> String {
    format!("messages[{position}] is an orphan tool record: no pending assistant tool call with id \"{id}\"")
}

#[test]
fn accepts_lists_that_can_be_sent() {
    for (case, records) in [
        ("XRC-01", vec![system("s"), user("u"), assistant("a"), user("u")]),
        ("XRC-02", vec![user("u"), calls("", &["c1"]), tool("c1", "r")]),
        ("XRC-03", vec![calls("", &["c1", "c2"]), tool("c2", "r"), tool("c1", "r")]),
        ("XRC-27 SYS-08", vec![system(parts(&["t:s"])), user("u")]),
        ("XRC-32", vec![calls("", &[""]), tool("", "r")]),
        ("SYS-07", vec![system("a"), system("b")]),
        ("LOP-36", vec![user("u"), assistant("a")]),
        ("LOP-42", vec![calls("", &["c"]), tool("c", "r"), user("u")]),
        ("REC-37", vec![json!({"role": "user", "content": "u", "tool_calls": []})]),
    ] {
        assert_eq!(list(&records).check(), Ok(()), "{case}");
    }
}

#[test]
fn names_the_first_broken_rule() {
    for (case, records, text) in [
        ("XRC-04", vec![user("u"), calls("", &["c1"])], x4(2, "c1")),
        ("XRC-05", vec![calls("", &["c1", "c2"]), tool("c1", "r"), user("u")], x4(1, "c2")),
        ("XRC-06", vec![calls("", &["c1", "c2"]), user("u")], x4(1, "c1")),
        ("XRC-07", vec![calls("", &["c1", "c2"]), tool("c2", "r")], x4(1, "c1")),
        ("XRC-08", vec![calls("", &["c1"]), calls("", &["c2"]), tool("c1", "r"), tool("c2", "r")], x4(1, "c1")),
        ("XRC-09", vec![calls("", &["c1"]), assistant("text"), tool("c1", "r")], x4(1, "c1")),
        ("XRC-10", vec![user("u"), tool("c9", "r")], x5(2, "c9")),
        ("XRC-11", vec![tool("c1", "r")], x5(1, "c1")),
        ("XRC-12", vec![calls("", &["c1"]), tool("c2", "r")], x5(2, "c2")),
        ("XRC-13", vec![calls("", &["c1"]), tool("c1", "r"), tool("c1", "r")], x5(3, "c1")),
        ("XRC-14", vec![calls("", &["c1"]), tool("c1", "r"), user("u"), tool("c1", "r")], x5(4, "c1")),
        ("XRC-15", vec![calls("", &["c1", "c1"])], x3(1, "c1")),
        ("XRC-16", vec![calls("", &["c1"]), tool("c1", "r"), calls("", &["c1"])], x3(3, "c1")),
        ("XRC-17", vec![calls("", &["c1"]), calls("", &["c1"])], x4(1, "c1")),
        ("XRC-18", vec![calls("", &["c1", "c1"]), tool("c1", "r")], x3(1, "c1")),
        ("XRC-19", vec![user_with_calls()], x2(1)),
        ("XRC-20", vec![system_with_calls(), user("u")], x2(1)),
        ("XRC-20", vec![tool_with_calls("c")], x2(1)),
        ("XRC-21", vec![calls("", &["c1"]), user_with_calls()], x2(2)),
        ("XRC-22", vec![calls("", &["c1"]), tool_with_calls("c1")], x2(2)),
        ("XRC-23", vec![tool_with_calls("c9")], x2(1)),
        ("XRC-24 SYS-09", vec![system(parts(&["t:a"])), system("x"), user("u")], x1(1)),
        ("XRC-25", vec![system("x"), system(parts(&["t:a"])), user("u")], x1(2)),
        ("XRC-26", vec![system(parts(&["t:a"])), system(parts(&["t:b"]))], x1(1)),
        ("XRC-28", vec![system(parts(&["t:a"])), system("x"), user("u"), tool("c9", "r")], x1(1)),
        ("XRC-28", vec![system_with_calls(), system(parts(&["t:a"]))], x1(2)),
        ("XRC-29", vec![calls("", &["c1"]), tool("c1", "r"), calls("", &["c1"]), calls("", &["c3"])], x3(3, "c1")),
        ("XRC-30", vec![user("u"), user_with_calls(), tool("c9", "r")], x2(2)),
        ("XRC-31", vec![tool("a\"\n\u{7f}", "r")], x5(1, r#"a\"\n\u007f"#)),
        ("XRC-38", vec![user("u"), calls("", &["c1"]), tool("c1", "r"), tool("c2", "r")], x5(4, "c2")),
        (
            "TUL-33",
            vec![user("u"), calls("", &["c1"]), tool("c1", "r"), calls("", &["c0", "c1"]), tool("c1", "r")],
            x3(4, "c1"),
        ),
    ] {
        let mut list = list(&records);
        let error = list.check().expect_err(case);
        assert_eq!(error.to_string(), text, "{case}");
        assert_eq!(list.compose().unwrap_err(), error, "{case}");
        // Asking again gives the same answer, and the list did not change.
        assert_eq!(list.check(), Err(error), "{case}");
        assert_eq!(list.len(), records.len());
    }
    assert_eq!(list(&[]).compose().unwrap_err().to_string(), "messages must not be empty");
}

#[test]
fn a_broken_list_can_be_mended() {
    // XRC-34, XRC-35
    let mut list = list(&[user("u"), calls("", &["c1"])]);
    assert!(list.check().is_err());
    list.append(crate::support::good(&tool("c1", "r"))).unwrap();
    assert_eq!(list.check(), Ok(()));
    list.append(crate::support::good(&tool("c1", "r"))).unwrap();
    assert_eq!(list.check().unwrap_err().to_string(), x5(4, "c1"));
    list.replace(4, 4, Vec::new()).unwrap();
    assert_eq!(list.check(), Ok(()));
    // An id is free again once its record is gone.
    list.replace(2, 3, Vec::new()).unwrap();
    list.append(crate::support::good(&calls("", &["c1"]))).unwrap();
    assert_eq!(list.check().unwrap_err().to_string(), x4(2, "c1"));
}
