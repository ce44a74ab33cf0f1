//! The parts of Markdown structure a document is cut along.

use std::ops::Range;

use pulldown_cmark::{CodeBlockKind, Event, HeadingLevel, Options, Parser, Tag, TagEnd};

/// A top-level element of a Markdown text.
pub(crate) enum Element {
    Heading {
        level: u8,
        /// The text without markup, trimmed.
        name: String,
        /// From the first marker or character to the end of the heading's last line.
        span: Range<usize>,
    },
    ThematicBreak(Range<usize>),
    /// A fenced code block with its info string.
    Fence {
        info: String,
        span: Range<usize>,
    },
}

/// The top-level headings, thematic breaks and fenced code blocks of a text in order. What stands inside a list or a
/// quote is not top-level.
pub(crate) fn elements(text: &str) -> Vec<Element> {
    let mut elements = Vec::new();
    let mut depth = 0_usize;
    let mut heading: Option<(u8, String, Range<usize>)> = None;
    for (event, span) in Parser::new_ext(text, Options::empty()).into_offset_iter() {
        match event {
            Event::Start(tag) => {
                if depth == 0 {
                    match tag {
                        Tag::Heading { level, .. } => heading = Some((level_number(level), String::new(), span)),
                        Tag::CodeBlock(CodeBlockKind::Fenced(info)) => {
                            elements.push(Element::Fence { info: info.into_string(), span });
                        }
                        _ => {}
                    }
                }
                depth += 1;
            }
            Event::End(tag) => {
                depth -= 1;
                if depth == 0
                    && matches!(tag, TagEnd::Heading(_))
                    && let Some((level, name, span)) = heading.take()
                {
                    elements.push(Element::Heading { level, name: name.trim().to_owned(), span });
                }
            }
            Event::Rule if depth == 0 => elements.push(Element::ThematicBreak(span)),
            Event::Text(text) | Event::Code(text) => {
                if let Some((_, name, _)) = &mut heading {
                    name.push_str(&text);
                }
            }
            Event::SoftBreak | Event::HardBreak => {
                if let Some((_, name, _)) = &mut heading {
                    name.push(' ');
                }
            }
            _ => {}
        }
    }
    elements
}

fn level_number(level: HeadingLevel) -> u8 {
    match level {
        HeadingLevel::H1 => 1,
        HeadingLevel::H2 => 2,
        HeadingLevel::H3 => 3,
        HeadingLevel::H4 => 4,
        HeadingLevel::H5 => 5,
        HeadingLevel::H6 => 6,
    }
}
