//! Estimators that know more than the specified one. All of them are off by default: they change which requests a
//! precheck admits.

use crate::list::Lineage;
use crate::record::Record;
use crate::request::Request;
use crate::tools::ToolList;
use crate::wire::{Form, compact};

/// The shortest run of base64 characters that the detailed estimator counts as one token a character, in bytes.
pub const DENSE_RUN: usize = 256;

/// How the tokens of a request are counted before it is sent, where no anchor applies.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Estimator {
    /// The specified estimate: see [`crate::precheck::estimate_tokens`].
    #[default]
    Specified,
    /// The specified estimate, and what it leaves out: tool schemas, images, and long runs of base64-like text, which
    /// take about one token a character.
    Detailed {
        /// The tokens of one image.
        image_tokens: u64,
    },
    /// The application counts, with a tokenizer of its own.
    External {
        /// What the estimator is called in files.
        name: String,
    },
}

impl Estimator {
    /// The estimator's name in files; `None` for the specified one.
    pub fn name(&self) -> Option<&str> {
        match self {
            Self::Specified => None,
            Self::Detailed { .. } => Some("detailed"),
            Self::External { name } => Some(name),
        }
    }

    /// Whether a compaction must shrink the specified estimate, as the rules of the language say.
    pub fn is_specified(&self) -> bool {
        matches!(self, Self::Specified)
    }
}

/// The running counts of the detailed estimator over one list.
///
/// A request that extends the one before costs what it adds; any other is counted from its start.
#[derive(Debug, Clone, Default)]
pub struct DetailCounter {
    lineage: Option<Lineage>,
    records: usize,
    images: u64,
    dense_bytes: u64,
}

impl DetailCounter {
    /// Nothing is counted yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The tokens of a request that offers these tools.
    pub fn count(&mut self, request: &Request, tools: &ToolList, image_tokens: u64) -> u64 {
        let extends = self.lineage.as_ref().is_some_and(|lineage| lineage.is(request.lineage()));
        if !extends || self.records > request.record_count() {
            *self = Self { lineage: Some(request.lineage().clone()), ..Self::default() };
        }
        for record in request.records_from(self.records) {
            let (images, dense_bytes) = details(record);
            self.images += images;
            self.dense_bytes += dense_bytes;
        }
        self.records = request.record_count();
        let schemas: usize = tools.to_wire().iter().map(|tool| compact(tool).len()).sum();
        // The specified estimate has a quarter of the dense text already.
        (request.estimate() + schemas as u64 / 4)
            .saturating_add(self.dense_bytes - self.dense_bytes / 4)
            .saturating_add(self.images.saturating_mul(image_tokens))
    }
}

/// The images of a record, and the bytes of its text that are in long base64-like runs.
fn details(record: &Record) -> (u64, u64) {
    if record.form() != Form::Parts {
        return (0, record.content_text().map_or(0, |text| dense_bytes(&text)));
    }
    let content = record.content();
    let parts = content.as_array().map_or(&[][..], Vec::as_slice);
    let images = parts.iter().filter(|part| part.get("image_url").is_some()).count() as u64;
    let texts = parts.iter().filter_map(|part| part.get("text")?.as_str());
    (images, texts.map(dense_bytes).sum())
}

fn dense_bytes(text: &str) -> u64 {
    let is_dense = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=' | b'_' | b'-');
    let runs = text.as_bytes().split(|byte| !is_dense(byte));
    runs.map(<[u8]>::len).filter(|run| *run >= DENSE_RUN).map(|run| run as u64).sum()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::list::MessageList;
    use crate::tools::ToolSchema;

    fn counted(list: &mut MessageList, counter: &mut DetailCounter, tools: &ToolList) -> u64 {
        counter.count(&list.compose().unwrap(), tools, 1000)
    }

    #[test]
    fn plain_text_counts_as_specified() {
        let mut list = MessageList::new();
        list.append(Record::user(&"some words ".repeat(1000))).unwrap();
        let estimate = list.estimate();
        assert_eq!(counted(&mut list, &mut DetailCounter::new(), &ToolList::default()), estimate);
    }

    #[test]
    fn dense_text_images_and_schemas_add_up_as_the_list_grows() {
        let (mut list, mut counter, none) = (MessageList::new(), DetailCounter::new(), ToolList::default());
        list.append(Record::user(&"A".repeat(1000))).unwrap();
        assert_eq!(counted(&mut list, &mut counter, &none), 1004);
        list.append(Record::assistant(&"A".repeat(DENSE_RUN - 1))).unwrap();
        assert_eq!(counted(&mut list, &mut counter, &none), 750 + list.estimate());
        let image = json!({
            "role": "user",
            "content": [{ "type": "text", "text": "B".repeat(400) }, { "type": "image_url", "image_url": { "url": "u" } }],
        });
        list.append(Record::from_value(&image, 3).unwrap()).unwrap();
        assert_eq!(counted(&mut list, &mut counter, &none), 750 + 300 + 1000 + list.estimate());
        let parameters = serde_json::Map::new();
        let tools = ToolList::new(&[ToolSchema { name: "t".to_owned(), description: String::new(), parameters }]);
        let schema = r#"{"type":"function","function":{"name":"t","parameters":{}}}"#.len() as u64;
        assert_eq!(counted(&mut list, &mut counter, &tools), 2050 + schema / 4 + list.estimate());
    }

    #[test]
    fn an_edited_list_is_counted_anew() {
        let (mut list, mut counter, none) = (MessageList::new(), DetailCounter::new(), ToolList::default());
        list.append(Record::user(&"A".repeat(1000))).unwrap();
        list.append(Record::assistant("x")).unwrap();
        counted(&mut list, &mut counter, &none);
        list.replace(1, 1, vec![Record::user("short").into()]).unwrap();
        assert_eq!(counted(&mut list, &mut counter, &none), list.estimate());
    }
}
