//! Conversations read from JSON text, and written to it.

use std::fmt::Write as _;

use proptest::prelude::*;
use runvil_core::error::Code;
use runvil_core::json::{JsonForm, JsonLoadError, record_form};
use runvil_core::list::MessageList;
use runvil_core::record::Record;
use serde_json::{Value, json};

use crate::model;
use crate::support::{calls, list, parts, system, tool, user, values};

fn load(text: &str) -> Result<Vec<Value>, String> {
    MessageList::from_json(text.as_bytes()).map(|list| values(&list)).map_err(|error| error.to_string())
}

#[test]
fn reads_both_forms_record_by_record() {
    let text = r#" [
        {"role": "system", "content": "s", "meta": {"k": 1}},
        {"role": "user", "content": [{"type": "text", "text": "a", "cache": 1}, {"type": "image_url", "image_url": {"url": "u", "detail": "low"}}], "name": "bob"},
        {"role": "assistant", "content": null, "refusal": null, "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{\"b\": 1, \"a\": [1.0, \"\\u00e9\"]}"}},
            {"id": "c2", "type": "function", "function": {"name": "g", "arguments": null}},
            {"id": "c3", "function": {"name": "g"}}
        ], "tool_call_id": null},
        {"role": "tool", "content": "r", "tool_call_id": "c1", "tool_calls": null},
        {"role": "assistant", "content": "x", "tool_calls": [{"id": "c4", "name": "h", "arguments": {"q": {}}}], "meta": null}
    ] "#;
    assert_eq!(
        load(text).unwrap(),
        [
            json!({"role": "system", "content": "s", "meta": {"k": 1}}),
            user(parts(&["t:a", "i:u"])),
            json!({"role": "assistant", "content": "", "tool_calls": [
                {"id": "c1", "name": "f", "arguments": {"b": 1, "a": [1.0, "é"]}},
                {"id": "c2", "name": "g", "arguments": {}},
                {"id": "c3", "name": "g", "arguments": {}}]}),
            tool("c1", "r"),
            json!({"role": "assistant", "content": "x", "tool_calls": [{"id": "c4", "name": "h", "arguments": {"q": {}}}]}),
        ]
    );
    assert_eq!(load("[]"), Ok(Vec::new()));
}

