//! Compiles a prompt's Lua blocks, once per prompt.

use mlua::chunk::ChunkMode;
use mlua::{Lua, LuaOptions, StdLib};

/// A Lua block compiled to bytecode, ready to be loaded into any number of section VMs.
#[derive(Debug, Clone)]
pub struct Program {
    label: String,
    line: usize,
    bytecode: Vec<u8>,
}

impl Program {
    /// The location label, such as ``section `Chat` prologue``; it is also the chunk name in Lua's messages.
    pub fn label(&self) -> &str {
        &self.label
    }

    /// The 1-based file line of the block's first Lua line.
    pub fn line(&self) -> usize {
        self.line
    }

    pub(crate) fn bytecode(&self) -> &[u8] {
        &self.bytecode
    }
}

/// Why a block does not compile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompileError {
    /// The whole message: `lua compilation error at {label} (line {first line}): {diagnostic}`.
    pub message: String,
    /// The 1-based file line Lua names, when it names one.
    pub line: Option<usize>,
}

/// Compiles Lua blocks; keeps one interpreter for all of them.
#[derive(Debug)]
pub struct Compiler {
    lua: Lua,
}

impl Compiler {
    /// A compiler with an interpreter of its own that never runs anything.
    pub fn new() -> Self {
        let lua = Lua::new_with(StdLib::NONE, LuaOptions::default()).unwrap_or_else(|_| Lua::new());
        Self { lua }
    }

    /// Compiles `source`, whose first line is the 1-based file line `line`.
    ///
    /// Only text is accepted: a source that starts like bytecode is a syntax error. Lines in the compiled block count
    /// from the top of the file.
    pub fn compile(&self, source: &str, label: &str, line: usize) -> Result<Program, CompileError> {
        let padded = padded(source, line);
        let name = format!("={label}");
        match self.lua.load(padded.as_bytes()).set_name(&name).set_mode(ChunkMode::Text).into_function() {
            Ok(function) => Ok(Program { label: label.to_owned(), line, bytecode: function.dump(false) }),
            Err(error) => {
                let diagnostic = match &error {
                    mlua::Error::SyntaxError { message, .. } => message.clone(),
                    other => other.to_string(),
                };
                Err(CompileError {
                    message: format!("lua compilation error at {label} (line {line}): {}", whole(&diagnostic, label)),
                    line: named_line(&diagnostic, label),
                })
            }
        }
    }
}

impl Default for Compiler {
    fn default() -> Self {
        Self::new()
    }
}

/// The source with enough empty lines in front that Lua's line numbers are file lines.
pub(crate) fn padded(source: &str, line: usize) -> String {
    let mut text = "\n".repeat(line.saturating_sub(1));
    text.push_str(source);
    text
}

/// The longest chunk name Lua puts in front of a message, in bytes.
const LUA_NAME_LIMIT: usize = 59;

/// What follows a label at the start of a message, where Lua may have cut the label.
pub(crate) fn after_label<'a>(message: &'a str, label: &str) -> Option<&'a str> {
    let mut cut = label.len().min(LUA_NAME_LIMIT);
    while !label.is_char_boundary(cut) {
        cut -= 1;
    }
    // A character that Lua cut in two has become a replacement character.
    let rest = message.strip_prefix(&label[..cut])?.trim_start_matches(char::REPLACEMENT_CHARACTER);
    rest.starts_with(':').then_some(rest)
}

/// A diagnostic with the whole label in front.
fn whole(diagnostic: &str, label: &str) -> String {
    match after_label(diagnostic, label) {
        Some(rest) => format!("{label}{rest}"),
        None => diagnostic.to_owned(),
    }
}

/// The line of a diagnostic that reads `{label}:{line}: …`.
fn named_line(diagnostic: &str, label: &str) -> Option<usize> {
    after_label(diagnostic, label)?.split(':').nth(1)?.parse().ok()
}
