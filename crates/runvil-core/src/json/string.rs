//! JSON strings in canonical form: what to escape, how to find it quickly, and how to read it back.

use std::borrow::Cow;

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGHS: u64 = 0x8080_8080_8080_8080;
const QUOTES: u64 = ONES * 0x22;
const BACKSLASHES: u64 = ONES * 0x5c;
/// Bytes looked through at once; the compiler turns the loop over them into vector instructions.
const BLOCK: usize = 32;

/// The high bit of every byte that must be escaped: a quote, a backslash or a control character. Bits above the first
/// such byte may be wrong.
fn special_bits(word: u64) -> u64 {
    let has_zero = |word: u64| word.wrapping_sub(ONES) & !word & HIGHS;
    let control = word.wrapping_sub(ONES * 0x20) & !word & HIGHS;
    control | has_zero(word ^ QUOTES) | has_zero(word ^ BACKSLASHES)
}

/// Whether the byte cannot stand for itself in a JSON string.
pub(crate) const fn is_special(byte: u8) -> bool {
    byte < 0x20 || byte == b'"' || byte == b'\\'
}

/// The position of the first byte from `from` on that cannot stand for itself in a JSON string.
pub(crate) fn find_special(bytes: &[u8], from: usize) -> Option<usize> {
    let mut at = from;
    // Short strings end in the first words; long ones are looked through a block at a time.
    for _ in 0..2 {
        match look_at_word(bytes, at) {
            Look::Found(found) => return Some(found),
            Look::Plain => at += 8,
            Look::End => return None,
        }
    }
    while let Some(block) = bytes.get(at..at + BLOCK) {
        if block.iter().fold(false, |any, byte| any | is_special(*byte)) {
            break;
        }
        at += BLOCK;
    }
    loop {
        match look_at_word(bytes, at) {
            Look::Found(found) => return Some(found),
            Look::Plain => at += 8,
            Look::End => return None,
        }
    }
}

/// Whether no byte is a control character.
pub(crate) fn has_no_control(bytes: &[u8]) -> bool {
    bytes.chunks(4096).all(|chunk| chunk.iter().fold(u8::MAX, |least, byte| least.min(*byte)) >= 0x20)
}

/// The position of the first quote or backslash from `from` on.
pub(crate) fn find_end(bytes: &[u8], from: usize) -> Option<usize> {
    let mut at = from;
    // Short strings end in the first words.
    for _ in 0..2 {
        let Some(&word) = bytes.get(at..)?.first_chunk() else { break };
        let bits = special_bits(u64::from_le_bytes(word));
        if bits != 0 {
            return Some(at + (bits.trailing_zeros() / 8) as usize);
        }
        at += 8;
    }
    memchr::memchr2(b'"', b'\\', &bytes[at..]).map(|found| at + found)
}

/// What eight bytes hold, or fewer at the end of the text.
enum Look {
    Found(usize),
    Plain,
    End,
}

fn look_at_word(bytes: &[u8], at: usize) -> Look {
    let rest = bytes.get(at..).unwrap_or(&[]);
    if let Some(&word) = rest.first_chunk() {
        let bits = special_bits(u64::from_le_bytes(word));
        return if bits == 0 { Look::Plain } else { Look::Found(at + (bits.trailing_zeros() / 8) as usize) };
    }
    rest.iter().position(|byte| is_special(*byte)).map_or(Look::End, |offset| Look::Found(at + offset))
}

/// Appends the text in canonical form, without the quotes.
pub(crate) fn push_escaped(out: &mut String, text: &str) {
    let bytes = text.as_bytes();
    let mut done = 0;
    while let Some(at) = find_special(bytes, done) {
        out.push_str(&text[done..at]);
        push_escape(out, bytes[at]);
        done = at + 1;
    }
    out.push_str(&text[done..]);
}

fn push_escape(out: &mut String, byte: u8) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    match byte {
        b'"' => out.push_str("\\\""),
        b'\\' => out.push_str("\\\\"),
        b'\n' => out.push_str("\\n"),
        b'\r' => out.push_str("\\r"),
        b'\t' => out.push_str("\\t"),
        0x08 => out.push_str("\\b"),
        0x0c => out.push_str("\\f"),
        control => {
            out.push_str("\\u00");
            out.push(char::from(HEX[usize::from(control >> 4)]));
            out.push(char::from(HEX[usize::from(control & 15)]));
        }
    }
}

