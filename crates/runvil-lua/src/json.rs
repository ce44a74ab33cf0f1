//! Lua values as JSON and back: the one converter of the crate.
//!
//! A table becomes a list when its keys are exactly `1..n` or when it carries the list mark, an object when all its
//! keys are strings; every other table has no JSON form. An empty unmarked table is an object.

use std::fmt::Write as _;

use mlua::{Lua, LuaString, Table, Value};
use runvil_core::json::{MAX_DEPTH, TOO_DEEP};
use serde_json::{Map, Number, Value as Json};

use crate::names::type_name;
use crate::section::Section;
use crate::view::RecordView;

/// The deepest nesting of lists and objects that has a JSON form.
pub(crate) const DEPTH_LIMIT: usize = MAX_DEPTH;

/// The steps of a path that a message shows.
const PATH_STEPS: usize = 16;

/// How many values are converted between two looks at the cancel flag and the budget.
const CANCEL_POLL: usize = 512;

/// What converting so many values costs of a step's budget.
pub(crate) const POLL_WORK: u64 = 10_000;

/// Why a value has no JSON form.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Cause {
    /// A function, a thread or a userdata: its type.
    Type(&'static str),
    /// A list that has string keys too: the first of them, quoted.
    Mixed(String),
    /// Whole-number keys that are no sequence from 1.
    Sparse,
    /// A key that is neither a string nor a whole number: its type.
    KeyType(&'static str),
    /// NaN or an infinity, as text.
    NotFinite(&'static str),
    /// A string that is not valid UTF-8.
    NotUtf8,
    /// A key that is not valid UTF-8.
    KeyNotUtf8,
    /// A table that contains itself.
    Cycle,
    /// Nesting past [`DEPTH_LIMIT`].
    Depth,
    /// More data than the section's memory ceiling allows.
    Memory,
    /// The run was cancelled meanwhile.
    Cancelled,
}

/// A value without a JSON form: where it is, and why it has none.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Unrepresentable {
    path: Vec<Step>,
    pub(crate) cause: Cause,
}

#[derive(Debug, Clone, PartialEq)]
enum Step {
    Key(String),
    Other(String),
}

impl Unrepresentable {
    fn new(cause: Cause) -> Self {
        Self { path: Vec::new(), cause }
    }

    fn inside(mut self, step: impl FnOnce() -> Step) -> Self {
        self.path.push(step());
        self
    }

    /// The path from `root`: string keys after dots, every other key in brackets, and only the first steps of a long one.
    pub(crate) fn path(&self, root: &str) -> String {
        let mut text = root.to_owned();
        for (at, step) in self.path.iter().rev().enumerate() {
            if at == PATH_STEPS {
                text.push('…');
                break;
            }
            match step {
                Step::Key(key) if text.is_empty() => text.push_str(key),
                Step::Key(key) => {
                    text.push('.');
                    text.push_str(key);
                }
                Step::Other(key) => {
                    let _ = write!(text, "[{key}]");
                }
            }
        }
        text
    }

    /// What was found in place of JSON data.
    fn found(&self) -> String {
        match &self.cause {
            Cause::Type(name) => (*name).to_owned(),
            Cause::Mixed(key) => format!("a list that also has the key {key}"),
            Cause::Sparse => "a list whose positions have gaps or do not start at 1".to_owned(),
            Cause::KeyType(name) => format!("a table with a {name} key"),
            Cause::NotFinite(text) => (*text).to_owned(),
            Cause::NotUtf8 => "a string that is not valid UTF-8".to_owned(),
            Cause::KeyNotUtf8 => "a table with a key that is not valid UTF-8".to_owned(),
            Cause::Cycle => "a table that contains itself".to_owned(),
            Cause::Depth => format!("a value nested more than {DEPTH_LIMIT} levels deep"),
            Cause::Memory => "more data than the memory ceiling allows".to_owned(),
            Cause::Cancelled => "nothing: the run is being cancelled".to_owned(),
        }
    }

    /// `{path} must be JSON data, got {what}`.
    pub(crate) fn data_message(&self, root: &str) -> String {
        format!("{} must be JSON data, got {}", self.path(root), self.found())
    }

    /// The `{reason}` of a refused record: the type alone for a value of an unsupported type, otherwise what and where.
    pub(crate) fn reason(&self) -> String {
        let mut text = match &self.cause {
            Cause::Type(name) => return format!("unsupported value type `{name}`"),
            Cause::Cycle => "recursive table detected".to_owned(),
            Cause::Depth => TOO_DEEP.to_owned(),
            _ => self.found(),
        };
        if !self.path.is_empty() {
            let _ = write!(text, " at {}", self.path(""));
        }
        text
    }
}

/// What a record view inside the value becomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Views {
    /// Its record's JSON form.
    Convert,
    /// A userdata like any other: refused.
    Refuse,
}

