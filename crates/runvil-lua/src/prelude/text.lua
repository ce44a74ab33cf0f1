-- The text of values: `tostring`.

local native = ...
local raw = native.raw

local error, rawget, select, setmetatable, tostring, type =
  raw.error, raw.rawget, raw.select, raw.setmetatable, raw.tostring, raw.type
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
