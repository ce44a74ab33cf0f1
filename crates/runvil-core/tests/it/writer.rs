//! Records written piece by piece, and records made from plain text.

use proptest::prelude::*;
use runvil_core::list::MessageList;
use runvil_core::record::Record;
use runvil_core::role::Role;
use runvil_core::writer::{RecordBatch, RecordWriter, push_string};
use serde_json::{Value, json};

use crate::properties;
use crate::support::{assistant, calls, good, system, tool, user, values};

/// Writes a record table that is known to be valid.
fn write(writer: &mut RecordWriter, value: &Value) {
    writer.begin(Role::parse(value["role"].as_str().unwrap()).unwrap());
    match &value["content"] {
        Value::String(text) => writer.text(text),
        parts => {
            for part in parts.as_array().unwrap() {
                match part["text"].as_str() {
                    Some(text) => writer.text_part(text),
                    None => writer.image_part(part["image_url"]["url"].as_str().unwrap()),
                }
            }
        }
    }
    for call in value["tool_calls"].as_array().into_iter().flatten() {
        let arguments = call["arguments"].to_string();
        writer.call(call["id"].as_str().unwrap(), call["name"].as_str().unwrap(), &arguments);
    }
    if let Some(id) = value["tool_call_id"].as_str() {
        writer.tool_call_id(id);
    }
    if let Some(meta) = value.get("meta") {
        writer.meta().push_str(&meta.to_string());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// A written record is the record that its table makes.
    #[test]
    fn written_records_equal_made_ones(records in prop::collection::vec(properties::record(), 0..40)) {
        let mut writer = RecordWriter::new();
        let mut batch = RecordBatch::new();
        for value in &records {
            write(&mut writer, value);
            let written = writer.finish();
            prop_assert_eq!(written.as_ref(), Some(&*good(value)));
            write(&mut writer, value);
            prop_assert!(batch.add(&mut writer));
        }
        prop_assert_eq!(batch.len(), records.len());
        let made: Vec<Value> = batch.into_records().iter().map(|record| record.to_value()).collect();
        prop_assert_eq!(made, records);
    }
}

#[test]
fn broken_records_are_missing() {
    let mut writer = RecordWriter::new();
    let mut batch = RecordBatch::new();
    let refused: [fn(&mut RecordWriter); 8] = [
        |_| {},
        |writer| writer.begin(Role::User),
        |writer| {
            writer.begin(Role::Tool);
            writer.text("no id");
        },
        |writer| {
            writer.begin(Role::User);
            writer.text("u");
            writer.tool_call_id("c");
        },
        |writer| {
            writer.begin(Role::User);
            writer.text("a");
            writer.text("b");
        },
        |writer| {
            writer.begin(Role::Assistant);
            writer.call("c", "n", "{}");
        },
        |writer| {
            writer.begin(Role::Tool);
            writer.text("r");
            writer.tool_call_id("c");
            writer.tool_call_id("d");
        },
        |writer| {
            writer.begin(Role::User);
            writer.text("u");
            writer.meta().push_str(&"1".repeat(8193));
        },
    ];
    for pieces in refused {
        pieces(&mut writer);
        assert!(!batch.add(&mut writer));
    }
    // What went wrong before leaves no trace.
    write(&mut writer, &user("fine"));
    assert_eq!(writer.finish().unwrap().to_value(), user("fine"));
    assert!(batch.is_empty() && batch.into_records().is_empty());
}

#[test]
fn batches_mix_with_records_made_elsewhere() {
    let mut writer = RecordWriter::new();
    let mut batch = RecordBatch::new();
    let mut expected = Vec::new();
    for index in 0..2_000 {
        let value = user(format!("{index} {}", "x".repeat(index % 200)));
        write(&mut writer, &value);
        assert!(batch.add(&mut writer));
        expected.push(value);
        if index % 500 == 7 {
            batch.push(good(&assistant("between")));
            expected.push(assistant("between"));
        }
    }
    let mut list = MessageList::new();
    for record in batch.into_records() {
        list.append(record).unwrap();
    }
    assert_eq!(values(&list), expected);
}

#[test]
fn records_from_plain_text() {
    let arguments = json!({"value": "hi"});
    let arguments = arguments.as_object().unwrap();
    for (made, value) in [
        (Record::system("s\n"), system("s\n")),
        (Record::user("u"), user("u")),
        (Record::assistant(""), assistant("")),
        (Record::tool("r", "c\"1"), tool("c\"1", "r")),
        (
            Record::assistant_with_calls("x", [("c1", "echo", arguments), ("c2", "echo", arguments)]),
            calls("x", &["c1", "c2"]),
        ),
        (Record::assistant_with_calls("x", []), assistant("x")),
    ] {
        assert_eq!(made, *good(&value));
        assert_eq!(made.held_bytes(), good(&value).held_bytes());
    }
    let mut text = String::new();
    push_string(&mut text, "a\"b\n");
    assert_eq!(text, r#""a\"b\n""#);
}
