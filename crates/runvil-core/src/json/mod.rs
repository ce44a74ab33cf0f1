//! JSON text: canonical strings, one reader with one policy, and conversations read from bytes.
//!
//! The reader's policy, wherever JSON text comes in:
//!
//! - strings are UTF-8 without raw control characters; a surrogate escape without its partner is refused; `\u0000` is an
//!   ordinary character;
//! - integers fit 64 bits (signed or unsigned), or they are refused; `-0` and numbers with a fraction or an exponent are
//!   floats and must be finite;
//! - arrays and objects nest at most [`MAX_DEPTH`] levels deep;
//! - of a repeated key the last value counts, at the place of the first;
//! - anything that is not JSON by RFC 8259 (comments, trailing commas, `NaN`, a byte order mark) is refused.
//!
//! Text is written in `serde_json`'s compact form, which is called canonical here.

pub(crate) mod compact;
mod forms;
mod load;
mod message;
pub(crate) mod parse;
pub(crate) mod string;

pub use forms::record_form;
pub use load::{JsonForm, JsonLoadError, read_records};

/// The most levels of arrays and objects that a field's value may have, the value itself included.
pub const MAX_DEPTH: usize = 128;

/// Why a value with more levels than [`MAX_DEPTH`] is refused.
pub const TOO_DEEP: &str = "nesting is deeper than 128 levels";

/// Whether the value has at most [`MAX_DEPTH`] levels.
pub(crate) fn depth_fits(value: &serde_json::Value) -> bool {
    fn fits(value: &serde_json::Value, left: usize) -> bool {
        match value {
            serde_json::Value::Array(items) => left > 0 && items.iter().all(|item| fits(item, left - 1)),
            serde_json::Value::Object(map) => left > 0 && map.values().all(|item| fits(item, left - 1)),
            _ => true,
        }
    }
    fits(value, MAX_DEPTH)
}
