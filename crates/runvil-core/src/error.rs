//! Why an edit, a check or a request was refused: one closed set of codes with their exact texts.

use std::fmt;

use crate::quote::Quoted;

/// The largest metadata a record may carry, in bytes of compact JSON.
pub const META_LIMIT: usize = 8192;

macro_rules! codes {
    ($($(#[$doc:meta])* $variant:ident = $register:literal, $name:literal;)*) => {
        /// Which rule was broken.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Code {
            $($(#[$doc])* $variant,)*
        }

        impl Code {
            /// Every code.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The code's name in snake case.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// The code's key in the register of error texts, such as `R3`.
            pub const fn register(self) -> &'static str {
                match self { $(Self::$variant => $register,)* }
            }
        }
    };
}

codes! {
    /// A whole record holds a value that JSON cannot represent.
    RecordNotJson = "J1", "record_not_json";
    /// One field given to a builder has no JSON form.
    FieldNotJson = "J2", "field_not_json";
    /// A record is not a table.
    RecordNotTable = "R1", "record_not_table";
    /// The role is missing or no string.
    RoleNotString = "R2", "role_not_string";
    /// The role is none of the four.
    RoleUnknown = "R3", "role_unknown";
    /// The content is neither a string nor a non-empty array of parts.
    ContentInvalid = "R4", "content_invalid";
    /// A content part is no table with a string type.
    PartNotTable = "R5", "part_not_table";
    /// A content part is neither a text nor an image part.
    PartTypeUnknown = "R6", "part_type_unknown";
    /// A text part has no string text.
    TextPartInvalid = "R7", "text_part_invalid";
    /// An image part has no table with a string URL.
    ImagePartInvalid = "R8", "image_part_invalid";
    /// The id of the answered call is present but no string.
    ToolCallIdNotString = "R9", "tool_call_id_not_string";
    /// A tool record does not say which call it answers.
    ToolCallIdMissing = "R10", "tool_call_id_missing";
    /// A record of another role says that it answers a call.
    ToolCallIdMisplaced = "R11", "tool_call_id_misplaced";
    /// The tool calls are no array.
    ToolCallsNotArray = "R12", "tool_calls_not_array";
    /// A tool call is not a table.
    CallNotTable = "R13", "call_not_table";
    /// A tool call has no string id.
    CallIdNotString = "R14", "call_id_not_string";
    /// A tool call has no string name.
    CallNameNotString = "R15", "call_name_not_string";
    /// The arguments of a tool call are no keyed table.
    CallArgumentsNotTable = "R16", "call_arguments_not_table";
    /// The metadata is larger than [`META_LIMIT`].
    MetaTooLarge = "R17", "meta_too_large";
    /// A system record would stand behind a record of another role.
    LateSystem = "R18", "late_system";
    /// `replace` was called while no compactor runs.
    ReplaceOutsideCompactor = "P1", "replace_outside_compactor";
    /// A bound of `replace` is no whole number.
    BoundNotInteger = "P2", "bound_not_integer";
    /// The range of `replace` does not fit the list.
    RangeOutOfBounds = "P3", "range_out_of_bounds";
    /// There is no record to send.
    ListEmpty = "X0", "list_empty";
    /// A leading block of two or more system records holds content parts.
    SystemParts = "X1", "system_parts";
    /// A record of another role than assistant holds tool calls.
    ToolCallsMisplaced = "X2", "tool_calls_misplaced";
    /// A tool call id was used before.
    CallIdDuplicate = "X3", "call_id_duplicate";
    /// A tool call has no result.
    CallUnanswered = "X4", "call_unanswered";
    /// A tool record answers no open call.
    OrphanResult = "X5", "orphan_result";
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A field of a message record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Field {
    /// Who speaks.
    Role,
    /// The visible content.
    Content,
    /// The calls an assistant record makes.
    ToolCalls,
    /// The call a tool record answers.
    ToolCallId,
    /// The author's own data.
    Meta,
}

impl Field {
    /// The field's name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Role => "role",
            Self::Content => "content",
            Self::ToolCalls => "tool_calls",
            Self::ToolCallId => "tool_call_id",
            Self::Meta => "meta",
        }
    }
}

/// A bound of a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Bound {
    /// The first position.
    First,
    /// The last position.
    Last,
}

