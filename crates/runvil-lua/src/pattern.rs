//! Lua patterns, matched in Rust: Lua's own matcher never reaches the cancel hook and can run for ages.
//!
//! Every attempt spends steps from a budget of its own and asks now and then whether it has to stop.

use crate::failure::Failure;

/// Steps one call may spend; a subject of the largest size a section can hold costs about half of it.
pub(crate) const STEP_BUDGET: u64 = 1 << 27;

/// Steps between two questions whether the call has to stop.
const STOP_POLL: u64 = 1 << 12;

/// What so many steps cost of the budget of a section's step.
pub(crate) const POLL_WORK: u64 = 2_000;

/// The most captures of a pattern, as in Lua.
const CAPTURE_LIMIT: usize = 32;

/// The deepest nesting of items that need to come back, as in Lua.
const DEPTH_LIMIT: u32 = 200;

/// One capture of a match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Capture {
    /// Bytes `start..end` of the subject.
    Span(usize, usize),
    /// `()`: a 1-based position.
    Position(usize),
}

#[derive(Debug, Clone, Copy)]
struct Open {
    start: usize,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Unfinished,
    Position,
    Closed(usize),
}

/// A pattern applied to one subject.
pub(crate) struct Matcher<'a> {
    subject: &'a [u8],
    pattern: &'a [u8],
    captures: Vec<Open>,
    depth: u32,
    steps: u64,
    must_stop: &'a dyn Fn() -> bool,
}

type Found = Result<Option<usize>, Failure>;

fn malformed(text: &str) -> Failure {
    Failure::Lua(text.to_owned())
}

impl<'a> Matcher<'a> {
    pub(crate) fn new(subject: &'a [u8], pattern: &'a [u8], must_stop: &'a dyn Fn() -> bool) -> Self {
        Self { subject, pattern, captures: Vec::new(), depth: 0, steps: 0, must_stop }
    }

    /// Matches the pattern at exactly `start` (0-based); gives the end of the match.
    pub(crate) fn match_at(&mut self, start: usize) -> Found {
        self.captures.clear();
        self.depth = 0;
        self.run(start, 0)
    }

    /// The captures of the last match, or the whole match `start..end` when the pattern has none.
    pub(crate) fn captures(&self, start: usize, end: usize) -> Result<Vec<Capture>, Failure> {
        if self.captures.is_empty() {
            return Ok(vec![Capture::Span(start, end)]);
        }
        self.explicit_captures()
    }

    /// The captures the pattern itself makes.
    pub(crate) fn explicit_captures(&self) -> Result<Vec<Capture>, Failure> {
        self.captures
            .iter()
            .map(|open| match open.state {
                State::Unfinished => Err(malformed("unfinished capture")),
                State::Position => Ok(Capture::Position(open.start + 1)),
                State::Closed(length) => Ok(Capture::Span(open.start, open.start + length)),
            })
            .collect()
    }

    fn spend(&mut self) -> Result<(), Failure> {
        self.steps += 1;
        if self.steps.is_multiple_of(STOP_POLL) {
            if (self.must_stop)() {
                return Err(Failure::Cancelled);
            }
            if self.steps > STEP_BUDGET {
                return Err(malformed("pattern too complex: the match takes too many steps"));
            }
        }
        Ok(())
    }

    fn run(&mut self, start: usize, item: usize) -> Found {
        self.depth += 1;
        if self.depth > DEPTH_LIMIT {
            return Err(malformed("pattern too complex"));
        }
        let found = self.items(start, item);
        self.depth -= 1;
        found
    }

    fn items(&mut self, mut at: usize, mut item: usize) -> Found {
        loop {
            self.spend()?;
            let Some(&byte) = self.pattern.get(item) else { return Ok(Some(at)) };
            match (byte, self.pattern.get(item + 1)) {
                (b'(', Some(b')')) => return self.open(at, item + 2, State::Position),
                (b'(', _) => return self.open(at, item + 1, State::Unfinished),
                (b')', _) => return self.close(at, item + 1),
                (b'$', None) => return Ok((at == self.subject.len()).then_some(at)),
                (b'%', Some(b'b')) => match self.balanced(at, item + 2)? {
                    Some(end) => {
                        at = end;
                        item += 4;
                    }
                    None => return Ok(None),
                },
                (b'%', Some(b'f')) => {
                    item += 2;
                    if self.pattern.get(item) != Some(&b'[') {
                        return Err(malformed("missing '[' after '%f' in pattern"));
                    }
                    let end = self.class_end(item)?;
                    let before = if at == 0 { 0 } else { self.subject[at - 1] };
                    let here = self.subject.get(at).copied().unwrap_or(0);
                    if self.in_set(before, item, end - 1) || !self.in_set(here, item, end - 1) {
                        return Ok(None);
                    }
                    item = end;
                }
                (b'%', Some(digit @ b'0'..=b'9')) => match self.back_reference(at, *digit)? {
                    Some(end) => {
                        at = end;
                        item += 2;
                    }
                    None => return Ok(None),
                },
                _ => {
                    let end = self.class_end(item)?;
                    match self.pattern.get(end) {
                        Some(b'?') => {
                            if self.one(at, item, end)
                                && let Some(found) = self.run(at + 1, end + 1)?
                            {
                                return Ok(Some(found));
                            }
                            item = end + 1;
                        }
                        Some(b'+') => {
                            return if self.one(at, item, end) { self.greedy(at + 1, item, end) } else { Ok(None) };
                        }
                        Some(b'*') => return self.greedy(at, item, end),
                        Some(b'-') => return self.lazy(at, item, end),
                        _ if self.one(at, item, end) => {
                            at += 1;
                            item = end;
                        }
                        _ => return Ok(None),
                    }
                }
            }
        }
    }

