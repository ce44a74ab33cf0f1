//! The shapes of a provider's answer, whole or streamed, as far as the client reads them.
//!
//! What a reply is made of must have the right type. What only describes it (`model`, `usage`, timings, reasoning) may
//! be anything: it is kept as it came and judged later, or ignored.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

/// One JSON object of an answer: the whole of it, or one event of a stream.
#[derive(serde::Deserialize)]
pub(crate) struct Chunk<'a> {
    #[serde(default, borrow)]
    pub(crate) choices: Option<Vec<Object<Choice<'a>>>>,
    #[serde(default, borrow)]
    pub(crate) model: Text<'a>,
    /// `error` when the object is one itself, which some servers send in place of an object that holds one.
    #[serde(default, borrow)]
    pub(crate) object: Text<'a>,
    pub(crate) error: Option<Value>,
    pub(crate) usage: Option<Value>,
    pub(crate) timings: Option<Value>,
    pub(crate) metrics: Option<Value>,
}

impl Chunk<'_> {
    /// Whether the object reports an error instead of a part of a reply.
    pub(crate) fn is_error(&self) -> bool {
        let holds_one = match &self.error {
            None | Some(Value::Null | Value::Bool(false)) => false,
            Some(Value::String(text)) => !text.is_empty(),
            Some(Value::Object(map)) => !map.is_empty(),
            Some(_) => true,
        };
        holds_one || self.object.as_deref() == Some("error")
    }
}

/// One of the answer's alternatives.
#[derive(serde::Deserialize)]
pub(crate) struct Choice<'a> {
    #[serde(default)]
    pub(crate) index: Option<u64>,
    /// What a stream adds.
    #[serde(default, borrow)]
    pub(crate) delta: Option<Object<Message<'a>>>,
    /// The whole message.
    #[serde(default, borrow)]
    pub(crate) message: Option<Object<Message<'a>>>,
    #[serde(default, borrow)]
    pub(crate) finish_reason: Text<'a>,
    /// Where some providers put the token counts of a stream.
    pub(crate) usage: Option<Value>,
}

/// A message, or what is added to one.
#[derive(serde::Deserialize)]
pub(crate) struct Message<'a> {
    #[serde(default, borrow)]
    pub(crate) content: Option<Content<'a>>,
    #[serde(default, borrow)]
    pub(crate) reasoning_content: Text<'a>,
    #[serde(default, borrow)]
    pub(crate) reasoning: Text<'a>,
    #[serde(default, borrow)]
    pub(crate) thinking: Text<'a>,
    #[serde(default)]
    pub(crate) reasoning_details: Details,
    #[serde(default, borrow)]
    pub(crate) refusal: Text<'a>,
    #[serde(default, borrow)]
    pub(crate) tool_calls: Option<Vec<Object<Call<'a>>>>,
}

impl Message<'_> {
    /// The reasoning text, empty when there is none. Servers that give it under several names give the same again.
    pub(crate) fn reasoning(&self) -> &str {
        let named = [&self.reasoning_content, &self.reasoning, &self.thinking].into_iter().filter_map(Text::as_deref);
        named.chain([self.reasoning_details.0.as_str()]).find(|text| !text.is_empty()).unwrap_or_default()
    }
}

/// A tool call, or a piece of one.
#[derive(serde::Deserialize)]
pub(crate) struct Call<'a> {
    #[serde(default)]
    pub(crate) index: Option<u64>,
    #[serde(default, borrow)]
    pub(crate) id: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    pub(crate) function: Option<Object<Function<'a>>>,
}

/// What a tool call calls.
#[derive(serde::Deserialize)]
pub(crate) struct Function<'a> {
    #[serde(default, borrow)]
    pub(crate) name: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    pub(crate) arguments: Option<Arguments<'a>>,
}

/// The arguments of a call: JSON text, a piece of it, or a JSON value.
pub(crate) enum Arguments<'a> {
    Text(Cow<'a, str>),
    Value(Value),
}

/// Visible text, with the reasoning that some providers put between its parts.
#[derive(Default)]
pub(crate) struct Content<'a> {
    pub(crate) text: Cow<'a, str>,
    pub(crate) reasoning: String,
}

/// A part of a content list.
#[derive(serde::Deserialize)]
struct Part<'a> {
    #[serde(default, borrow)]
    text: Text<'a>,
    #[serde(default)]
    thinking: Option<Thinking>,
}

/// A reasoning part, whose text may itself be a list of parts.
struct Thinking(String);

/// The texts and summaries in a list of reasoning parts, joined; whatever else it holds, or is, counts for nothing.
#[derive(Default)]
pub(crate) struct Details(String);

