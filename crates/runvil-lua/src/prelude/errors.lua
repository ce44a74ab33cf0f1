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

local function settle(ok, ...)
  if ok then return true, ... end
  return false, caught((...))
end

function errors.pcall(...)
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
function errors.xpcall(callable, handler, ...)
  if type(handler) ~= 'function' then
    error("bad argument #2 to 'xpcall' (function expected, got " .. type(handler) .. ')', 2)
  end
  return handled(handler, pcall(callable, ...))
end