/// How a JSON null reads in Lua.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Nulls {
    /// `json.null`.
    Keep,
    /// `nil`.
    Nil,
}

/// Converts a Lua value to JSON.
///
/// `levels` is how deep lists and objects may nest. Object keys come out sorted by their bytes.
pub(crate) fn to_json(section: &Section, value: &Value, views: Views, levels: usize) -> Result<Json, Unrepresentable> {
    let mut reader =
        Reader { section, views, levels, open: Vec::new(), since_poll: 0, bytes: 0, ceiling: section.memory_ceiling() };
    reader.value(value)
}

struct Reader<'s> {
    section: &'s Section,
    views: Views,
    levels: usize,
    /// The tables being converted, outermost first.
    open: Vec<*const std::ffi::c_void>,
    since_poll: usize,
    bytes: usize,
    ceiling: usize,
}

impl Reader<'_> {
    fn count(&mut self, bytes: usize) -> Result<(), Unrepresentable> {
        self.bytes += bytes + 32;
        if self.bytes > self.ceiling {
            return Err(Unrepresentable::new(Cause::Memory));
        }
        self.since_poll += 1;
        if self.since_poll >= CANCEL_POLL {
            self.since_poll = 0;
            if self.section.must_stop(POLL_WORK) {
                return Err(Unrepresentable::new(Cause::Cancelled));
            }
        }
        Ok(())
    }

    fn value(&mut self, value: &Value) -> Result<Json, Unrepresentable> {
        self.count(0)?;
        match value {
            Value::Nil => Ok(Json::Null),
            Value::Boolean(flag) => Ok(Json::Bool(*flag)),
            Value::Integer(number) => Ok(Json::from(*number)),
            Value::Number(number) => match Number::from_f64(*number) {
                Some(number) => Ok(Json::Number(number)),
                None if number.is_nan() => Err(Unrepresentable::new(Cause::NotFinite("NaN"))),
                None => Err(Unrepresentable::new(Cause::NotFinite("infinity"))),
            },
            Value::String(text) => self.text(text).map(Json::String),
            Value::LightUserData(light) if light.0.is_null() => Ok(Json::Null),
            Value::Table(table) => self.table(table),
            Value::UserData(data) if self.views == Views::Convert => match data.borrow::<RecordView>() {
                Ok(view) => Ok(view.record().to_value()),
                Err(_) => Err(Unrepresentable::new(Cause::Type("userdata"))),
            },
            other => Err(Unrepresentable::new(Cause::Type(type_name(other)))),
        }
    }

    fn text(&mut self, text: &LuaString) -> Result<String, Unrepresentable> {
        let bytes = text.as_bytes();
        self.count(bytes.len())?;
        match std::str::from_utf8(&bytes) {
            Ok(text) => Ok(text.to_owned()),
            Err(_) => Err(Unrepresentable::new(Cause::NotUtf8)),
        }
    }

    fn table(&mut self, table: &Table) -> Result<Json, Unrepresentable> {
        let pointer = table.to_pointer();
        if self.open.contains(&pointer) {
            return Err(Unrepresentable::new(Cause::Cycle));
        }
        if self.open.len() >= self.levels {
            return Err(Unrepresentable::new(Cause::Depth));
        }
        self.open.push(pointer);
        let (plain, marked) = match self.section.plain_table(table) {
            Plain::List(list) => (list, true),
            Plain::Table(plain) => (plain, false),
        };
        let length = plain.raw_len();
        let converted = self
            .entries(&plain, length, marked)
            .and_then(|entries| if marked || length > 0 { self.list(&plain, length) } else { self.object(entries) });
        self.open.pop();
        converted
    }

    /// The entries of a table besides its positions `1..length`, sorted by key. A list must have none.
    ///
    /// All keys are looked at before one is refused, because they come in no order.
    fn entries(&mut self, table: &Table, length: usize, marked: bool) -> Result<Vec<(String, Value)>, Unrepresentable> {
        let mut entries = Vec::new();
        let mut positions = 0;
        let mut strays = false;
        let mut not_utf8 = false;
        let mut other: Option<&'static str> = None;
        for pair in table.pairs::<Value, Value>() {
            let Ok((key, value)) = pair else { break };
            match key {
                Value::String(key) => {
                    self.count(key.as_bytes().len())?;
                    match key.to_str() {
                        Ok(key) => entries.push((key.to_owned(), value)),
                        Err(_) => not_utf8 = true,
                    }
                }
                Value::Integer(at) if usize::try_from(at).is_ok_and(|at| (1..=length).contains(&at)) => positions += 1,
                Value::Integer(_) => strays = true,
                key => {
                    let name = type_name(&key);
                    other = Some(other.map_or(name, |first| first.min(name)));
                }
            }
        }
        entries.sort_unstable_by(|left, right| left.0.cmp(&right.0));
        let is_list = marked || strays || length > 0;
        let cause = match (other, entries.first()) {
            (Some(name), _) => Cause::KeyType(name),
            (None, _) if not_utf8 => Cause::KeyNotUtf8,
            (None, Some((key, _))) if is_list => Cause::Mixed(crate::failure::quoted(key)),
            (None, None) if strays || positions < length => Cause::Sparse,
            _ => return Ok(entries),
        };
        Err(Unrepresentable::new(cause))
    }

    fn list(&mut self, table: &Table, length: usize) -> Result<Json, Unrepresentable> {
        if length.saturating_mul(size_of::<Json>()) > self.ceiling {
            return Err(Unrepresentable::new(Cause::Memory));
        }
        let mut items = Vec::with_capacity(length);
        for position in 1..=length {
            let item: Value = table.raw_get(position).unwrap_or(Value::Nil);
            items.push(self.value(&item).map_err(|error| error.inside(|| Step::Other(position.to_string())))?);
        }
        Ok(Json::Array(items))
    }

    fn object(&mut self, entries: Vec<(String, Value)>) -> Result<Json, Unrepresentable> {
        let mut object = Map::with_capacity(entries.len());
        for (key, value) in entries {
            let value = self.value(&value).map_err(|error| error.inside(|| Step::Key(key.clone())))?;
            object.insert(key, value);
        }
        Ok(Json::Object(object))
    }
}

