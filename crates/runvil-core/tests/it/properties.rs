//! What must hold after any sequence of edits.

use std::sync::Arc;

use proptest::prelude::*;
use runvil_core::body::{Body, BodyBuffer, EmptyContent};
use runvil_core::list::{MessageList, Snapshot};
use runvil_core::record::Record;
use runvil_core::request::Request;
use serde_json::{Map, Value, json};

use crate::model;
use crate::support::{good, list, values};

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => Just(String::new()),
        4 => "[ab]{1,3}",
        1 => "\\PC{0,6}",
        1 => Just("line\n\"quote\" \\ \u{1} é🦀".to_owned()),
    ]
}

fn content() -> impl Strategy<Value = Value> {
    let part = prop_oneof![
        3 => text().prop_map(|text| json!({"type": "text", "text": text})),
        1 => text().prop_map(|url| json!({"type": "image_url", "image_url": {"url": url}})),
    ];
    prop_oneof![4 => text().prop_map(Value::from), 1 => prop::collection::vec(part, 1..4).prop_map(Value::from)]
}

fn id() -> impl Strategy<Value = String> {
    prop_oneof![12 => "c[0-9]{1,2}", 1 => Just(String::new()), 1 => Just("\"c\n".to_owned())]
}

fn tool_calls() -> impl Strategy<Value = Value> {
    let call =
        (id(), text()).prop_map(|(id, value)| json!({"id": id, "name": "echo", "arguments": {"v": [value, 1.5]}}));
    prop::collection::vec(call, 1..4).prop_map(Value::from)
}

/// One record, mostly such that lists of them can be sent.
pub(crate) fn record() -> impl Strategy<Value = Value> {
    let plain = (prop::sample::select(vec!["user", "user", "assistant", "assistant", "system"]), content())
        .prop_map(|(role, content)| json!({"role": role, "content": content}));
    let calling = (content(), tool_calls())
        .prop_map(|(content, calls)| json!({"role": "assistant", "content": content, "tool_calls": calls}));
    let result =
        (content(), id()).prop_map(|(content, id)| json!({"role": "tool", "content": content, "tool_call_id": id}));
    let misplaced = (content(), tool_calls())
        .prop_map(|(content, calls)| json!({"role": "user", "content": content, "tool_calls": calls}));
    let meta = prop::option::weighted(0.2, text().prop_map(|text| json!({"from": text})));
    (prop_oneof![60 => plain, 2 => calling, 2 => result, 1 => misplaced], meta).prop_map(|(mut record, meta)| {
        if let Some(meta) = meta {
            record["meta"] = meta;
        }
        record
    })
}

/// A tool exchange that can be sent.
fn exchange() -> impl Strategy<Value = Vec<Value>> {
    (content(), prop::collection::hash_set("[a-z]{6}", 1..12), any::<bool>()).prop_map(|(content, ids, backwards)| {
        let ids: Vec<_> = ids.into_iter().collect();
        let calls: Vec<_> = ids.iter().map(|id| json!({"id": id, "name": "n", "arguments": {}})).collect();
        let mut results: Vec<_> =
            ids.iter().map(|id| json!({"role": "tool", "content": "r", "tool_call_id": id})).collect();
        if backwards {
            results.reverse();
        }
        let mut records = vec![json!({"role": "assistant", "content": content, "tool_calls": calls})];
        records.extend(results);
        records
    })
}

#[derive(Debug, Clone)]
enum Step {
    Append(Vec<Value>),
    Replace { first: usize, len: usize, records: Vec<Value> },
    Snapshot,
    Restore(usize),
    Fork,
    Check,
    Compose,
    Estimate,
    Clear,
}

