//! References to sections by heading, as `call`, `jump` and the like take them.

use crate::document::{Document, SectionId};

/// A heading reference: the level its markers name and the section's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// The number of `#` markers.
    pub level: usize,
    /// The name behind the markers, trimmed, otherwise as written.
    pub name: String,
}

/// Why a heading reference names no section. Displays as the exact message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReferenceError {
    /// The target is not a string. Raised by callers that take values of any type.
    #[error("section target must be a string, got {found}")]
    NotAString {
        /// The Lua type name of the value.
        found: String,
    },
    /// The text has no `#` markers.
    #[error("section heading must include ### markers, got bare name: {text}")]
    BareName {
        /// The text, trimmed.
        text: String,
    },
    /// The text is markers only.
    #[error("section heading has no name: {text}")]
    NoName {
        /// The text, trimmed.
        text: String,
    },
    /// The name follows the markers without whitespace.
    #[error("section heading must have whitespace after the {markers} markers: {text}")]
    NoWhitespace {
        /// The markers.
        markers: String,
        /// The text, trimmed.
        text: String,
    },
    /// No visible section has this heading.
    #[error("section heading `{heading}` not found; available sections: {}", available.join(", "))]
    NotFound {
        /// The text, trimmed.
        heading: String,
        /// The headings visible from the referring section.
        available: Vec<String>,
    },
}

/// Reads a heading reference such as `## Name`. Outer whitespace is ignored, case and inner whitespace of the name count.
pub fn parse_reference(text: &str) -> Result<Reference, ReferenceError> {
    let text = text.trim();
    let rest = text.trim_start_matches('#');
    let level = text.len() - rest.len();
    if level == 0 {
        return Err(ReferenceError::BareName { text: text.to_owned() });
    }
    if rest.is_empty() {
        return Err(ReferenceError::NoName { text: text.to_owned() });
    }
    if !rest.starts_with([' ', '\t']) {
        return Err(ReferenceError::NoWhitespace { markers: "#".repeat(level), text: text.to_owned() });
    }
    Ok(Reference { level, name: rest.trim_start().to_owned() })
}

impl Document {
    /// The sections a reference in this section can name: its siblings, then its children. From the H1 body, every
    /// top-level section.
    pub fn visible_from(&self, section: SectionId) -> Vec<SectionId> {
        if section == SectionId::BODY {
            return self.top_level().to_vec();
        }
        let siblings = self.level_of(section).iter().copied().filter(|&sibling| sibling != section);
        siblings.chain(self.section(section).children.iter().copied()).collect()
    }

    /// Finds the section a heading reference names, seen from another section.
    pub fn resolve(&self, from: SectionId, text: &str) -> Result<SectionId, ReferenceError> {
        let reference = parse_reference(text)?;
        let visible = self.visible_from(from);
        let found = visible.iter().copied().find(|&id| {
            let section = self.section(id);
            usize::from(section.level) == reference.level && section.name == reference.name
        });
        found.ok_or_else(|| ReferenceError::NotFound {
            heading: text.trim().to_owned(),
            available: visible.iter().map(|&id| self.section(id).heading()).collect(),
        })
    }
}
