//! One record: its checks in their order, its texts, and what it reads back.

use runvil_core::error::{Code, Field, ListError};
use runvil_core::ledger::Ledger;
use runvil_core::record::{Record, RecordFields};
use runvil_core::role::Role;
use serde_json::{Value, json};

use crate::support::{append, calls, good, list, parts, record, system, tool, user};

const R4: &str = "messages[1] content must be a string or a non-empty array of content parts";

/// Compares the refusal of each record, at position 1 of an empty list, with its text.
fn refuses(cases: &[(&str, Value, &str)]) {
    for (case, value, text) in cases {
        assert_eq!(record(value).map(|record| record.to_value()), Err((*text).to_owned()), "{case}: {value}");
    }
}

/// Each record passes and reads back as the second value, or as itself.
fn accepts(cases: &[(&str, Value)]) {
    for (case, value) in cases {
        assert_eq!(record(value).map(|record| record.to_value()), Ok(value.clone()), "{case}");
    }
}

#[test]
fn accepts_every_shape() {
    accepts(&[
        ("REC-01", system("a")),
        ("REC-01", user("a")),
        ("REC-01", json!({"role": "assistant", "content": "a"})),
        ("REC-02 BLD-07", tool("c1", "r")),
        ("REC-11 BLD-19", user("")),
        ("REC-11", tool("c1", "")),
        ("REC-12", user(parts(&["t:"]))),
        ("REC-22", user(parts(&["i:"]))),
        ("REC-24 BLD-22", user(parts(&["t:look", "i:data:image/png;base64,AA=="]))),
        ("REC-26", user(parts(&["t:hi"]))),
        ("REC-33", tool("", "r")),
        (
            "REC-48",
            json!({"role": "assistant", "content": "", "tool_calls": [
            {"id": "c1", "name": "read", "arguments": {"path": "notes.txt", "limit": 3}}]}),
        ),
        (
            "REC-49 REC-50 REC-51",
            json!({"role": "assistant", "content": "", "tool_calls": [
            {"id": "c1", "name": "w", "arguments": {"empty": {}, "tags": [], "x": null}}]}),
        ),
        (
            "REC-53",
            json!({"role": "assistant", "content": "", "tool_calls": [{"id": "", "name": "", "arguments": {}}]}),
        ),
        ("REC-54", calls("", &["c1", "c1"])),
        ("REC-55", json!({"role": "user", "content": "", "tool_calls": [{"id": "c", "name": "n", "arguments": {}}]})),
        (
            "REC-55",
            json!({"role": "tool", "content": "", "tool_calls": [{"id": "c", "name": "n", "arguments": {}}],
            "tool_call_id": "\"7\""}),
        ),
        ("REC-56 BLD-06", calls("Let me check both.", &["call_1", "call_2"])),
        ("REC-57", calls(parts(&["t:a", "i:u"]), &["c1"])),
        ("REC-58", tool("c1", parts(&["t:r"]))),
        (
            "JSN-27",
            json!({"role": "assistant", "content": "", "tool_calls": [{"id": "c", "name": "n", "arguments":
            {"low": i64::MIN, "high": u64::MAX, "int": 3, "float": 3.0, "tiny": 5e-324, "third": 0.333_333_333_333_333_3}}]}),
        ),
        ("MET-01 MET-02", json!({"role": "user", "content": "x", "meta": false})),
        ("MET-03", json!({"role": "user", "content": "x", "meta": {}})),
        ("MET-05", json!({"role": "user", "content": "x", "meta": {"a": null}})),
        ("MET-20", json!({"role": "tool", "content": "x", "tool_call_id": "c", "meta": [1, "\n", 2.5]})),
        ("CMP-38", user("a\n\n\u{0}\u{1f}\u{7f} \"quoted\" back\\slash / é 🦀")),
    ]);
    // BLD-25
    let long = "x".repeat(1_000_000);
    assert_eq!(good(&user(long.as_str())).content_text().as_deref(), Some(long.as_str()));
}

