//! Compactions: the `compactors` table, `models.compact`, and a loop's call of its compactor.

use mlua::{Lua, MultiValue, Value};
use runvil_core::list::{ListSize, Snapshot};
use runvil_core::precheck::ContextOverflow;

use crate::error_value::{raise, refuse};
use crate::failure::Failure;
use crate::messages::broken;
use crate::names::type_name;
use crate::request::Request;
use crate::section::{Running, Section, lock};
use crate::tools::{CompactionStage, Report};

/// A compaction under way: what to put back when it fails.
#[derive(Debug)]
pub(crate) struct Compaction {
    pub(crate) snapshot: Snapshot,
    reason: String,
    before: ListSize,
    /// What the loop that called for it ran into.
    overflow: Option<ContextOverflow>,
}

impl Compaction {
    fn report(self, section: &Section, stage: CompactionStage, left: ListSize) {
        let (before, now) = match stage {
            CompactionStage::Restored => (left, self.before),
            _ => (self.before, left),
        };
        section.report(Report::Compaction { stage, reason: self.reason, before: Some(before), now });
    }
}

/// `compactors.fail(reason)`: always raises. In a loop's compactor the failure has the counts of the refused request.
pub(crate) fn fail(section: &Section, reason: &Value) -> mlua::Error {
    match reason {
        Value::String(reason) => {
            let overflow = lock(&section.compaction).as_ref().and_then(|compaction| compaction.overflow);
            raise(Failure::ContextExhausted {
                reason: reason.to_string_lossy(),
                used: overflow.and_then(|overflow| overflow.used),
                limit: overflow.and_then(|overflow| overflow.limit),
            })
        }
        other => refuse(format!("reason must be a string, got {}", type_name(other))),
    }
}

/// `compactors.clear`: empties the list.
pub(crate) fn clear(section: &Section) -> mlua::Result<()> {
    if !section.running().is_compactor() {
        return Err(refuse(
            "compactors.clear works only inside a compactor; empty messages with models.compact(compactors.clear, \
             reason)",
        ));
    }
    section.list().clear();
    Ok(())
}

/// `models.compact(compactor, reason)`: the checks of its arguments, in their order, then the snapshot.
pub(crate) fn begin(section: &Section, arguments: &MultiValue) -> mlua::Result<(Value, Value)> {
    if arguments.len() > 2 {
        return Err(refuse("models.compact takes (compactor, reason)"));
    }
    let compactor = arguments.front().cloned().unwrap_or(Value::Nil);
    let reason = arguments.get(1).cloned().unwrap_or(Value::Nil);
    if !matches!(compactor, Value::Function(_)) {
        return Err(refuse(format!("compactor must be a function, got {}", type_name(&compactor))));
    }
    if !matches!(reason, Value::String(_)) {
        return Err(refuse(format!("reason must be a string, got {}", type_name(&reason))));
    }
    if section.running() != Running::Nothing {
        return Err(refuse("models.compact cannot start while a loop or a compactor is running in this section"));
    }
    let said = match &reason {
        Value::String(reason) => reason.to_string_lossy(),
        _ => String::new(),
    };
    enter(section, Running::Compactor, said, None);
    Ok((compactor, reason))
}

/// Takes the snapshot and lets `replace` work.
pub(crate) fn enter(section: &Section, running: Running, reason: String, overflow: Option<ContextOverflow>) {
    let (snapshot, size) = {
        let mut list = section.list();
        (list.snapshot(), list.size())
    };
    let stage = CompactionStage::Started;
    section.report(Report::Compaction { stage, reason: reason.clone(), before: None, now: size });
    *lock(&section.compaction) = Some(Compaction { snapshot, reason, before: size, overflow });
    section.set_running(running);
}

/// Puts the records from before a compaction back.
fn restore(section: &Section, compaction: Compaction) {
    let left = {
        let mut list = section.list();
        let left = list.size();
        list.restore(compaction.snapshot.clone());
        left
    };
    compaction.report(section, CompactionStage::Restored, left);
}

/// Ends `models.compact`: keeps what the compactor left, or puts the records back. Gives the value to raise, when there
/// is one.
pub(crate) fn finish(lua: &Lua, section: &Section, returned: bool, raised: Value) -> mlua::Result<(bool, Value)> {
    section.set_running(Running::Nothing);
    let Some(compaction) = lock(&section.compaction).take() else { return Ok((true, Value::Nil)) };
    if !returned {
        restore(section, compaction);
        return Ok((false, raised_value(lua, section, raised)?));
    }
    let checked = section.list().check();
    if let Err(error) = checked {
        restore(section, compaction);
        return Err(broken(&error));
    }
    let left = section.list().size();
    compaction.report(section, CompactionStage::Accepted, left);
    section.update_memory_limit(lua)?;
    Ok((true, Value::Nil))
}

/// Ends a compactor that a loop called. When it returned, the Engine judges the list it left; when it raised, the
/// records are put back, the loop has ended, and the value to raise is given.
pub(crate) fn finish_in_loop(
    lua: &Lua,
    section: &Section,
    returned: bool,
    raised: Value,
) -> mlua::Result<(bool, Value)> {
    if returned {
        section.set_running(Running::Loop);
        section.ask(Request::Compacted);
        return Ok((true, Value::Nil));
    }
    section.set_running(Running::Nothing);
    let compaction = lock(&section.compaction).take();
    if let Some(compaction) = compaction {
        restore(section, compaction);
    }
    Ok((false, raised_value(lua, section, raised)?))
}

/// The value a compactor or a handler raised, as `pcall` would give it; untouched while the run is being cancelled.
pub(crate) fn raised_value(lua: &Lua, section: &Section, raised: Value) -> mlua::Result<Value> {
    if section.is_cancelled() { Ok(raised) } else { section.errors.normalize(lua, raised) }
}
