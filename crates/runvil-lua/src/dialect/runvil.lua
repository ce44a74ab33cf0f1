-- The globals of a `runvil: 0` document but for `args`.

local native, on_demand, fronted, var, argv = ...
local globals = _G

on_demand(globals, 'base', { 'call', 'jump', 'list_from_section', 'log', 'require', 'untrusted', 'user_input' })
if native.has_ui then on_demand(globals, 'base', { 'ui' }) end

globals.compactors = on_demand({}, 'compactors', { 'clear', 'fail' })
globals.json = on_demand({ null = native.null }, 'json', { 'array', 'decode', 'encode' })
globals.models = on_demand({}, 'models', { 'compact', 'default', 'get', 'infer', 'loop', 'use' })
globals.packs = on_demand({}, 'packs', { 'offer' })

-- An empty table in front of data.
local function guarded(data, write, protection)
  local front = fronted({}, 'data', 'read', write, protection)
  native.behind[front] = data
  return front
end

globals.tools =
  fronted(on_demand({}, 'tools', { 'call', 'offer', 'offer_local' }), 'data', 'read_tools', 'write_tools', false)
globals.sys = fronted({}, 'base', 'read_sys', 'write_sys', 'sys is sealed')
globals.var = guarded(var, 'write', 'var is guarded')
if type(argv) == 'table' then argv = guarded(argv, 'write_argv', 'argv is frozen') end
native.hidden.argv = argv