#[test]
fn drops_what_is_no_field() {
    for (case, given, kept) in [
        (
            "BLD-33 BLD-34 BLD-35 CMP-40",
            json!({"role": "user", "content": "u2", "extra": {"nested": true}, "name": "bob", "weight": 3,
                   "api_key": "secret", "nothing": null}),
            user("u2"),
        ),
        (
            "BLD-36 BLD-37 REC-23",
            user(json!([
                {"type": "text", "text": "a", "cache": true},
                {"type": "image_url", "image_url": {"url": "u", "detail": "high"}, "detail": "high"}
            ])),
            user(parts(&["t:a", "i:u"])),
        ),
        (
            "BLD-38",
            json!({"role": "assistant", "content": "", "tool_calls": [
                {"id": "c1", "type": "function", "name": "w", "arguments": {"q": 1}}]}),
            json!({"role": "assistant", "content": "", "tool_calls": [{"id": "c1", "name": "w", "arguments": {"q": 1}}]}),
        ),
        (
            "REC-46 VEW-30",
            json!({"role": "assistant", "content": "", "tool_calls": [{"id": "c1", "name": "w"}]}),
            json!({"role": "assistant", "content": "", "tool_calls": [{"id": "c1", "name": "w", "arguments": {}}]}),
        ),
        ("REC-37", json!({"role": "user", "content": "x", "tool_calls": []}), user("x")),
        ("MET-04 BLD-13", json!({"role": "user", "content": "x", "meta": null}), user("x")),
    ] {
        let record = good(&given);
        assert_eq!(record.to_value(), kept, "{case}");
        assert!(!record.wire().contains("secret"), "{case}");
    }
}

#[test]
fn refuses_bad_roles_and_tables() {
    const R1: &str = "messages[1] must be a message table";
    const R2: &str = "messages[1] role must be a string, one of: system, user, assistant, tool";
    refuses(&[
        ("BLD-28", Value::Null, R1),
        ("BLD-29 ORD-04", json!("hello"), R1),
        ("BLD-30", json!(42), R1),
        ("REC-59", json!(["a"]), R1),
        ("REC-03", json!({}), R2),
        ("REC-04", json!({"content": "x"}), R2),
        ("REC-05", json!({"role": 5, "content": "x"}), R2),
        ("REC-05", json!({"role": null, "content": "x"}), R2),
        ("REC-05", json!({"role": {}, "content": "x"}), R2),
        (
            "REC-06",
            json!({"role": "wizard", "content": "x"}),
            r#"messages[1] role "wizard" is unknown; known roles: system, user, assistant, tool"#,
        ),
        (
            "REC-07",
            json!({"role": "User", "content": "x"}),
            r#"messages[1] role "User" is unknown; known roles: system, user, assistant, tool"#,
        ),
        (
            "REC-07",
            json!({"role": "", "content": "x"}),
            r#"messages[1] role "" is unknown; known roles: system, user, assistant, tool"#,
        ),
        (
            "REC-08",
            json!({"role": "a\"\\\n", "content": "x"}),
            r#"messages[1] role "a\"\\\n" is unknown; known roles: system, user, assistant, tool"#,
        ),
    ]);
}

