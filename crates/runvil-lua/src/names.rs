//! Names the language fixes: type names in messages, the grammar of labels, the sandbox's globals.

use mlua::Value;

/// The type of a value as messages name it: Lua's own name, but `integer` for an integer.
pub(crate) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Nil => "nil",
        Value::Boolean(_) => "boolean",
        Value::Integer(_) => "integer",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Table(_) => "table",
        Value::Function(_) => "function",
        Value::Thread(_) => "thread",
        _ => "userdata",
    }
}

/// What Lua's own messages call a value of the Engine, in place of the name of its Rust type.
pub(crate) const LUA_TYPE: &str = "userdata";

/// Whether `text` is a label: a letter, then up to 63 letters, digits, `_` or `-`, all ASCII.
pub(crate) fn is_label(text: &str) -> bool {
    let bytes = text.as_bytes();
    (1..=64).contains(&bytes.len())
        && bytes[0].is_ascii_alphabetic()
        && bytes[1..].iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
}

/// The globals of Lua's libraries that a block does not find. A test compares what stays with the lists below.
pub(crate) const REMOVED: [&str; 12] = [
    "collectgarbage",
    "coroutine",
    "dofile",
    "load",
    "loadfile",
    "print",
    "rawequal",
    "rawget",
    "rawlen",
    "rawset",
    "utf8",
    "warn",
];

/// The functions of the base library that stay.
#[cfg(test)]
pub(crate) const BASE: [&str; 13] = [
    "assert",
    "error",
    "pcall",
    "xpcall",
    "getmetatable",
    "setmetatable",
    "ipairs",
    "pairs",
    "next",
    "select",
    "tonumber",
    "tostring",
    "type",
];

/// The library tables that stay, and the two other names of the base library.
#[cfg(test)]
pub(crate) const LIBRARIES: [&str; 5] = ["string", "table", "math", "_G", "_VERSION"];

/// The names of `string` that stay.
#[cfg(test)]
pub(crate) const STRING: [&str; 16] = [
    "byte", "char", "find", "format", "gmatch", "gsub", "len", "lower", "match", "pack", "packsize", "rep", "reverse",
    "sub", "unpack", "upper",
];

/// The names of `table` that stay.
#[cfg(test)]
pub(crate) const TABLE: [&str; 8] = ["concat", "create", "insert", "move", "pack", "remove", "sort", "unpack"];

/// The names of `math` that stay.
#[cfg(test)]
pub(crate) const MATH: [&str; 29] = [
    "abs",
    "acos",
    "asin",
    "atan",
    "ceil",
    "cos",
    "deg",
    "exp",
    "floor",
    "fmod",
    "frexp",
    "huge",
    "ldexp",
    "log",
    "max",
    "maxinteger",
    "min",
    "mininteger",
    "modf",
    "pi",
    "rad",
    "random",
    "randomseed",
    "sin",
    "sqrt",
    "tan",
    "tointeger",
    "type",
    "ult",
];
