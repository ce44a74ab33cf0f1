-- The catching of errors.

local native, errors = ...
local raw = native.raw

local error, pcall, select, type = raw.error, raw.pcall, raw.select, raw.type
local yield = native.yield
-- Made now: when it is needed there may be no memory left to make it.
local seen_by_author = native.caught

-- The error as the author sees it. A caught error is not seen once the run is cancelled.
local function caught(value)
  local seen, cancelled = seen_by_author(value)
  if cancelled then yield() end
  return seen
end

-- How many protected calls can run inside each other in one block, `native.depth` of which do. Lua's own limit on C
-- calls would be close behind, but counts anew after a pause, so that it must not be what decides.
local deepest = 150
-- The handlers of `xpcall` have some more, as in Lua: what they handle may be that there are no more.
local deepest_handler = 160
local too_deep = 'C stack overflow'

local function left(depth, ...)
  native.depth = depth
  return ...
end

local function within(limit, callable, ...)
  local depth = native.depth
  if depth >= limit then return false, too_deep end
  native.depth = depth + 1
  return left(depth, pcall(callable, ...))
end

-- The raw `pcall`, for calls of the author's code that no author sees as one.
function errors.protected(callable, ...) return within(deepest, callable, ...) end

local function settle(ok, ...)
  if ok then return true, ... end
  return false, caught((...))
end

function errors.pcall(...)
  if select('#', ...) == 0 then error("bad argument #1 to 'pcall' (value expected)", 2) end
  return settle(within(deepest, ...))
end

-- How often a handler may fail over its own failures.
local handler_failures = 10

local function handled(handler, ok, ...)
  if ok then return true, ... end
  local value = caught((...))
  for _ = 1, handler_failures do
    local returned, result = within(deepest_handler, handler, value)
    if returned then return false, result end
    value = caught(result)
  end
  return false, 'error in error handling'
end

-- The handler runs after the stack has unwound, which no author can see, so that it can suspend.
function errors.xpcall(callable, handler, ...)
  if type(handler) ~= 'function' then
    error("bad argument #2 to 'xpcall' (function expected, got " .. type(handler) .. ')', 2)
  end
  return handled(handler, within(deepest, callable, ...))
end
