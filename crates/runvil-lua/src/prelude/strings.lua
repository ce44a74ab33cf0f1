-- The functions of `string` that call the author's code or that could run for ages.

local native = ...
local raw = native.raw

local error, next, tonumber, type = raw.error, raw.next, raw.tonumber, raw.type
local getmetatable, rawget = raw.getmetatable, raw.rawget
local concat = raw.table.concat
local library = raw.string
local string = _G.string
local finish = native.finish

-- Texts of this many bytes keep a function busy for a while; a loop around it reaches the count hook too late.
local large = 1 << 16

function string.rep(...)
  local text, count, separator = ...
  if type(count) == 'number' then
    if text == '' and (separator == nil or separator == '') then return '' end
    if count > large then native.stop_if_cancelled() end
  end
  return library.rep(...)
end

for _, name in next, { 'lower', 'reverse', 'upper' } do
  local change = library[name]
  string[name] = function(text)
    if type(text) == 'string' then
      if #text > large then native.stop_if_cancelled() end
      return change(text)
    end
    return library[name](text)
  end
end

string.find, string.match = native.host('find'), native.host('match')

function string.gmatch(...)
  local step = finish(native.gmatch, native.gmatch(...))
  return function() return finish(step, step()) end
end

-- A replacement that is a table or a function is looked up here, so that it may suspend.
function string.gsub(...)
  local text, pattern, replacement, limit = ...
  local kind = type(replacement)
  if kind ~= 'table' and kind ~= 'function' then
    local result, count = finish(native.gsub, native.gsub(...))
    return result, count
  end
  local step = finish(native.gsub_steps, native.gsub_steps(text, pattern, limit))
  local pieces, count, replaced = {}, 0, 0
  local function take(before, whole, ...)
    if before == nil then return false end
    if whole == nil then
      count = count + 1
      pieces[count] = before
      return false
    end
    replaced = replaced + 1
    local value
    if kind == 'function' then value = replacement(...) else value = replacement[(...)] end
    local value_kind = type(value)
    if value == nil or value == false then
      value = whole
    elseif value_kind ~= 'string' and value_kind ~= 'number' then
      error('invalid replacement value (a ' .. value_kind .. ')', 3)
    end
    pieces[count + 1], pieces[count + 2] = before, value
    count = count + 2
    return true
  end
  while take(finish(step, step())) do end
  return concat(pieces), replaced
end

-- Arithmetic on strings: Lua's own functions would call the other operand's metamethod from a C frame.

local function number_of(value)
  local kind = type(value)
  if kind == 'number' then return value end
  if kind == 'string' then return tonumber(value) end
end

local function arithmetic(meta, key, name, operation)
  meta[key] = function(left, right)
    local first, second = number_of(left), number_of(right)
    if first and second then return operation(first, second) end
    local other = type(right) == 'table' and native.metatable(right)
    local handler = other and rawget(other, key)
    if not handler then
      error('attempt to ' .. name .. " a '" .. type(left) .. "' with a '" .. type(right) .. "'", 2)
    end
    local result = handler(left, right)
    return result
  end
end

local meta = getmetatable('')
arithmetic(meta, '__add', 'add', function(a, b) return a + b end)
arithmetic(meta, '__sub', 'sub', function(a, b) return a - b end)
arithmetic(meta, '__mul', 'mul', function(a, b) return a * b end)
arithmetic(meta, '__mod', 'mod', function(a, b) return a % b end)
arithmetic(meta, '__pow', 'pow', function(a, b) return a ^ b end)
arithmetic(meta, '__div', 'div', function(a, b) return a / b end)
arithmetic(meta, '__idiv', 'idiv', function(a, b) return a // b end)
arithmetic(meta, '__unm', 'unm', function(a) return -a end)
