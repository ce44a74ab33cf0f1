-- Metatables, and the one of the globals, which an author may seem to replace.

local native, metatables = ...
local raw = native.raw

local error, next, rawequal, rawget, rawset, type =
  raw.error, raw.next, raw.rawequal, raw.rawget, raw.rawset, raw.type
local getmetatable, setmetatable = raw.getmetatable, raw.setmetatable
local globals, hidden = native.globals, native.hidden

local globals_meta = getmetatable(globals)
local assign = globals_meta.__newindex
local author_meta

local function author_index(_, key)
  local value = hidden[key]
  if value ~= nil or native.refuses(key) then return value end
  local handler = rawget(author_meta, '__index')
  if type(handler) == 'function' then return (handler(globals, key)) end
  if handler ~= nil then return handler[key] end
end

local function author_newindex(_, key, value)
  native.refuse_assignment(key)
  local handler = rawget(author_meta, '__newindex')
  if type(handler) == 'function' then
    handler(globals, key, value)
    return
  elseif handler ~= nil then
    handler[key] = value
    return
  end
  rawset(globals, key, value)
end

local function set_author_meta(meta)
  for key in next, globals_meta do globals_meta[key] = nil end
  if meta then
    for key, value in next, meta do globals_meta[key] = value end
  end
  author_meta = meta
  globals_meta.__index = meta and author_index or hidden
  globals_meta.__newindex = meta and author_newindex or assign
  globals_meta.__metatable = nil
  setmetatable(globals, globals_meta)
end

function metatables.getmetatable(value)
  if rawequal(value, globals) then
    if author_meta and rawget(author_meta, '__metatable') ~= nil then return rawget(author_meta, '__metatable') end
    return author_meta
  end
  local meta = getmetatable(value)
  if rawequal(meta, native.list_mark) then return nil end
  return meta
end

function metatables.setmetatable(value, meta)
  if type(value) ~= 'table' then
    error("bad argument #1 to 'setmetatable' (table expected, got " .. type(value) .. ')', 2)
  elseif meta ~= nil and type(meta) ~= 'table' then
    error("bad argument #2 to 'setmetatable' (nil or table expected)", 2)
  elseif meta and rawget(meta, '__gc') ~= nil then
    error("bad argument #2 to 'setmetatable' (__gc is not available in the sandbox)", 2)
  end
  if rawequal(value, globals) then
    if author_meta and rawget(author_meta, '__metatable') ~= nil then
      error('cannot change a protected metatable', 2)
    end
    set_author_meta(meta)
    return value
  end
  local current = getmetatable(value)
  if current ~= nil and type(native.metatable(value)) == 'table'
    and rawget(native.metatable(value), '__metatable') ~= nil then
    error('cannot change a protected metatable', 2)
  end
  return setmetatable(value, meta)
end
