//! Live Lua fences.
//!
//! A live fence opens and closes by a rule narrower than Markdown's: its lines are exact. Everything else about a
//! Markdown text follows Markdown, so the two have to be reconciled: a line that closes a code block for Markdown
//! but not exactly is Lua source.

use std::borrow::Cow;
use std::ops::Range;

use crate::markdown::{self, Element};
use crate::source::{Line, lines};

const LUA: &str = "```lua";
const LUA_SHARED: &str = "```lua shared";
const CLOSER: &str = "```";

/// A top-level fence whose opening line is exact.
#[derive(Clone, Debug)]
pub(crate) struct LiveFence {
    /// Whether it is a `lua shared` fence.
    pub(crate) shared: bool,
    /// The opening line without its line end.
    pub(crate) opener: Range<usize>,
    /// The Lua source.
    pub(crate) content: Range<usize>,
    /// The offset behind the closing line.
    pub(crate) end: usize,
    pub(crate) closing: Closing,
    /// A line inside the source that opens a `lua` fence.
    pub(crate) swallowed: Option<Range<usize>>,
}

/// How a live fence ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Closing {
    /// With an exact closing line.
    Exact,
    /// With a line that only looks like one, above another `lua` fence.
    Inexact,
    /// Not at all.
    Missing,
}

/// The live fences of `text[range]` in order.
pub(crate) fn live_fences(text: &str, range: Range<usize>) -> Vec<LiveFence> {
    let candidates: Vec<Line<'_>> = lines(text, range.clone()).filter(|line| is_opener(line.text)).collect();
    let mut fences = Vec::new();
    let mut position = range.start;
    let mut first = 0;
    while let Some(opener) = next_live(text, position, &candidates[first..]) {
        let fence = close(text, opener, range.end);
        position = fence.end;
        first += candidates[first..].partition_point(|line| line.start < position);
        fences.push(fence);
    }
    fences
}

/// The first candidate that is top-level when Markdown starts at `position`.
///
/// A line's block structure depends only on the lines above it, so a prefix of the text decides. The prefix doubles
/// until it holds a live candidate: the total work stays linear however many candidates are nested.
fn next_live<'a>(text: &str, position: usize, candidates: &[Line<'a>]) -> Option<Line<'a>> {
    let mut count = 1;
    while !candidates.is_empty() {
        let tried = &candidates[..count.min(candidates.len())];
        let end = tried[tried.len() - 1].next;
        for element in markdown::elements(&text[position..end]) {
            let Element::Fence { span, .. } = element else { continue };
            let start = position + span.start;
            if let Ok(index) = tried.binary_search_by_key(&start, |line| line.start) {
                return Some(tried[index]);
            }
        }
        if count >= candidates.len() {
            break;
        }
        count *= 2;
    }
    None
}

fn close(text: &str, opener: Line<'_>, end: usize) -> LiveFence {
    let mut inexact: Option<Line<'_>> = None;
    let mut swallowed = None;
    let mut exact = None;
    for line in lines(text, opener.next..end) {
        if line.text == CLOSER {
            exact = Some(line);
            break;
        }
        if is_opener(line.text) {
            swallowed.get_or_insert(line.span());
            if inexact.is_some() {
                break;
            }
        } else if inexact.is_none() && swallowed.is_none() && closes_code_block(line.text) {
            inexact = Some(line);
        }
    }
    let (closing, closer) = match (exact, inexact) {
        (Some(line), _) => (Closing::Exact, Some(line)),
        (None, Some(line)) if swallowed.is_some() => (Closing::Inexact, Some(line)),
        (None, inexact) => (Closing::Missing, inexact),
    };
    LiveFence {
        shared: opener.text == LUA_SHARED,
        opener: opener.span(),
        content: opener.next..closer.map_or(end, |line| line.start),
        end: closer.map_or(end, |line| line.next),
        closing,
        swallowed,
    }
}