/// What a message names besides the position.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Detail {
    /// A role, a part type or a call id.
    Name(String),
    /// Why a record has no JSON form.
    Reason(String),
    /// Why a field has no JSON form.
    FieldReason(Field, String),
    /// The size of a meta in bytes.
    Size(usize),
    /// A bound and what stood there.
    Bound(Bound, String),
    /// A range as it was given, and the list's length.
    Range(i128, i128, usize),
}

/// A refused edit, a broken list or an empty one.
///
/// `Display` prints the exact text. All positions count from 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListError {
    /// Which rule was broken.
    pub code: Code,
    /// The record's position in the list as it would stand after the edit.
    pub position: Option<usize>,
    /// The position of the offending part in the record's content.
    pub part: Option<usize>,
    /// The position of the offending call in the record's tool calls.
    pub call: Option<usize>,
    detail: Option<Box<Detail>>,
}

impl ListError {
    fn plain(code: Code, position: Option<usize>) -> Self {
        Self { code, position, part: None, call: None, detail: None }
    }

    fn with(code: Code, position: Option<usize>, detail: Detail) -> Self {
        Self { detail: Some(Box::new(detail)), ..Self::plain(code, position) }
    }

    pub(crate) fn at(code: Code, position: usize) -> Self {
        Self::plain(code, Some(position))
    }

    pub(crate) fn at_part(code: Code, position: usize, part: usize) -> Self {
        Self { part: Some(part), ..Self::at(code, position) }
    }

    pub(crate) fn at_call(code: Code, position: usize, call: usize) -> Self {
        Self { call: Some(call), ..Self::at(code, position) }
    }

    pub(crate) fn named(code: Code, position: usize, name: &str) -> Self {
        Self::with(code, Some(position), Detail::Name(name.to_owned()))
    }

    pub(crate) fn named_part(position: usize, part: usize, name: &str) -> Self {
        Self { part: Some(part), ..Self::named(Code::PartTypeUnknown, position, name) }
    }

    pub(crate) fn meta_too_large(position: usize, size: usize) -> Self {
        Self::with(Code::MetaTooLarge, Some(position), Detail::Size(size))
    }

    /// The record for this position has no JSON form; `reason` says why.
    pub fn not_json_record(position: usize, reason: impl Into<String>) -> Self {
        Self::with(Code::RecordNotJson, Some(position), Detail::Reason(reason.into()))
    }

    /// One field given to a builder has no JSON form; `reason` says why.
    pub fn not_json_field(position: usize, field: Field, reason: impl Into<String>) -> Self {
        Self::with(Code::FieldNotJson, Some(position), Detail::FieldReason(field, reason.into()))
    }

    /// `replace` was called while no compactor runs.
    pub fn replace_outside_compactor() -> Self {
        Self::plain(Code::ReplaceOutsideCompactor, None)
    }

    /// A bound of `replace` is no whole number; `got` is the number, or the name of the type that stood there.
    pub fn bound_not_integer(bound: Bound, got: impl Into<String>) -> Self {
        Self::with(Code::BoundNotInteger, None, Detail::Bound(bound, got.into()))
    }

    /// The range of `replace` does not fit a list of `length` records.
    pub fn range_out_of_bounds(first: i128, last: i128, length: usize) -> Self {
        Self::with(Code::RangeOutOfBounds, None, Detail::Range(first, last, length))
    }

    /// There is no record to send.
    pub fn list_empty() -> Self {
        Self::plain(Code::ListEmpty, None)
    }

    /// The same refusal for a record at another position.
    #[must_use]
    pub fn moved_to(mut self, position: usize) -> Self {
        if self.position.is_some() {
            self.position = Some(position);
        }
        self
    }

    fn name(&self) -> Quoted<'_> {
        match self.detail.as_deref() {
            Some(Detail::Name(name)) => Quoted(name),
            _ => Quoted(""),
        }
    }
}

