//! The estimate of composed requests, and the check against the window.

use serde_json::{Value, json};

use crate::support::{calls, list, parts, system, tool, user};

fn estimate(records: &[Value]) -> u64 {
    let mut list = list(records);
    let request = list.compose().unwrap();
    assert_eq!(list.estimate(), request.estimate());
    request.estimate()
}

#[test]
fn counts_bytes_once_and_messages_after_merging() {
    let text = |count: usize| user("x".repeat(count));
    for (case, records, expected) in [
        ("PRE-01", vec![text(100_000)], 25_004),
        ("PRE-02", vec![text(396)], 103),
        ("PRE-13", vec![text(3), json!({"role": "assistant", "content": "abc"}), text(3)], 14),
        ("PRE-14", vec![user("é".repeat(100))], 54),
        ("PRE-14", vec![text(100)], 29),
        ("PRE-14", vec![user("🦀".repeat(100))], 104),
        ("PRE-14", vec![user("\n\"".repeat(50))], 29),
        ("PRE-15", vec![text(10), text(10)], 9),
        (
            "PRE-16",
            vec![system("You are terse."), system("Answer in French."), user("Hello."), user("What time is it?")],
            22,
        ),
        ("PRE-17 PRE-21", vec![user(parts(&["t:look", &format!("i:{}", "u".repeat(10_000))]))], 5),
        ("PRE-18", vec![user(parts(&["t:look"])), user("abcdef")], 7),
        ("PRE-20", vec![user("hi"), calls("", &["call_1"]), tool("call_1", "echoed: hi")], 38),
        ("PRE-27", vec![user("")], 4),
        ("MET-28 PRE-21", vec![json!({"role": "user", "content": "", "name": "bob", "meta": "x".repeat(4000)})], 4),
    ] {
        assert_eq!(estimate(&records), expected, "{case}");
    }
    // PRE-19: the serialized call is 93 bytes, whatever the visible text.
    let mut open = list(&[calls("", &["call_1"])]);
    assert_eq!(open.estimate(), 27);
}

#[test]
fn admits_up_to_the_window() {
    for (case, bytes, context, max_tokens, admitted) in [
        ("PRE-01", 100_000, 4096, None, false),
        ("PRE-03", 396, 123, Some(20), true),
        ("PRE-04", 396, 122, Some(20), false),
        ("PRE-05", 14_323, 4096, None, true),
        ("PRE-05", 14_324, 4096, None, false),
        ("PRE-06", 12_000, 4096, Some(1000), true),
        ("PRE-06", 12_371, 4096, Some(1000), true),
        ("PRE-06", 12_372, 4096, Some(1000), false),
        ("PRE-07", 12_400, 4096, None, true),
        ("PRE-08", 400, 4096, Some(100_000), true),
        ("PRE-08", 8_179, 4096, Some(100_000), true),
        ("PRE-08", 8_180, 4096, Some(100_000), false),
        ("PRE-09", 28_659, 8192, None, true),
        ("PRE-09", 28_660, 8192, None, false),
    ] {
        let request = list(&[user("x".repeat(bytes))]).compose().unwrap();
        let precheck = request.precheck(context, max_tokens);
        assert_eq!(precheck.admitted, admitted, "{case}: {precheck:?}");
        assert_eq!(precheck.total, precheck.count + precheck.reserve);
    }
}

#[test]
fn names_the_reason() {
    // FAI-02 to FAI-05
    use runvil_core::precheck::{OverflowReason, exhausted_message};
    assert_eq!(
        exhausted_message(OverflowReason::Precheck.as_str()),
        "context exhausted: the request precheck overflowed the model's context window"
    );
    assert_eq!(
        exhausted_message(OverflowReason::Provider.as_str()),
        "context exhausted: the provider rejected the request as exceeding the model's context window"
    );
    assert_eq!(exhausted_message("manual"), "context exhausted: manual");
    assert_eq!(exhausted_message(""), "context exhausted: ");
}
