//! How an answered round is judged.

use runvil_core::judge::{EmptyReply, Judgement, judge};
use runvil_core::reply::{CallArguments, Reply, ReplyCall, ReplySource};

fn reply(text: Option<&str>, finish_reason: Option<&str>) -> Reply {
    Reply { text: text.map(Into::into), finish_reason: finish_reason.map(Into::into), ..Reply::default() }
}

fn empty(message: &'static str, finish_reason: Option<&str>) -> Judgement {
    Judgement::Empty(EmptyReply { message, finish_reason: finish_reason.map(Into::into) })
}

const E1: &str = "the model replied with no text and no tool calls";
const E2: &str = "the model replied with no text and no tool calls: reasoning content was present but ignored";

#[test]
fn judges_by_product() {
    // LOP-02, LOP-29, EMP-15, EMP-16
    for finish_reason in [None, Some("stop"), Some("length"), Some("content_filter"), Some("weird")] {
        let judged = judge(&reply(Some(" partial\n"), finish_reason), 0);
        assert_eq!(judged, Judgement::Terminal(" partial\n".into()));
    }
    // TUL-13, TUL-14, TUL-15, EMP-17, EMP-18, LOP-28
    for text in [None, Some(""), Some("thinking...")] {
        let mut asking = reply(text, Some("stop"));
        asking.tool_calls = vec![ReplyCall { id: "c1".into(), name: "echo".into(), arguments: CallArguments::Absent }];
        assert_eq!(judge(&asking, 0), Judgement::ToolRound);
    }
}

#[test]
fn judges_empty_replies_by_finish_reason() {
    // EMP-01, EMP-02, EMP-03, EMP-04, EMP-05, EMP-14
    for text in [None, Some(""), Some(" \n\t ")] {
        for finish_reason in [None, Some("stop"), Some("length")] {
            assert_eq!(judge(&reply(text, finish_reason), 0), empty(E1, finish_reason));
        }
    }
    // EMP-07, EMP-08, EMP-28
    assert_eq!(judge(&reply(None, Some("stop")), 1), Judgement::CleanExit);
    assert_eq!(judge(&reply(Some(" "), Some("stop")), 7), Judgement::CleanExit);
    // EMP-11, EMP-12, EMP-13, EMP-23
    for finish_reason in [None, Some("length"), Some("content_filter"), Some("tool_calls"), Some("STOP")] {
        assert_eq!(judge(&reply(None, finish_reason), 1), empty(E1, finish_reason));
    }
}

#[test]
fn names_the_phrase_of_an_empty_reply() {
    // EMP-06
    let mut reasoned = reply(None, Some("stop"));
    reasoned.reasoning = Some("hmm".into());
    assert_eq!(judge(&reasoned, 0), empty(E2, Some("stop")));
    assert_eq!(judge(&reasoned, 1), Judgement::CleanExit);
    // EMP-19, EMP-20
    for text in [None, Some(""), Some(" \n")] {
        let mut built = reply(text, Some("length"));
        built.source = ReplySource::Host;
        assert_eq!(judge(&built, 0), empty("empty model reply", Some("length")));
    }
}