/// What the inside of a JSON string says, escapes resolved. `None` when an escape is broken.
pub(crate) fn unescape(inside: &str) -> Option<Cow<'_, str>> {
    let Some(first) = memchr::memchr(b'\\', inside.as_bytes()) else {
        return Some(Cow::Borrowed(inside));
    };
    let mut out = String::with_capacity(inside.len());
    out.push_str(&inside[..first]);
    let mut rest = &inside[first..];
    while !rest.is_empty() {
        let (character, length) = read_escape(rest.as_bytes())?;
        out.push(character);
        rest = &rest[length..];
        let next = memchr::memchr(b'\\', rest.as_bytes()).unwrap_or(rest.len());
        out.push_str(&rest[..next]);
        rest = &rest[next..];
    }
    Some(Cow::Owned(out))
}

/// The character that an escape at the start of `bytes` stands for, and the escape's length.
pub(crate) fn read_escape(bytes: &[u8]) -> Option<(char, usize)> {
    let character = match bytes.get(1)? {
        b'"' => '"',
        b'\\' => '\\',
        b'/' => '/',
        b'b' => '\u{8}',
        b'f' => '\u{c}',
        b'n' => '\n',
        b'r' => '\r',
        b't' => '\t',
        b'u' => return read_unicode_escape(bytes),
        _ => return None,
    };
    Some((character, 2))
}

fn read_unicode_escape(bytes: &[u8]) -> Option<(char, usize)> {
    let first = hex4(bytes.get(2..6)?)?;
    if !(0xd800..0xe000).contains(&first) {
        return Some((char::from_u32(first)?, 6));
    }
    if first >= 0xdc00 || bytes.get(6..8)? != b"\\u" {
        return None;
    }
    let second = hex4(bytes.get(8..12)?)?;
    if !(0xdc00..0xe000).contains(&second) {
        return None;
    }
    Some((char::from_u32(0x1_0000 + ((first - 0xd800) << 10) + (second - 0xdc00))?, 12))
}

fn hex4(digits: &[u8]) -> Option<u32> {
    digits.iter().try_fold(0, |value, digit| Some(value * 16 + char::from(*digit).to_digit(16)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn escaped(text: &str) -> String {
        let mut out = String::new();
        push_escaped(&mut out, text);
        out
    }

    #[test]
    fn escapes_as_serde_json_does() {
        for code in 0..=0x2ff_u32 {
            let text = format!("ab{}cdefghij", char::from_u32(code).unwrap());
            assert_eq!(format!("\"{}\"", escaped(&text)), serde_json::to_string(&text).unwrap());
            assert_eq!(unescape(&escaped(&text)).unwrap(), text);
        }
    }

    #[test]
    fn finds_every_special_byte_at_every_offset() {
        for special in (0..0x20).chain([b'"', b'\\']) {
            for offset in 0..40 {
                let mut bytes = vec![0xc3; 40];
                bytes[offset] = special;
                assert_eq!(find_special(&bytes, 0), Some(offset));
                assert_eq!(find_special(&bytes, offset + 1), None);
            }
        }
        for plain in (0x20..=0xff).filter(|byte| !is_special(*byte)) {
            assert_eq!(find_special(&[plain; 19], 0), None, "{plain:#x}");
        }
    }

    #[test]
    fn reads_every_escape_and_refuses_broken_ones() {
        assert_eq!(unescape(r#"\"\\\/\b\f\n\r\t\u0041\ud83e\udd80\u0000"#).unwrap(), "\"\\/\u{8}\u{c}\n\r\tA🦀\0");
        for broken in [r"\", r"\x", r"\u", r"\u12", r"\u12g4", r"\ud800", r"\ud800\n", r"\udc00", r"\ud800\ud800"] {
            assert_eq!(unescape(broken), None, "{broken}");
        }
    }
}
