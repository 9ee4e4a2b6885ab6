-- Runs in Pktgen's Lua, sent once for each connection as one line: every comment is a line of its own.
-- vp(tag, source) runs the source under pcall and answers one line: @vp TAG {"ok":...} or {"error":...}.
local function quoted(s)
  return '"' .. s:gsub('[%c"\\]', function(c) return string.format('\\u%04x', c:byte()) end) .. '"'
end
local function json(v)
  local kind = type(v)
  if kind == 'table' then
    local parts = {}
    for key, value in pairs(v) do
      parts[#parts + 1] = quoted(tostring(key)) .. ':' .. json(value)
    end
    return '{' .. table.concat(parts, ',') .. '}'
  elseif kind == 'number' then
    if math.type(v) == 'integer' then return string.format('%d', v) end
    if v ~= v or v == math.huge or v == -math.huge then return 'null' end
    return string.format('%.17g', v)
  elseif kind == 'boolean' then
    return tostring(v)
  elseif kind == 'nil' then
    return 'null'
  end
  return quoted(tostring(v))
end
function vp(tag, source)
  local chunk, trouble = load(source, '=vnetperf')
  local good, value = false, trouble
  if chunk then good, value = pcall(chunk) end
  local name = good and 'ok' or 'error'
  io.write('@vp ', tag, ' {"', name, '":', json(value), '}\n')
  io.flush()
end
