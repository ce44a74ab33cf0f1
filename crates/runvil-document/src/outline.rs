//! From Markdown structure to sections.

mod blocks;

use std::collections::HashMap;
use std::ops::Range;

use crate::block::LuaBlock;
use crate::document::{Section, SectionId};
use crate::fence::{self, LiveFence};
use crate::markdown::{self, Element};
use crate::problem::{ParseKind, Problem, Warning};
use crate::source::Source;

/// The body of a file as sections, and everything wrong with it.
pub(crate) struct Outline {
    pub(crate) title: String,
    /// The H1 body first, then every section in file order.
    pub(crate) sections: Vec<Section>,
    pub(crate) top_level: Vec<SectionId>,
    pub(crate) shared_library: Option<LuaBlock>,
    /// Headings first, then fences, then lists.
    pub(crate) problems: Vec<Problem>,
    pub(crate) warnings: Vec<Warning>,
}

/// A heading and the text it governs.
struct Heading {
    level: u8,
    name: String,
    span: Range<usize>,
    /// The text up to the next heading.
    content: Range<usize>,
}

/// Everything found in a body, in file order and with file offsets.
struct Body {
    headings: Vec<Heading>,
    breaks: Vec<Range<usize>>,
    fences: Vec<LiveFence>,
    warnings: Vec<Warning>,
}

/// Cuts the body of a file into sections. A `lua shared` fence is a problem with the given message, if there is one.
pub(crate) fn outline(source: &Source<'_>, range: Range<usize>, shared_fence_refusal: Option<&str>) -> Outline {
    let body = scan(source, range.clone());
    let title = body.headings.iter().position(|heading| heading.level == 1);
    let mut builder = Builder::new(source);
    builder.check_titles(&body.headings, range.start);
    let headings = if let Some(index) = title {
        builder.add(&body.headings[index], None);
        &body.headings[index + 1..]
    } else {
        // The whole body is read as if a title stood above it, to find what else is wrong.
        let end = body.headings.first().map_or(range.end, |heading| heading.span.start);
        let span = range.start..range.start;
        builder.add(&Heading { level: 1, name: String::new(), span, content: range.start..end }, None);
        &body.headings[..]
    };
    builder.nest(headings);
    builder.fill(&body, shared_fence_refusal);
    builder.finish(body.warnings)
}

fn scan(source: &Source<'_>, range: Range<usize>) -> Body {
    let fences = fence::live_fences(source.text, range.clone());
    let blanked = fence::blank_sources(source.text, &range, &fences);
    let mut body = Body { headings: Vec::new(), breaks: Vec::new(), fences, warnings: Vec::new() };
    let in_file = |span: Range<usize>| range.start + span.start..range.start + span.end;
    for element in markdown::elements(&blanked) {
        match element {
            Element::Heading { level, name, span } => {
                let span = in_file(span);
                if let Some(previous) = body.headings.last_mut() {
                    previous.content.end = span.start;
                }
                let content = line_end(source.text, span.end)..range.end;
                body.headings.push(Heading { level, name, span, content });
            }
            Element::ThematicBreak(span) => body.breaks.push(in_file(span)),
            Element::Fence { info, span } => {
                let span = in_file(span);
                let live = body.fences.binary_search_by_key(&span.start, |fence| fence.opener.start).is_ok();
                if !live && looks_live(&source.text[span.clone()], &info) {
                    let message = "this fence is prose, not a Lua block: a Lua block opens with exactly ```lua at the start of a line";
                    body.warnings.push(source.warning(message, span));
                }
            }
        }
    }
    body
}

/// Whether a fence that is not live was probably meant to be: three backticks and a tag that is `lua` at heart.
fn looks_live(text: &str, info: &str) -> bool {
    let tag = info.split_whitespace().next().unwrap_or_default();
    text.starts_with("```") && !text.starts_with("````") && tag.eq_ignore_ascii_case("lua")
}

/// The offset behind the line that holds the byte before `offset`. For Markdown a lone CR ends a line too.
fn line_end(text: &str, offset: usize) -> usize {
    if text[..offset].ends_with(['\n', '\r']) {
        return offset;
    }
    text[offset..].find(['\n', '\r']).map_or(text.len(), |at| offset + at + 1)
}

