//! The event stream decoder.

use std::ops::ControlFlow;

use proptest::prelude::*;
use runvil_client::sse::{Decoder, Event};

type Events = Vec<(Vec<u8>, Vec<u8>)>;

/// Decodes pieces of a stream.
fn decode<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Events {
    let mut events = Vec::new();
    let mut decoder = Decoder::new();
    let mut keep = |event: Event<'_>| {
        events.push((event.kind.to_vec(), event.data.to_vec()));
        ControlFlow::<()>::Continue(())
    };
    for piece in pieces {
        assert!(decoder.push(piece, &mut keep).is_continue());
    }
    assert!(decoder.finish(&mut keep).is_continue());
    events
}

/// A second decoder, of the standard's words: it sees the whole stream at once.
fn decode_plainly(stream: &[u8]) -> Events {
    let stream = stream.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(stream);
    let mut lines = vec![Vec::new()];
    let mut rest = stream.iter().peekable();
    while let Some(byte) = rest.next() {
        match byte {
            b'\r' => {
                rest.next_if_eq(&&b'\n');
                lines.push(Vec::new());
            }
            b'\n' => lines.push(Vec::new()),
            byte => lines.last_mut().unwrap().push(*byte),
        }
    }
    lines.push(Vec::new());
    let mut events = Vec::new();
    let (mut kind, mut data) = (Vec::new(), Vec::new());
    for line in lines {
        if line.is_empty() {
            if !data.is_empty() {
                events.push((kind.clone(), data.join(&b'\n')));
            }
            kind.clear();
            data.clear();
            continue;
        }
        let mut fields = line.splitn(2, |byte| *byte == b':');
        let field = fields.next().unwrap();
        let value = fields.next().unwrap_or_default();
        let value = value.strip_prefix(b" ").unwrap_or(value).to_vec();
        match field {
            b"data" => data.push(value),
            b"event" => kind = value,
            b"error" => {
                kind = b"error".to_vec();
                data.push(value);
            }
            _ => {}
        }
    }
    events
}

/// Streams of lines that matter, with every line end and some noise.
fn streams() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        4 => Just(&b"data: {\"a\":1}"[..]),
        1 => Just(&b"data:x"[..]),
        1 => Just(&b"data"[..]),
        1 => Just(&b"data:  two"[..]),
        1 => Just(&b"data: \xC3\xA9"[..]),
        1 => Just(&b"data: [DONE]"[..]),
        1 => Just(&b": comment"[..]),
        1 => Just(&b":"[..]),
        1 => Just(&b"event: error"[..]),
        1 => Just(&b"error: {}"[..]),
        1 => Just(&b"id: 7"[..]),
        1 => Just(&b"\xEF\xBB\xBF"[..]),
        1 => Just(&b"nonsense"[..]),
        4 => Just(&b"\n"[..]),
        2 => Just(&b"\r\n"[..]),
        2 => Just(&b"\r"[..]),
        2 => Just(&b"\n\n"[..]),
    ];
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn any_split_gives_the_same_events(stream in streams(), cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12)) {
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(stream.len() + 1)).collect();
        cuts.extend([0, stream.len()]);
        cuts.sort_unstable();
        let pieces = cuts.windows(2).map(|pair| &stream[pair[0]..pair[1]]);
        let events = decode(pieces);
        prop_assert_eq!(&events, &decode([&stream[..]]));
        prop_assert_eq!(&events, &decode(stream.chunks(1)));
        prop_assert_eq!(&events, &decode_plainly(&stream));
    }
}

#[test]
fn every_kind_of_line_is_read() {
    let stream = b"\xEF\xBB\xBF: hello\n\ndata: one\n\nevent: error\rdata: two\r\rdata: a\r\ndata:b\r\nid: 1\r\n\r\ndata\n\ndata: last";
    let expected: Vec<(&[u8], &[u8])> =
        vec![(b"", b"one"), (b"error", b"two"), (b"", b"a\nb"), (b"", b""), (b"", b"last")];
    let events = decode([&stream[..]]);
    let events: Vec<(&[u8], &[u8])> = events.iter().map(|(kind, data)| (&kind[..], &data[..])).collect();
    assert_eq!(events, expected);
}

#[test]
fn a_break_drops_the_rest() {
    let mut decoder = Decoder::new();
    let mut seen = 0;
    let flow = decoder.push(b"data: 1\n\ndata: 2\n\n", |event| {
        seen += 1;
        ControlFlow::Break(event.data.to_vec())
    });
    assert_eq!(flow, ControlFlow::Break(b"1".to_vec()));
    assert_eq!(seen, 1);
}
