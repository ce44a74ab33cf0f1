-- Suspending calls, and the catching of errors.
--
-- The prelude is what the sandbox needs in Lua itself: everything that calls the author's code. A yield cannot cross a
-- Rust or C frame, and both suspending calls and the end of a cancelled run are yields. `native` holds the Rust
-- functions. Every library function is taken from `native.raw`, so an author who rebinds a global or changes the string
-- metatable changes nothing here.
--
-- Parts that few blocks need give a table of functions and run when one of them is first called.

local native = ...

local raw = {
  error = error,
  getmetatable = getmetatable,
  next = next,
  rawequal = rawequal,
  rawget = rawget,
  rawlen = rawlen,
  rawset = rawset,
  select = select,
  setmetatable = setmetatable,
  tonumber = tonumber,
  tostring = tostring,
  type = type,
  valid_utf8 = utf8.len,
  math_type = math.type,
  to_integer = math.tointeger,
  string = {
    find = string.find,
    format = string.format,
    lower = string.lower,
    match = string.match,
    rep = string.rep,
    reverse = string.reverse,
    upper = string.upper,
  },
  table = {
    concat = table.concat,
    insert = table.insert,
    move = table.move,
    remove = table.remove,
    sort = table.sort,
    unpack = table.unpack,
  },
}
native.raw = raw

local yield = coroutine.yield
local pcall, xpcall, error, next, select, type = pcall, xpcall, error, next, select, type
local globals = _G

-- Suspending ------------------------------------------------------------------------------------------------------

local function answered(ok, ...)
  if ok then return ... end
  error((...), 0)
end

-- Yields to the Engine, which has the request already; gives back its answer, or raises its failure unchanged.
local function wait() return answered(yield()) end

-- Gives what a host call gave. A call that would take long does nothing while the step is limited: it is made again
-- once the block was paused.
local unfinished = native.unfinished
local function finish(call, ...)
  if (...) ~= unfinished then return ... end
  yield()
  return call(native.retry())
end
native.finish = finish

-- The functions below take the names of Rust functions, which are made when they are first looked up.

function native.host(name)
  return function(...) return finish(native[name], native[name](...)) end
end

-- A suspending call: `begin` checks the arguments and records the request.
function native.suspending(begin)
  return function(...)
    finish(native[begin], native[begin](...))
    return wait()
  end
end

-- `models.loop` and `handle:loop`. Between rounds the Engine may ask for the compactor or for a local tool's handler,
-- which run here so that they can suspend in their turn.
function native.looping(begin)
  return function(...)
    local compactor = finish(native[begin], native[begin](...))
    while true do
      local work, subject, arguments = wait()
      if work == nil then return nil end
      local kept, value
      if work == 'compact' then
        kept, value = native.compacted(pcall(compactor, subject))
      else
        kept, value = native.handled(pcall(subject, arguments))
      end
      if not kept then error(value, 0) end
    end
  end
end

function native.compacting(begin, settle)
  return function(...)
    local compactor, reason = finish(native[begin], native[begin](...))
    local kept, value = native[settle](pcall(compactor, reason))
    if not kept then error(value, 0) end
    return nil
  end
end

-- `tools.call`: the Engine calls a pack's tool; the handler of a local one runs here.
function native.calling(begin, settle)
  return function(...)
    local handler, arguments, name, turn = finish(native[begin], native[begin](...))
    if handler == nil then return wait() end
    local returned, value = native[settle](name, turn, pcall(handler, arguments))
    if returned then return value end
    error(value, 0)
  end
end

-- `require`: the first call of a name in a section VM loads and runs the library, later ones read its result.
function native.requiring(begin, compile, settle)
  return function(...)
    local name, loaded, value = finish(native[begin], native[begin](...))
    if loaded then return value end
    local ok, result = native[settle](name, pcall(function()
      local library = native[compile](name, value or wait())
      return library(name)
    end))
    if ok then return result end
    error(result, 0)
  end
end

-- Ends the block of a cancelled run: the Engine never resumes it.
local function stop_if_cancelled()
  if native.is_cancelled() then yield() end
end
native.stop_if_cancelled = stop_if_cancelled

-- The body of every block's coroutine.
function native.guard(block)
  -- The first Rust call of a VM sets room aside for errors; in the count hook it would do so in the author's frame.
  stop_if_cancelled()
  local ok, value = xpcall(block, native.record)
  if not ok and type(value) == 'table' and native.has_text(value) then
    local described, text = pcall(native.to_text, value)
    if described then native.describe(text) end
  end
  return ok, value
end

-- Errors ----------------------------------------------------------------------------------------------------------

-- The error as the author sees it. A caught error is not seen once the run is cancelled.
local function caught(value)
  local seen, cancelled = native.caught(value)
  if cancelled then yield() end
  return seen
end

local function settle(ok, ...)
  if ok then return true, ... end
  return false, caught((...))
end

function globals.pcall(...)
  if select('#', ...) == 0 then error("bad argument #1 to 'pcall' (value expected)", 2) end
  return settle(pcall(...))
end

-- How often a handler may fail over its own failures.
local handler_failures = 10

local function handled(handler, ok, ...)
  if ok then return true, ... end
  local value = caught((...))
  for _ = 1, handler_failures do
    local returned, result = pcall(handler, value)
    if returned then return false, result end
    value = caught(result)
  end
  return false, 'error in error handling'
end

-- The handler runs after the stack has unwound, which no author can see, so that it can suspend.
function globals.xpcall(callable, handler, ...)
  if type(handler) ~= 'function' then
    error("bad argument #2 to 'xpcall' (function expected, got " .. type(handler) .. ')', 2)
  end
  return handled(handler, pcall(callable, ...))
end

-- Functions of a part that runs on demand. The calls are tail calls: the caller's place is one level up, as if the
-- function had been called itself.
local function on_demand(library, part, names)
  for _, name in next, names do
    library[name] = function(...) return native[part][name](...) end
  end
end

on_demand(globals, 'tables', { 'ipairs', 'next', 'pairs' })
on_demand(globals.table, 'tables', { 'concat', 'insert', 'move', 'remove', 'sort', 'unpack' })
on_demand(globals.string, 'strings', { 'format', 'gmatch', 'gsub', 'lower', 'rep', 'reverse', 'upper' })
-- Lua's own functions would call the other operand's metamethod from a C frame.
on_demand(getmetatable(''), 'strings', { '__add', '__sub', '__mul', '__mod', '__pow', '__div', '__idiv', '__unm' })
globals.string.find, globals.string.match = native.host('find'), native.host('match')
