-- The globals of a `runvil: 0` document that are functions, and the tables of them.

local native = ...
local host, suspending, looping = native.host, native.suspending, native.looping
local globals = _G

globals.call = suspending('call')
globals.jump = host('jump')
globals.list_from_section = host('list_from_section')
globals.log = host('log')
globals.require = native.requiring('require', 'require_compile', 'require_end')
if native.has_ui then globals.ui = host('ui') end
globals.untrusted = host('untrusted')
globals.user_input = suspending('user_input')

globals.compactors = { clear = host('compactors.clear'), fail = host('compactors.fail') }
native.compactors = globals.compactors

globals.json = {
  array = host('json.array'),
  decode = host('json.decode'),
  encode = host('json.encode'),
  null = native.null,
}

globals.models = {
  compact = native.compacting('models.compact', 'models.compact_end'),
  default = host('models.default'),
  get = host('models.get'),
  infer = suspending('models.infer'),
  loop = looping('models.loop'),
  use = host('models.use'),
}

native.call_counts = {}
globals.packs = { offer = host('packs.offer') }
globals.tools = native.counted({
  call = native.calling('tools.call', 'tools.call_end'),
  offer = host('tools.offer'),
  offer_local = host('tools.offer_local'),
}, native.call_counts)

native.handle_methods = { infer = suspending('handle.infer'), loop = looping('handle.loop') }

native.list_methods = {
  append = host('messages.append'),
  assistant = host('messages.assistant'),
  replace = host('messages.replace'),
  system = host('messages.system'),
  tool = host('messages.tool'),
  user = host('messages.user'),
}