/// The text of `range` with the source of every live fence blanked, so that Markdown ends each where it really ends.
pub(crate) fn blank_sources<'a>(text: &'a str, range: &Range<usize>, fences: &[LiveFence]) -> Cow<'a, str> {
    let slice = &text[range.clone()];
    let needs = |fence: &&LiveFence| lines(text, fence.content.clone()).any(|line| closes_code_block(line.text));
    if !fences.iter().any(|fence| needs(&fence)) {
        return Cow::Borrowed(slice);
    }
    let mut blanked = String::with_capacity(slice.len());
    let mut position = range.start;
    for fence in fences.iter().filter(needs) {
        blanked.push_str(&text[position..fence.content.start]);
        blanked.extend(text[fence.content.clone()].bytes().map(|byte| if byte == b'\n' { '\n' } else { ' ' }));
        position = fence.content.end;
    }
    blanked.push_str(&text[position..range.end]);
    Cow::Owned(blanked)
}

/// Whether the line opens a fence when it is top-level.
fn is_opener(line: &str) -> bool {
    line == LUA || line == LUA_SHARED
}

/// Whether Markdown lets this line close a block of three backticks.
fn closes_code_block(line: &str) -> bool {
    let trimmed = line.trim_start_matches(' ');
    let rest = trimmed.trim_start_matches('`');
    line.len() - trimmed.len() <= 3 && trimmed.len() - rest.len() >= 3 && rest.trim_matches([' ', '\t']).is_empty()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The live fences found by reading the whole rest of the text as Markdown after each one.
    fn live_fences_slowly(text: &str) -> Vec<Range<usize>> {
        let mut found = Vec::new();
        let mut position = 0;
        loop {
            let mut starts = markdown::elements(&text[position..]).into_iter().filter_map(|element| match element {
                Element::Fence { span, .. } => Some(position + span.start),
                _ => None,
            });
            let opener = starts.find_map(|start| {
                let line = lines(text, start..text.len()).next()?;
                let first_column = start == 0 || text[..start].ends_with('\n');
                (first_column && is_opener(line.text)).then_some(line)
            });
            let Some(opener) = opener else { return found };
            let fence = close(text, opener, text.len());
            position = fence.end;
            found.push(fence.opener.start..fence.end);
        }
    }

    fn text() -> impl Strategy<Value = String> {
        let line = prop::sample::select(vec![
            "```lua",
            "```lua",
            "```",
            "```",
            "```lua shared",
            "````",
            "``` ",
            "~~~",
            "",
            "x",
            "- a",
            "  ```",
            "> q",
            "    y",
            "<div>",
            "<!--",
            "-->",
            "---",
            "## h",
            "[a]: /u",
            "```\r",
            "```lua\r",
        ]);
        prop::collection::vec(line, 0..40).prop_map(|lines| lines.join("\n"))
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 3000, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn live_fences_are_those_of_the_slow_way(text in text()) {
            let fences = live_fences(&text, 0..text.len());
            let ranges: Vec<_> = fences.iter().map(|fence| fence.opener.start..fence.end).collect();
            prop_assert_eq!(&ranges, &live_fences_slowly(&text));

            // With their sources blanked, Markdown sees the same blocks.
            let blanked = blank_sources(&text, &(0..text.len()), &fences);
            prop_assert_eq!(blanked.len(), text.len());
            let spans: Vec<_> = markdown::elements(&blanked)
                .into_iter()
                .filter_map(|element| match element {
                    Element::Fence { span, .. } => Some(span),
                    _ => None,
                })
                .collect();
            for range in ranges {
                let span = spans.iter().find(|span| span.start == range.start);
                let end = range.start + text[range.clone()].trim_end_matches(['\r', '\n']).len();
                prop_assert!(span.is_some_and(|span| (end..=range.end).contains(&span.end)), "{range:?} in {spans:?}");
            }
        }
    }
}