#[test]
fn refuses_bad_content() {
    let content = |content: Value| json!({"role": "user", "content": content});
    let part = |number: usize, text: &str| format!("messages[1] content part {number} {text}");
    let table = "must be a table with a string type field";
    let image = "is an image_url part and must set an image_url table with a string url field";
    let text = "is a text part and must set a string text field";
    for value in [json!(5), json!(true), Value::Null, json!({"type": "text", "text": "a"}), json!({}), json!([])] {
        // REC-10, BLD-15, BLD-20, BLD-21, BLD-23
        refuses(&[("REC-10", content(value), R4)]);
    }
    refuses(&[("REC-09", json!({"role": "user"}), R4)]);
    for (case, value, number, rest) in [
        ("REC-13", json!(["bare"]), 1, table),
        ("REC-14", json!([{"type": "text", "text": "ok"}, "x"]), 2, table),
        ("REC-15", json!([{"text": "no type"}]), 1, table),
        ("REC-15", json!([{"type": 5}]), 1, table),
        ("REC-15", json!([{"type": null}]), 1, table),
        ("REC-16", json!([["text"]]), 1, table),
        (
            "REC-17",
            json!([{"type": "text", "text": "ok"}, {"type": "video"}]),
            2,
            r#"has unknown type "video"; known types: text, image_url"#,
        ),
        ("REC-18", json!([{"type": "Text"}]), 1, r#"has unknown type "Text"; known types: text, image_url"#),
        ("REC-19", json!([{"type": "text"}]), 1, text),
        ("REC-19", json!([{"type": "text", "text": 5}]), 1, text),
        ("REC-19", json!([{"type": "text", "text": null}]), 1, text),
        ("REC-20", json!([{"type": "image_url"}]), 1, image),
        ("REC-21", json!([{"type": "image_url", "image_url": {"detail": "high"}}]), 1, image),
        ("REC-21", json!([{"type": "image_url", "image_url": "data:.."}]), 1, image),
        ("REC-21", json!([{"type": "image_url", "image_url": {"url": 5}}]), 1, image),
        ("REC-25", json!([{"type": "x"}, {}]), 1, r#"has unknown type "x"; known types: text, image_url"#),
    ] {
        refuses(&[(case, content(value), &part(number, rest))]);
    }
}

#[test]
fn refuses_bad_calls_and_ids() {
    let r9 = "messages[1] tool_call_id must be a string";
    let r10 = "messages[1] is a tool message and must set a string tool_call_id";
    let r11 = "messages[1] sets a tool_call_id but is not a tool message";
    let r12 = "messages[1] tool_calls must be an array";
    refuses(&[
        ("REC-27", json!({"role": "user", "content": "x", "tool_call_id": 7}), r9),
        ("REC-28", json!({"role": "tool", "content": "x", "tool_call_id": 7}), r9),
        ("REC-29", json!({"role": "tool", "content": "x", "tool_call_id": null}), r9),
        ("REC-30", json!({"role": "tool", "content": "x"}), r10),
        ("REC-32", json!({"role": "user", "content": "x", "tool_call_id": "c1"}), r11),
        ("REC-32", json!({"role": "system", "content": "x", "tool_call_id": "c1"}), r11),
        ("REC-32", json!({"role": "assistant", "content": "x", "tool_call_id": "c1"}), r11),
        ("REC-34", json!({"role": "assistant", "content": "", "tool_calls": "raw"}), r12),
        ("REC-34", json!({"role": "assistant", "content": "", "tool_calls": {"id": "c1", "name": "w"}}), r12),
        ("REC-35", json!({"role": "assistant", "content": "", "tool_calls": null}), r12),
        ("REC-36 BLD-14", json!({"role": "assistant", "content": "", "tool_calls": {"draft": true}}), r12),
    ]);
    let call = |call: Value| json!({"role": "assistant", "content": "", "tool_calls": [call]});
    let table = "messages[1] tool_calls[1] must be a table";
    let id = "messages[1] tool_calls[1] must set a string id";
    let name = "messages[1] tool_calls[1] must set a string name";
    let arguments = "messages[1] tool_calls[1] arguments must be a table";
    refuses(&[
        ("REC-38", call(json!("raw")), table),
        ("REC-38", call(json!(["arr"])), table),
        ("REC-39", call(json!({"name": "w"})), id),
        ("REC-40", call(json!({"id": 5, "name": "w"})), id),
        ("REC-40", call(json!({"id": null, "name": "w"})), id),
        ("REC-41", call(json!({"id": "c1"})), name),
        ("REC-41", call(json!({"id": "c1", "name": 5})), name),
        ("REC-42 ORD-14", call(json!({})), id),
        ("REC-42", call(json!({"arguments": "raw"})), id),
        ("REC-43", call(json!({"id": "c1", "name": "w", "arguments": "{}"})), arguments),
        ("REC-44", call(json!({"id": "c1", "name": "w", "arguments": 5})), arguments),
        ("REC-44", call(json!({"id": "c1", "name": "w", "arguments": [1, 2]})), arguments),
        ("REC-45", call(json!({"id": "c1", "name": "w", "arguments": []})), arguments),
        ("REC-47", call(json!({"id": "c1", "name": "w", "arguments": null})), arguments),
        (
            "REC-52",
            json!({"role": "assistant", "content": "", "tool_calls": [{"id": "c1", "name": "a"}, {"id": "c2"}]}),
            "messages[1] tool_calls[2] must set a string name",
        ),
        ("ORD-15", json!({"role": "assistant", "content": "", "tool_calls": [{"id": "c1"}, {"name": "a"}]}), name),
    ]);
}

#[test]
fn first_broken_rule_wins() {
    let big = "x".repeat(9000);
    refuses(&[
        (
            "ORD-05",
            json!({"role": "wizard", "content": 5}),
            r#"messages[1] role "wizard" is unknown; known roles: system, user, assistant, tool"#,
        ),
        ("ORD-06", json!({"role": "tool", "content": 5, "tool_call_id": 7}), R4),
        (
            "ORD-07",
            json!({"role": "user", "content": "x", "tool_call_id": 7, "tool_calls": "raw"}),
            "messages[1] tool_call_id must be a string",
        ),
        (
            "ORD-08",
            json!({"role": "user", "content": "x", "tool_call_id": "c", "tool_calls": "raw"}),
            "messages[1] sets a tool_call_id but is not a tool message",
        ),
        (
            "ORD-09",
            json!({"role": "tool", "content": "x", "tool_calls": "raw"}),
            "messages[1] is a tool message and must set a string tool_call_id",
        ),
        (
            "ORD-10",
            json!({"role": "assistant", "content": "x", "tool_calls": "raw", "meta": big}),
            "messages[1] tool_calls must be an array",
        ),
        (
            "ORD-13",
            json!({"role": "assistant", "content": [{"type": "text", "text": "a"}, 5], "tool_calls": [5]}),
            "messages[1] content part 2 must be a table with a string type field",
        ),
    ]);
    // ORD-11, ORD-12: placement comes last.
    let mut one = list(&[user("u")]);
    let late = json!({"role": "system", "content": "s", "meta": big});
    assert_eq!(
        append(&mut one, &late).unwrap_err().to_string(),
        "messages[2] meta is 9002 bytes as JSON; the limit is 8192 bytes"
    );
    assert_eq!(append(&mut one, &system(5)).unwrap_err().code, Code::ContentInvalid);
}

#[test]
fn errors_name_where() {
    // ORD-16 to ORD-19
    let at = |value: &Value, position| Record::from_value(value, position).unwrap_err();
    let error = at(&json!({"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "z"}]}), 4);
    assert_eq!((error.code, error.position, error.part, error.call), (Code::PartTypeUnknown, Some(4), Some(2), None));
    let error = at(&json!({"role": "assistant", "content": "", "tool_calls": [{"id": 1}]}), 3);
    assert_eq!((error.code, error.position, error.part, error.call), (Code::CallIdNotString, Some(3), None, Some(1)));
    assert_eq!(error.code.register(), "R14");
    assert_eq!(error.moved_to(9).to_string(), "messages[9] tool_calls[1] must set a string id");
    for code in Code::ALL {
        assert_eq!(Code::ALL.iter().filter(|other| other.register() == code.register()).count(), 1, "{code}");
        assert_eq!(Code::ALL.iter().filter(|other| other.as_str() == code.as_str()).count(), 1, "{code}");
    }
}

#[test]
fn json_form_is_the_first_check() {
    let deep = (0..128).fold(json!(1), |value, _| json!([value]));
    let deeper = json!([deep]);
    let too_deep = "nesting is deeper than 128 levels";
    // JSN-19, ORD-01: whatever else is wrong, even in a field that is dropped.
    assert_eq!(
        record(&json!({"extra": deeper})).unwrap_err(),
        format!("messages[1] must be a JSON-representable message table: {too_deep}")
    );
    assert_eq!(
        record(&json!([deeper])).unwrap_err(),
        format!("messages[1] must be a JSON-representable message table: {too_deep}")
    );
    assert_eq!(good(&json!({"role": "user", "content": "x", "meta": deep})).meta(), Some(deep.clone()));
    // ORD-02, ORD-03: builder arguments in their order, before every other rule.
    let fields = RecordFields {
        role: Some(json!("user")),
        content: Some(json!(5)),
        meta: Some(deeper.clone()),
        ..RecordFields::default()
    };
    assert_eq!(
        Record::from_fields(fields.clone(), 2).unwrap_err().to_string(),
        format!("messages[2] meta must be JSON-representable: {too_deep}")
    );
    let fields = RecordFields { tool_call_id: Some(deeper.clone()), tool_calls: Some(deeper), ..fields };
    assert_eq!(
        Record::from_fields(fields, 2).unwrap_err().to_string(),
        format!("messages[2] tool_calls must be JSON-representable: {too_deep}")
    );
    // JSN-01, JSN-06: the reasons of converters.
    let reason = "unsupported value type `function`";
    assert_eq!(
        ListError::not_json_record(2, reason).to_string(),
        "messages[2] must be a JSON-representable message table: unsupported value type `function`"
    );
    for (field, name) in [
        (Field::Content, "content"),
        (Field::ToolCalls, "tool_calls"),
        (Field::ToolCallId, "tool_call_id"),
        (Field::Meta, "meta"),
    ] {
        assert_eq!(
            ListError::not_json_field(2, field, reason).to_string(),
            format!("messages[2] {name} must be JSON-representable: unsupported value type `function`")
        );
    }
}

#[test]
fn builder_fields_make_the_same_record() {
    // BLD-43
    for value in [user("x"), tool("c", "r"), calls("", &["a", "b"]), system(parts(&["t:a"]))] {
        let fields = RecordFields {
            role: value.get("role").cloned(),
            content: value.get("content").cloned(),
            tool_calls: value.get("tool_calls").cloned(),
            tool_call_id: value.get("tool_call_id").cloned(),
            meta: Some(Value::Null),
        };
        assert_eq!(Record::from_fields(fields, 1).unwrap(), *good(&value));
    }
    // BLD-17, BLD-18
    let fields = RecordFields { role: Some(json!("user")), ..RecordFields::default() };
    assert_eq!(
        Record::from_fields(fields, 2).unwrap_err().to_string(),
        "messages[2] content must be a string or a non-empty array of content parts"
    );
}

#[test]
fn metadata_is_measured_as_compact_json() {
    let text = |character: &str, count: usize| Value::from(character.repeat(count));
    for (case, meta, size) in [
        ("MET-06", text("x", 9000), 9002),
        ("MET-07", text("x", 8190), 8192),
        ("MET-08", text("x", 8191), 8193),
        ("MET-09", text("é", 4095), 8192),
        ("MET-10", text("é", 4096), 8194),
        ("MET-11", text("🦀", 2047), 8190),
        ("MET-11", text("🦀", 2048), 8194),
        ("MET-12", text("\"", 4095), 8192),
        ("MET-12", text("\"", 4096), 8194),
        ("MET-13", text("\\", 4095), 8192),
        ("MET-13", text("\n", 4095), 8192),
        ("MET-14", text("\u{1}", 1365), 8192),
        ("MET-14", text("\u{1}", 1366), 8198),
        ("MET-15", text("/", 8190), 8192),
        ("MET-15", text("\u{7f}", 8190), 8192),
        ("MET-16", json!({"k": "x".repeat(8184)}), 8192),
        ("MET-16", json!({"k": "x".repeat(8185)}), 8193),
        ("MET-17", Value::from(vec![1; 4095]), 8191),
        ("MET-17", Value::from(vec![1; 4096]), 8193),
    ] {
        let value = json!({"role": "user", "content": "hi", "meta": meta});
        match record(&value) {
            Ok(record) => {
                assert!(size <= 8192, "{case}");
                assert_eq!(record.meta_json().map(str::len), Some(size), "{case}");
                assert_eq!(record.meta(), Some(value["meta"].clone()), "{case}");
            }
            Err(text) => {
                assert_eq!(
                    text,
                    format!("messages[1] meta is {size} bytes as JSON; the limit is 8192 bytes"),
                    "{case}"
                );
            }
        }
    }
    // MET-21: never on the wire.
    let with_meta = good(&json!({"role": "user", "content": "hi", "meta": {"source": "form"}}));
    assert_eq!(with_meta.to_message(), user("hi"));
    assert_eq!(with_meta.wire(), good(&user("hi")).wire());
}

#[test]
fn wire_form_of_each_record() {
    // CMP-28, CMP-30, CMP-31, CMP-29
    for (value, wire) in [
        (system("be terse"), r#"{"role":"system","content":"be terse"}"#),
        (
            user(parts(&["t:look", "i:data:image/png;base64,AA=="])),
            r#"{"role":"user","content":[{"type":"text","text":"look"},{"type":"image_url","image_url":{"url":"data:image/png;base64,AA=="}}]}"#,
        ),
        (tool("call_1", "Sunny, 24 C"), r#"{"role":"tool","content":"Sunny, 24 C","tool_call_id":"call_1"}"#),
        (
            json!({"role": "assistant", "content": "", "tool_calls": [
                {"id": "call_1", "name": "read", "arguments": {"path": "notes.txt", "limit": 3}},
                {"id": "call_2", "name": "clock"}]}),
            r#"{"role":"assistant","content":"","tool_calls":[{"id":"call_1","type":"function","function":{"name":"read","arguments":"{\"path\":\"notes.txt\",\"limit\":3}"}},{"id":"call_2","type":"function","function":{"name":"clock","arguments":"{}"}}]}"#,
        ),
    ] {
        let record = good(&value);
        assert_eq!(record.wire(), wire);
        assert_eq!(record.to_message().to_string(), wire);
    }
}

#[test]
fn reads_each_field() {
    let record = good(&calls("a\nb", &["c\"1"]));
    assert_eq!(record.role(), Role::Assistant);
    assert_eq!(record.content_text().as_deref(), Some("a\nb"));
    assert_eq!(record.tool_call_id(), None);
    assert_eq!(record.meta(), None);
    assert_eq!(record.tool_calls().unwrap()[0]["id"], "c\"1");
    let record = good(&tool("c\\1", parts(&["t:x"])));
    assert_eq!(record.content_text(), None);
    assert_eq!(record.content(), parts(&["t:x"]));
    assert_eq!(record.tool_call_id().as_deref(), Some("c\\1"));
    assert_eq!(record.tool_calls(), None);
    assert!(!format!("{record:?}").contains("type"));
}

#[test]
fn records_travel_between_threads() {
    fn shared<T: Send + Sync>() {}
    shared::<Record>();
    shared::<runvil_core::list::MessageList>();
    shared::<runvil_core::request::Request>();
}

#[test]
fn a_ledger_counts_charged_records_until_their_last_reference() {
    let ledger = Ledger::new();
    let record = Record::from_value(&user("x".repeat(1000)), 1).unwrap();
    let bytes = record.held_bytes();
    assert!(bytes > 1000);
    let shared = std::sync::Arc::new(record.charged_to(&ledger));
    assert_eq!(ledger.held(), bytes);
    let again = shared.clone();
    drop(shared);
    assert_eq!(ledger.held(), bytes);
    let copy = (*again).clone();
    drop(again);
    assert_eq!(ledger.held(), 0);
    let other = Ledger::new();
    let moved = copy.charged_to(&ledger).charged_to(&other);
    assert_eq!((ledger.held(), other.held()), (0, bytes));
    drop(moved);
    assert_eq!(other.held(), 0);
}
