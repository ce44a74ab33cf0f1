-- Makes the Lua side of one host call that is more than a Rust function. Those that call the author's code do so
-- protected, in the author's own coroutine, so that it can suspend in its turn.

local native, kind, begin = ...
local finish, wait = native.finish, native.wait

-- `begin` checks the arguments and records the request.
if kind == 'suspending' then
  return function(...)
    finish(begin, begin(...))
    return wait()
  end
end

-- `models.loop` and `handle:loop`. Between rounds the Engine may ask for the compactor or for a local tool's handler.
if kind == 'looping' then
  return function(...)
    local compactor = finish(begin, begin(...))
    while true do
      local work, subject, arguments = wait()
      if work == nil then return nil end
      local kept, value
      if work == 'compact' then
        kept, value = native.compacted(native.errors.protected(compactor, subject))
      else
        kept, value = native.handled(native.errors.protected(subject, arguments))
      end
      if not kept then native.error(value, 0) end
    end
  end
end

if kind == 'compacting' then
  return function(...)
    local compactor, reason = finish(begin, begin(...))
    local kept, value = native.compact_end(native.errors.protected(compactor, reason))
    if not kept then native.error(value, 0) end
    return nil
  end
end

-- `tools.call`: the Engine calls a pack's tool; the handler of a local one runs here.
if kind == 'calling' then
  return function(...)
    local handler, arguments, name, turn = finish(begin, begin(...))
    if handler == nil then return wait() end
    local returned, value = native.call_end(name, turn, native.errors.protected(handler, arguments))
    if returned then return value end
    native.error(value, 0)
  end
end

-- `require`: the first call of a name in a section VM loads and runs the library, later ones read its result.
if kind == 'requiring' then
  return function(...)
    local name, loaded, value = finish(begin, begin(...))
    if loaded then return value end
    local ok, result = native.require_end(name, native.errors.protected(function()
      local library = native.require_compile(name, value or wait())
      return library(name)
    end))
    if ok then return result end
    native.error(result, 0)
  end
end
