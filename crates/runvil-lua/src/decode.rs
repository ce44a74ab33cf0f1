//! JSON text of an author, decoded within the section's memory and the reach of its cancel flag.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value as Json};

use crate::json::POLL_WORK;
use crate::section::Section;

/// How many values are decoded between two looks at the cancel flag and the budget.
const CANCEL_POLL: usize = 512;

/// The memory one decoded value takes besides its text, in bytes.
const VALUE_BYTES: usize = std::mem::size_of::<Json>();

/// Why a text does not decode.
#[derive(Debug)]
pub(crate) enum Undecodable {
    /// It is no JSON: what and where, in `serde_json`'s words.
    Invalid(String),
    /// It holds more than the memory ceiling allows.
    Memory,
    /// The run was cancelled meanwhile.
    Cancelled,
}

/// Decodes a text. Of a repeated key the last value counts, at the place of the first.
pub(crate) fn decode(section: &Section, text: &[u8]) -> Result<Json, Undecodable> {
    let mut decoder = Decoder { section, left: section.memory_ceiling(), until_poll: CANCEL_POLL, stopped: None };
    let mut source = serde_json::Deserializer::from_slice(text);
    let value = DeserializeSeed::deserialize(&mut decoder, &mut source).and_then(|value| source.end().map(|()| value));
    match (value, decoder.stopped) {
        (Ok(value), _) => Ok(value),
        (Err(_), Some(reason)) => Err(reason),
        (Err(error), None) => Err(Undecodable::Invalid(error.to_string())),
    }
}

struct Decoder<'s> {
    section: &'s Section,
    /// Bytes the rest may take.
    left: usize,
    until_poll: usize,
    /// Why decoding was given up, when it was not for the text.
    stopped: Option<Undecodable>,
}

impl Decoder<'_> {
    fn spend<E: Error>(&mut self, bytes: usize) -> Result<(), E> {
        self.until_poll -= 1;
        if self.until_poll == 0 {
            self.until_poll = CANCEL_POLL;
            if self.section.must_stop(POLL_WORK) {
                self.stopped = Some(Undecodable::Cancelled);
                return Err(E::custom("cancelled"));
            }
        }
        let Some(left) = self.left.checked_sub(VALUE_BYTES + bytes) else {
            self.stopped = Some(Undecodable::Memory);
            return Err(E::custom("too large"));
        };
        self.left = left;
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for &mut Decoder<'_> {
    type Value = Json;

    fn deserialize<D: Deserializer<'de>>(self, source: D) -> Result<Json, D::Error> {
        source.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for &mut Decoder<'_> {
    type Value = Json;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<Json, E> {
        self.spend(0)?;
        Ok(Json::Null)
    }

    fn visit_bool<E: Error>(self, flag: bool) -> Result<Json, E> {
        self.spend(0)?;
        Ok(Json::Bool(flag))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Json, E> {
        self.spend(0)?;
        Ok(number.into())
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Json, E> {
        self.spend(0)?;
        Ok(number.into())
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Json, E> {
        self.spend(0)?;
        Ok(Number::from_f64(number).map_or(Json::Null, Json::Number))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Json, E> {
        self.spend(text.len())?;
        Ok(text.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Json, A::Error> {
        self.spend(0)?;
        let mut items = Vec::new();
        while let Some(item) = access.next_element_seed(&mut *self)? {
            items.push(item);
        }
        Ok(Json::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Json, A::Error> {
        self.spend(0)?;
        let mut entries = Map::new();
        while let Some(key) = access.next_key::<String>()? {
            self.spend(key.len())?;
            let value = access.next_value_seed(&mut *self)?;
            entries.insert(key, value);
        }
        Ok(Json::Object(entries))
    }
}
