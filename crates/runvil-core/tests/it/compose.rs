//! What the model receives.

use serde_json::{Map, Value, json};

use crate::support::{assistant, calls, list, parts, system, tool, user, values};

const SEP: &str = "t:\n\n";

fn composed(records: &[Value]) -> Vec<Value> {
    let mut list = list(records);
    let request = list.compose().unwrap_or_else(|error| panic!("{error}"));
    // CMP-34: sending never changes the list.
    assert_eq!(values(&list), records);
    request.messages()
}

#[test]
fn merges_runs() {
    for (case, records, messages) in [
        (
            "CMP-01",
            vec![system("be terse"), user("hi"), assistant("hello"), user("thanks")],
            vec![system("be terse"), user("hi"), assistant("hello"), user("thanks")],
        ),
        (
            "CMP-02",
            vec![system("You are terse."), system("Answer in French."), user("Hello."), user("What time is it?")],
            vec![system("You are terse.\n\nAnswer in French."), user("Hello.\n\nWhat time is it?")],
        ),
        (
            "CMP-03",
            vec![user("one"), user("two"), assistant("a"), user("three")],
            vec![user("one\n\ntwo"), assistant("a"), user("three")],
        ),
        (
            "CMP-04",
            vec![user("hi"), assistant("Hello, "), assistant("world"), assistant("!"), user("next")],
            vec![user("hi"), assistant("Hello, world!"), user("next")],
        ),
        (
            "CMP-10",
            vec![
                system("s1"),
                system("s2"),
                user(""),
                user("hi"),
                assistant(""),
                assistant("answer"),
                assistant(""),
                user("next"),
            ],
            vec![system("s1\n\ns2"), user("hi"), assistant("answer"), user("next")],
        ),
        ("CMP-11", vec![user(""), user("")], vec![user("")]),
        ("CMP-12", vec![user("hi"), assistant(""), user("x")], vec![user("hi"), assistant(""), user("x")]),
        ("CMP-13", vec![user("")], vec![user("")]),
        ("CMP-14", vec![system(""), system("x")], vec![system("\n\nx")]),
        (
            "CMP-15",
            vec![system(parts(&["t:look", "i:u"])), user("hi")],
            vec![system(parts(&["t:look", "i:u"])), user("hi")],
        ),
        ("CMP-16", vec![user("a"), user(parts(&["t:b", "i:u"]))], vec![user(parts(&["t:a", SEP, "t:b", "i:u"]))]),
        ("CMP-17", vec![user(parts(&["t:b"])), user("a")], vec![user(parts(&["t:b", SEP, "t:a"]))]),
        ("CMP-18", vec![user(""), user(parts(&["t:b"]))], vec![user(parts(&[SEP, "t:b"]))]),
        ("CMP-19", vec![user(parts(&["t:b"])), user("")], vec![user(parts(&["t:b", SEP]))]),
        ("CMP-20", vec![user(parts(&["t:a"])), user(parts(&["t:b"]))], vec![user(parts(&["t:a", SEP, "t:b"]))]),
        ("CMP-21", vec![user("a"), user(""), user(parts(&["t:b"]))], vec![user(parts(&["t:a", SEP, "t:b"]))]),
        ("CMP-22", vec![user(parts(&["t:a"])), user(""), user("b")], vec![user(parts(&["t:a", SEP, SEP, "t:b"]))]),
        (
            "CMP-23",
            vec![assistant(""), assistant(parts(&["t:a"])), assistant("b")],
            vec![assistant(parts(&["t:a", "t:b"]))],
        ),
        (
            "CMP-24",
            vec![assistant(parts(&["t:a"])), assistant(parts(&["t:b"]))],
            vec![assistant(parts(&["t:a", "t:b"]))],
        ),
        (
            "CMP-26",
            vec![user("a"), assistant("b"), user("c"), user("d")],
            vec![user("a"), assistant("b"), user("c\n\nd")],
        ),
        ("CMP-38", vec![user(" a\n\n"), user("\n\nb ")], vec![user(" a\n\n\n\n\n\nb ")]),
    ] {
        assert_eq!(composed(&records), messages, "{case}");
    }
}