fn step() -> impl Strategy<Value = Step> {
    let some = || prop::collection::vec(record(), 0..4);
    prop_oneof![
        8 => prop::collection::vec(record(), 1..4).prop_map(Step::Append),
        4 => exchange().prop_map(Step::Append),
        1 => (record(), 200..300_usize).prop_map(|(record, count)| Step::Append(vec![record; count])),
        4 => (0..1000_usize, 0..8_usize, some()).prop_map(|(first, len, records)| Step::Replace { first, len, records }),
        1 => (0..1000_usize, 0..1000_usize, some())
            .prop_map(|(first, len, records)| Step::Replace { first, len, records }),
        2 => Just(Step::Snapshot),
        1 => (0..100_usize).prop_map(Step::Restore),
        1 => Just(Step::Fork),
        3 => Just(Step::Check),
        5 => Just(Step::Compose),
        2 => Just(Step::Estimate),
        1 => Just(Step::Clear),
    ]
}

/// What was composed before, to compare later requests with.
#[derive(Default)]
struct Sent {
    buffer: BodyBuffer,
    requests: Vec<(Request, Vec<Value>)>,
}

impl Sent {
    /// Compares a request with an earlier one, and the buffer with its body.
    fn take(&mut self, request: &Request, messages: &[Value]) -> Result<(), TestCaseError> {
        let body = request.body_parts("m", None, &Map::new());
        self.buffer.write(&body);
        let expected = format!("{{\"model\":\"m\",\"messages\":{}}}", Value::from(messages.to_vec()));
        prop_assert_eq!(String::from_utf8_lossy(self.buffer.as_bytes()), expected.as_str());
        prop_assert_eq!(joined(&body), expected.as_str());
        let mut with_null = messages.to_vec();
        for message in &mut with_null {
            if message.get("tool_calls").is_some() && message["content"] == "" {
                message["content"] = Value::Null;
            }
        }
        let body = body.with_empty_content(EmptyContent::Null);
        let expected = format!("{{\"model\":\"m\",\"messages\":{}}}", Value::from(with_null));
        prop_assert_eq!(joined(&body), expected.as_str());
        prop_assert_eq!(String::from_utf8(body.to_bytes()).unwrap(), expected.as_str());
        self.buffer.write(&body);
        prop_assert_eq!(String::from_utf8_lossy(self.buffer.as_bytes()), expected.as_str());
        for (earlier, sent) in &self.requests {
            let reply = messages.get(sent.len()).filter(|reply| reply["role"] == "assistant");
            let tail =
                reply.filter(|_| messages.starts_with(sent)).map(|_| model::estimate(&messages[sent.len() + 1..]));
            prop_assert_eq!(request.estimate_after_reply(earlier), tail);
        }
        if self.requests.len() > 4 {
            self.requests.remove(0);
        }
        self.requests.push((request.clone(), messages.to_vec()));
        Ok(())
    }
}

/// The body's blocks, joined; each must be as long as was announced.
fn joined(body: &Body) -> String {
    let mut blocks = body.clone().into_blocks();
    let mut joined = Vec::new();
    while let Some(block) = blocks.next() {
        joined.extend_from_slice(block.as_ref());
        assert_eq!(joined.len() + blocks.len(), body.len());
    }
    assert!(blocks.is_empty());
    String::from_utf8(joined).unwrap()
}

/// Compares everything a list says with the model.
fn compare(list: &mut MessageList, records: &[Value], sent: &mut Sent) -> Result<(), TestCaseError> {
    prop_assert_eq!(list.len(), records.len());
    let expected = model::compose(records);
    prop_assert_eq!(list.estimate(), model::estimate(&expected));
    let verdict = model::check(records);
    prop_assert_eq!(list.check().map_err(|error| error.to_string()), verdict.clone());
    match list.compose() {
        Ok(request) => {
            prop_assert_eq!(request.messages(), expected.clone());
            sent.take(&request, &expected)?;
            prop_assert_eq!(request.message_count(), expected.len() as u64);
            prop_assert_eq!(request.estimate(), model::estimate(&expected));
            let json = request.to_json();
            prop_assert_eq!(String::from_utf8_lossy(&json), Value::from(expected).to_string());
            prop_assert_eq!(json.len(), request.total_len());
        }
        Err(error) if records.is_empty() => prop_assert_eq!(error.to_string(), "messages must not be empty"),
        Err(_) => prop_assert!(verdict.is_err()),
    }
    Ok(())
}

