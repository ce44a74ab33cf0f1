//! From parser events to the marked tree, within limits.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;
use std::rc::Rc;

use saphyr_parser::{Event, Parser, ScalarStyle, Span, Tag};

use super::node::{Node, Value};
use super::scalar::Scalar;

/// The most bytes of frontmatter.
const MAX_BYTES: usize = 256 * 1024;
/// The most levels of nesting.
const MAX_DEPTH: usize = 64;
/// The most values with every alias written out.
const MAX_VALUES: usize = 65_536;

/// Why a text is not a YAML tree.
#[derive(Debug)]
pub(crate) struct YamlError {
    pub(crate) message: String,
    /// The byte of the file the message is about.
    pub(crate) offset: usize,
}

/// Reads one YAML document; `None` when the text holds none. Positions are moved by `base`.
pub(crate) fn read(text: &str, base: usize) -> Result<Option<Node>, YamlError> {
    if text.len() > MAX_BYTES {
        return Err(YamlError { message: format!("frontmatter is longer than {MAX_BYTES} bytes"), offset: base });
    }
    if let Some((offset, char)) = text.char_indices().find(|&(_, char)| is_forbidden(char)) {
        let message = format!("control character U+{:04X} is not allowed", u32::from(char));
        return Err(YamlError { message, offset: base + offset });
    }
    let mut reader =
        Reader { offsets: Offsets::new(text, base), stack: Vec::new(), anchors: HashMap::new(), root: None };
    let mut documents = 0;
    for event in &mut Parser::new_from_str(text) {
        let (event, span) = event.map_err(|error| YamlError {
            message: match error.info() {
                "recursion limit exceeded" => too_deep(),
                info => info.to_owned(),
            },
            offset: reader.offsets.byte(error.marker().index()),
        })?;
        if let Event::DocumentStart(_) = event {
            documents += 1;
            if documents > 1 {
                return Err(reader.error("frontmatter must be a single YAML document", &span));
            }
        }
        reader.event(event, &span)?;
    }
    Ok(reader.root)
}

fn is_forbidden(char: char) -> bool {
    matches!(char, '\0'..='\u{8}' | '\u{b}' | '\u{c}' | '\u{e}'..='\u{1f}' | '\u{7f}')
}

/// Turns the parser's character positions into bytes of the file.
struct Offsets {
    base: usize,
    length: usize,
    /// The byte of every character; `None` when every character is one byte.
    bytes: Option<Vec<usize>>,
}

impl Offsets {
    fn new(text: &str, base: usize) -> Self {
        let bytes = (!text.is_ascii()).then(|| text.char_indices().map(|(byte, _)| byte).collect());
        Self { base, length: text.len(), bytes }
    }

    fn byte(&self, index: usize) -> usize {
        let byte = match &self.bytes {
            Some(bytes) => bytes.get(index).copied().unwrap_or(self.length),
            None => index.min(self.length),
        };
        self.base + byte
    }

    fn range(&self, span: &Span) -> Range<usize> {
        let start = self.byte(span.start.index());
        start..self.byte(span.end.index()).max(start)
    }
}

/// A collection that is still open.
struct Open {
    start: Range<usize>,
    anchor: usize,
    weight: usize,
    height: usize,
    content: Content,
}

enum Content {
    List(Vec<Node>),
    Map { entries: Vec<(Node, Node)>, key: Option<Node> },
}

struct Reader {
    offsets: Offsets,
    stack: Vec<Open>,
    anchors: HashMap<usize, Node>,
    root: Option<Node>,
}

impl Reader {
    fn error(&self, message: impl Into<String>, span: &Span) -> YamlError {
        YamlError { message: message.into(), offset: self.offsets.byte(span.start.index()) }
    }

