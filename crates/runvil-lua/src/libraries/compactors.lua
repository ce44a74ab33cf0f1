-- Compactors: `local compact = require('runvil/compactors')`, then `models.loop(compact.trim())`.

local library = {}

library.summary_prompt = 'Summarize this conversation for its own continuation. Keep names, numbers, decisions, open '
  .. 'questions and what tools found out. Answer with the summary alone.\n\n'

-- The settings of a compactor, checked where it is made.
local function settings(call, options, known)
  if options == nil then options = {} end
  if type(options) ~= 'table' then error(call .. ' options must be a table, got ' .. type(options), 3) end
  for name in pairs(options) do
    if not known[name] then error(call .. ' option ' .. tostring(name) .. ' is unknown', 3) end
  end
  local turns = options.keep_turns == nil and 2 or options.keep_turns
  if math.type(turns) ~= 'integer' or turns < 1 then
    error(call .. ' option keep_turns must be an integer of at least 1, got ' .. tostring(turns), 3)
  end
  local prompt = options.prompt == nil and library.summary_prompt or options.prompt
  if type(prompt) ~= 'string' then error(call .. ' option prompt must be a string, got ' .. type(prompt), 3) end
  return turns, prompt
end

-- The first record after the leading system records, and the user record that the last `turns` turns begin with; nil
-- when there are fewer. A cut at a user record splits no batch of tool calls.
local function bounds(turns)
  local first = 1
  while messages[first] and messages[first].role == 'system' do first = first + 1 end
  local seen = 0
  for position = #messages, first, -1 do
    if messages[position].role == 'user' then
      seen = seen + 1
      if seen == turns then return first, position end
    end
  end
  return first, nil
end

-- A compactor that drops the oldest records: it keeps the leading system records and the last user turns.
-- Options: keep_turns (2).
function library.trim(options)
  local turns = settings('trim', options, { keep_turns = true })
  return function(reason)
    local first, cut = bounds(turns)
    if cut == nil or cut == first then return compactors.fail(reason) end
    messages:replace(first, cut - 1)
  end
end

local function transcript(first, last)
  local lines = {}
  for position = first, last do
    local record = messages[position]
    local line = record.role .. ': ' .. json.encode(record.content)
    if record.tool_calls then line = line .. ' ' .. json.encode(record.tool_calls) end
    lines[#lines + 1] = line
  end
  return table.concat(lines, '\n')
end

-- The end of the older half of a range: the record before a user record; below `first` when there is none.
local function half(first, last)
  for position = first + (last - first + 1) // 2, first + 1, -1 do
    if messages[position].role == 'user' then return position - 1 end
  end
  return first - 1
end

-- A compactor that puts one user record with a summary in the place of the oldest records, marked by its metadata. It
-- keeps the leading system records and the last user turns. `handle` writes the summary; the section's model without
-- one. A request for a summary that does not fit is made of half as many records.
-- Options: keep_turns (2), prompt.
function library.summarize(handle, options)
  local turns, prompt = settings('summarize', options, { keep_turns = true, prompt = true })
  return function(reason)
    local first, cut = bounds(turns)
    local last = (cut or #messages + 1) - 1
    while last >= first do
      local text = prompt .. transcript(first, last)
      local ok, summary
      if handle then ok, summary = pcall(handle.infer, handle, text) else ok, summary = pcall(models.infer, text) end
      if ok then
        messages:replace(first, last, {
          role = 'user',
          content = 'Summary of the earlier conversation: ' .. summary,
          meta = { summary = true },
        })
        return
      end
      if type(summary) ~= 'table' or summary.kind ~= 'context_exhausted' then error(summary, 0) end
      last = half(first, last)
    end
    return compactors.fail(reason)
  end
end

return library
