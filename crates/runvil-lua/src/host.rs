//! How a Rust function becomes one that Lua can call.

use std::sync::Arc;

use mlua::{FromLuaMulti, Function, IntoLuaMulti, LightUserData, Lua, MultiValue, Value};

use crate::error_value::{failure_of, raise};
use crate::failure::Failure;
use crate::section::{Section, lock};

/// What a function gives when its step has no budget left for it; nothing an author can get hold of is equal to it.
pub(crate) fn unfinished() -> Value {
    Value::LightUserData(LightUserData(std::ptr::without_provenance_mut(1)))
}

/// A function that gets the section and all its arguments.
///
/// While the step is limited it may give up, having changed nothing: the prelude then pauses the block and calls the
/// function again with the arguments from [`retry`], this time without a limit.
pub(crate) fn attempted<R, F>(lua: &Lua, section: &Arc<Section>, call: F) -> mlua::Result<Function>
where
    R: IntoLuaMulti,
    F: Fn(&Lua, &Arc<Section>, &MultiValue) -> mlua::Result<R> + Send + 'static,
{
    let section = Arc::clone(section);
    lua.create_function(move |lua, arguments: MultiValue| {
        // A loop around slow calls takes long to reach the next count hook.
        if section.is_cancelled() {
            return Err(raise(Failure::Cancelled));
        }
        let budget = &section.environment.budget;
        let is_retry = section.take_retry();
        if !budget.is_limited() {
            return call(lua, &section, &arguments)?.into_lua_multi(lua);
        }
        if is_retry {
            return budget.unlimited(|| call(lua, &section, &arguments))?.into_lua_multi(lua);
        }
        let (result, interrupted) = budget.interruptible(|| call(lua, &section, &arguments));
        match result {
            Err(error) if interrupted && failure_of(&error) == Failure::Cancelled => {
                *lock(&section.interrupted) = Some(arguments);
                unfinished().into_lua_multi(lua)
            }
            result => result?.into_lua_multi(lua),
        }
    })
}

/// A function that gets the section and converted arguments, and always finishes.
pub(crate) fn bound<A, R, F>(lua: &Lua, section: &Arc<Section>, call: F) -> mlua::Result<Function>
where
    A: FromLuaMulti,
    R: IntoLuaMulti,
    F: Fn(&Lua, &Arc<Section>, A) -> mlua::Result<R> + Send + 'static,
{
    let section = Arc::clone(section);
    lua.create_function(move |lua, arguments| call(lua, &section, arguments))
}

/// The arguments of the call that gave up, which is about to be made again.
pub(crate) fn retry(section: &Section) -> MultiValue {
    section.retries();
    lock(&section.interrupted).take().unwrap_or_default()
}