    fn event(&mut self, event: Event<'_>, span: &Span) -> Result<(), YamlError> {
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let scalar = scalar(&text, style, tag.as_deref()).map_err(|message| self.error(message, span))?;
                let value = Rc::new(Value::Scalar { text: text.into_owned(), scalar });
                let node = Node { span: self.offsets.range(span), value, weight: 1, height: 1 };
                self.finish(anchor, node, span)
            }
            Event::SequenceStart(anchor, tag) => self.open(anchor, tag, "seq", Content::List(Vec::new()), span),
            Event::MappingStart(anchor, tag) => {
                self.open(anchor, tag, "map", Content::Map { entries: Vec::new(), key: None }, span)
            }
            Event::SequenceEnd | Event::MappingEnd => self.close(span),
            Event::Alias(anchor) => {
                let Some(target) = self.anchors.get(&anchor) else {
                    return Err(self.error("an alias cannot stand inside the value it refers to", span));
                };
                let node = Node { span: self.offsets.range(span), ..target.clone() };
                self.finish(0, node, span)
            }
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentStart(_) | Event::DocumentEnd => {
                Ok(())
            }
        }
    }

    fn open(
        &mut self,
        anchor: usize,
        tag: Option<Cow<'_, Tag>>,
        suffix: &str,
        content: Content,
        span: &Span,
    ) -> Result<(), YamlError> {
        if let Some(tag) = tag
            && !(tag.is_yaml_core_schema() && tag.suffix == suffix)
        {
            return Err(self.error(unsupported(&tag), span));
        }
        if self.stack.len() == MAX_DEPTH {
            return Err(self.error(too_deep(), span));
        }
        let start = self.offsets.range(span);
        self.stack.push(Open { start, anchor, weight: 1, height: 1, content });
        Ok(())
    }

    fn close(&mut self, span: &Span) -> Result<(), YamlError> {
        let Some(open) = self.stack.pop() else { return Ok(()) };
        let value = match open.content {
            Content::List(items) => Value::List(items),
            Content::Map { entries, .. } => Value::Map(entries),
        };
        let end = self.offsets.byte(span.end.index()).max(open.start.end);
        let node =
            Node { span: open.start.start..end, value: Rc::new(value), weight: open.weight, height: open.height };
        self.finish(open.anchor, node, span)
    }

    /// Puts a complete value where it belongs.
    fn finish(&mut self, anchor: usize, mut node: Node, span: &Span) -> Result<(), YamlError> {
        if self.stack.len() + node.height > MAX_DEPTH + 1 {
            return Err(self.error(too_deep(), span));
        }
        if anchor != 0 {
            self.anchors.insert(anchor, node.clone());
        }
        let Some(open) = self.stack.last_mut() else {
            self.root = Some(node);
            return Ok(());
        };
        open.weight += node.weight;
        open.height = open.height.max(node.height + 1);
        let too_large = open.weight > MAX_VALUES;
        match &mut open.content {
            Content::List(items) => items.push(node),
            Content::Map { entries, key } => match key.take() {
                None => *key = Some(node),
                Some(key) => {
                    if is_absent(&node) {
                        node.span = key.span.clone();
                    }
                    entries.push((key, node));
                }
            },
        }
        if too_large {
            return Err(self.error(format!("frontmatter holds more than {MAX_VALUES} values"), span));
        }
        Ok(())
    }
}

fn too_deep() -> String {
    format!("frontmatter is nested more than {MAX_DEPTH} levels deep")
}

/// Whether nothing is written where the value should be.
fn is_absent(node: &Node) -> bool {
    matches!(&*node.value, Value::Scalar { text, scalar: Scalar::Null } if text.is_empty())
}

fn scalar(text: &str, style: ScalarStyle, tag: Option<&Tag>) -> Result<Scalar, String> {
    let Some(tag) = tag else {
        return Ok(if style == ScalarStyle::Plain { Scalar::of_plain(text) } else { Scalar::String });
    };
    if tag.is_yaml_core_schema() {
        return Scalar::of_tagged(&tag.suffix, text).ok_or_else(|| match tag.suffix.as_str() {
            "null" | "bool" | "int" | "float" => format!("`{text}` does not fit its tag `!!{}`", tag.suffix),
            _ => unsupported(tag),
        });
    }
    // A lone `!` says that the scalar is text.
    if tag.handle.is_empty() && tag.suffix == "!" || tag.handle == "!" && tag.suffix.is_empty() {
        return Ok(Scalar::String);
    }
    Err(unsupported(tag))
}

fn unsupported(tag: &Tag) -> String {
    let name = if tag.is_yaml_core_schema() { format!("!!{}", tag.suffix) } else { tag.to_string() };
    format!("tag `{name}` is not supported; write the value without a tag")
}
