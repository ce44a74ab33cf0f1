-- Guarded data: `var`, `argv` outside the H1 body, and `tools.calls`.

local native, data = ...
local raw = native.raw

local rawget, rawset, setmetatable, type = raw.rawget, raw.rawset, raw.setmetatable, raw.type
local behind, finish = native.behind, native.finish

-- The front of each table behind one, and the path and the count of tables around it of each front but the outermost.
local fronts = setmetatable({}, { __mode = 'k' })
local paths = setmetatable({}, { __mode = 'k' })
local levels = setmetatable({}, { __mode = 'k' })

local function segment(path, key)
  if type(key) == 'string' then return path .. '.' .. key end
  return path .. '[' .. native.values.to_text(key) .. ']'
end

-- Reads and writes of a front go through to what is behind it; `pairs` and `#` see nothing.
function data.read(front, key)
  local value = rawget(behind[front], key)
  if type(value) ~= 'table' then return value end
  local known = fronts[value]
  if known == nil then
    known = setmetatable({}, native.metatable(front))
    behind[known], fronts[value] = value, known
    paths[known], levels[known] = segment(paths[front] or 'var', key), (levels[front] or 0) + 1
  end
  return known
end

function data.write(front, key, value)
  local checked = native.checked_data
  local held = behind[front]
  rawset(held, key, (finish(checked, checked(held, paths[front] or 'var', levels[front] or 0, key, value))))
end

function data.write_argv(_, key) native.refuse_argv_field(key) end

-- `tools`: an ordinary table but for `calls`, which is there once the section has called a tool.

local calls
local function counters()
  local counts = native.call_counts
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

function data.read_tools(_, key)
  if key == 'calls' and native.has_counts() then return counters() end
end

function data.write_tools(tools, key, value)
  if key == 'calls' then native.refuse_counting() end
  rawset(tools, key, value)
end