/// One edit on a list and on the plain records; a refused one must change neither.
fn apply_replace(
    target: &mut MessageList,
    records: &mut Vec<Value>,
    first: usize,
    len: usize,
    new: &[Value],
) -> Result<(), TestCaseError> {
    let start = first % (records.len() + 1);
    let end = records.len().min(start + len);
    let mut edited = records.clone();
    edited.splice(start..end, new.iter().cloned());
    let before = target.clone();
    let made: Vec<Arc<Record>> = new.iter().map(good).collect();
    match (target.replace(start + 1, end, made), model::late_system(&edited)) {
        (Ok(()), None) => *records = edited,
        (Err(error), Some(position)) => {
            prop_assert_eq!(error.code.register(), "R18");
            prop_assert_eq!(error.position, Some(position));
            prop_assert_eq!(&*target, &before);
        }
        (result, expected) => prop_assert!(false, "replace gave {result:?}, the model {expected:?}"),
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// The running check, composition and estimate equal those made from scratch, after any edits.
    #[test]
    fn running_state_equals_a_fresh_start(steps in prop::collection::vec(step(), 1..25)) {
        let mut records: Vec<Value> = Vec::new();
        let mut list = MessageList::new();
        let mut sent = Sent::default();
        let mut saved: Vec<(Snapshot, Vec<Value>)> = Vec::new();
        let mut forks: Vec<(MessageList, Vec<Value>)> = Vec::new();
        for step in steps {
            match step {
                Step::Append(new) => {
                    for record in new {
                        let late = record["role"] == "system" && records.iter().any(|other| other["role"] != "system");
                        match crate::support::append(&mut list, &record) {
                            Ok(()) => { prop_assert!(!late); records.push(record); }
                            Err(error) => {
                                prop_assert!(late, "{}", error);
                                prop_assert_eq!(error.position, Some(records.len() + 1));
                            }
                        }
                    }
                }
                Step::Replace { first, len, records: new } => {
                    apply_replace(&mut list, &mut records, first, len, &new)?;
                }
                Step::Snapshot => saved.push((list.snapshot(), records.clone())),
                Step::Restore(which) => {
                    if !saved.is_empty() {
                        let (snapshot, at_the_time) = &saved[which % saved.len()];
                        list.restore(snapshot.clone());
                        records.clone_from(at_the_time);
                    }
                }
                Step::Fork => forks.push((list.clone(), records.clone())),
                Step::Check => { let _ = list.check(); }
                Step::Compose => compare(&mut list, &records, &mut sent)?,
                Step::Estimate => { list.estimate(); }
                Step::Clear => { list.clear(); records.clear(); }
            }
            prop_assert_eq!(list.len(), records.len());
        }
        compare(&mut list, &records, &mut sent)?;
        prop_assert_eq!(values(&list), records);
        for (mut fork, records) in forks {
            compare(&mut fork, &records, &mut sent)?;
        }
    }

    /// Composing is idempotent: composed messages, read as records, compose to themselves.
    #[test]
    fn composing_is_idempotent(records in prop::collection::vec(prop_oneof![exchange(), record().prop_map(|r| vec![r])], 1..12)) {
        let mut first = MessageList::new();
        for record in records.into_iter().flatten() {
            let _ = crate::support::append(&mut first, &record);
        }
        if let Ok(request) = first.compose() {
            let again: Vec<Value> = request.messages().iter().map(as_record).collect();
            // Two leading system records of which one vanished are one; everything else stays apart.
            prop_assert_eq!(list(&again).compose().unwrap().messages(), request.messages());
        }
    }
}

/// A wire message as the record it could have been.
fn as_record(message: &Value) -> Value {
    let mut record = message.clone();
    if let Some(calls) = record.get_mut("tool_calls").and_then(Value::as_array_mut) {
        for call in calls {
            let arguments = call["function"]["arguments"].as_str().unwrap_or_default();
            let arguments: Value = serde_json::from_str(arguments).unwrap_or_default();
            *call = json!({"id": call["id"], "name": call["function"]["name"], "arguments": arguments});
        }
    }
    record
}