impl fmt::Display for ListError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(position) = self.position {
            write!(f, "messages[{position}] ")?;
        }
        if let Some(part) = self.part {
            write!(f, "content part {part} ")?;
        }
        if let Some(call) = self.call {
            write!(f, "tool_calls[{call}] ")?;
        }
        match self.code {
            Code::RecordNotJson => {
                f.write_str("must be a JSON-representable message table: ")?;
                match self.detail.as_deref() {
                    Some(Detail::Reason(reason)) => f.write_str(reason),
                    _ => Ok(()),
                }
            }
            Code::FieldNotJson => match self.detail.as_deref() {
                Some(Detail::FieldReason(field, reason)) => {
                    write!(f, "{} must be JSON-representable: {reason}", field.as_str())
                }
                _ => f.write_str("must be JSON-representable"),
            },
            Code::RecordNotTable => f.write_str("must be a message table"),
            Code::RoleNotString => f.write_str("role must be a string, one of: system, user, assistant, tool"),
            Code::RoleUnknown => {
                write!(f, "role {} is unknown; known roles: system, user, assistant, tool", self.name())
            }
            Code::ContentInvalid => f.write_str("content must be a string or a non-empty array of content parts"),
            Code::PartNotTable => f.write_str("must be a table with a string type field"),
            Code::PartTypeUnknown => write!(f, "has unknown type {}; known types: text, image_url", self.name()),
            Code::TextPartInvalid => f.write_str("is a text part and must set a string text field"),
            Code::ImagePartInvalid => {
                f.write_str("is an image_url part and must set an image_url table with a string url field")
            }
            Code::ToolCallIdNotString => f.write_str("tool_call_id must be a string"),
            Code::ToolCallIdMissing => f.write_str("is a tool message and must set a string tool_call_id"),
            Code::ToolCallIdMisplaced => f.write_str("sets a tool_call_id but is not a tool message"),
            Code::ToolCallsNotArray => f.write_str("tool_calls must be an array"),
            Code::CallNotTable => f.write_str("must be a table"),
            Code::CallIdNotString => f.write_str("must set a string id"),
            Code::CallNameNotString => f.write_str("must set a string name"),
            Code::CallArgumentsNotTable => f.write_str("arguments must be a table"),
            Code::MetaTooLarge => match self.detail.as_deref() {
                Some(Detail::Size(size)) => {
                    write!(f, "meta is {size} bytes as JSON; the limit is {META_LIMIT} bytes")
                }
                _ => write!(f, "meta is too large; the limit is {META_LIMIT} bytes"),
            },
            Code::LateSystem => f.write_str(
                "is a system message after a non-system message; system messages lead the list, \
                 and only a compactor can change the leading block",
            ),
            Code::ReplaceOutsideCompactor => f.write_str(
                "replace works only inside a compactor; rewrite history with models.compact(compactor, reason)",
            ),
            Code::BoundNotInteger => match self.detail.as_deref() {
                Some(Detail::Bound(bound, got)) => {
                    let name = if *bound == Bound::First { "first" } else { "last" };
                    write!(f, "replace {name} must be an integer, got {got}")
                }
                _ => f.write_str("replace bounds must be integers"),
            },
            Code::RangeOutOfBounds => match self.detail.as_deref() {
                Some(Detail::Range(first, last, length)) => write!(
                    f,
                    "replace({first}, {last}) is out of bounds on a list of {length} records: \
                     it needs 1 <= first <= last + 1 <= {}",
                    length + 1
                ),
                _ => f.write_str("replace is out of bounds"),
            },
            Code::ListEmpty => f.write_str("messages must not be empty"),
            Code::SystemParts => {
                f.write_str("is a system message with content parts; only plain text system messages can be composed")
            }
            Code::ToolCallsMisplaced => f.write_str("sets tool_calls but is not an assistant message"),
            Code::CallIdDuplicate => write!(f, "tool call id {} duplicates an earlier tool call", self.name()),
            Code::CallUnanswered => write!(f, "tool call {} has no tool result", self.name()),
            Code::OrphanResult => {
                write!(f, "is an orphan tool record: no pending assistant tool call with id {}", self.name())
            }
        }
    }
}

impl std::error::Error for ListError {}