/// What a table stands for when it is read as data.
pub(crate) enum Plain {
    /// A table with the list mark.
    List(Table),
    /// Any other table; for a guarded one the data behind it.
    Table(Table),
}

/// Converts JSON to a Lua value. Lists carry the list mark, integers past 64 bits become floats.
pub(crate) fn from_json(lua: &Lua, section: &Section, value: &Json, nulls: Nulls) -> mlua::Result<Value> {
    Ok(match value {
        Json::Null if nulls == Nulls::Keep => Value::NULL,
        Json::Null => Value::Nil,
        Json::Bool(flag) => Value::Boolean(*flag),
        Json::Number(number) => match number.as_i64() {
            Some(integer) => Value::Integer(integer),
            None => Value::Number(number.as_f64().unwrap_or(f64::INFINITY)),
        },
        Json::String(text) => Value::String(lua.create_string(text)?),
        Json::Array(items) => {
            let table = lua.create_table_with_capacity(items.len(), 0)?;
            for (at, item) in items.iter().enumerate() {
                table.raw_set(at + 1, from_json(lua, section, item, nulls)?)?;
            }
            table.set_metatable(Some(section.list_mark()))?;
            Value::Table(table)
        }
        Json::Object(entries) => {
            let table = lua.create_table_with_capacity(0, entries.len())?;
            for (key, item) in entries {
                table.raw_set(key.as_str(), from_json(lua, section, item, nulls)?)?;
            }
            Value::Table(table)
        }
    })
}