#[test]
fn null_fields_are_absent_in_the_chat_form_only() {
    let reads = |text: &str| load(&format!("[{text}]")).map(|mut records| records.remove(0));
    assert_eq!(reads(r#"{"role":"user","content":"x","tool_calls":null,"tool_call_id":null}"#), Ok(user("x")));
    for (text, expected) in [
        (r#"{"role":"user","content":"x","tool_calls":null,"meta":1}"#, "messages[1] tool_calls must be an array"),
        (r#"{"role":"tool","content":"x","tool_call_id":null,"meta":1}"#, "messages[1] tool_call_id must be a string"),
        (
            r#"{"role":"tool","content":"x","tool_call_id":null}"#,
            "messages[1] is a tool message and must set a string tool_call_id",
        ),
        (
            r#"{"role":"assistant","content":"","tool_calls":[{"id":"c","name":"n","arguments":null}]}"#,
            "messages[1] tool_calls[1] arguments must be a table",
        ),
        (
            r#"{"role":"assistant","content":null,"tool_calls":[{"id":"c","name":"n"}]}"#,
            "messages[1] content must be a string or a non-empty array of content parts",
        ),
        (
            r#"{"role":"assistant","content":null,"tool_calls":[]}"#,
            "messages[1] content must be a string or a non-empty array of content parts",
        ),
        (
            r#"{"role":"developer","content":"x"}"#,
            r#"messages[1] role "developer" is unknown; known roles: system, user, assistant, tool"#,
        ),
        (
            r#"{"role":"function","content":"x","name":"f"}"#,
            r#"messages[1] role "function" is unknown; known roles: system, user, assistant, tool"#,
        ),
        (
            r#"{"role":"assistant","content":"","tool_calls":[{"id":"c","function":{"name":"f","arguments":"{}"}},{"id":"d","function":{"name":"f","arguments":"{oops"}}]}"#,
            "messages[1] tool_calls[2] arguments must be a table",
        ),
        (
            r#"{"role":"assistant","content":"","tool_calls":[{"id":"c","function":{"name":"f","arguments":"[1]"}}]}"#,
            "messages[1] tool_calls[1] arguments must be a table",
        ),
        (
            r#"{"role":"assistant","content":"","tool_calls":[{"id":"c","function":"f"}]}"#,
            "messages[1] tool_calls[1] must set a string name",
        ),
        ("5", "messages[1] must be a message table"),
        ("[1]", "messages[1] must be a message table"),
    ] {
        assert_eq!(reads(text), Err(expected.to_owned()), "{text}");
    }
}

#[test]
fn each_record_is_checked_in_its_turn() {
    let late = "messages[2] is a system message after a non-system message; system messages lead the list, \
                and only a compactor can change the leading block";
    let text = r#"[{"role":"user","content":"u"},{"role":"system","content":"s"},{"role":"wizard"}]"#;
    assert_eq!(load(text), Err(late.to_owned()));
    // Cross-record rules are left to the check.
    let mut list = MessageList::from_json(br#"[{"role":"tool","content":"r","tool_call_id":"c"}]"#).unwrap();
    assert_eq!(list.check().unwrap_err().code, Code::OrphanResult);
    let Err(JsonLoadError::Record(error)) = MessageList::from_json(text.as_bytes()) else { panic!() };
    assert_eq!((error.code, error.position), (Code::LateSystem, Some(2)));
}

#[test]
fn one_policy_for_odd_json() {
    // Of a repeated key the last value counts.
    assert_eq!(load(r#"[{"role":"user","content":"a","content":"b"}]"#), Ok(vec![user("b")]));
    assert_eq!(
        load(r#"[{"role":"user","content":"x","meta":{"k":1,"j":2,"\u006b":{"a":1,"a":[]}}}]"#),
        Ok(vec![json!({"role":"user","content":"x","meta":{"k":{"a":[]},"j":2}})])
    );
    // NUL is a character; escapes are put in canonical form.
    assert_eq!(
        load(r#"[{"role":"user","content":"a\u0000\u0041\/\u00e9\ud83e\udd80\u001F"}]"#),
        Ok(vec![user("a\0A/é🦀\u{1f}")])
    );
    // Numbers keep their kind, and integers their digits.
    let meta = r#"{"a":18446744073709551615,"b":-9223372036854775808,"c":1.0,"d":1e2,"e":-0}"#;
    let loaded = MessageList::from_json_text(&format!(r#"[{{"role":"user","content":"x","meta":{meta}}}]"#)).unwrap();
    assert_eq!(
        loaded.get(0).unwrap().meta_json(),
        Some(r#"{"a":18446744073709551615,"b":-9223372036854775808,"c":1.0,"d":100.0,"e":-0.0}"#)
    );
    let table = "messages[1] must be a JSON-representable message table: ";
    for (value, reason) in [
        ("18446744073709551616", "an integer does not fit 64 bits"),
        ("-9223372036854775809", "an integer does not fit 64 bits"),
        ("1e400", "a number is too large"),
        (&"[".repeat(129), "nesting is deeper than 128 levels"),
    ] {
        for field in ["meta", "extra"] {
            let text = format!(r#"[{{"role":"user","content":"x","{field}":{value}"#);
            assert_eq!(load(&text), Err(format!("{table}{reason}")), "{text}");
        }
        let text = format!(
            r#"[{{"role":"assistant","content":"","tool_calls":[{{"id":"c","function":{{"name":"f","arguments":"{{\"a\":{value}}}"}}}}]}}]"#
        );
        assert_eq!(load(&text), Err(format!("{table}tool_calls[1] arguments: {reason}")), "{text}");
    }
    let deep = format!("{}1{}", "[".repeat(128), "]".repeat(128));
    let text = format!(r#"[{{"role":"user","content":"x","meta":{deep}}}]"#);
    assert_eq!(MessageList::from_json_text(&text).unwrap().get(0).unwrap().meta_json(), Some(deep.as_str()));
}

#[test]
fn broken_text_is_located() {
    for (text, expected) in [
        ("", "invalid JSON at line 1, column 1: the text ends too early"),
        ("{}", "a conversation must be a JSON array of messages"),
        ("nul", "invalid JSON at line 1, column 1: a value is expected"),
        ("[", "invalid JSON at line 1, column 2: the text ends too early"),
        ("[] x", "invalid JSON at line 1, column 4: there is more text after the end"),
        ("[{}\n,\n é]", "messages[1] role must be a string, one of: system, user, assistant, tool"),
        ("[{\"role\":\"user\",\"content\":\"é\"}\n,\n é]", "invalid JSON at line 3, column 2: a value is expected"),
        (
            r#"[{"role":"user","content":"é" x"#,
            "invalid JSON at line 1, column 31: a comma or the end of an object is expected",
        ),
        (
            r#"[{"role":"user","content":"\ud800"}]"#,
            "invalid JSON at line 1, column 28: a string holds a broken escape",
        ),
        (
            "[{\"role\":\"user\",\"content\":\"a\nb\"}]",
            "invalid JSON at line 1, column 29: a string holds a raw control character",
        ),
        (r#"[{"role":"user","content":"a"#, "invalid JSON at line 1, column 29: a string has no closing quote"),
        (r#"[{"role":"user","content":"a"},]"#, "invalid JSON at line 1, column 32: a value is expected"),
        (r#"[{"role":"user","content":01}]"#, "invalid JSON at line 1, column 27: a number is malformed"),
        ("\u{feff}[]", "invalid JSON at line 1, column 1: a value is expected"),
    ] {
        assert_eq!(load(text), Err(expected.to_owned()), "{text}");
    }
    assert_eq!(
        MessageList::from_json(b"[\"ab\xff\"]").unwrap_err().to_string(),
        "the JSON text is not valid UTF-8 at byte offset 4"
    );
}

#[test]
fn writes_both_forms() {
    let records = [
        system("s"),
        user("a"),
        user("b"),
        calls("x", &["c1"]),
        tool("c1", "r"),
        json!({"role": "assistant", "content": "é\n", "meta": {"k": [1]}}),
    ];
    let list = list(&records);
    let record_form = list.to_json(JsonForm::Record);
    assert_eq!(String::from_utf8(record_form.clone()).unwrap(), Value::from(records.to_vec()).to_string());
    let chat_form: Value = serde_json::from_slice(&list.to_json(JsonForm::OpenAi)).unwrap();
    assert_eq!(chat_form.as_array().unwrap().len(), 6);
    assert_eq!(chat_form[3]["tool_calls"][0]["function"]["arguments"], "{\"value\":\"hi\"}");
    assert_eq!(chat_form[5], json!({"role": "assistant", "content": "é\n"}));
    assert_eq!(MessageList::from_json(&record_form).unwrap(), list);
}

#[test]
fn one_record_from_text() {
    let record = Record::from_json(r#" {"content":"hi","role":"user","meta":7} "#, 3).unwrap();
    assert_eq!(record.to_value(), json!({"role": "user", "content": "hi", "meta": 7}));
    assert_eq!(
        Record::from_json(r#"{"role":"user"}"#, 3).unwrap_err().to_string(),
        "messages[3] content must be a string or a non-empty array of content parts"
    );
    assert!(Record::from_json(r#"{"role":"user","content":"x"} 1"#, 1).is_err());
}

#[test]
fn long_conversations_span_many_shared_texts() {
    let mut records = vec![system("start")];
    for index in 0..3_000 {
        records.push(user(format!("question {index} {}", "x".repeat(index % 100))));
        records.push(json!({"role": "assistant", "content": "answer", "meta": {"index": index}}));
    }
    records.push(user("y".repeat(300_000)));
    records.push(json!({"role": "assistant", "content": "end"}));
    let mut list = MessageList::from_json_text(&Value::from(records.clone()).to_string()).unwrap();
    assert_eq!(values(&list), records);
    let request = list.compose().unwrap();
    assert_eq!(request.messages(), model::compose(&records));
    // Messages that lie side by side come as one piece.
    assert!(request.chunks().count() < 50, "{}", request.chunks().count());
    assert_eq!(request.chunks().map(<[u8]>::len).sum::<usize>(), request.total_len());
    list.replace(100, 200, Vec::new()).unwrap();
    records.drain(99..200);
    assert_eq!(list.compose().unwrap().messages(), model::compose(&records));
}

fn any_text() -> impl Strategy<Value = String> {
    prop_oneof!["[a-c]{0,3}", "\\PC{0,8}", Just("\"\\/\n\u{1}\u{8}é🦀\u{7f}".to_owned())]
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        (-1000..1000_i32).prop_map(|number| json!(f64::from(number) / 8.0)),
        any_text().prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::hash_map(any_text(), inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// An object with some of these fields.
fn object(fields: Vec<(&'static str, BoxedStrategy<Value>)>) -> BoxedStrategy<Value> {
    let entries: Vec<_> = fields
        .into_iter()
        .map(|(key, value)| prop::option::weighted(0.9, value).prop_map(move |value| value.map(|value| (key, value))))
        .collect();
    entries
        .prop_map(|entries| {
            Value::Object(entries.into_iter().flatten().map(|(key, value)| (key.to_owned(), value)).collect())
        })
        .prop_shuffle_keys()
}

trait ShuffleKeys {
    fn prop_shuffle_keys(self) -> BoxedStrategy<Value>;
}

impl<S: Strategy<Value = Value> + 'static> ShuffleKeys for S {
    fn prop_shuffle_keys(self) -> BoxedStrategy<Value> {
        (self, any::<bool>())
            .prop_map(|(value, reverse)| match value {
                Value::Object(map) if reverse => Value::Object(map.into_iter().rev().collect()),
                other => other,
            })
            .boxed()
    }
}

fn mostly(good: impl Strategy<Value = Value> + 'static) -> BoxedStrategy<Value> {
    prop_oneof![30 => good, 1 => Just(Value::Null), 1 => any_json()].boxed()
}

fn string() -> BoxedStrategy<Value> {
    mostly(any_text().prop_map(Value::from))
}

fn any_message() -> BoxedStrategy<Value> {
    let part = prop_oneof![
        object(vec![("type", mostly(Just(json!("text")))), ("text", string()), ("x", any_json().boxed())]),
        object(vec![
            ("type", mostly(Just(json!("image_url")))),
            ("image_url", mostly(object(vec![("url", string()), ("detail", string())]))),
        ]),
    ];
    let content = mostly(prop_oneof![
        3 => any_text().prop_map(Value::from),
        1 => prop::collection::vec(mostly(part), 0..4).prop_map(Value::from),
    ]);
    let keyed = || {
        prop::collection::hash_map(any_text(), any_json(), 0..3)
            .prop_map(|map| Value::Object(map.into_iter().collect()))
    };
    let text = prop_oneof![8 => keyed().prop_map(|value| value.to_string()), 1 => any_json().prop_map(|v| v.to_string()), 1 => any_text()];
    let native = object(vec![("id", string()), ("name", string()), ("arguments", mostly(keyed()))]);
    let function = object(vec![("name", string()), ("arguments", mostly(text.prop_map(Value::from)))]);
    let chat =
        object(vec![("id", string()), ("type", Just(json!("function")).boxed()), ("function", mostly(function))]);
    let calls = prop_oneof![
        prop::collection::vec(mostly(native), 0..3).prop_map(Value::from),
        prop::collection::vec(mostly(chat), 0..3).prop_map(Value::from),
    ];
    let role = |name: &'static str| mostly(Just(json!(name)));
    let plain = prop_oneof![
        object(vec![
            ("role", role("user")),
            ("content", content.clone()),
            ("meta", any_json().boxed()),
            ("z", any_json().boxed())
        ]),
        object(vec![("role", role("system")), ("content", content.clone())]),
    ];
    let assistant =
        object(vec![("role", role("assistant")), ("content", content.clone()), ("tool_calls", mostly(calls))]);
    let tool = object(vec![("role", role("tool")), ("content", content), ("tool_call_id", string())]);
    mostly(prop_oneof![2 => plain, 2 => assistant, 1 => tool])
}

/// JSON text of a value with white space and escapes that vary with the seed.
fn render(value: &Value, seed: &mut u64, out: &mut String) {
    let mut next = || {
        *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        *seed >> 33
    };
    let space = [" ", "", "", "\n", "", "\t", "\r\n", ""][(next() % 8) as usize];
    out.push_str(space);
    match value {
        Value::String(text) => {
            let style = next() % 4;
            out.push('"');
            for character in text.chars() {
                let mut units = [0; 2];
                if style == 0 && next() % 2 == 0 {
                    for unit in character.encode_utf16(&mut units) {
                        let _ = write!(out, "\\u{unit:04X}");
                    }
                } else if style == 1 && character == '/' {
                    out.push_str("\\/");
                } else {
                    let quoted = Value::from(character.to_string()).to_string();
                    out.push_str(&quoted[1..quoted.len() - 1]);
                }
            }
            out.push('"');
        }
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                render(item, seed, out);
            }
            out.push(']');
        }
        Value::Object(map) => {
            out.push('{');
            for (index, (key, item)) in map.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                render(&Value::from(key.as_str()), seed, out);
                out.push(':');
                render(item, seed, out);
            }
            out.push('}');
        }
        other => out.push_str(&other.to_string()),
    }
    out.push_str(space);
}

/// Loading by way of `serde_json`'s values. `Err(None)` is a text that is not JSON.
fn load_by_values(text: &str) -> Result<Vec<Value>, Option<String>> {
    let value: Value = serde_json::from_str(text).map_err(|_| None)?;
    let Some(messages) = value.as_array() else {
        return Err(Some("a conversation must be a JSON array of messages".to_owned()));
    };
    let mut list = MessageList::new();
    for message in messages {
        let record = Record::from_value(&model::as_record(message), list.len() + 1);
        record.and_then(|record| list.append(record)).map_err(|error| Some(error.to_string()))?;
    }
    Ok(values(&list))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// The scanner agrees with reading values, whatever the white space, the escapes and the shapes.
    #[test]
    fn the_scanner_agrees_with_reading_values(messages in prop::collection::vec(any_message(), 0..5), mut seed in any::<u64>()) {
        let mut text = String::new();
        render(&Value::from(messages), &mut seed, &mut text);
        prop_assert_eq!(load(&text).map_err(Some), load_by_values(&text), "{}", text);
        let values: Vec<Value> = serde_json::from_str(&text).unwrap();
        for value in values {
            let (ours, model) = (record_form(value.clone()), model::as_record(&value));
            prop_assert_eq!(Record::from_value(&ours, 1), Record::from_value(&model, 1));
        }
    }

    /// On broken text, too: the scanner accepts what is JSON and nothing else.
    #[test]
    fn the_scanner_refuses_broken_text(
        messages in prop::collection::vec(any_message(), 1..4),
        mut seed in any::<u64>(),
        place in any::<prop::sample::Index>(),
        edit in prop::sample::select(vec!["", "\"", "\\", "{", "}", "[", "]", ",", ":", "0", "-", ".", "e", "\\u12", "\\ud800", "\n", "\u{1}", "null", "tru", "é"]),
        remove in 0..3_usize,
    ) {
        let mut text = String::new();
        render(&Value::from(messages), &mut seed, &mut text);
        let mut characters: Vec<char> = text.chars().collect();
        let start = place.index(characters.len());
        let end = characters.len().min(start + remove);
        characters.splice(start..end, edit.chars());
        let text: String = characters.into_iter().collect();
        match (load(&text), load_by_values(&text)) {
            // A record is refused before the text behind it is read.
            (Err(_), Err(None)) => {}
            // Numbers that do not fit are ours to refuse, inside the text of arguments too.
            (Err(ours), _) if ours.contains("64 bits") || ours.contains("a number is too large") => {}
            (ours, theirs) => prop_assert_eq!(ours.map_err(Some), theirs, "{}", text),
        }
    }

    /// What is written reads back the same, in every shape a list can have.
    #[test]
    fn written_text_reads_back(messages in prop::collection::vec(any_message(), 0..8)) {
        let mut list = MessageList::new();
        for message in &messages {
            if let Ok(record) = Record::from_value(message, list.len() + 1) {
                let _ = list.append(record);
            }
        }
        let text = list.to_json(JsonForm::Record);
        let again = MessageList::from_json(&text).unwrap();
        prop_assert_eq!(&again, &list);
        prop_assert_eq!(again.to_json(JsonForm::Record), text);
    }
}
