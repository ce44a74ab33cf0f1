-- What the sandbox needs in Lua itself: everything an author's call may suspend through, and everything that must call
-- author code without a Rust frame in between (a yield cannot cross one).
--
-- `native` holds the Rust functions. Every library function used below is saved in a local first, so an author who
-- rebinds a global or changes the string metatable changes nothing here.

local native = ...

local yield = coroutine.yield
local raw_pcall, raw_xpcall, raw_error = pcall, xpcall, error
local raw_next, raw_select, raw_type, raw_tostring = next, select, type, tostring
local raw_rawget, raw_rawset, raw_rawequal, raw_rawlen = rawget, rawset, rawequal, rawlen
local raw_getmetatable, raw_setmetatable = getmetatable, setmetatable
local math_type, math_huge = math.type, math.huge
local sort, raw_concat, move, insert, remove, unpack =
  table.sort, table.concat, table.move, table.insert, table.remove, table.unpack
local find, gsub, sub, format, rep = string.find, string.gsub, string.sub, string.format, string.rep
local utf8_len = utf8.len
local globals = _G

local function type_name(value)
  local kind = raw_type(value)
  if kind == 'number' and math_type(value) == 'integer' then return 'integer' end
  return kind
end

-- Suspending ------------------------------------------------------------------------------------------------------

-- Yields to the Engine, which has the request already; gives back its answer, or raises its failure unchanged.
local function wait()
  local ok, first, second = yield()
  if ok then return first, second end
  raw_error(first, 0)
end

-- A suspending call: `begin` checks the arguments and records the request.
function native.suspending(begin)
  return function(...)
    begin(...)
    return wait()
  end
end

-- `models.loop` and `handle:loop`. Between rounds the Engine may ask for the compactor, which runs here so that it can
-- suspend in its turn.
function native.looping(begin)
  return function(...)
    local compactor = begin(...)
    while true do
      local reason = wait()
      if reason == nil then return nil end
      local kept, value = native.compacted(raw_pcall(compactor, reason))
      if not kept then raw_error(value, 0) end
    end
  end
end

function native.compacting(begin, finish)
  return function(...)
    local compactor, reason = begin(...)
    local kept, value = finish(raw_pcall(compactor, reason))
    if not kept then raw_error(value, 0) end
    return nil
  end
end

-- `require`: the first call of a name in a section VM loads and runs the library, later ones read its result.
function native.requiring(begin, compile, finish)
  return function(...)
    local name, loaded, value = begin(...)
    if loaded then return value end
    local ok, result = finish(name, raw_pcall(function()
      local library = compile(name, wait())
      return library(name)
    end))
    if ok then return result end
    raw_error(result, 0)
  end
end

-- The body of every block's coroutine.
function native.guard(block)
  return raw_xpcall(block, function(value)
    if raw_type(value) == 'table' and not native.is_error_value(value) then
      local meta = raw_getmetatable(value)
      if raw_type(meta) == 'table' and raw_rawget(meta, '__tostring') ~= nil then
        local ok, text = raw_pcall(raw_tostring, value)
        if ok then return native.record(value, text) end
      end
    end
    return native.record(value)
  end)
end

-- Errors ----------------------------------------------------------------------------------------------------------

local function settle(ok, ...)
  if ok then return true, ... end
  return false, native.caught((...))
end

local pcall_arguments = "bad argument #1 to 'pcall' (value expected)"
function globals.pcall(...)
  if raw_select('#', ...) == 0 then raw_error(pcall_arguments, 2) end
  return settle(raw_pcall(...))
end

local function settle_handled(ok, ...)
  if not ok then native.check_cancelled() end
  return ok, ...
end

function globals.xpcall(callable, handler, ...)
  if raw_type(handler) ~= 'function' then return settle(raw_xpcall(callable, handler, ...)) end
  return settle_handled(raw_xpcall(callable, function(value) return handler(native.caught(value)) end, ...))
end

-- Text of values --------------------------------------------------------------------------------------------------

-- Addresses differ from run to run; a number given at the first look does not.
local labels = raw_setmetatable({}, { __mode = 'k' })
local label_count = 0

local function label(value, kind)
  local known = labels[value]
  if known == nil then
    label_count = label_count + 1
    known = kind .. ': ' .. raw_tostring(label_count)
    labels[value] = known
  end
  return known
end

