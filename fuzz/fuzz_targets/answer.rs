//! Any answer of a model server gives the same reply or failure, however the network cuts it, and its text is what was
//! handed out.
#![no_main]

use libfuzzer_sys::fuzz_target;
use runvil_client::answer::AnswerReader;
use runvil_core::failure::ModelFailure;
use runvil_core::reply::Reply;

/// Reads an answer in pieces of the given lengths, which repeat.
fn read(mut bytes: &[u8], declares_stream: bool, lengths: &[usize]) -> (Result<Reply, ModelFailure>, Vec<String>) {
    let mut reader = AnswerReader::new(declares_stream);
    let mut texts = Vec::new();
    let mut keep = |text: &str| texts.push(text.to_owned());
    let mut lengths = lengths.iter().cycle();
    let result = loop {
        if bytes.is_empty() {
            break reader.finish(&mut keep);
        }
        let (piece, rest) = bytes.split_at(bytes.len().min(*lengths.next().unwrap_or(&bytes.len())));
        bytes = rest;
        match reader.push(piece, &mut keep) {
            Ok(false) => {}
            Ok(true) => break reader.finish(&mut keep),
            Err(failure) => break Err(failure),
        }
    };
    // Times differ from one reading to the next.
    (result.map(|reply| Reply { metrics: None, ..reply }), texts)
}

fuzz_target!(|input: (bool, u8, u8, &[u8])| {
    let (declares_stream, first, second, bytes) = input;
    let whole = read(bytes, declares_stream, &[bytes.len().max(1)]);
    assert_eq!(read(bytes, declares_stream, &[1]), whole);
    assert_eq!(read(bytes, declares_stream, &[usize::from(first) + 1, usize::from(second) + 1]), whole);
    let (result, texts) = whole;
    assert!(texts.iter().all(|text| !text.is_empty()));
    match result {
        Ok(reply) => assert_eq!(reply.text.unwrap_or_default(), texts.concat()),
        Err(failure) => assert!(!failure.message().is_empty()),
    }
});
