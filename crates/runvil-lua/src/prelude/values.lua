-- The text of values.

local native, values = ...
local raw = native.raw

local error, pcall, rawget, select, setmetatable, tostring, type =
  raw.error, raw.pcall, raw.rawget, raw.select, raw.setmetatable, raw.tostring, raw.type

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
values.to_text = to_text

function values.tostring(...)
  if select('#', ...) == 0 then error("bad argument #1 to 'tostring' (value expected)", 2) end
  local text = to_text((...))
  return text
end

-- Notes the text of an error that ends a block, when it says itself what its text is.
function values.describe(value)
  if not native.has_text(value) then return end
  local described, text = pcall(to_text, value)
  if described then native.describe(text) end
end
