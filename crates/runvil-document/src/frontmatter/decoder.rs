//! Reading typed values from the tree while collecting every problem.

use crate::name::{NAME_GRAMMAR, is_name};
use crate::problem::{ParseKind, Problem};
use crate::source::Source;
use crate::yaml::{Integer, Node, Scalar, Value};

/// Collects problems while values are read.
pub(super) struct Decoder<'a> {
    source: &'a Source<'a>,
    /// Problems with the offset that decides their order.
    problems: Vec<(usize, Problem)>,
}

impl<'a> Decoder<'a> {
    pub(super) fn new(source: &'a Source<'a>) -> Self {
        Self { source, problems: Vec::new() }
    }

    /// The problems in file order; a missing key counts at the end of its map.
    pub(super) fn into_problems(mut self) -> Vec<Problem> {
        self.problems.sort_by_key(|&(order, _)| order);
        self.problems.into_iter().map(|(_, problem)| problem).collect()
    }

    /// Records a problem with a value; the detail is the part behind `invalid frontmatter: `.
    pub(super) fn problem(&mut self, node: &Node, detail: impl AsRef<str>) {
        self.push(node.span.start, node, detail.as_ref());
    }

    fn push(&mut self, order: usize, node: &Node, detail: &str) {
        let problem = invalid(self.source, detail, node.span.clone());
        self.problems.push((order, problem));
    }

    /// Records that a value has another type than expected.
    pub(super) fn invalid_type(&mut self, node: &Node, expected: &str) {
        self.problem(node, format!("invalid type: {}, expected {expected}", node.found()));
    }

    pub(super) fn missing(&mut self, map: &Node, key: &str) {
        self.push(map.span.end, map, &format!("missing field `{key}`"));
    }

    /// The entries of a map with fixed keys. Unknown and repeated keys are recorded; of repeated ones the first counts.
    pub(super) fn fields<'n>(&mut self, node: &'n Node, accepted: &[&str], expected: &str) -> Option<Fields<'n>> {
        self.fields_except(node, accepted, &[], expected)
    }

    /// As [`Self::fields`], without a word about the keys in `ignored` that are not accepted.
    pub(super) fn fields_except<'n>(
        &mut self,
        node: &'n Node,
        accepted: &[&str],
        ignored: &[&str],
        expected: &str,
    ) -> Option<Fields<'n>> {
        let Value::Map(entries) = &*node.value else {
            self.invalid_type(node, expected);
            return None;
        };
        let mut fields = Fields { map: node, entries: Vec::with_capacity(entries.len()) };
        for (key, value) in entries {
            let Some(text) = key.scalar_text() else {
                self.invalid_type(key, "a field name");
                continue;
            };
            if !accepted.contains(&text) {
                if ignored.contains(&text) {
                    continue;
                }
                self.problem(key, format!("unknown field `{text}`, expected one of {}", listed(accepted)));
            } else if fields.entry(text).is_some() {
                self.problem(key, format!("duplicate field `{text}`"));
            } else {
                fields.entries.push((key, text, value));
            }
        }
        Some(fields)
    }

    /// The entries of a map from declared names to declarations. Names are checked for grammar, then for uniqueness.
    pub(super) fn contract<'n>(&mut self, node: &'n Node, kind: &str) -> Vec<(&'n str, &'n Node)> {
        let Value::Map(entries) = &*node.value else {
            self.invalid_type(node, &format!("a map of {kind} keys to declarations"));
            return Vec::new();
        };
        let mut seen = std::collections::HashSet::new();
        let mut declared = Vec::with_capacity(entries.len());
        for (key, value) in entries {
            let Some(text) = key.scalar_text() else {
                self.invalid_type(key, &format!("a {kind}"));
                continue;
            };
            if !is_name(text) {
                self.problem(key, format!("invalid {kind} `{text}`: expected {NAME_GRAMMAR}"));
            } else if !seen.insert(text) {
                self.problem(key, format!("duplicate {kind} `{text}`: contract map keys must be unique"));
            }
            declared.push((text, value));
        }
        declared
    }

    /// A string. Other plain scalars are refused: the message says to quote them.
    pub(super) fn string(&mut self, node: &Node, key: &str) -> Option<String> {
        let text = node.as_str().map(str::to_owned);
        if text.is_none() {
            let quote = if node.scalar_text().is_some_and(|text| !text.is_empty()) { "; put it in quotes" } else { "" };
            self.invalid_type(node, &format!("a string for `{key}`{quote}"));
        }
        text
    }

    pub(super) fn boolean(&mut self, node: &Node, key: &str) -> Option<bool> {
        if let Value::Scalar { scalar: Scalar::Boolean(value), .. } = *node.value {
            return Some(value);
        }
        self.invalid_type(node, &format!("a boolean for `{key}`"));
        None
    }

    /// An integer of any size and its text as written.
    pub(super) fn integer<'n>(&mut self, node: &'n Node, expected: &str) -> Option<(Integer, &'n str)> {
        if let Value::Scalar { text, scalar: Scalar::Integer(integer) } = &*node.value {
            return Some((*integer, text));
        }
        self.invalid_type(node, expected);
        None
    }

    pub(super) fn list<'n>(&mut self, node: &'n Node, expected: &str) -> &'n [Node] {
        if let Value::List(items) = &*node.value {
            return items;
        }
        self.invalid_type(node, expected);
        &[]
    }

    /// A scalar out of a closed set, found by its text.
    pub(super) fn variant<T: Copy>(&mut self, node: &Node, all: &[T], name: fn(T) -> &'static str) -> Option<T> {
        let names: Vec<_> = all.iter().map(|&variant| name(variant)).collect();
        let Some(text) = node.scalar_text() else {
            self.invalid_type(node, &format!("one of {}", listed(&names)));
            return None;
        };
        let found = node.as_str().and_then(|text| names.iter().position(|&name| name == text));
        if found.is_none() {
            self.problem(node, format!("unknown variant `{text}`, expected one of {}", listed(&names)));
        }
        found.map(|index| all[index])
    }
}

/// A frontmatter problem with this detail.
pub(super) fn invalid(source: &Source<'_>, detail: &str, span: std::ops::Range<usize>) -> Problem {
    source.problem(ParseKind::Frontmatter, format!("invalid frontmatter: {detail}"), span)
}

/// The accepted fields of one map.
pub(super) struct Fields<'n> {
    map: &'n Node,
    entries: Vec<(&'n Node, &'n str, &'n Node)>,
}

impl<'n> Fields<'n> {
    fn entry(&self, key: &str) -> Option<(&'n Node, &'n Node)> {
        self.entries.iter().find(|&&(_, text, _)| text == key).map(|&(key, _, value)| (key, value))
    }

    /// The value of a key.
    pub(super) fn get(&self, key: &str) -> Option<&'n Node> {
        self.entry(key).map(|(_, value)| value)
    }

    /// The value of a key that must be there.
    pub(super) fn required(&self, decoder: &mut Decoder<'_>, key: &str) -> Option<&'n Node> {
        let value = self.get(key);
        if value.is_none() {
            decoder.missing(self.map, key);
        }
        value
    }
}

fn listed(names: &[&str]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}
