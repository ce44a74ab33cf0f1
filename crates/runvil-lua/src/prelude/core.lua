-- What every section VM runs: suspending, the body of a block, and stubs for all else.
--
-- The prelude is what the sandbox needs in Lua itself: everything that calls the author's code. A yield cannot cross a
-- Rust or C frame, and both suspending calls and the end of a cancelled run are yields. `native` holds the Rust
-- functions, made when they are first looked up. Every library function is taken from `native.raw`, so an author who
-- rebinds a global or changes the string metatable changes nothing here.
--
-- Thousands of runs wait at once, and each has a VM. What few blocks need is therefore a part of its own, which runs
-- when one of its functions is first called; what is used only here is garbage when the block first waits.

local native = ...

local error, getmetatable, next, rawset, setmetatable, type = error, getmetatable, next, rawset, setmetatable, type
local xpcall, yield = xpcall, coroutine.yield
local globals = _G

native.error, native.globals, native.yield = error, globals, yield

-- Suspending ------------------------------------------------------------------------------------------------------

local function answered(ok, ...)
  if ok then return ... end
  error((...), 0)
end

-- Yields to the Engine, which has the request already; gives back its answer, or raises its failure unchanged.
function native.wait() return answered(yield()) end

-- Gives what a host call gave. A call that would take long does nothing while the step is limited: it is made again
-- once the block was paused.
local unfinished = native.unfinished
local function finish(call, ...)
  if (...) ~= unfinished then return ... end
  yield()
  return call(native.retry())
end
native.finish = finish

function native.host(call)
  return function(...) return finish(call, call(...)) end
end

-- Ends the block of a cancelled run: the Engine never resumes it.
local function stop_if_cancelled()
  if native.is_cancelled() then yield() end
end
native.stop_if_cancelled = stop_if_cancelled

-- The body of every block's coroutine.
function native.guard(block)
  native.depth = 0
  -- The first Rust call of a VM sets room aside for errors; in the count hook it would do so in the author's frame.
  stop_if_cancelled()
  local ok, value = xpcall(block, native.record)
  if not ok and type(value) == 'table' then native.values.describe(value) end
  return ok, value
end

-- Globals ---------------------------------------------------------------------------------------------------------

-- Names that read as globals and refuse assignment; the Engine fills and empties this table.
local hidden = native.hidden
setmetatable(hidden, {
  __index = function(_, key)
    if key == 'prose' then return (finish(native.prose, native.prose())) end
  end,
})

local globals_meta = {
  __index = hidden,
  __newindex = function(_, key, value)
    native.refuse_assignment(key)
    rawset(globals, key, value)
  end,
}

-- Puts functions of a part into a table. The calls are tail calls: the caller's place is one level up, as if the
-- function had been called itself.
local function on_demand(library, part, names)
  part = native[part]
  for _, name in next, names do
    library[name] = function(...) return part[name](...) end
  end
  return library
end

on_demand(globals, 'errors', { 'pcall', 'xpcall' })
on_demand(globals, 'metatables', { 'getmetatable', 'setmetatable' })
on_demand(globals, 'tables', { 'ipairs', 'next', 'pairs' })
on_demand(globals, 'values', { 'tostring' })
on_demand(globals.table, 'tables', { 'concat', 'insert', 'move', 'remove', 'sort', 'unpack' })
on_demand(globals.string, 'strings', { 'format', 'gmatch', 'gsub', 'lower', 'rep', 'reverse', 'upper' })
on_demand(globals.string, 'base', { 'find', 'match' })
-- Lua's own functions would call the other operand's metamethod from a C frame.
on_demand(getmetatable(''), 'strings', { '__add', '__sub', '__mul', '__mod', '__pow', '__div', '__idiv', '__unm' })

-- A table whose metamethods are functions of a part, by their names there.
local function fronted(front, part, read, write, protection)
  local functions = on_demand({}, part, { read, write })
  return setmetatable(front, {
    __index = functions[read],
    __newindex = functions[write],
    __metatable = protection,
  })
end

return on_demand, fronted, globals_meta
