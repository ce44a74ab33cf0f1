//! From a section's text to its blocks.

use std::ops::Range;

use super::{Body, Builder};
use crate::block::{Block, LuaBlock, Prose};
use crate::document::SectionId;
use crate::fence::{Closing, LiveFence};
use crate::list::{Listing, listing};
use crate::problem::ParseKind;
use crate::source::trim_blank_lines;

const SHARED_NOT_CLOSED: &str = "prompt `lua shared` fence is not closed";
const SHARED_TWICE: &str = "prompt allows at most one `lua shared` fence";
const SHARED_MISPLACED: &str = "`lua shared` fence is allowed only in H1";

impl Builder<'_> {
    /// Cuts the text of every section into blocks and checks its fences.
    pub(super) fn fill(&mut self, body: &Body, shared_fence_refusal: Option<&str>) {
        let body_content = self.contents[SectionId::BODY.0].clone();
        self.check_notes(&body.fences, body_content.start);
        self.check_shared_fences(&body.fences, &body_content, shared_fence_refusal);
        for index in 0..self.sections.len() {
            let content = self.contents[index].clone();
            let fences = within(&body.fences, &content, |fence| fence.opener.start);
            let breaks = within(&body.breaks, &content, |span| span.start);
            self.check_fences(SectionId(index), fences);
            self.cut(SectionId(index), content, fences, breaks);
        }
        // More than one shared library is said before where any of them stands.
        self.fences
            .sort_by_key(|problem| (problem.message != SHARED_TWICE, problem.span.as_ref().map(|span| span.start)));
    }

    fn fence_problem(&mut self, message: impl Into<String>, fence: &LiveFence) {
        self.fences.push(self.source.problem(ParseKind::Fence, message, fence.opener.clone()));
    }

    /// Warns about code above the title: it never runs.
    fn check_notes(&mut self, fences: &[LiveFence], title_end: usize) {
        for fence in fences.iter().take_while(|fence| fence.opener.start < title_end).filter(|fence| !fence.shared) {
            let message = "this Lua block stands above the title and never runs; move it below";
            self.warnings.push(self.source.warning(message, fence.opener.clone()));
        }
    }

    /// Finds the shared library, or refuses every `lua shared` fence.
    fn check_shared_fences(&mut self, fences: &[LiveFence], body: &Range<usize>, refusal: Option<&str>) {
        for (index, fence) in fences.iter().filter(|fence| fence.shared).enumerate() {
            if let Some(message) = refusal {
                self.fence_problem(message, fence);
                continue;
            }
            if index > 0 {
                self.fence_problem(SHARED_TWICE, fence);
            } else if !body.contains(&fence.opener.start) {
                self.fence_problem(SHARED_MISPLACED, fence);
            }
            if fence.closing != Closing::Exact {
                self.fence_problem(SHARED_NOT_CLOSED, fence);
            }
            if self.shared_library.is_none() {
                self.shared_library = Some(self.lua_block(fence, "prompt shared library".to_owned()));
            }
        }
    }

    /// Reports the section's `lua` fences that do not end.
    fn check_fences(&mut self, id: SectionId, fences: &[LiveFence]) {
        let start = self.contents[id.0].start;
        for (index, fence) in fences.iter().enumerate().filter(|(_, fence)| !fence.shared) {
            let name = &self.sections[id.0].name;
            let message = match fence.closing {
                Closing::Exact => {
                    if let Some(span) = &fence.swallowed {
                        let message =
                            "this line opens a Lua fence inside a Lua block; is the line ``` above it missing?";
                        self.warnings.push(self.source.warning(message, span.clone()));
                    }
                    continue;
                }
                Closing::Inexact => format!("section `{name}` `lua` fence is not closed exactly"),
                Closing::Missing => {
                    let opens = self.source.text[start..fence.opener.start].trim().is_empty();
                    let place = if opens {
                        " prologue"
                    } else if index + 1 == fences.len() {
                        " epilog"
                    } else {
                        ""
                    };
                    format!("section `{name}`{place} `lua` fence is not closed")
                }
            };
            self.fence_problem(message, fence);
        }
    }

    fn cut(&mut self, id: SectionId, content: Range<usize>, fences: &[LiveFence], breaks: &[Range<usize>]) {
        let mut blocks = Vec::new();
        // The text since the last fence or break: several pieces when a shared library stands in it.
        let mut pieces = Vec::new();
        let mut start = content.start;
        let mut breaks = breaks.iter().peekable();
        let mut live = 0;
        for fence in fences {
            while let Some(span) = breaks.next_if(|span| span.start < fence.opener.start) {
                pieces.clear();
                start = span.end;
            }
            pieces.push(start..fence.opener.start);
            start = fence.end;
            if fence.shared {
                continue;
            }
            let prose = self.prose(&std::mem::take(&mut pieces));
            if live > 0 || !prose.text.is_empty() {
                blocks.push(Block::Prose(prose));
            }
            blocks.push(Block::Lua(self.lua_block(fence, String::new())));
            live += 1;
        }
        if let Some(span) = breaks.last() {
            pieces.clear();
            start = span.end;
        }
        pieces.push(start..content.end);
        let prose = self.prose(&pieces);
        if !prose.text.is_empty() {
            if live == 0 && id != SectionId::BODY {
                self.read_list(id, &prose);
            }
            if live > 0 {
                let message = "this text is never read: no Lua block of its section follows it";
                self.warnings.push(self.source.warning(message, prose.span.clone()));
            } else if id != SectionId::BODY && self.sections[id.0].items.is_none() {
                let message = "this text is never read: its section has no Lua block and is not a list";
                self.warnings.push(self.source.warning(message, prose.span.clone()));
            }
            blocks.push(Block::Prose(prose));
        }
        self.label(id, &mut blocks);
        self.sections[id.0].blocks = blocks;
    }

    fn read_list(&mut self, id: SectionId, prose: &Prose) {
        match listing(self.source.text, prose.span.clone()) {
            Listing::Prose => {}
            Listing::Items(items) => self.sections[id.0].items = Some(items),
            Listing::EmptyItem(line) => {
                let message = format!("empty bullet item in list section `{}`", self.sections[id.0].name);
                let indent = line.text.len() - line.text.trim_start().len();
                let span = line.start + indent..line.span().end;
                self.lists.push(self.source.problem(ParseKind::List, message, span));
                self.sections[id.0].items = Some(Vec::new());
            }
        }
    }

    fn prose(&self, pieces: &[Range<usize>]) -> Prose {
        let text = self.source.text;
        let filled: Vec<_> = pieces.iter().filter(|piece| !text[(*piece).clone()].trim().is_empty()).collect();
        let (Some(first), Some(last)) = (filled.first(), filled.last()) else {
            let start = pieces.last().map_or(0, |piece| piece.start);
            return Prose { text: String::new(), line: self.source.line(start), span: start..start };
        };
        let span = trim_blank_lines(text, (*first).clone()).start..trim_blank_lines(text, (*last).clone()).end;
        let parts = filled.iter().map(|piece| &text[piece.start.max(span.start)..piece.end.min(span.end)]);
        let text = parts.collect::<String>().replace("\r\n", "\n");
        Prose { text, line: self.source.line(span.start), span }
    }

    fn lua_block(&self, fence: &LiveFence, label: String) -> LuaBlock {
        LuaBlock {
            source: self.source.text[fence.content.clone()].to_owned(),
            label,
            line: self.source.line(fence.opener.start) + 1,
            span: fence.content.clone(),
        }
    }

    /// Gives every Lua block its location label.
    fn label(&self, id: SectionId, blocks: &mut [Block]) {
        let name = &self.sections[id.0].name;
        let last = blocks.len().saturating_sub(1);
        let has_prose = blocks.iter().any(|block| matches!(block, Block::Prose(_)));
        for (index, block) in blocks.iter_mut().enumerate() {
            let Block::Lua(lua) = block else { continue };
            lua.label = if id == SectionId::BODY {
                format!("H1 `{name}` lua")
            } else if index == 0 {
                format!("section `{name}` prologue")
            } else if index == last && has_prose {
                format!("section `{name}` epilog")
            } else {
                format!("section `{name}` lua")
            };
        }
    }
}

/// The elements that start inside a range, of elements in file order.
fn within<'a, T>(elements: &'a [T], range: &Range<usize>, start: fn(&T) -> usize) -> &'a [T] {
    let from = elements.partition_point(|element| start(element) < range.start);
    let to = elements.partition_point(|element| start(element) < range.end);
    &elements[from..to]
}