/// The wire form of a call that [`calls`] makes.
fn call(id: &str) -> Value {
    json!({"id": id, "type": "function", "function": {"name": "echo", "arguments": "{\"value\":\"hi\"}"}})
}

fn calling(content: impl Into<Value>, ids: &[&str]) -> Value {
    let calls: Vec<_> = ids.iter().map(|id| call(id)).collect();
    json!({"role": "assistant", "content": content.into(), "tool_calls": calls})
}

#[test]
fn assistant_text_goes_into_the_calls_that_follow_it() {
    let result = || tool("c1", "r");
    for (case, records, messages) in [
        (
            "CMP-05",
            vec![user("hi"), assistant("let me check"), calls("", &["c1"]), result(), assistant("done")],
            vec![user("hi"), calling("let me check", &["c1"]), result(), assistant("done")],
        ),
        (
            "CMP-06",
            vec![user("u"), assistant("x"), calls("y", &["c1"]), result()],
            vec![user("u"), calling("xy", &["c1"]), result()],
        ),
        (
            "CMP-07",
            vec![user("u"), assistant("x"), assistant("y"), calls("", &["c1"]), result()],
            vec![user("u"), calling("xy", &["c1"]), result()],
        ),
        (
            "CMP-08",
            vec![calls("", &["c1", "c2"]), tool("c2", "r"), tool("c1", "r")],
            vec![calling("", &["c1", "c2"]), tool("c2", "r"), tool("c1", "r")],
        ),
        (
            "CMP-09",
            vec![calls("", &["c1"]), result(), assistant("a"), assistant("b")],
            vec![calling("", &["c1"]), result(), assistant("ab")],
        ),
        (
            "CMP-25",
            vec![assistant(parts(&["t:a"])), calls("", &["c1"]), result()],
            vec![calling(parts(&["t:a"]), &["c1"]), result()],
        ),
        (
            "CMP-35",
            vec![calls("", &["c1"]), result(), assistant(""), user("second")],
            vec![calling("", &["c1"]), result(), assistant(""), user("second")],
        ),
        (
            "CMP-39",
            vec![calls("", &["c1"]), tool("c1", parts(&["t:r", "i:u"]))],
            vec![calling("", &["c1"]), tool("c1", parts(&["t:r", "i:u"]))],
        ),
    ] {
        assert_eq!(composed(&records), messages, "{case}");
    }
}

#[test]
fn a_request_is_frozen() {
    // LST-36
    let mut list = list(&[user("hi")]);
    let request = list.compose().unwrap();
    list.append(crate::support::good(&user("more"))).unwrap();
    assert_eq!(request.messages(), [user("hi")]);
    assert_eq!(list.compose().unwrap().messages(), [user("hi\n\nmore")]);
    assert_eq!((request.message_count(), request.record_count()), (1, 1));
}

#[test]
fn a_body_holds_model_messages_tools_and_options() {
    let mut list = list(&[system("s"), user("hi"), user("you")]);
    let request = list.compose().unwrap();
    let mut options = Map::new();
    options.insert("temperature".into(), json!(0.5));
    options.insert("model".into(), json!("other"));
    options.insert("stream".into(), json!(true));
    let tools = json!([{"type": "function"}]);
    let body = request.body("a \"model\"", Some(&tools), &options);
    assert_eq!(
        String::from_utf8(body.clone()).unwrap(),
        r#"{"model":"a \"model\"","messages":[{"role":"system","content":"s"},{"role":"user","content":"hi\n\nyou"}],"tools":[{"type":"function"}],"temperature":0.5,"stream":true}"#
    );
    let pieces = request.body_parts("a \"model\"", Some(&tools), &options);
    assert_eq!(pieces.chunks().collect::<Vec<_>>().concat(), body);
    assert_eq!(pieces.len(), body.len());
    // LOP-18: no tools, no field.
    let bare = request.body("m", Some(&json!([])), &Map::new());
    assert!(!String::from_utf8(bare).unwrap().contains("tools"));
    // OVF-31: debug output holds no text.
    assert!(!format!("{request:?} {pieces:?} {list:?}").contains("you"));
}
