//! Which type a scalar has: the core schema of YAML 1.2.

/// The type of a scalar and its value where the text alone does not give it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Scalar {
    Null,
    Boolean(bool),
    Integer(Integer),
    Float(f64),
    String,
}

/// An integer of any size; beyond 64 bits only its sign is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Integer {
    pub(crate) negative: bool,
    /// The absolute value; `None` beyond 64 bits.
    pub(crate) magnitude: Option<u64>,
}

impl Integer {
    /// The value when it is not negative and fits.
    pub(crate) fn to_u64(self) -> Option<u64> {
        self.magnitude.filter(|&magnitude| !self.negative || magnitude == 0)
    }

    /// The value when it fits.
    pub(crate) fn to_i64(self) -> Option<i64> {
        let magnitude = i128::from(self.magnitude?);
        i64::try_from(if self.negative { -magnitude } else { magnitude }).ok()
    }
}

impl Scalar {
    /// The type of an unquoted scalar without a tag.
    pub(crate) fn of_plain(text: &str) -> Self {
        match text {
            "" | "~" | "null" | "Null" | "NULL" => return Self::Null,
            "true" | "True" | "TRUE" => return Self::Boolean(true),
            "false" | "False" | "FALSE" => return Self::Boolean(false),
            _ => {}
        }
        if let Some(integer) = integer(text) {
            return Self::Integer(integer);
        }
        float(text).map_or(Self::String, Self::Float)
    }

    /// The type of a scalar with a core schema tag; `None` when the text does not fit the tag or the tag is unknown.
    pub(crate) fn of_tagged(suffix: &str, text: &str) -> Option<Self> {
        if suffix == "str" {
            return Some(Self::String);
        }
        match (suffix, Self::of_plain(text)) {
            ("null", scalar @ Self::Null)
            | ("bool", scalar @ Self::Boolean(_))
            | ("int", scalar @ Self::Integer(_))
            | ("float", scalar @ Self::Float(_)) => Some(scalar),
            ("float", Self::Integer(_)) => float(text).map(Self::Float),
            _ => None,
        }
    }
}

fn integer(text: &str) -> Option<Integer> {
    let (negative, unsigned) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let (digits, radix) = match unsigned.get(..2) {
        Some("0x") if unsigned.len() == text.len() => (&unsigned[2..], 16),
        Some("0o") if unsigned.len() == text.len() => (&unsigned[2..], 8),
        _ => (unsigned, 10),
    };
    if digits.is_empty() || !digits.chars().all(|char| char.is_digit(radix)) {
        return None;
    }
    Some(Integer { negative, magnitude: u64::from_str_radix(digits, radix).ok() })
}

fn float(text: &str) -> Option<f64> {
    let (sign, unsigned) = match text.as_bytes().first()? {
        b'-' => (-1.0, &text[1..]),
        b'+' => (1.0, &text[1..]),
        _ => (1.0, text),
    };
    match unsigned {
        ".inf" | ".Inf" | ".INF" => return Some(sign * f64::INFINITY),
        ".nan" | ".NaN" | ".NAN" if unsigned.len() == text.len() => return Some(f64::NAN),
        _ => {}
    }
    // Rust's own grammar is wider: it takes names such as `inf` and forms such as `1.e5`, of which YAML wants only the latter.
    let numeric = unsigned.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-'));
    let starts = unsigned.starts_with(|char: char| char.is_ascii_digit() || char == '.');
    if numeric && starts { text.parse().ok() } else { None }
}
