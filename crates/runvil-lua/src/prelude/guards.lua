-- Metatables, guarded globals, and guarded data.

local native = ...
local raw = native.raw

local error, next, rawequal, rawget, rawset, type =
  raw.error, raw.next, raw.rawequal, raw.rawget, raw.rawset, raw.type
local getmetatable, setmetatable = raw.getmetatable, raw.setmetatable
local finish, to_text = native.finish, native.to_text
local globals = _G

-- Metatables ------------------------------------------------------------------------------------------------------

-- Names that read as globals and refuse assignment; the Engine fills and empties this table.
local hidden = native.hidden
local author_meta
local globals_meta = {}
setmetatable(hidden, {
  __index = function(_, key)
    if key == 'prose' then return (finish(native.prose, native.prose())) end
  end,
})

local function author_index(_, key)
  local value = hidden[key]
  if value ~= nil or native.refuses(key) then return value end
  local handler = rawget(author_meta, '__index')
  if type(handler) == 'function' then return (handler(globals, key)) end
  if handler ~= nil then return handler[key] end
end

globals_meta.__index = hidden
globals_meta.__newindex = function(_, key, value)
  native.refuse_assignment(key)
  if author_meta then
    local handler = rawget(author_meta, '__newindex')
    if type(handler) == 'function' then
      handler(globals, key, value)
      return
    elseif handler ~= nil then
      handler[key] = value
      return
    end
  end
  rawset(globals, key, value)
end
setmetatable(globals, globals_meta)

local function set_author_meta(meta)
  local newindex = globals_meta.__newindex
  for key in next, globals_meta do globals_meta[key] = nil end
  if meta then
    for key, value in next, meta do globals_meta[key] = value end
  end
  author_meta = meta
  globals_meta.__index = meta and author_index or hidden
  globals_meta.__newindex = newindex
  globals_meta.__metatable = nil
  setmetatable(globals, globals_meta)
end

function globals.getmetatable(value)
  if rawequal(value, globals) then
    if author_meta and rawget(author_meta, '__metatable') ~= nil then return rawget(author_meta, '__metatable') end
    return author_meta
  end
  local meta = getmetatable(value)
  if rawequal(meta, native.list_mark) then return nil end
  return meta
end

function globals.setmetatable(value, meta)
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

-- Guarded data: `var`, and `argv` outside the H1 body ------------------------------------------------------------

local behind = native.behind
local function segment(path, key)
  if type(key) == 'string' then return path .. '.' .. key end
  return path .. '[' .. to_text(key) .. ']'
end

local guards = setmetatable({}, { __mode = 'k' })

-- An empty table in front of `data`: reads and writes go through, `pairs` and `#` see nothing. `level` counts the tables
-- around `data`.
local function guard(data, path, level, protection, write)
  local known = guards[data]
  if known ~= nil then return known end
  local front = {}
  behind[front] = data
  guards[data] = front
  return setmetatable(front, {
    __index = function(_, key)
      local value = rawget(data, key)
      if type(value) == 'table' then return guard(value, segment(path, key), level + 1, protection, write) end
      return value
    end,
    __newindex = function(_, key, value) write(data, path, level, key, value) end,
    __metatable = protection,
  })
end

local function write_var(data, path, level, key, value)
  local checked = native.checked_data
  rawset(data, key, (finish(checked, checked(data, path, level, key, value))))
end

local function write_argv(_, _, _, key) native.refuse_argv_field(key) end

function native.guard_var(data) return guard(data, 'var', 0, 'var is guarded', write_var) end
function native.guard_argv(data) return guard(data, 'argv', 0, 'argv is frozen', write_argv) end

-- `tools`: an ordinary table but for `calls`, which is there once the section has called a tool.
function native.counted(tools, counts)
  local calls
  local function counters()
    calls = calls or setmetatable({}, {
      __index = function(_, key)
        local count = rawget(counts, key)
        if count == nil then native.refuse_count(key) end
        return count
      end,
      __newindex = function() native.refuse_counting() end,
      __pairs = function() return native.tables.pairs(counts) end,
      __metatable = 'tools.calls is read-only',
    })
    return calls
  end
  return setmetatable(tools, {
    __index = function(_, key)
      if key == 'calls' and native.has_counts() then return counters() end
    end,
    __newindex = function(_, key, value)
      if key == 'calls' then native.refuse_counting() end
      rawset(tools, key, value)
    end,
    __metatable = false,
  })
end

-- `sys`: scalars only, no field unknown.
function native.seal_sys(fields)
  return setmetatable({}, {
    __index = function(_, key)
      if type(key) == 'string' then
        local value = rawget(fields, key)
        if value ~= nil then return value end
      end
      native.refuse_sys_read(key)
    end,
    __newindex = function(_, key) native.refuse_sys_write(key) end,
    __metatable = 'sys is sealed',
  })
end