/// A JSON object. Serde alone would take a list for a struct as well.
pub(crate) struct Object<T>(pub(crate) T);

/// A text; any other value counts as none.
#[derive(Default)]
pub(crate) struct Text<'a>(Option<Cow<'a, str>>);

impl Text<'_> {
    pub(crate) fn as_deref(&self) -> Option<&str> {
        self.0.as_deref()
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ObjectVisitor<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for ObjectVisitor<T> {
            type Value = Object<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON object")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(Object)
            }
        }
        deserializer.deserialize_map(ObjectVisitor(PhantomData))
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextVisitor;
        impl<'de> Visitor<'de> for TextVisitor {
            type Value = Text<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("any value")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Text(Some(Cow::Borrowed(text))))
            }

            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Text(Some(Cow::Owned(text.to_owned()))))
            }

            fn visit_unit<E>(self) -> Result<Self::Value, E> {
                Ok(Text(None))
            }

            fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
                Ok(Text(None))
            }

            fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
                Ok(Text(None))
            }

            fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> {
                Ok(Text(None))
            }

            fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
                Ok(Text(None))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
                while list.next_element::<IgnoredAny>()?.is_some() {}
                Ok(Text(None))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(Text(None))
            }
        }
        deserializer.deserialize_any(TextVisitor)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Content<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ContentVisitor;
        impl<'de> Visitor<'de> for ContentVisitor {
            type Value = Content<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string, a list of content parts or null")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Content { text: Cow::Borrowed(text), reasoning: String::new() })
            }

            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Content { text: Cow::Owned(text.to_owned()), reasoning: String::new() })
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
                let mut content = Content::default();
                while let Some(Object(part)) = list.next_element::<Object<Part<'de>>>()? {
                    if let Some(text) = part.text.as_deref() {
                        content.text.to_mut().push_str(text);
                    }
                    if let Some(Thinking(text)) = part.thinking {
                        content.reasoning.push_str(&text);
                    }
                }
                Ok(content)
            }
        }
        deserializer.deserialize_any(ContentVisitor)
    }
}

impl<'de> Deserialize<'de> for Details {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Value::Array(parts) = Value::deserialize(deserializer)? else { return Ok(Self::default()) };
        let text = |part: &Value| part.get("text").or_else(|| part.get("summary"))?.as_str().map(str::to_owned);
        Ok(Self(parts.iter().filter_map(text).collect()))
    }
}

impl<'de> Deserialize<'de> for Thinking {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self(match Value::deserialize(deserializer)? {
            Value::String(text) => text,
            Value::Array(parts) => parts.iter().filter_map(|part| part.get("text")?.as_str()).collect(),
            _ => String::new(),
        }))
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Arguments<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ArgumentsVisitor;
        impl<'de> Visitor<'de> for ArgumentsVisitor {
            type Value = Arguments<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("JSON text, a JSON object or null")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Arguments::Text(Cow::Borrowed(text)))
            }

            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Arguments::Text(Cow::Owned(text.to_owned())))
            }

            fn visit_bool<E>(self, value: bool) -> Result<Self::Value, E> {
                Ok(Arguments::Value(value.into()))
            }

            fn visit_i64<E>(self, value: i64) -> Result<Self::Value, E> {
                Ok(Arguments::Value(value.into()))
            }

            fn visit_u64<E>(self, value: u64) -> Result<Self::Value, E> {
                Ok(Arguments::Value(value.into()))
            }

            fn visit_f64<E>(self, value: f64) -> Result<Self::Value, E> {
                Ok(Arguments::Value(value.into()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Self::Value, A::Error> {
                Value::deserialize(serde::de::value::SeqAccessDeserializer::new(list)).map(Arguments::Value)
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                Value::deserialize(MapAccessDeserializer::new(map)).map(Arguments::Value)
            }
        }
        deserializer.deserialize_any(ArgumentsVisitor)
    }
}

/// Why bytes are not an answer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Unreadable {
    /// They end in the middle of the JSON.
    CutShort,
    /// They are not JSON, or not of the right shape. The note is in our own words.
    Wrong(String),
}

impl Unreadable {
    /// What is wrong, in our own words; `what` names the bytes.
    pub(crate) fn note(&self, what: &str) -> String {
        match self {
            Self::CutShort => format!("{what} ends in the middle of its JSON"),
            Self::Wrong(note) => format!("{what} {note}"),
        }
    }
}

