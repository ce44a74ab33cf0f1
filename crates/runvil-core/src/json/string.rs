//! JSON strings in canonical form: what to escape, how to find it quickly, and how to read it back.

use std::borrow::Cow;

use wide::u8x16;

/// Bytes looked through at once.
const BLOCK: usize = 16;

/// Whether the byte cannot stand for itself in a JSON string.
pub(crate) const fn is_special(byte: u8) -> bool {
    byte < 0x20 || byte == b'"' || byte == b'\\'
}

/// A bit for each byte that must be escaped, the first byte's lowest.
fn special_mask(block: [u8; BLOCK]) -> u32 {
    let bytes = u8x16::new(block);
    // One bit moved, the control characters and the quote are all up to 0x20, and nothing else is.
    let moved = bytes ^ u8x16::splat(b'"' ^ 0x20);
    let control_or_quote = moved.min(u8x16::splat(0x20)).simd_eq(moved);
    (control_or_quote | bytes.simd_eq(u8x16::splat(b'\\'))).to_bitmask()
}

/// The position of the first byte from `from` on that cannot stand for itself in a JSON string.
#[inline]
pub(crate) fn find_special(bytes: &[u8], from: usize) -> Option<usize> {
    let mut at = from;
    let mut rest = bytes.get(from..)?;
    while let Some((block, behind)) = rest.split_first_chunk() {
        let mask = special_mask(*block);
        if mask != 0 {
            return Some(at + mask.trailing_zeros() as usize);
        }
        at += BLOCK;
        rest = behind;
    }
    rest.iter().position(|byte| is_special(*byte)).map(|offset| at + offset)
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
    let bytes = inside.as_bytes();
    let Some(mut at) = find_special(bytes, 0) else {
        return Some(Cow::Borrowed(inside));
    };
    let mut out = String::with_capacity(inside.len());
    let mut done = 0;
    loop {
        out.push_str(&inside[done..at]);
        let (character, length) = read_escape(&bytes[at..])?;
        out.push(character);
        done = at + length;
        let Some(next) = find_special(bytes, done) else {
            out.push_str(&inside[done..]);
            return Some(Cow::Owned(out));
        };
        at = next;
    }
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