/// Puts the sections together and collects what is wrong with them.
struct Builder<'a> {
    source: &'a Source<'a>,
    sections: Vec<Section>,
    /// The text of each section, without its heading.
    contents: Vec<Range<usize>>,
    top_level: Vec<SectionId>,
    shared_library: Option<LuaBlock>,
    structure: Vec<Problem>,
    fences: Vec<Problem>,
    lists: Vec<Problem>,
    warnings: Vec<Warning>,
}

impl<'a> Builder<'a> {
    fn new(source: &'a Source<'a>) -> Self {
        Self {
            source,
            sections: Vec::new(),
            contents: Vec::new(),
            top_level: Vec::new(),
            shared_library: None,
            structure: Vec::new(),
            fences: Vec::new(),
            lists: Vec::new(),
            warnings: Vec::new(),
        }
    }

    fn structure_problem(&mut self, message: impl Into<String>, span: Range<usize>) {
        self.structure.push(self.source.problem(ParseKind::Structure, message, span));
    }

    fn check_titles(&mut self, headings: &[Heading], body_start: usize) {
        let titles: Vec<_> = headings.iter().filter(|heading| heading.level == 1).collect();
        if titles.is_empty() {
            // The first line of the body, or the last of the file when there is no body.
            let text = self.source.text;
            let above = &text[..body_start.min(text.trim_end().len())];
            let start = if above.len() < body_start { above.rfind('\n').map_or(0, |at| at + 1) } else { body_start };
            self.structure_problem("prompt requires an H1 title", start..start);
        }
        for extra in titles.iter().skip(1) {
            self.structure_problem("prompt must contain exactly one H1 title", extra.span.clone());
        }
        for empty in titles.iter().filter(|title| title.name.is_empty()) {
            self.structure_problem("prompt H1 title must not be empty", empty.span.clone());
        }
    }

    fn add(&mut self, heading: &Heading, parent: Option<SectionId>) -> SectionId {
        let id = SectionId(self.sections.len());
        let (line, column) = self.source.location(heading.span.start);
        self.sections.push(Section {
            name: heading.name.clone(),
            level: heading.level,
            line,
            column,
            span: heading.span.start..heading.content.end,
            blocks: Vec::new(),
            items: None,
            parent,
            children: Vec::new(),
        });
        self.contents.push(heading.content.clone());
        id
    }

    /// Adds the sections below the H1 body. A section whose place is wrong still gets one, so that what follows is read
    /// as meant.
    fn nest(&mut self, headings: &[Heading]) {
        let mut path = vec![SectionId::BODY];
        let mut first_lines: HashMap<(SectionId, &str), usize> = HashMap::new();
        for heading in headings {
            if heading.level == 1 {
                path = vec![self.add(heading, None)];
                continue;
            }
            while path.len() > 1 && path.last().is_some_and(|id| self.sections[id.0].level >= heading.level) {
                path.pop();
            }
            let above = path[path.len() - 1];
            self.check_heading(heading, above, &mut first_lines);
            let id = self.add(heading, (path.len() > 1).then_some(above));
            if path.len() > 1 {
                self.sections[above.0].children.push(id);
            } else {
                self.top_level.push(id);
            }
            path.push(id);
        }
    }

    fn check_heading<'h>(
        &mut self,
        heading: &'h Heading,
        above: SectionId,
        first_lines: &mut HashMap<(SectionId, &'h str), usize>,
    ) {
        let Heading { level, name, span, .. } = heading;
        if name.is_empty() {
            self.structure_problem(format!("an H{level} section heading must not be empty"), span.clone());
            return;
        }
        let parent = self.sections[above.0].level + 1;
        if *level != parent {
            let message = format!("section `{name}` is an orphan H{level} heading with no parent H{parent}");
            self.structure_problem(message, span.clone());
        }
        let line = self.source.line(span.start);
        let first = *first_lines.entry((above, name)).or_insert(line);
        if first != line {
            let message = format!(
                "duplicate sibling section name `{name}`: first declared at line {first}, again at line {line}; sibling section names must be unique"
            );
            self.structure_problem(message, span.clone());
        }
    }

    fn finish(mut self, warnings: Vec<Warning>) -> Outline {
        self.warnings.extend(warnings);
        self.warnings.sort_by_key(|warning| warning.span.start);
        let problems = [self.structure, self.fences, self.lists].concat();
        Outline {
            title: self.sections[SectionId::BODY.0].name.clone(),
            sections: self.sections,
            top_level: self.top_level,
            shared_library: self.shared_library,
            problems,
            warnings: self.warnings,
        }
    }
}
