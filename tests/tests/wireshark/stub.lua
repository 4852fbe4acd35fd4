-- A part of Wireshark's Lua API, to execute the dissector with the plain interpreters of Lua 5.2 and 5.4.
-- Usage: lua stub.lua DISSECTOR PACKETS. Each line of PACKETS has time, source, destination, length on the wire and
-- bytes of a datagram. For each packet, all added fields are printed, and the Info column.

-- Whatever only one version has must not be used.
bit, bit32, utf8, unpack, loadstring, setfenv = nil, nil, nil, nil, nil, nil
table.pack, table.unpack, table.move, math.type, math.tointeger, math.pow, math.log10 = nil

local dissector, packets = arg[1], arg[2]
local lines

base = { DEC = "DEC", HEX = "HEX", NONE = "NONE" }
frametype = { ACK = 1, REQUEST = 2, RESPONSE = 3 }
expert = { group = { MALFORMED = 1, UNDECODED = 2, SEQUENCE = 3, RESPONSE_CODE = 4 }, severity = { ERROR = 1, WARN = 2, NOTE = 3 } }

local abbreviations = {}
ProtoField = setmetatable({}, { __index = function(_, kind)
    return function(name, label, display, names, mask)
        assert(type(name) == "string" and type(label) == "string" and not abbreviations[name], name)
        abbreviations[name] = true
        return { name = name, kind = kind, mask = mask }
    end
end })
ProtoExpert = { new = function(name, label, group, severity)
    assert(name and label and group and severity)
    return { name = name }
end }
Pref = { uint = function(_, value) return { value = value } end, bool = function(_, value) return { value = value } end }

function Proto(name, label)
    assert(name and label)
    local prefs = setmetatable({}, {
        __newindex = function(self, key, pref) rawset(self, key, pref.value) end,
    })
    return { name = name, prefs = prefs }
end

local registered = {}
DissectorTable = { get = function(name)
    assert(name == "udp.port")
    return { add = function(_, port, proto) registered[port] = proto end, remove = function(_, port) registered[port] = nil end }
end }
Field = { new = function() return function() return nil end end }
NSTime = { new = function(seconds, nanos)
    return { text = string.format("%d.%09d", seconds, nanos) }
end }

local Range = {}
Range.__index = Range
local function new_range(bytes, from, length)
    assert(from == math.floor(from) and length == math.floor(length), "not an integer")
    assert(from >= 0 and length >= 0 and from + length <= #bytes, "Range is out of bounds")
    return setmetatable({ bytes = bytes, from = from, length = length }, Range)
end
function Range:range(from, length)
    assert(from + length <= self.length, "Range is out of bounds")
    return new_range(self.bytes, self.from + from, length)
end
function Range:len() return self.length end
function Range:hex()
    local text = self.bytes:sub(self.from + 1, self.from + self.length)
    return (text:gsub(".", function(c) return string.format("%02x", c:byte()) end))
end
function Range:uint()
    assert(self.length >= 1 and self.length <= 4, "a number of 1 to 4 bytes")
    local value = 0
    for i = 1, self.length do value = value * 256 + self.bytes:byte(self.from + i) end
    return value
end

local function masked(value, mask)
    if not mask then return value end
    while mask % 2 == 0 do value, mask = math.floor(value / 2), math.floor(mask / 2) end
    return value % (mask + 1)
end

local function text_of(field, range, value)
    if type(value) == "table" then return value.text end
    if type(value) == "boolean" then return value and "1" or "0" end
    if type(value) == "number" then return string.format("%d", value) end
    if value then return value end
    if field.kind == "bytes" or field.kind == "ipv4" or field.kind == "ipv6" then return range:hex() end
    if field.kind == "uint64" then return "0x" .. range:hex() end
    return string.format("%d", masked(range:uint(), field.mask))
end

local Item = {}
Item.__index = Item
function Item:add(what, range, value)
    if getmetatable(range) ~= Range then range, value = nil, range end
    if what.kind then lines[#lines + 1] = what.name .. "\t" .. text_of(what, range, value) end
    return setmetatable({}, Item)
end
function Item:append_text(text) assert(type(text) == "string") return self end
function Item:set_generated() return self end
function Item:add_proto_expert_info(info) lines[#lines + 1] = "expert\t" .. info.name return self end

assert(loadfile(dissector))()
local proto = assert(registered[1000], "registered for UDP port 1000")
proto.init()
local number = 0
for line in io.lines(packets) do
    local seconds, source, destination, size, hex = line:match("^(%S+) (%S+) (%S+) (%d+) (%x*)$")
    local bytes = hex:gsub("%x%x", function(digits) return string.char(tonumber(digits, 16)) end)
    number, lines = number + 1, {}
    local tvb = {
        reported_len = function() return tonumber(size) end,
        captured_len = function() return #bytes end,
        range = function(_, from, length) return new_range(bytes, from, length) end,
    }
    local pinfo = {
        cols = {}, number = number, rel_ts = tonumber(seconds), net_src = source, net_dst = destination, visited = false,
    }
    proto.dissector(tvb, pinfo, setmetatable({}, Item))
    print(string.format("packet\t%d", number))
    print(table.concat(lines, "\n"))
    print("info\t" .. pinfo.cols.info)
end
-- A change of the port is registered.
rawset(proto.prefs, "port", 2000)
proto.prefs_changed()
assert(not registered[1000] and registered[2000] == proto)