/// Reads one JSON object of an answer.
pub(crate) fn parse(bytes: &[u8]) -> Result<Chunk<'_>, Unreadable> {
    match serde_json::from_slice::<Object<Chunk<'_>>>(bytes) {
        Ok(Object(chunk)) => Ok(chunk),
        Err(error) if error.is_eof() => Err(Unreadable::CutShort),
        Err(error) if error.is_data() => Err(Unreadable::Wrong(misshapen(bytes))),
        Err(error) => {
            Err(Unreadable::Wrong(format!("is not valid JSON at line {}, column {}", error.line(), error.column())))
        }
    }
}

/// Names the place of JSON that has the wrong type, and the type it should have, without repeating any of its content.
fn misshapen(bytes: &[u8]) -> String {
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let Err(error) = serde_path_to_error::deserialize::<_, Object<Chunk<'_>>>(&mut deserializer) else {
        return String::from("has an unexpected shape");
    };
    let path = error.path().to_string();
    let reason = error.inner().to_string();
    // Serde puts what it found, which is the provider's, before what it expected, which is ours.
    let expected = reason
        .rsplit_once(", expected ")
        .map(|(_, expected)| expected.rsplit_once(" at line ").map_or(expected, |(expected, _)| expected));
    match (expected, path.as_str()) {
        (Some(expected), ".") => format!("must be {expected}"),
        (Some(expected), path) => format!("has a wrong `{path}`: it must be {expected}"),
        (None, ".") => String::from("has an unexpected shape"),
        (None, path) => format!("has a wrong `{path}`"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(json: &str) -> String {
        parse(json.as_bytes()).err().expect("the JSON is refused").note("response")
    }

    #[test]
    fn a_wrong_shape_is_named_without_its_content() {
        for (json, expected) in [
            ("[]", "response must be a JSON object"),
            ("\"hunter2\"", "response must be a JSON object"),
            (r#"{"choices":{}}"#, "response has a wrong `choices`: it must be a sequence"),
            (r#"{"choices":["hunter2"]}"#, "response has a wrong `choices[0]`: it must be a JSON object"),
            (
                r#"{"choices":[{"delta":{"content":5}}]}"#,
                "response has a wrong `choices[0].delta.content`: it must be a string, a list of content parts or null",
            ),
            (
                r#"{"choices":[{"message":{"tool_calls":[{"id":"hunter2, expected"},{"id":7}]}}]}"#,
                "response has a wrong `choices[0].message.tool_calls[1].id`: it must be a string",
            ),
            (
                r#"{"choices":[{"index":"hunter2, expected x"}]}"#,
                "response has a wrong `choices[0].index`: it must be u64",
            ),
            ("{\"choices\":\n nope}", "response is not valid JSON at line 2, column 3"),
            (r#"{"choices":["#, "response ends in the middle of its JSON"),
            ("", "response ends in the middle of its JSON"),
        ] {
            assert_eq!(note(json), expected, "{json}");
        }
    }

    #[test]
    fn what_only_describes_a_reply_may_be_anything() {
        let chunk = parse(
            br#"{"model":7,"object":[],"usage":"lots","timings":3,"metrics":[],"error":null,
                "choices":[{"finish_reason":{"a":1},"message":{"content":null,"reasoning":[1],"refusal":true}}]}"#,
        )
        .unwrap_or_else(|error| panic!("{error:?}"));
        assert!(!chunk.is_error());
        assert_eq!(chunk.model.as_deref(), None);
        let choice = &chunk.choices.unwrap()[0].0;
        assert_eq!(choice.finish_reason.as_deref(), None);
        assert!(choice.message.as_ref().unwrap().0.content.is_none());
    }

    #[test]
    fn content_parts_give_text_and_reasoning() {
        let chunk = parse(
            r#"{"choices":[{"message":{"content":[{"type":"thinking","thinking":[{"type":"text","text":"h\u00e9"}]},
                {"type":"text","text":"a\n"},{"type":"text","text":"b"}]}}]}"#
                .as_bytes(),
        )
        .unwrap_or_else(|error| panic!("{error:?}"));
        let choices = chunk.choices.unwrap();
        let content = choices[0].0.message.as_ref().unwrap().0.content.as_ref().unwrap();
        assert_eq!((content.text.as_ref(), content.reasoning.as_str()), ("a\nb", "hé"));
    }

    #[test]
    fn errors_are_told_from_parts_of_a_reply() {
        for (json, is_error) in [
            (r#"{"error":{"message":"x"}}"#, true),
            (r#"{"error":"x"}"#, true),
            (r#"{"object":"error","message":"x"}"#, true),
            (r#"{"error":null,"choices":[]}"#, false),
            (r#"{"error":{},"choices":[]}"#, false),
            (r#"{"error":"","object":"chat.completion.chunk"}"#, false),
        ] {
            assert_eq!(parse(json.as_bytes()).ok().unwrap().is_error(), is_error, "{json}");
        }
    }
}
