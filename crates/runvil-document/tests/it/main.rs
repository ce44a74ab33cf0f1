//! Integration tests of the document parser.

mod bounds;
mod fences;
mod frontmatter;
mod headings;
mod promptforge;
mod properties;
mod sections;
mod structure;
mod support;
mod warnings;