#[cfg(test)]
mod tests {
    use crate::budget::Budget;
    use std::sync::Arc;

    use mlua::Lua;

    use super::{DEPTH_LIMIT, Json, Section, Value, Views, to_json};
    use std::sync::atomic::AtomicU64;

    use crate::error_value::ErrorValues;
    use crate::models::Models;
    use crate::packs::Packs;
    use crate::section::{CancelFlag, Environment, Headings, SectionParams};

    struct NoHeadings;

    impl Headings for NoHeadings {
        fn items(&self, reference: &str) -> Result<Vec<String>, String> {
            Err(reference.to_owned())
        }
    }

    fn section(lua: &Lua) -> Section {
        let environment = Environment {
            models: Models::new(Vec::new(), false),
            packs: Packs::default(),
            turns: AtomicU64::new(0),
            cancel: CancelFlag::default(),
            budget: Budget::default(),
            nonce: String::new(),
            seed: 0,
            memory_bytes: 1 << 20,
            log_events: 0,
            ui: None,
        };
        let params = SectionParams {
            name: String::new(),
            sys: Vec::new(),
            var: Json::Null,
            args: String::new(),
            argv: None,
            argv_in_prose: None,
            is_h1: false,
            headings: Arc::new(NoHeadings),
        };
        Section::new(Arc::new(environment), params, ErrorValues::new(lua).unwrap())
    }

    fn reason(source: &str) -> String {
        let lua = Lua::new();
        let value: Value = lua.load(source).eval().unwrap();
        match to_json(&section(&lua), &value, Views::Convert, DEPTH_LIMIT) {
            Ok(json) => json.to_string(),
            Err(error) => error.reason(),
        }
    }

    #[test]
    fn types_without_a_json_form_name_the_type_alone() {
        // JSN-01, JSN-12, JSN-13
        assert_eq!(reason("return coroutine.create(print)"), "unsupported value type `thread`");
        assert_eq!(reason("return { a = { coroutine.create(print) } }"), "unsupported value type `thread`");
        assert_eq!(reason("return { print }"), "unsupported value type `function`");
        assert_eq!(reason("return { f = io.stdout }"), "unsupported value type `userdata`");
    }

    #[test]
    fn a_refusal_does_not_depend_on_the_order_of_keys() {
        // JSN-22, JSN-23, JSN-24
        let keys =
            ["a = 1", "b = 1", "c = 1", "[1] = 1", "[2] = 1", "[9] = 1", "[1.5] = 1", "[true] = 1", "['\\xff'] = 1"];
        let cases: [(&[usize], &str); 6] = [
            (&[0, 1, 2, 3, 4], "a list that also has the key \"a\""),
            (&[2, 1, 5], "a list that also has the key \"b\""),
            (&[3, 5], "a list whose positions have gaps or do not start at 1"),
            (&[0, 3, 5, 8], "a table with a key that is not valid UTF-8"),
            (&[0, 3, 5, 6, 8], "a table with a number key"),
            (&[0, 3, 5, 6, 7, 8], "a table with a boolean key"),
        ];
        for (chosen, text) in cases {
            for turn in 0..chosen.len() {
                let turned: Vec<_> = chosen.iter().cycle().skip(turn).take(chosen.len()).map(|at| keys[*at]).collect();
                assert_eq!(reason(&format!("return {{ {} }}", turned.join(", "))), text, "{turned:?}");
            }
        }
    }

    #[test]
    fn a_long_path_is_cut() {
        // JSN-19
        let deep = |levels: usize| {
            reason(&format!("local t = {{}} for i = 1, {levels} - 1 do t = {{ deeper = t }} end return {{ here = t }}"))
        };
        assert!(deep(127).starts_with("{\"here\":{\"deeper\":"));
        let path = "here".to_owned() + &".deeper".repeat(15) + "…";
        assert_eq!(deep(128), format!("nesting is deeper than 128 levels at {path}"));
    }
}