    fn greedy(&mut self, at: usize, item: usize, end: usize) -> Found {
        let mut count = 0;
        while self.one(at + count, item, end) {
            self.spend()?;
            count += 1;
        }
        loop {
            if let Some(found) = self.run(at + count, end + 1)? {
                return Ok(Some(found));
            }
            if count == 0 {
                return Ok(None);
            }
            count -= 1;
        }
    }

    fn lazy(&mut self, mut at: usize, item: usize, end: usize) -> Found {
        loop {
            if let Some(found) = self.run(at, end + 1)? {
                return Ok(Some(found));
            }
            if !self.one(at, item, end) {
                return Ok(None);
            }
            at += 1;
        }
    }

    fn open(&mut self, at: usize, item: usize, state: State) -> Found {
        if self.captures.len() >= CAPTURE_LIMIT {
            return Err(malformed("too many captures"));
        }
        self.captures.push(Open { start: at, state });
        let found = self.run(at, item)?;
        if found.is_none() {
            self.captures.pop();
        }
        Ok(found)
    }

    fn close(&mut self, at: usize, item: usize) -> Found {
        let Some(index) = self.captures.iter().rposition(|open| open.state == State::Unfinished) else {
            return Err(malformed("invalid pattern capture"));
        };
        self.captures[index].state = State::Closed(at - self.captures[index].start);
        let found = self.run(at, item)?;
        if found.is_none() {
            self.captures[index].state = State::Unfinished;
        }
        Ok(found)
    }

    fn balanced(&mut self, at: usize, item: usize) -> Found {
        let (Some(&open), Some(&close)) = (self.pattern.get(item), self.pattern.get(item + 1)) else {
            return Err(malformed("malformed pattern (missing arguments to '%b')"));
        };
        if self.subject.get(at) != Some(&open) {
            return Ok(None);
        }
        let mut nesting = 1usize;
        for position in at + 1..self.subject.len() {
            self.spend()?;
            let byte = self.subject[position];
            if byte == close {
                nesting -= 1;
                if nesting == 0 {
                    return Ok(Some(position + 1));
                }
            } else if byte == open {
                nesting += 1;
            }
        }
        Ok(None)
    }

    fn back_reference(&mut self, at: usize, digit: u8) -> Found {
        let index = usize::from(digit).wrapping_sub(usize::from(b'1'));
        match self.captures.get(index) {
            Some(Open { start, state: State::Closed(length) }) => {
                let text = &self.subject[*start..start + length];
                Ok(self.subject[at..].starts_with(text).then_some(at + length))
            }
            _ => Err(malformed(&format!("invalid capture index %{} in pattern", digit - b'0'))),
        }
    }

    /// The index behind the single-character class at `item`.
    fn class_end(&self, item: usize) -> Result<usize, Failure> {
        let mut at = item + 1;
        match self.pattern[item] {
            b'%' => {
                if at >= self.pattern.len() {
                    return Err(malformed("malformed pattern (ends with '%')"));
                }
                Ok(at + 1)
            }
            b'[' => {
                if self.pattern.get(at) == Some(&b'^') {
                    at += 1;
                }
                let first = at;
                loop {
                    match self.pattern.get(at) {
                        None => return Err(malformed("malformed pattern (missing ']')")),
                        Some(b']') if at > first => return Ok(at + 1),
                        Some(b'%') => at += 2,
                        Some(_) => at += 1,
                    }
                }
            }
            _ => Ok(at),
        }
    }

    /// Whether the byte at `at` exists and matches the class `item..end`.
    fn one(&self, at: usize, item: usize, end: usize) -> bool {
        let Some(&byte) = self.subject.get(at) else { return false };
        match self.pattern[item] {
            b'.' => true,
            b'%' => in_class(byte, self.pattern[item + 1]),
            b'[' => self.in_set(byte, item, end - 1),
            literal => literal == byte,
        }
    }

