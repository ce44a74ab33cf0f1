//! Bodies in blocks.

use runvil_core::body::Block;
use runvil_core::list::MessageList;
use serde_json::{Map, Value, json};

use crate::support::list;

/// A conversation with a record of every length that is cut differently.
fn long_conversation() -> MessageList {
    let mut records = vec![json!({"role": "system", "content": "be brief"})];
    for number in 0..2_000 {
        let role = if number % 2 == 0 { "user" } else { "assistant" };
        let length = match number % 97 {
            0 => 200_000,
            1 => 8 * 1024,
            _ => number % 300,
        };
        records.push(json!({"role": role, "content": "x".repeat(length)}));
    }
    // One message of many records, and one call.
    records.extend((0..3_000).map(|number| json!({"role": "user", "content": format!("part {number}")})));
    records
        .push(json!({"role": "assistant", "content": "", "tool_calls": [{"id": "c", "name": "n", "arguments": {}}]}));
    records.push(json!({"role": "tool", "content": "r".repeat(50_000), "tool_call_id": "c"}));
    list(&records)
}

#[test]
fn the_blocks_of_a_long_body_are_the_body() {
    let request = long_conversation().compose().unwrap();
    let body = request.body_parts("m", Some(&json!([{"type": "function"}])), &Map::new());
    let blocks: Vec<Block> = body.clone().into_blocks().collect();
    let joined: Vec<u8> = blocks.iter().flat_map(|block| block.as_ref().to_vec()).collect();
    assert!(joined == body.to_bytes(), "the blocks differ from the body");
    assert!(serde_json::from_slice::<Value>(&joined).is_ok());
    // Few enough to be sent in few calls, and none of those that were copied is large.
    assert!(blocks.len() < 150, "{}", blocks.len());
    let copied = blocks.iter().filter(|block| format!("{block:?}").contains("shared: false"));
    assert!(copied.map(|block| block.as_ref().len()).all(|length| length <= 64 * 1024));
    let shared: usize = blocks.iter().map(|block| block.as_ref().len()).filter(|length| *length > 64 * 1024).sum();
    assert!(shared > 21 * 200_000, "long texts are shared");
    assert!(!format!("{blocks:?}").contains("part"));
}

#[test]
fn blocks_are_made_as_they_are_asked_for() {
    let mut list = long_conversation();
    let request = list.compose().unwrap();
    let body = request.body_parts("m", None, &Map::new());
    let expected = body.to_bytes();
    let mut blocks = body.into_blocks();
    assert_eq!(blocks.len(), expected.len());
    let first = blocks.next().unwrap();
    // The records outlive the conversation they were composed from.
    list.clear();
    drop((list, request));
    let mut joined = first.as_ref().to_vec();
    joined.extend(blocks.flat_map(|block| block.as_ref().to_vec()));
    assert!(joined == expected, "the blocks differ from the body");
}
