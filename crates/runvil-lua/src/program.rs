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
            Ok(function) => {
                Ok(Program { label: label.to_owned(), line, bytecode: function.dump(false) })
            }
            Err(error) => {
                let diagnostic = match &error {
                    mlua::Error::SyntaxError { message, .. } => message.clone(),
                    other => other.to_string(),
                };
                Err(CompileError {
                    message: format!("lua compilation error at {label} (line {line}): {diagnostic}"),
                    line: named_line(&diagnostic),
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

/// The line of a diagnostic that reads `{chunk}:{line}: …`.
fn named_line(diagnostic: &str) -> Option<usize> {
    diagnostic
        .match_indices(':')
        .find_map(|(at, _)| diagnostic[at + 1..].split(':').next().and_then(|text| text.parse().ok()))
}
