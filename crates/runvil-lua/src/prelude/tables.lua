-- The order of keys, and the functions of `table`.

local native, table = ...
local raw = native.raw

local error, next, rawequal, rawget, rawlen, select, tostring, type =
  raw.error, raw.next, raw.rawequal, raw.rawget, raw.rawlen, raw.select, raw.tostring, raw.type
local getmetatable = raw.getmetatable
local huge, max_integer = 1 / 0, (1 << 63) - 1
local math_type, to_integer = raw.math.type, raw.math.tointeger
local sort = raw.table.sort
-- Called by their names, which the messages of bad arguments show.
local library = raw.table
local valid_utf8 = raw.utf8.len

-- Walking ---------------------------------------------------------------------------------------------------------

-- Keys in the language's order: the array part, booleans, numbers, strings by bytes, then all others.
local function ordered_keys(t)
  local size = rawlen(t)
  local keys, count = {}, 0
  local has_false, has_true = false, false
  local numbers, strings, others
  for key in next, t do
    local kind = type(key)
    if kind == 'number' then
      if not (math_type(key) == 'integer' and key >= 1 and key <= size) then
        if key == huge or key == -huge then
          others = others or {}
          others[#others + 1] = key
        else
          numbers = numbers or {}
          numbers[#numbers + 1] = key
        end
      end
    elseif kind == 'string' then
      if valid_utf8(key) then
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

function table.pairs(t)
  local kind = type(t)
  if kind ~= 'table' then
    if kind == 'userdata' then
      local step = native.walk(t)
      if step ~= nil then return step, t, nil end
    end
    error("bad argument #1 to 'pairs' (table expected, got " .. kind .. ')', 2)
  end
  local meta = native.metatable(t)
  if meta ~= nil then
    local walk = rawget(meta, '__pairs')
    if walk ~= nil then
      if type(walk) ~= 'function' then
        error('attempt to call a ' .. type(walk) .. " value (metamethod '__pairs')", 2)
      end
      return walk(t)
    end
  end
  if next(t) == nil then return no_pairs, t, nil end
  local size, keys, count = ordered_keys(t)
  local at, key_at = 0, 0
  return function()
    while at < size do
      at = at + 1
      local value = rawget(t, at)
      if value ~= nil then return at, value end
    end
    while key_at < count do
      key_at = key_at + 1
      local key = keys[key_at]
      local value = rawget(t, key)
      if value ~= nil then return key, value end
    end
    return nil, nil
  end, t, nil
end

local function first_from(t, size, keys, count, at, key_at)
  for position = at, size do
    local value = rawget(t, position)
    if value ~= nil then return position, value end
  end
  for position = key_at, count do
    local value = rawget(t, keys[position])
    if value ~= nil then return keys[position], value end
  end
  return nil, nil
end

function table.next(t, key)
  if type(t) ~= 'table' then
    error("bad argument #1 to 'next' (table expected, got " .. type(t) .. ')', 2)
  end
  if key == nil and next(t) == nil then return nil, nil end
  local size, keys, count = ordered_keys(t)
  if key == nil then return first_from(t, size, keys, count, 1, 1) end
  if math_type(key) == 'float' and key == key // 1 and key >= -0x1p63 and key < 0x1p63 then key = key // 1 | 0 end
  if math_type(key) == 'integer' and (key >= 1 and key <= size or rawget(t, key) == nil) then
    return first_from(t, size, keys, count, key >= 1 and key + 1 or size + 1, 1)
  end
  for position = 1, count do
    if rawequal(keys[position], key) then return first_from(t, size, keys, count, size + 1, position + 1) end
  end
  -- The key was cleared: go on behind the place it had.
  return first_from(t, size, keys, count, size + 1, native.place_of(keys, key))
end

local function ipairs_step(t, position)
  position = position + 1
  local value = t[position]
  if value ~= nil then return position, value end
end

function table.ipairs(...)
  local t = ...
  if t == nil then
    local got = select('#', ...) == 0 and 'no value' or 'nil'
    error("bad argument #1 to 'ipairs' (table expected, got " .. got .. ')', 2)
  end
  return ipairs_step, t, 0
end

-- The functions of `table` ----------------------------------------------------------------------------------------

-- Whether reading, writing and measuring a table calls no metamethod. The C functions are right for such a table; for
-- any other they would call the author's code from a C frame, over a length that code may invent.
local function is_plain(t)
  if type(t) ~= 'table' or getmetatable(t) == nil then return true end
  local meta = native.metatable(t)
  return rawget(meta, '__index') == nil and rawget(meta, '__newindex') == nil and rawget(meta, '__len') == nil
end

local function length_of(t, level)
  local length = #t
  local whole = type(length) == 'number' and to_integer(length)
  if not whole then error('object length is not an integer', level + 1) end
  return whole
end

local function integer(value, at, what, level)
  local whole = to_integer(value)
  if whole then return whole end
  local expected = type(value) == 'number' and 'number has no integer representation'
    or 'number expected, got ' .. (value == nil and 'no value' or type(value))
  error('bad argument #' .. at .. " to '" .. what .. "' (" .. expected .. ')', level + 1)
end

function table.concat(list, separator, first, last)
  if type(list) ~= 'table' then
    error("bad argument #1 to 'concat' (table expected, got " .. type(list) .. ')', 2)
  end
  first = first == nil and 1 or integer(first, 3, 'concat', 2)
  last = last == nil and length_of(list, 2) or integer(last, 4, 'concat', 2)
  local pieces, count = {}, 0
  for k = first, last do
    local value = list[k]
    local kind = type(value)
    if kind ~= 'string' and kind ~= 'number' then
      if not native.has_text(value) then
        error('invalid value (' .. kind .. ') at index ' .. tostring(k) .. " in table for 'concat'", 2)
      end
      value = native.values.to_text(value)
    end
    count = count + 1
    pieces[count] = value
  end
  return library.concat(pieces, separator)
end

-- The most elements a C function moves in one go; more would keep a cancelled run waiting.
local at_once = 1 << 16

function table.insert(t, ...)
  if is_plain(t) then
    if type(t) == 'table' and rawlen(t) > at_once then native.stop_if_cancelled() end
    return library.insert(t, ...)
  end
  local behind = length_of(t, 2) + 1
  local given = select('#', ...)
  if given == 1 then
    t[behind] = (...)
  elseif given == 2 then
    local position, value = ...
    position = integer(position, 2, 'insert', 2)
    if position < 1 or position > behind then error("bad argument #2 to 'insert' (position out of bounds)", 2) end
    for at = behind, position + 1, -1 do t[at] = t[at - 1] end
    t[position] = value
  else
    error("wrong number of arguments to 'insert'", 2)
  end
end

function table.remove(t, ...)
  if is_plain(t) then
    if type(t) == 'table' and rawlen(t) > at_once then native.stop_if_cancelled() end
    return library.remove(t, ...)
  end
  local size = length_of(t, 2)
  local position = ...
  position = position == nil and size or integer(position, 2, 'remove', 2)
  if position ~= size and (position < 1 or position > size + 1) then
    error("bad argument #2 to 'remove' (position out of bounds)", 2)
  end
  local value = t[position]
  while position < size do
    t[position] = t[position + 1]
    position = position + 1
  end
  t[position] = nil
  return value
end

function table.move(source, first, last, to, ...)
  local target = ...
  if target == nil then target = source end
  if type(source) ~= 'table' or type(target) ~= 'table' then return library.move(source, first, last, to, ...) end
  first, last, to = integer(first, 2, 'move', 2), integer(last, 3, 'move', 2), integer(to, 4, 'move', 2)
  if last < first then return target end
  if not (first > 0 or last < max_integer + first) then
    error("bad argument #3 to 'move' (too many elements to move)", 2)
  end
  local count = last - first + 1
  if to > max_integer - count + 1 then error("bad argument #4 to 'move' (destination wrap around)", 2) end
  if count <= at_once and is_plain(source) and is_plain(target) then
    return library.move(source, first, last, to, target)
  end
  if to > last or to <= first or not rawequal(source, target) then
    for offset = 0, count - 1 do target[to + offset] = source[first + offset] end
  else
    for offset = count - 1, 0, -1 do target[to + offset] = source[first + offset] end
  end
  return target
end

-- Far more than a stack holds.
local too_many = 1 << 24

function table.unpack(t, first, last)
  if is_plain(t) then return library.unpack(t, first, last) end
  first = first == nil and 1 or integer(first, 2, 'unpack', 2)
  last = last == nil and length_of(t, 2) or integer(last, 3, 'unpack', 2)
  if first > last then return end
  local count = last - first + 1
  if count <= 0 or count > too_many then error('too many results to unpack', 2) end
  local values = {}
  for offset = 1, count do values[offset] = t[first + offset - 1] end
  return library.unpack(values, 1, count)
end

-- Sorting: Lua's own quicksort, with pivots that depend on nothing but the input.

local function by_value(left, right) return left < right end

-- Sorts `t[low..high]`; gives true when the order contradicts itself.
local function quicksort(t, low, high, less, turn)
  while low < high do
    if less(t[high], t[low]) then t[low], t[high] = t[high], t[low] end
    if high - low == 1 then return end
    local middle = (low + high) // 2
    if turn > 0 and high - low > 100 then
      local quarter = (high - low) // 4
      middle = (turn ~ low ~ high) % (quarter * 2) + low + quarter
    end
    if less(t[middle], t[low]) then
      t[middle], t[low] = t[low], t[middle]
    elseif less(t[high], t[middle]) then
      t[middle], t[high] = t[high], t[middle]
    end
    if high - low == 2 then return end
    local pivot = t[middle]
    t[middle], t[high - 1] = t[high - 1], pivot
    local i, j = low, high - 1
    while true do
      i = i + 1
      while less(t[i], pivot) do
        if i == high - 1 then return true end
        i = i + 1
      end
      j = j - 1
      while less(pivot, t[j]) do
        if j < i then return true end
        j = j - 1
      end
      if j < i then break end
      t[i], t[j] = t[j], t[i]
    end
    t[high - 1], t[i] = t[i], t[high - 1]
    local smaller
    if i - low < high - i then
      if quicksort(t, low, i - 1, less, turn) then return true end
      smaller = i - low
      low = i + 1
    else
      if quicksort(t, i + 1, high, less, turn) then return true end
      smaller = high - i
      high = i - 1
    end
    -- An unbalanced partition calls for other pivots.
    if (high - low) // 128 > smaller then turn = (turn * 1103515245 + 12345) & 0x7fffffff end
  end
end

function table.sort(t, less)
  if type(t) ~= 'table' then
    if type(t) ~= 'userdata' then
      error("bad argument #1 to 'sort' (table expected, got " .. type(t) .. ')', 2)
    end
    return library.sort(t, less)
  end
  local size = length_of(t, 2)
  if size < 2 then return end
  if less ~= nil and type(less) ~= 'function' then
    error("bad argument #2 to 'sort' (function expected, got " .. type(less) .. ')', 2)
  end
  if size > 0x7fffffff then error("bad argument #1 to 'sort' (array too big)", 2) end
  if quicksort(t, 1, size, less or by_value, 0) then error('invalid order function for sorting', 2) end
end
