-- The functions of `string` that call the author's code or that could run for ages.

local native, string = ...
local raw = native.raw

local error, next, rawget, select, tonumber, type =
  raw.error, raw.next, raw.rawget, raw.select, raw.tonumber, raw.type
local find, match = raw.string.find, raw.string.match
local concat, unpack = raw.table.concat, raw.table.unpack
-- Called by its name, which the messages of bad arguments show.
local library = raw.string
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

local function is_scalar(kind)
  return kind == 'string' or kind == 'number' or kind == 'nil' or kind == 'boolean'
end

-- The values that `%s` prints are turned into text here, where their `__tostring` may suspend.
function string.format(...)
  local pattern = ...
  if type(pattern) ~= 'string' then return library.format(...) end
  local arguments, count = { ... }, select('#', ...)
  local simple = not find(pattern, 'p', 1, true)
  for at = 2, simple and count or 0 do
    simple = simple and is_scalar(type(arguments[at]))
  end
  if simple then return library.format(...) end
  local at, position = 1, 1
  while true do
    local start = find(pattern, '%', position, true)
    local conversion, behind = match(pattern, '^[^%a%%]*([%a%%])()', start and start + 1 or #pattern + 1)
    if not conversion then break end
    position = behind
    if conversion ~= '%' then
      at = at + 1
      if conversion == 'p' then
        error("invalid conversion '%p' to 'format': addresses are not available in the sandbox", 2)
      elseif conversion == 's' and at <= count and not is_scalar(type(arguments[at])) then
        arguments[at] = native.values.to_text(arguments[at])
      end
    end
  end
  return library.format(unpack(arguments, 1, count))
end

-- Arithmetic on strings.

local function number_of(value)
  local kind = type(value)
  if kind == 'number' then return value end
  if kind == 'string' then return tonumber(value) end
end

local function arithmetic(key, name, operation)
  string[key] = function(left, right)
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

arithmetic('__add', 'add', function(a, b) return a + b end)
arithmetic('__sub', 'sub', function(a, b) return a - b end)
arithmetic('__mul', 'mul', function(a, b) return a * b end)
arithmetic('__mod', 'mod', function(a, b) return a % b end)
arithmetic('__pow', 'pow', function(a, b) return a ^ b end)
arithmetic('__div', 'div', function(a, b) return a / b end)
arithmetic('__idiv', 'idiv', function(a, b) return a // b end)
arithmetic('__unm', 'unm', function(a) return -a end)