local function to_text(value)
  local kind = raw_type(value)
  if kind == 'table' then
    local meta = native.metatable(value)
    if meta ~= nil and raw_rawget(meta, '__tostring') ~= nil then return raw_tostring(value) end
    return label(value, kind)
  elseif kind == 'userdata' then
    -- Every userdata of the Engine has a text form of its own.
    return native.is_null(value) and 'null' or raw_tostring(value)
  elseif kind == 'function' or kind == 'thread' then
    return label(value, kind)
  end
  return raw_tostring(value)
end

function globals.tostring(...)
  if raw_select('#', ...) == 0 then raw_error("bad argument #1 to 'tostring' (value expected)", 2) end
  return to_text((...))
end

-- Tables ----------------------------------------------------------------------------------------------------------

-- Keys in the language's order: the array part, booleans, numbers, strings by bytes, then all others.
local function ordered_keys(t)
  local size = raw_rawlen(t)
  local keys, count = {}, 0
  local has_false, has_true = false, false
  local numbers, strings, others
  for key in raw_next, t do
    local kind = raw_type(key)
    if kind == 'number' then
      if not (math_type(key) == 'integer' and key >= 1 and key <= size) then
        if key == math_huge or key == -math_huge then
          others = others or {}
          others[#others + 1] = key
        else
          numbers = numbers or {}
          numbers[#numbers + 1] = key
        end
      end
    elseif kind == 'string' then
      if utf8_len(key) then
        strings = strings or {}
        strings[#strings + 1] = key
      else
        others = others or {}
        others[#others + 1] = key
      end
    elseif kind == 'boolean' then
      if key then has_true = true else has_false = true end
    else
      others = others or {}
      others[#others + 1] = key
    end
  end
  if has_false then count = count + 1; keys[count] = false end
  if has_true then count = count + 1; keys[count] = true end
  if numbers then
    sort(numbers)
    for i = 1, #numbers do count = count + 1; keys[count] = numbers[i] end
  end
  if strings then
    native.sort_strings(strings)
    for i = 1, #strings do count = count + 1; keys[count] = strings[i] end
  end
  if others then
    for i = 1, #others do count = count + 1; keys[count] = others[i] end
  end
  return size, keys, count
end

local function no_pairs() return nil, nil end

function globals.pairs(t)
  local kind = raw_type(t)
  if kind ~= 'table' then
    if kind == 'userdata' then
      local step = native.walk(t)
      if step ~= nil then return step, t, nil end
    end
    raw_error("bad argument #1 to 'pairs' (table expected, got " .. (kind == 'nil' and 'nil' or kind) .. ')', 2)
  end
  local meta = native.metatable(t)
  if meta ~= nil then
    local walk = raw_rawget(meta, '__pairs')
    if walk ~= nil then
      if raw_type(walk) ~= 'function' then
        raw_error('attempt to call a ' .. raw_type(walk) .. " value (metamethod '__pairs')", 2)
      end
      return walk(t)
    end
  end
  if raw_next(t) == nil then return no_pairs, t, nil end
  local size, keys, count = ordered_keys(t)
  local at, key_at = 0, 0
  return function()
    while at < size do
      at = at + 1
      local value = raw_rawget(t, at)
      if value ~= nil then return at, value end
    end
    while key_at < count do
      key_at = key_at + 1
      local key = keys[key_at]
      local value = raw_rawget(t, key)
      if value ~= nil then return key, value end
    end
    return nil, nil
  end, t, nil
end

local function first_from(t, size, keys, count, at, key_at)
  for position = at, size do
    local value = raw_rawget(t, position)
    if value ~= nil then return position, value end
  end
  for position = key_at, count do
    local value = raw_rawget(t, keys[position])
    if value ~= nil then return keys[position], value end
  end
  return nil, nil
end

function globals.next(t, key)
  if raw_type(t) ~= 'table' then
    raw_error("bad argument #1 to 'next' (table expected, got " .. raw_type(t) .. ')', 2)
  end
  if key == nil and raw_next(t) == nil then return nil, nil end
  local size, keys, count = ordered_keys(t)
  if key == nil then return first_from(t, size, keys, count, 1, 1) end
  if math_type(key) == 'float' and key == key // 1 and key >= -0x1p63 and key < 0x1p63 then key = key // 1 | 0 end
  if math_type(key) == 'integer' and (key >= 1 and key <= size or raw_rawget(t, key) == nil) then
    return first_from(t, size, keys, count, key >= 1 and key + 1 or size + 1, 1)
  end
  for position = 1, count do
    if raw_rawequal(keys[position], key) then return first_from(t, size, keys, count, size + 1, position + 1) end
  end
  -- The key was cleared: go on behind the place it had.
  local place = native.place_of(keys, key)
  if place == nil then raw_error("invalid key to 'next'", 2) end
  return first_from(t, size, keys, count, size + 1, place)
end

function table.concat(list, separator, first, last)
  if raw_type(list) ~= 'table' then
    raw_error("bad argument #1 to 'concat' (table expected, got " .. raw_type(list) .. ')', 2)
  end
  first = first == nil and 1 or first
  last = last == nil and #list or last
  local pieces, count = {}, 0
  if math_type(first) == nil or math_type(last) == nil then return raw_concat(list, separator, first, last) end
  for k = first, last do
    local value = list[k]
    local kind = raw_type(value)
    if kind ~= 'string' and kind ~= 'number' then
      local meta = kind == 'table' and native.metatable(value) or nil
      if meta ~= nil and raw_rawget(meta, '__tostring') ~= nil
        or kind == 'userdata' and not native.is_null(value) then
        value = raw_tostring(value)
      else
        raw_error('invalid value (' .. kind .. ') at index ' .. raw_tostring(k) .. " in table for 'concat'", 2)
      end
    end
    count = count + 1
    pieces[count] = value
  end
  return raw_concat(pieces, separator)
end

-- The C functions below loop without ever reaching the cancel hook, over a length that a metamethod may invent.
local longest = 1 << 24
local function check_length(t, what, level)
  local length = #t
  if math_type(length) == 'integer' and length > longest then
    raw_error("bad argument #1 to '" .. what .. "' (table too long)", level + 1)
  end
end

function table.sort(t, ...)
  check_length(t, 'sort', 2)
  return sort(t, ...)
end

function table.insert(t, ...)
  if raw_type(t) ~= 'table' or raw_getmetatable(t) ~= nil then check_length(t, 'insert', 2) end
  return insert(t, ...)
end

function table.remove(t, ...)
  if raw_type(t) ~= 'table' or raw_getmetatable(t) ~= nil then check_length(t, 'remove', 2) end
  return remove(t, ...)
end

function table.move(source, first, last, ...)
  if math_type(first) and math_type(last) and last - first > longest then
    raw_error("bad argument #3 to 'move' (too many elements to move)", 2)
  end
  return move(source, first, last, ...)
end

-- Strings ---------------------------------------------------------------------------------------------------------

function string.rep(text, count, separator)
  if raw_type(text) == 'string' and text == '' and (separator == nil or separator == '') then return '' end
  return rep(text, count, separator)
end

function string.format(pattern, ...)
  if raw_type(pattern) == 'string' and find(pattern, '%', 1, true) then
    local arguments, at, changed = { ... }, 0, false
    local count = raw_select('#', ...)
    gsub(pattern, '%%([^%a%%]*)([%a%%])', function(_, conversion)
      if conversion == '%' then return end
      at = at + 1
      if conversion == 'p' then
        raw_error("invalid conversion '%p' to 'format': addresses are not available in the sandbox", 0)
      elseif conversion == 's' and at <= count then
        local kind = raw_type(arguments[at])
        if kind == 'table' or kind == 'userdata' or kind == 'function' or kind == 'thread' then
          arguments[at] = to_text(arguments[at])
          changed = true
        end
      end
    end)
    if changed then return format(pattern, unpack(arguments, 1, count)) end
  end
  return format(pattern, ...)
end

function string.gmatch(text, pattern, init)
  local step = native.gmatch(text, pattern, init)
  return step
end

-- A replacement that is a table or a function is looked up here, so that a handler may suspend.
function string.gsub(text, pattern, replacement, limit)
  local kind = raw_type(replacement)
  if kind ~= 'table' and kind ~= 'function' then return native.gsub(text, pattern, replacement, limit) end
  local step = native.gsub_steps(text, pattern, limit)
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
    local value_kind = raw_type(value)
    if value == nil or value == false then
      value = whole
    elseif value_kind ~= 'string' and value_kind ~= 'number' then
      raw_error('invalid replacement value (a ' .. value_kind .. ')', 3)
    end
    pieces[count + 1], pieces[count + 2] = before, value
    count = count + 2
    return true
  end
  while take(step()) do end
  return raw_concat(pieces), replaced
end

-- Metatables ------------------------------------------------------------------------------------------------------

-- Names that read as globals and refuse assignment; the Engine fills and empties this table.
local hidden = native.hidden
local author_meta
local globals_meta = {}
raw_setmetatable(hidden, {
  __index = function(_, key)
    if key == 'prose' then return native.prose() end
  end,
})

local function author_index(_, key)
  local value = hidden[key]
  if value ~= nil or native.refuses(key) then return value end
  local handler = raw_rawget(author_meta, '__index')
  if raw_type(handler) == 'function' then return (handler(globals, key)) end
  if handler ~= nil then return handler[key] end
end

globals_meta.__index = hidden
globals_meta.__newindex = function(_, key, value)
  native.refuse_assignment(key)
  if author_meta then
    local handler = raw_rawget(author_meta, '__newindex')
    if raw_type(handler) == 'function' then
      handler(globals, key, value)
      return
    elseif handler ~= nil then
      handler[key] = value
      return
    end
  end
  raw_rawset(globals, key, value)
end
raw_setmetatable(globals, globals_meta)

local function set_author_meta(meta)
  local index, newindex = globals_meta.__index, globals_meta.__newindex
  for key in raw_next, globals_meta do globals_meta[key] = nil end
  if meta then
    for key, value in raw_next, meta do globals_meta[key] = value end
  end
  author_meta = meta
  globals_meta.__index = meta and author_index or hidden
  globals_meta.__newindex = newindex
  globals_meta.__metatable = nil
  raw_setmetatable(globals, globals_meta)
end

function globals.getmetatable(value)
  if raw_rawequal(value, globals) then
    if author_meta and raw_rawget(author_meta, '__metatable') ~= nil then return raw_rawget(author_meta, '__metatable') end
    return author_meta
  end
  local meta = raw_getmetatable(value)
  if raw_rawequal(meta, native.list_mark) then return nil end
  return meta
end

function globals.setmetatable(value, meta)
  if raw_type(value) ~= 'table' then
    raw_error("bad argument #1 to 'setmetatable' (table expected, got " .. raw_type(value) .. ')', 2)
  elseif meta ~= nil and raw_type(meta) ~= 'table' then
    raw_error("bad argument #2 to 'setmetatable' (nil or table expected)", 2)
  elseif meta and raw_rawget(meta, '__gc') ~= nil then
    raw_error("bad argument #2 to 'setmetatable' (__gc is not available in the sandbox)", 2)
  end
  if raw_rawequal(value, globals) then
    if author_meta and raw_rawget(author_meta, '__metatable') ~= nil then
      raw_error('cannot change a protected metatable', 2)
    end
    set_author_meta(meta)
    return value
  end
  local current = raw_getmetatable(value)
  if current ~= nil and raw_type(native.metatable(value)) == 'table'
    and raw_rawget(native.metatable(value), '__metatable') ~= nil then
    raw_error('cannot change a protected metatable', 2)
  end
  return raw_setmetatable(value, meta)
end

-- Guarded data: `var`, and `argv` outside the H1 body ------------------------------------------------------------

local behind = native.behind
local function segment(path, key)
  if raw_type(key) == 'string' then return path .. '.' .. key end
  return path .. '[' .. to_text(key) .. ']'
end

local guards = raw_setmetatable({}, { __mode = 'k' })

-- An empty table in front of `data`: reads and writes go through, `pairs` and `#` see nothing.
local function guard(data, path, protection, write)
  local known = guards[data]
  if known ~= nil then return known end
  local front = {}
  behind[front] = data
  guards[data] = front
  return raw_setmetatable(front, {
    __index = function(_, key)
      local value = raw_rawget(data, key)
      if raw_type(value) == 'table' then return guard(value, segment(path, key), protection, write) end
      return value
    end,
    __newindex = function(_, key, value) write(data, path, key, value) end,
    __metatable = protection,
  })
end

local function write_var(data, path, key, value)
  raw_rawset(data, key, native.checked_data(data, path, key, value))
end

function native.guard_var(data) return guard(data, 'var', 'var is guarded', write_var) end
function native.guard_argv(data) return guard(data, 'argv', 'argv is frozen', native.refuse_argv_field) end

-- `sys`: scalars only, no field unknown.
function native.seal_sys(fields)
  return raw_setmetatable({}, {
    __index = function(_, key)
      if raw_type(key) == 'string' then
        local value = raw_rawget(fields, key)
        if value ~= nil then return value end
      end
      native.refuse_sys_read(key)
    end,
    __newindex = function(_, key) native.refuse_sys_write(key) end,
    __metatable = 'sys is sealed',
  })
end
