-- The text of values: `tostring` and `string.format`.

local native = ...
local raw = native.raw

local error, rawget, select, setmetatable, tostring, type =
  raw.error, raw.rawget, raw.select, raw.setmetatable, raw.tostring, raw.type
local find, match = raw.string.find, raw.string.match
-- Called by its name, which the messages of bad arguments show.
local library = raw.string
local unpack = raw.table.unpack
local globals = _G

-- Addresses differ from run to run; a number given at the first look does not.
local labels = setmetatable({}, { __mode = 'k' })
local label_count = 0

local function label(value, kind)
  local known = labels[value]
  if known == nil then
    label_count = label_count + 1
    known = kind .. ': ' .. tostring(label_count)
    labels[value] = known
  end
  return known
end

local function to_text(value)
  local kind = type(value)
  if kind == 'table' then
    local meta = native.metatable(value)
    local handler = meta ~= nil and rawget(meta, '__tostring')
    if not handler then return label(value, kind) end
    local text = handler(value)
    local text_kind = type(text)
    if text_kind ~= 'string' and text_kind ~= 'number' then error("'__tostring' must return a string", 3) end
    return tostring(text)
  elseif kind == 'userdata' then
    return native.text(value) or label(value, kind)
  elseif kind == 'function' or kind == 'thread' then
    return label(value, kind)
  end
  return tostring(value)
end
native.to_text = to_text

function globals.tostring(...)
  if select('#', ...) == 0 then error("bad argument #1 to 'tostring' (value expected)", 2) end
  local text = to_text((...))
  return text
end

local function is_scalar(kind)
  return kind == 'string' or kind == 'number' or kind == 'nil' or kind == 'boolean'
end

-- The values that `%s` prints are turned into text here, where their `__tostring` may suspend.
function globals.string.format(...)
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
        arguments[at] = to_text(arguments[at])
      end
    end
  end
  return library.format(unpack(arguments, 1, count))
end