    /// Whether a byte is in the set that opens at `item` and whose `]` is at `close`.
    fn in_set(&self, byte: u8, item: usize, close: usize) -> bool {
        let mut at = item + 1;
        let negated = self.pattern[at] == b'^';
        if negated {
            at += 1;
        }
        while at < close {
            if self.pattern[at] == b'%' {
                if in_class(byte, self.pattern[at + 1]) {
                    return !negated;
                }
                at += 2;
            } else if self.pattern[at + 1] == b'-' && at + 2 < close {
                if (self.pattern[at]..=self.pattern[at + 2]).contains(&byte) {
                    return !negated;
                }
                at += 3;
            } else {
                if self.pattern[at] == byte {
                    return !negated;
                }
                at += 1;
            }
        }
        negated
    }
}

/// Whether a byte belongs to a class letter; any other character stands for itself. Upper case is the complement.
fn in_class(byte: u8, class: u8) -> bool {
    let inside = match class.to_ascii_lowercase() {
        b'a' => byte.is_ascii_alphabetic(),
        b'c' => byte.is_ascii_control(),
        b'd' => byte.is_ascii_digit(),
        b'g' => byte.is_ascii_graphic(),
        b'l' => byte.is_ascii_lowercase(),
        b'p' => byte.is_ascii_punctuation(),
        b's' => matches!(byte, b' ' | b'\t'..=b'\r'),
        b'u' => byte.is_ascii_uppercase(),
        b'w' => byte.is_ascii_alphanumeric(),
        b'x' => byte.is_ascii_hexdigit(),
        _ => return class == byte,
    };
    inside != class.is_ascii_uppercase()
}

/// Whether a pattern has no special characters, so that it can be searched as plain text.
pub(crate) fn is_plain(pattern: &[u8]) -> bool {
    !pattern.iter().any(|byte| b"^$*+?.([%-".contains(byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(subject: &str, pattern: &str) -> Result<Option<(usize, usize, Vec<Capture>)>, Failure> {
        let anchored = pattern.starts_with('^');
        let body = pattern.strip_prefix('^').unwrap_or(pattern);
        let mut matcher = Matcher::new(subject.as_bytes(), body.as_bytes(), &|| false);
        for start in 0..=subject.len() {
            if let Some(end) = matcher.match_at(start)? {
                return Ok(Some((start, end, matcher.captures(start, end)?)));
            }
            if anchored {
                break;
            }
        }
        Ok(None)
    }

    #[test]
    fn matches_like_lua() {
        let span = |start, end| vec![Capture::Span(start, end)];
        assert_eq!(find("hello world", "o w"), Ok(Some((4, 7, span(4, 7)))));
        assert_eq!(
            find("key = value", "^(%w+)%s*=%s*(%w+)$").unwrap().unwrap().2,
            [Capture::Span(0, 3), Capture::Span(6, 11)]
        );
        assert_eq!(find("THE (quick) fox", "%((%a+)%)").unwrap().unwrap().2, span(5, 10));
        assert_eq!(find("f(a(b)c)d", "%b()").unwrap().unwrap().0, 1);
        assert_eq!(find("f(a(b)c)d", "%b()").unwrap().unwrap().1, 8);
        assert_eq!(find("THE quick", "%f[%a]%a+%f[%A]").unwrap().unwrap().1, 3);
        assert_eq!(find("aXbXc", "a.-X").unwrap().unwrap().1, 2);
        assert_eq!(find("x]y", "[]]").unwrap().unwrap().0, 1);
        assert_eq!(find("a-b", "[a%-]+").unwrap().unwrap().1, 2);
        assert_eq!(find("abab", "(ab)%1").unwrap().unwrap().1, 4);
        assert_eq!(find("abc", "()b()").unwrap().unwrap().2, [Capture::Position(2), Capture::Position(3)]);
        assert_eq!(find("abc", "x?b?c?$").unwrap().unwrap().0, 1);
        assert_eq!(find("", "^$").unwrap().unwrap().1, 0);
        assert_eq!(find("abc", "%d"), Ok(None));
    }

    #[test]
    fn refuses_malformed_patterns() {
        for pattern in ["%", "[a", "%b", "%bx", "%f", "(a", "a)", "%1", "[%", "[]", "%fa"] {
            assert!(find("aaa", pattern).is_err(), "{pattern}");
        }
    }

    #[test]
    fn a_pattern_bomb_runs_out_of_steps() {
        let subject = "a".repeat(60);
        let pattern = format!("{}b", "a*".repeat(10));
        assert!(find(&subject, &pattern).is_err());
    }

    #[test]
    fn cancelling_ends_a_match() {
        let subject = "a".repeat(100_000);
        assert_eq!(Matcher::new(subject.as_bytes(), b"a*b", &|| true).match_at(0), Err(Failure::Cancelled));
    }
}
