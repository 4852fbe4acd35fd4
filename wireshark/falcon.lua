-- Wireshark dissector for Falcon in PSP over UDP, with the RDMA operation header.
--
-- Copy this file into the folder of personal Lua plugins; docs/wireshark.md says how. It runs on Lua 5.2 (Wireshark 4.0
-- and 4.2) and Lua 5.4 (4.4 and later), so it uses no bit operators and no integer division.
--
-- The formats are those of transport-common/src/wire and transport-common/src/ulp/rdma. Names of fields and of the
-- reasons of malformed packets are those of `tiercel decode`. A test compares both on thousands of packets.

local psp = Proto("falcon.psp", "PSP Security Protocol")
local inner = Proto("falcon.inner", "Inner IP of a Falcon tunnel")
local falcon = Proto("falcon", "Falcon Reliable Transport")
local rdma = Proto("falcon.rdma", "RDMA over Falcon")

falcon.prefs.port = Pref.uint("UDP port", 1000, "UDP destination port of Falcon in PSP (D-10)")
falcon.prefs.follow = Pref.bool("Follow connections", true,
    "Mark retransmissions, and link packets with their acknowledgements and requests with their responses")

-- Texts of the numbers on the wire ---------------------------------------------------------------------------------

-- Returns a table of names for all values from 0 to `last`. Values that are not in `names` have the name `default`.
local function named(last, default, names)
    local all = {}
    for value = 0, last do all[value] = names[value] or default end
    return all
end

local IP_PROTOCOLS = named(255, "unknown", {
    [1] = "ICMP", [4] = "IPv4", [6] = "TCP", [17] = "UDP", [41] = "IPv6", [58] = "ICMPv6", [252] = "Falcon",
})
local ECN = { [0] = "not ECN-capable", "ECT(1)", "ECT(0)", "congestion experienced" }
local PSP_VERSIONS = named(15, "reserved", { [0] = "AES-GCM-128", [1] = "AES-GCM-256", [15] = "plaintext lab mode" })
local PROTOCOLS = named(7, "reserved", { [2] = "RDMA", [3] = "NVMe" })
local PULL_REQUEST, PULL_DATA, PUSH_DATA, RESYNC, NACK, BACK, EACK = 0, 3, 5, 6, 8, 9, 10
local PACKET_TYPES = named(15, "reserved", {
    [PULL_REQUEST] = "Pull Request", [PULL_DATA] = "Pull Data", [PUSH_DATA] = "Push Data", [RESYNC] = "Resync",
    [NACK] = "NACK", [BACK] = "BACK", [EACK] = "EACK",
})
local RESYNC_CODES = named(255, "reserved", {
    "target ULP completed in error", "local xLR", "retransmission exhausted", "transaction timed out", "remote xLR",
    "target ULP non-recoverable error", "target ULP invalid CID",
})
local NACK_CODES = named(255, "reserved", {
    [1] = "insufficient receiver resources", [2] = "receiver not ready", [4] = "xLR drop",
    [6] = "ULP completed in error", [7] = "ULP non-recoverable error", [8] = "invalid CID",
})
local ULP_NAMES = { [0] = "none", "invalid request", "access error", "operational error" }
local ULP_CODES = named(255, "unknown", ULP_NAMES)
local RNR = 2
-- Receiver-not-ready delays by code (F-7.8-9, F-7.8-10, F-7.8-11, F-7.8-12).
local RNR_TIMEOUTS = {
    [0] = "655.36 ms", "0.01 ms", "0.02 ms", "0.03 ms", "0.04 ms", "0.06 ms", "0.08 ms", "0.12 ms", "0.16 ms",
    "0.24 ms", "0.32 ms", "0.48 ms", "0.64 ms", "0.96 ms", "1.28 ms", "1.92 ms", "2.56 ms", "3.84 ms", "5.12 ms",
    "7.68 ms", "10.24 ms", "15.36 ms", "20.48 ms", "30.72 ms", "40.96 ms", "61.44 ms", "81.92 ms", "122.88 ms",
    "163.84 ms", "245.76 ms", "327.68 ms", "491.52 ms",
}
local WRITE, WRITE_IMMEDIATE, READ, READ_RESPONSE = 0x0a, 0x0b, 0x0c, 0x10
local ATOMIC_RESPONSE, COMPARE_SWAP, FETCH_ADD = 0x12, 0x13, 0x14
local OPCODES = named(255, "not used on Falcon", {
    [0] = "SEND First", "SEND Middle", "SEND Last", "SEND Last with immediate", "SEND Only", "SEND Only with immediate",
    [WRITE] = "RDMA WRITE Only", [WRITE_IMMEDIATE] = "RDMA WRITE Only with immediate", [READ] = "RDMA READ Request",
    [READ_RESPONSE] = "RDMA READ response Only", [ATOMIC_RESPONSE] = "Atomic Acknowledge",
    [COMPARE_SWAP] = "Compare and Swap", [FETCH_ADD] = "Fetch and Add",
})
local SEND_POSITIONS = { [0] = "first", "middle", "last", "last", "only", "only" }
-- AETH: success, or 0x60 plus a ULP code of five bits (D-84).
local SYNDROMES = named(255, "unknown", { [0] = "success" })
for code = 0, 31 do SYNDROMES[0x60 + code] = ULP_NAMES[code] or "unknown" end

-- Why a node refuses a packet: the name of its drop counter and a sentence.
local REASONS = {
    psp_truncated = "the datagram ends within the PSP header",
    psp_next_header = "the next header is neither Falcon (252) nor an inner IPv4 (4) or IPv6 (41) packet",
    psp_ext_length = "the header extension length contradicts the V bit",
    psp_crypt_offset =
        "the crypt offset does not leave exactly the inner IP header, if there is one, and the first Falcon word in clear",
    psp_version = "the version is not AES-GCM-128 (0), AES-GCM-256 (1) or plaintext (15)",
    psp_trailing_bit = "the last bit of the first word, always 1, is 0",
    ipv4_truncated = "the datagram ends within the inner IPv4 header",
    ipv4_version = "the PSP header says IPv4, the version field does not",
    ipv4_header_length = "the header length is below 20 bytes",
    ipv4_options = "IPv4 options are not accepted",
    ipv4_checksum = "the header checksum is wrong",
    ipv4_total_length = "the total length is below the header length or exceeds the datagram",
    fragment = "fragments are not accepted",
    ipv6_truncated = "the datagram ends within the inner IPv6 header",
    ipv6_version = "the PSP header says IPv6, the version field does not",
    ipv6_payload_length = "the payload length exceeds the datagram",
    ipv6_extension = "IPv6 extension headers are not accepted",
    inner_protocol = "the inner IP header's protocol is not 252, Falcon",
    inner_length = "the inner packet does not end where the UDP payload ends",
    falcon_truncated = "the Falcon packet is shorter than the header of its type",
    falcon_version = "the Falcon version is not 1",
    falcon_packet_type = "the packet type is reserved",
    falcon_protocol = "the protocol type is reserved",
    falcon_length = "the length of the packet does not match its header or its type",
    resync_packet_type = "the replaced packet type is not Pull Request, Pull Data or Push Data",
    rdma_truncated = "the payload ends within the headers of the RDMA operation",
    rdma_version = "the BTH transport version is not 0",
    rdma_opcode = "this Falcon packet type cannot carry the opcode",
    rdma_length = "the lengths do not match, or a pad count is set",
    rdma_alignment = "the address of an atomic is not a multiple of 8",
    rdma_syndrome = "the AETH syndrome is neither success nor an error code",
}

-- Fields -------------------------------------------------------------------------------------------------------------

-- The fields of each protocol by the part of their name after the protocol's.
local P, I, F, R = {}, {}, {}, {}

local function define(proto, fields, prefix, list)
    local all = {}
    for _, item in ipairs(list) do
        local name, make = item[1], item[2]
        local field = make(prefix .. name, item[3], item[4], item[5], item[6])
        fields[name] = field
        all[#all + 1] = field
    end
    proto.fields = all
end

local u8, u16, u24, u32, u64 =
    ProtoField.uint8, ProtoField.uint16, ProtoField.uint24, ProtoField.uint32, ProtoField.uint64
local bool, frame, time = ProtoField.bool, ProtoField.framenum, ProtoField.relative_time
local DEC, HEX, NONE = base.DEC, base.HEX, base.NONE
local YES = { "yes", "no" }

define(psp, P, "falcon.psp.", {
    { "next_header", u8, "Next Header", DEC, IP_PROTOCOLS },
    { "header_ext_len", u8, "Header Extension Length", DEC },
    { "reserved", u8, "Reserved", DEC, nil, 0xc0 },
    { "crypt_offset", u8, "Crypt Offset", DEC, nil, 0x3f },
    { "sample", bool, "Sample (S)", 8, YES, 0x80 },
    { "drop", bool, "Drop (D)", 8, YES, 0x40 },
    { "version", u8, "Version", DEC, PSP_VERSIONS, 0x3c },
    { "virtualisation_cookie", bool, "Virtualisation Cookie present (V)", 8, YES, 0x02 },
    { "always_one", bool, "Always 1", 8, YES, 0x01 },
    { "spi", u32, "Security Parameters Index", HEX },
    { "iv", u64, "Initialisation Vector", DEC },
    { "iv_tick", u32, "IV in ticks of 131.072 ns", DEC },
    { "vc", u64, "Virtualisation Cookie", HEX },
    { "icv", ProtoField.bytes, "Integrity Check Value", NONE },
})

define(inner, I, "falcon.inner.", {
    { "v4.dscp", u8, "DSCP", DEC, nil, 0xfc },
    { "v4.ecn", u8, "ECN", DEC, ECN, 0x03 },
    { "v4.total_length", u16, "Total Length", DEC },
    { "v4.identification", u16, "Identification", HEX },
    { "v4.ttl", u8, "TTL", DEC },
    { "v4.protocol", u8, "Protocol", DEC, IP_PROTOCOLS },
    { "v4.source", ProtoField.ipv4, "Source" },
    { "v4.destination", ProtoField.ipv4, "Destination" },
    { "v6.dscp", u16, "DSCP", DEC, nil, 0x0fc0 },
    { "v6.ecn", u16, "ECN", DEC, ECN, 0x0030 },
    { "v6.flow_label", u24, "Flow Label", HEX, nil, 0x0fffff },
    { "v6.payload_length", u16, "Payload Length", DEC },
    { "v6.next_header", u8, "Next Header", DEC, IP_PROTOCOLS },
    { "v6.hop_limit", u8, "Hop Limit", DEC },
    { "v6.source", ProtoField.ipv6, "Source" },
    { "v6.destination", ProtoField.ipv6, "Destination" },
})

define(falcon, F, "falcon.", {
    { "version", u8, "Version", DEC, nil, 0xf0 },
    { "reserved", u8, "Reserved", DEC, nil, 0x0f },
    { "dest_cid", u24, "Destination CID", DEC },
    { "dest_function", u24, "Destination Function", DEC },
    { "protocol_type", u8, "Protocol Type", DEC, PROTOCOLS, 0xe0 },
    { "packet_type", u8, "Packet Type", DEC, PACKET_TYPES, 0x1e },
    { "ack_request", bool, "ACK Request (AR)", 8, YES, 0x01 },
    { "data_window.base_psn", u32, "Data Window Base PSN", DEC },
    { "request_window.base_psn", u32, "Request Window Base PSN", DEC },
    { "psn", u32, "PSN", DEC },
    { "rsn", u32, "RSN", DEC },
    { "request_length", u16, "Request Length", DEC },
    { "resync_code", u8, "Resync Code", DEC, RESYNC_CODES },
    { "resync_packet_type", u8, "Resync Packet Type", DEC, PACKET_TYPES, 0xf0 },
    { "vendor_defined", u32, "Vendor Defined", HEX },
    { "t1", u32, "T1", DEC },
    { "t2", u32, "T2", DEC },
    { "forward_hops", u8, "Forward Hops", DEC, nil, 0xf0 },
    { "rx_buffer_level", u16, "Receive Buffer Level", DEC, nil, 0x0f80 },
    { "ecn_count", u32, "ECN Count", DEC, nil, 0x007ffe00 },
    { "rue_info", u24, "RUE Info", HEX },
    { "own_data", bool, "Out of Window Notification, data", 8, YES, 0x02 },
    { "own_request", bool, "Out of Window Notification, requests", 8, YES, 0x01 },
    { "data_window.ack_bitmap", ProtoField.bytes, "Data Window ACK Bitmap", NONE },
    { "data_window.rx_bitmap", ProtoField.bytes, "Data Window Rx Bitmap", NONE },
    { "request_window.bitmap", ProtoField.bytes, "Request Window Bitmap", NONE },
    { "bitmap.psns", ProtoField.string, "PSNs" },
    { "bitmap.bits", ProtoField.string, "Bits" },
    { "nack_code", u8, "NACK Code", DEC, NACK_CODES },
    { "rnr_timeout_code", u8, "RNR Timeout Code", DEC, RNR_TIMEOUTS, 0x1f },
    { "window", bool, "Window (W)", 8, { "request window", "data window" }, 0x80 },
    { "ulp_nack_code", u8, "ULP NACK Code", DEC, ULP_CODES },
    { "encrypted", ProtoField.bytes, "Encrypted", NONE },
    { "data", ProtoField.bytes, "Data", NONE },
    { "malformed", ProtoField.string, "Malformed" },
    -- Fields that are not on the wire: what following the connections has found.
    { "stream", u32, "Stream index", DEC },
    { "retransmission", bool, "Retransmission" },
    { "retransmission.number", u32, "Number of this retransmission", DEC },
    { "retransmission.first_in", frame, "First sent in", NONE },
    { "retransmission.after", time, "Time since it was sent before" },
    { "duplicate", bool, "Duplicate, with the same IV" },
    { "duplicate.of", frame, "Duplicate of", NONE },
    { "replaces", frame, "Replaces the packet in", NONE },
    { "acked_in", frame, "Acknowledged in", NONE, frametype.ACK },
    { "acked_after", time, "Time to the acknowledgement" },
    { "acks", frame, "Acknowledges", NONE, frametype.ACK },
    { "nacked_in", frame, "Refused in", NONE },
    { "nacks", frame, "Refuses", NONE },
    { "t1_frame", frame, "T1 is of the packet in", NONE },
    { "rtt", time, "Time since that packet" },
    { "request_in", frame, "Request in", NONE, frametype.REQUEST },
    { "response_in", frame, "Response in", NONE, frametype.RESPONSE },
    { "response_after", time, "Time from request to response" },
})

define(rdma, R, "falcon.rdma.", {
    { "opcode", u8, "Opcode", HEX, OPCODES },
    { "solicited_event", bool, "Solicited Event (SE)", 8, YES, 0x80 },
    { "migration", bool, "Migration (M)", 8, YES, 0x40 },
    { "pad_count", u8, "Pad Count", DEC, nil, 0x30 },
    { "transport_version", u8, "Transport Version", DEC, nil, 0x0f },
    { "p_key", u16, "P_Key", HEX },
    { "destination_qp", u24, "Destination QP", DEC },
    { "ack_request", bool, "Acknowledge Request (A)", 8, YES, 0x80 },
    { "psn", u24, "Segment of the operation", DEC },
    { "address", u64, "Address (offset in the region)", HEX },
    { "r_key", u32, "R_Key", HEX },
    { "length", u32, "Length", DEC },
    { "position", ProtoField.string, "Position" },
    { "immediate", u32, "Immediate", HEX },
    { "swap", u64, "Swap", DEC },
    { "compare", u64, "Compare", DEC },
    { "add", u64, "Add", DEC },
    { "syndrome", u8, "AETH Syndrome", HEX, SYNDROMES },
    { "msn", u24, "Message Sequence Number", DEC },
    { "original_value", u64, "Original Value", DEC },
})

local E = {
    malformed = ProtoExpert.new("falcon.expert.malformed", "A node drops this packet",
        expert.group.MALFORMED, expert.severity.ERROR),
    cut = ProtoExpert.new("falcon.expert.cut", "The capture has only a part of this packet",
        expert.group.UNDECODED, expert.severity.NOTE),
    retransmission = ProtoExpert.new("falcon.expert.retransmission", "This packet was sent before",
        expert.group.SEQUENCE, expert.severity.NOTE),
    duplicate = ProtoExpert.new("falcon.expert.duplicate", "The network duplicated this packet, or it was captured twice",
        expert.group.SEQUENCE, expert.severity.NOTE),
    nack = ProtoExpert.new("falcon.expert.nack", "A packet was refused", expert.group.RESPONSE_CODE, expert.severity.WARN),
    resync = ProtoExpert.new("falcon.expert.resync", "A packet will never be sent again",
        expert.group.SEQUENCE, expert.severity.WARN),
    own = ProtoExpert.new("falcon.expert.own", "The receiver dropped a packet beyond its window",
        expert.group.SEQUENCE, expert.severity.WARN),
    failed = ProtoExpert.new("falcon.expert.failed", "The target could not do the operation",
        expert.group.RESPONSE_CODE, expert.severity.WARN),
}
falcon.experts = { E.malformed, E.cut, E.retransmission, E.duplicate, E.nack, E.resync, E.own, E.failed }

-- Numbers ------------------------------------------------------------------------------------------------------------

local floor = math.floor
local TWO_16, TWO_17, TWO_31, TWO_32 = 65536, 131072, 2147483648, 4294967296

-- Returns the `width` bits of `value` from bit `shift` on. Exact up to 53 bits, and the same in every version of Lua.
local function bits(value, shift, width)
    return floor(value / 2 ^ shift) % floor(2 ^ width)
end

-- Divides the 64-bit number of two words by a number below 2^32. Returns the two words of the quotient, and the rest.
local function divide(high, low, divisor)
    local quotient, rest = {}, 0
    for i, limb in ipairs({ floor(high / TWO_16), high % TWO_16, floor(low / TWO_16), low % TWO_16 }) do
        local value = rest * TWO_16 + limb
        quotient[i], rest = floor(value / divisor), value % divisor
    end
    return quotient[1] * TWO_16 + quotient[2], quotient[3] * TWO_16 + quotient[4], rest
end

-- Returns picoseconds as seconds with all digits.
local function picoseconds(high, low)
    local micros_high, micros_low, fine = divide(high, low, 1000000)
    local _, seconds, coarse = divide(micros_high, micros_low, 1000000)
    return string.format("%d.%06d%06d s", seconds, coarse, fine)
end

-- Returns the time in ticks of 2^17 ps that belongs to an IV, modulo 2^32 (D-12).
local function tick_of(high, low)
    return (high % TWO_17) * 32768 + floor(low / TWO_17)
end

-- Returns ticks of 131.072 ns in nanoseconds, as text.
local function nanoseconds(ticks)
    return string.format(" ticks = %d ns", floor(ticks * 131072 / 1000))
end

-- Returns how far `b` is after `a`, modulo 2^32.
local function distance(a, b)
    return (b - a) % TWO_32
end

-- Returns the numbers whose bits are set, as ranges. Bit n stands for base + n, modulo `modulus` (D-08).
local function ranges(set, count, first, modulus)
    local out, n = {}, 0
    while n < count do
        if set[n] then
            local from = n
            while n + 1 < count and set[n + 1] do n = n + 1 end
            local a, b = (first + from) % modulus, (first + n) % modulus
            out[#out + 1] = a == b and string.format("%d", a) or string.format("%d-%d", a, b)
        end
        n = n + 1
    end
    return #out == 0 and "none" or table.concat(out, ", ")
end

-- Returns the set of the bits of a bitmap. The last byte has bits 7 to 0.
local function bits_of(range)
    local set, length = {}, range:len()
    for i = 0, length - 1 do
        local byte, n = range:range(length - 1 - i, 1):uint(), 8 * i
        while byte > 0 do
            if byte % 2 == 1 then set[n] = true end
            byte, n = floor(byte / 2), n + 1
        end
    end
    return set
end

-- Following connections ----------------------------------------------------------------------------------------------

-- A flow is one direction of a connection: source, destination, and the destination's CID. No packet has the CID of the
-- other direction. An acknowledgement leads to it: its T1 is the time of the IV of a packet of the other direction.
local state

local function reset()
    state = {
        flows = {},   -- by key
        count = 0,    -- number of flows
        routes = {},  -- by source and destination: the packets by tick
        frames = {},  -- by frame number: what was found out about it
    }
end
reset()
function falcon.init() reset() end

local function route_of(source, destination)
    local key = source .. "|" .. destination
    local route = state.routes[key]
    if not route then
        route = { ticks = {} }
        state.routes[key] = route
    end
    return route
end

local function new_windows(flow)
    flow.windows = { data = { packets = {}, pending = {} }, request = { packets = {}, pending = {} } }
    flow.requests = {}
end

local function flow_of(source, destination, cid)
    local key = string.format("%s|%s|%d", source, destination, cid)
    local flow = state.flows[key]
    if not flow then
        flow = { index = state.count, cid = cid, source = source, destination = destination }
        new_windows(flow)
        state.count = state.count + 1
        state.flows[key] = flow
    end
    return flow
end

local function record_of(number)
    local record = state.frames[number]
    if not record then
        record = {}
        state.frames[number] = record
    end
    return record
end

-- Records a packet with a base header.
local function sent(p, flow, record)
    local window = flow.windows[p.window]
    local packet = window.packets[p.psn]
    local same = packet and packet.rsn == p.rsn and (packet.kind == p.kind or p.kind == RESYNC or packet.kind == RESYNC)
    if packet and not same then
        -- The number belongs to another packet now: the connection was opened again.
        new_windows(flow)
        window, packet = flow.windows[p.window], nil
    end
    local this = { number = p.number, time = p.time, iv = p.iv, resync = p.kind == RESYNC }
    if not packet then
        packet = { kind = p.kind, rsn = p.rsn, sent = { this } }
        window.packets[p.psn] = packet
        window.pending[#window.pending + 1] = p.psn
    else
        -- A Resync takes the place of a packet, and the network may deliver a copy of that packet after it. Each is sent
        -- again only as what it is.
        local first, last, copies = nil, nil, 0
        for _, earlier in ipairs(packet.sent) do
            if earlier.iv == p.iv then
                record.duplicate_of = earlier.number
                return
            end
            if earlier.resync == this.resync then
                first, last, copies = first or earlier, earlier, copies + 1
            end
        end
        if copies > 0 then
            record.retransmission, record.first_in, record.after = copies, first.number, p.time - last.time
        elseif this.resync then
            record.replaces, packet.kind = packet.sent[#packet.sent].number, RESYNC
        end
        packet.sent[#packet.sent + 1] = this
    end
    local ticks = route_of(p.source, p.destination).ticks
    local other = ticks[p.tick]
    if other and other.flow ~= flow then
        other.flow = false -- two flows at the same time
    else
        ticks[p.tick] = { flow = flow, number = p.number, time = p.time }
    end
end

-- Returns the flow in the other direction, if it is known. Nothing is guessed: several connections between two hosts may
-- have similar PSNs.
local function peer_of(flow, p)
    local route = route_of(p.destination, p.source)
    if p.t1 then
        local seen = route.ticks[p.t1]
        if seen and seen.flow then flow.peer, seen.flow.peer = seen.flow, flow end
    end
    return flow.peer
end

local function acknowledge(packet, p, record)
    packet.acked = p.number
    record.acks = record.acks or {}
    record.acks[#record.acks + 1] = packet.sent[#packet.sent].number
    for _, this in ipairs(packet.sent) do
        local earlier = record_of(this.number)
        earlier.acked_in, earlier.acked_after = p.number, p.time - this.time
    end
end

-- Applies a base, and the bitmap of an EACK, to what the peer has sent in a window.
local function apply(window, base_psn, set, p, record)
    if window.base == base_psn and not set then return end
    window.base = base_psn
    local rest = {}
    for _, psn in ipairs(window.pending) do
        local packet, ahead = window.packets[psn], distance(base_psn, psn)
        if ahead >= TWO_31 or (set and set[ahead]) then
            acknowledge(packet, p, record)
        else
            rest[#rest + 1] = psn
        end
    end
    window.pending = rest
end

-- Records a packet, once.
local function follow(p)
    local record = record_of(p.number)
    if record.flow then return end
    local flow = flow_of(p.source, p.destination, p.cid)
    record.flow = flow
    if p.psn and p.kind ~= NACK then sent(p, flow, record) end
    if record.duplicate_of then return end
    local peer = peer_of(flow, p)
    if p.t1 then
        local seen = route_of(p.destination, p.source).ticks[p.t1]
        if seen and seen.flow then record.t1_frame, record.rtt = seen.number, p.time - seen.time end
    end
    if p.kind == PULL_REQUEST then
        flow.requests[p.rsn] = flow.requests[p.rsn] or { number = p.number, time = p.time }
    end
    if not peer then return end
    apply(peer.windows.data, p.data_base, p.data_set, p, record)
    apply(peer.windows.request, p.request_base, p.request_set, p, record)
    if p.kind == NACK then
        local packet = peer.windows[p.window].packets[p.psn]
        if packet then
            record.nacks = packet.sent[#packet.sent].number
            record_of(record.nacks).nacked_in = p.number
        end
    elseif p.kind == PULL_DATA then
        local request = peer.requests[p.rsn]
        if request then
            record.request_in, record.response_after = request.number, p.time - request.time
            local asked = record_of(request.number)
            asked.response_in = asked.response_in or p.number
        end
    end
end

local function span(seconds)
    local nanos = floor(seconds * 1e9 + 0.5)
    return NSTime.new(floor(nanos / 1000000000), nanos % 1000000000)
end

-- Shows what following the connections has found out about a packet.
local function show_record(d, tree)
    local record = state.frames[d.p.number]
    if not record or not record.flow then return end
    local function generated(name, value)
        if value ~= nil then return tree:add(F[name], value):set_generated() end
    end
    local function interval(name, seconds)
        if seconds and seconds >= 0 then generated(name, span(seconds)) end
    end
    local flow = record.flow
    generated("stream", flow.peer and math.min(flow.index, flow.peer.index) or flow.index)
    if record.retransmission then
        local item = generated("retransmission", true)
        item:add_proto_expert_info(E.retransmission)
        generated("retransmission.number", record.retransmission)
        generated("retransmission.first_in", record.first_in)
        interval("retransmission.after", record.after)
        d.marks[#d.marks + 1] = "[Retransmission]"
    end
    if record.duplicate_of then
        generated("duplicate", true):add_proto_expert_info(E.duplicate)
        generated("duplicate.of", record.duplicate_of)
        d.marks[#d.marks + 1] = "[Duplicate]"
    end
    generated("replaces", record.replaces)
    generated("acked_in", record.acked_in)
    interval("acked_after", record.acked_after)
    for _, number in ipairs(record.acks or {}) do generated("acks", number) end
    generated("nacked_in", record.nacked_in)
    generated("nacks", record.nacks)
    generated("t1_frame", record.t1_frame)
    interval("rtt", record.rtt)
    generated("request_in", record.request_in)
    generated("response_in", record.response_in)
    interval("response_after", record.response_after)
end

-- Dissection ---------------------------------------------------------------------------------------------------------

-- A dissection `d` has: `tvb`; `size`, the bytes of the datagram; `captured`, how many of them there are; `root`, the
-- tree; `words` and `marks`, for the Info column; `p`, what is needed to follow the connection.

-- Reports why a node refuses the packet. Only the first reason counts, as in a node.
local function refuse(d, tree, reason)
    if d.malformed then return end
    d.malformed = reason
    tree:add(F.malformed, reason):set_generated():add_proto_expert_info(E.malformed, REASONS[reason])
    d.marks[#d.marks + 1] = "[Malformed: " .. REASONS[reason] .. "]"
end

-- Returns whether the bytes from 0 to `last`, exclusive, are there. If not, the packet is refused for `reason`, or it
-- was cut by the capture.
local function reaches(d, tree, last, reason)
    if d.captured >= last then return true end
    if d.size < last then
        refuse(d, tree, reason)
    else
        d.is_cut = true
        tree:add_proto_expert_info(E.cut)
        d.marks[#d.marks + 1] = "[Cut by the capture]"
    end
    return false
end

-- Adds a tree for the bytes from `from` to `to`, exclusive, as far as they are there.
local function subtree(d, proto, from, to)
    to = math.min(to, d.captured)
    if to <= from then return d.root:add(proto) end
    return d.root:add(proto, d.tvb:range(from, to - from))
end

-- Adds fields, as far as their bytes are there: the name, the offset after `start`, the length.
local function place(d, tree, fields, start, list)
    for _, item in ipairs(list) do
        local from, length = start + item[2], item[3]
        if from + length <= d.captured then tree:add(fields[item[1]], d.tvb:range(from, length)) end
    end
end

local function word(d, at) return d.tvb:range(at, 4):uint() end

-- Adds the bytes from `from` to the end.
local function rest(d, tree, field, from)
    if d.captured > from then tree:add(field, d.tvb:range(from, d.captured - from)) end
end

local BTH = {
    { "opcode", 0, 1 }, { "solicited_event", 1, 1 }, { "migration", 1, 1 }, { "pad_count", 1, 1 },
    { "transport_version", 1, 1 }, { "p_key", 2, 2 }, { "destination_qp", 5, 3 }, { "ack_request", 8, 1 },
    { "psn", 9, 3 },
}
local RETH = { { "address", 0, 8 }, { "r_key", 8, 4 }, { "length", 12, 4 } }
local COMPARE_SWAP_ETH = { { "address", 0, 8 }, { "r_key", 8, 4 }, { "swap", 12, 8 }, { "compare", 20, 8 } }
local FETCH_ADD_ETH = { { "address", 0, 8 }, { "r_key", 8, 4 }, { "add", 12, 8 } }
local AETH = { { "syndrome", 0, 1 }, { "msn", 1, 3 } }
local IMMEDIATE = { { "immediate", 0, 4 } }
local ORIGINAL = { { "original_value", 0, 8 } }
local BTH_LEN, RETH_LEN, ATOMIC_ETH_LEN, AETH_LEN, ORIGINAL_LEN, IMMEDIATE_LEN = 12, 16, 28, 4, 8, 4

-- Push Data: WRITE or SEND (D-84). Returns where the data begins, or nil.
local function rdma_push(d, tree, start, opcode)
    local at, position = start + BTH_LEN, SEND_POSITIONS[opcode]
    local is_write = opcode == WRITE or opcode == WRITE_IMMEDIATE
    if not position and not is_write then
        refuse(d, tree, "rdma_opcode")
        return nil
    end
    local has_immediate = opcode == WRITE_IMMEDIATE or opcode == 3 or opcode == 5
    local fixed = at + (is_write and RETH_LEN or 0)
    local data = fixed + (has_immediate and IMMEDIATE_LEN or 0)
    if is_write then place(d, tree, R, at, RETH) end
    if position then tree:add(R.position, position):set_generated() end
    if has_immediate then place(d, tree, R, fixed, IMMEDIATE) end
    if not reaches(d, tree, data, "rdma_truncated") then return nil end
    if is_write then
        local length = word(d, at + 12)
        if length ~= d.size - data then refuse(d, tree, "rdma_length") end
    end
    d.words[#d.words + 1] = string.format("%d bytes", d.size - data)
    return data
end

-- Pull Request: READ or an atomic (D-84).
local function rdma_pull(d, tree, start, opcode, request_length)
    local at = start + BTH_LEN
    local is_read = opcode == READ
    if not is_read and opcode ~= COMPARE_SWAP and opcode ~= FETCH_ADD then
        refuse(d, tree, "rdma_opcode")
        return nil
    end
    place(d, tree, R, at, is_read and RETH or opcode == COMPARE_SWAP and COMPARE_SWAP_ETH or FETCH_ADD_ETH)
    local last = at + (is_read and RETH_LEN or ATOMIC_ETH_LEN)
    if not reaches(d, tree, last, "rdma_truncated") then return nil end
    if d.size > last then refuse(d, tree, "rdma_length") end
    if is_read then
        local length = word(d, at + 12)
        if request_length ~= BTH_LEN + AETH_LEN + length then refuse(d, tree, "rdma_length") end
        d.words[#d.words + 1] = string.format("%d bytes", length)
    else
        if request_length ~= BTH_LEN + AETH_LEN + ORIGINAL_LEN then refuse(d, tree, "rdma_length") end
        if d.tvb:range(at + 7, 1):uint() % 8 ~= 0 then refuse(d, tree, "rdma_alignment") end
    end
    return last
end

-- Pull Data: the answer to a READ or to an atomic (D-84).
local function rdma_response(d, tree, start, opcode)
    local at = start + BTH_LEN
    local data = at + AETH_LEN
    place(d, tree, R, at, AETH)
    if not reaches(d, tree, data, "rdma_truncated") then return nil end
    if opcode ~= READ_RESPONSE and opcode ~= ATOMIC_RESPONSE then
        refuse(d, tree, "rdma_opcode")
        return nil
    end
    local syndrome = d.tvb:range(at, 1):uint()
    if syndrome >= 0x60 and syndrome <= 0x7f then
        tree:add_proto_expert_info(E.failed, "The target could not do the operation: " .. SYNDROMES[syndrome])
        d.words[#d.words + 1] = string.format("%s (0x%02x)", SYNDROMES[syndrome], syndrome)
        if d.size > data then refuse(d, tree, "rdma_length") end
        return data
    end
    if syndrome ~= 0 then
        refuse(d, tree, "rdma_syndrome")
        return data
    end
    if opcode == ATOMIC_RESPONSE then
        place(d, tree, R, data, ORIGINAL)
        if not reaches(d, tree, data + ORIGINAL_LEN, "rdma_truncated") then return nil end
        if d.size > data + ORIGINAL_LEN then refuse(d, tree, "rdma_length") end
        return data + ORIGINAL_LEN
    end
    d.words[#d.words + 1] = string.format("%d bytes", d.size - data)
    return data
end

local function dissect_rdma(d, start, kind, request_length)
    local tree = subtree(d, rdma, start, d.size)
    place(d, tree, R, start, BTH)
    if not reaches(d, tree, start + BTH_LEN, "rdma_truncated") then return end
    local flags = d.tvb:range(start + 1, 1):uint()
    if bits(flags, 0, 4) ~= 0 then
        refuse(d, tree, "rdma_version")
    elseif bits(flags, 4, 2) ~= 0 then
        refuse(d, tree, "rdma_length") -- nothing is ever padded
    end
    local opcode = d.tvb:range(start, 1):uint()
    tree:append_text(", " .. OPCODES[opcode])
    d.words[#d.words + 1] = "| " .. OPCODES[opcode]
    local data
    if kind == PUSH_DATA then
        data = rdma_push(d, tree, start, opcode)
    elseif kind == PULL_REQUEST then
        data = rdma_pull(d, tree, start, opcode, request_length)
    else
        data = rdma_response(d, tree, start, opcode)
    end
    if data then rest(d, tree, F.data, data) end
end

-- Words 0 and 1 (F-7.2-1). The first is in clear also in an encrypted packet (F-7.1-3).
local FIRST_WORD = { { "version", 0, 1 }, { "reserved", 0, 1 }, { "dest_cid", 1, 3 } }
local PACKET_TYPE = { { "packet_type", 7, 1 } }
local BASE_WORD_1 = { { "dest_function", 4, 3 }, { "protocol_type", 7, 1 }, { "packet_type", 7, 1 }, { "ack_request", 7, 1 } }
local BASES = { { "data_window.base_psn", 8, 4 }, { "request_window.base_psn", 12, 4 } }
local NUMBERS = { { "psn", 16, 4 }, { "rsn", 20, 4 } }
local REQUEST_LENGTH = { { "request_length", 26, 2 } } -- D-01, D-02
local RESYNC_WORDS = { { "resync_code", 24, 1 }, { "resync_packet_type", 25, 1 }, { "vendor_defined", 28, 4 } } -- D-04
local CONGESTION = { { "forward_hops", 24, 1 }, { "rx_buffer_level", 24, 2 }, { "ecn_count", 24, 4 } }
local OWN = { { "own_data", 31, 1 }, { "own_request", 31, 1 } } -- D-06
local NACK_WORDS = {
    { "psn", 32, 4 }, { "nack_code", 36, 1 }, { "rnr_timeout_code", 37, 1 }, { "window", 38, 1 }, { "ulp_nack_code", 39, 1 },
}
local HEADER_LENGTHS = {
    [PULL_REQUEST] = 32, [PULL_DATA] = 24, [PUSH_DATA] = 28, [RESYNC] = 32, [NACK] = 40, [BACK] = 32, [EACK] = 72,
}

-- Adds a bitmap with the PSNs and the bits that are set (D-08). Returns the set.
local function bitmap(d, tree, name, start, at, length, base_at)
    if start + at + length > d.captured then return nil end
    local range = d.tvb:range(start + at, length)
    local set = bits_of(range)
    local psns = ranges(set, 8 * length, word(d, start + base_at), TWO_32)
    local item = tree:add(F[name], range)
    item:append_text(" PSNs: " .. psns)
    item:add(F["bitmap.psns"], range, psns)
    item:add(F["bitmap.bits"], range, ranges(set, 8 * length, 0, TWO_32))
    return set
end

-- Adds words 2 to 7 of an acknowledgement.
local function acknowledgement_words(d, tree, start, is_nack)
    place(d, tree, F, start, BASES)
    for i, name in ipairs({ "t1", "t2" }) do
        local at = start + 12 + 4 * i
        if at + 4 <= d.captured then
            tree:add(F[name], d.tvb:range(at, 4)):append_text(nanoseconds(word(d, at)))
        end
    end
    place(d, tree, F, start, CONGESTION)
    if start + 32 > d.captured then return end
    local range = d.tvb:range(start + 29, 3)
    -- 24 bits in a NACK, else 22 bits above the two of OWN (D-05, D-07).
    tree:add(F.rue_info, range, is_nack and range:uint() or bits(range:uint(), 2, 22))
    if is_nack then return end
    place(d, tree, F, start, OWN)
    if range:uint() % 4 ~= 0 then tree:add_proto_expert_info(E.own) end
end

local function dissect_acknowledgement(d, tree, start, kind)
    acknowledgement_words(d, tree, start, kind == NACK)
    local p = d.p
    if kind == NACK then
        place(d, tree, F, start, NACK_WORDS)
    elseif kind == EACK then
        p.data_set = bitmap(d, tree, "data_window.ack_bitmap", start, 32, 16, 8)
        bitmap(d, tree, "data_window.rx_bitmap", start, 48, 16, 8)
        p.request_set = bitmap(d, tree, "request_window.bitmap", start, 64, 8, 12)
    end
    if not reaches(d, tree, start + HEADER_LENGTHS[kind], "falcon_truncated") then return end
    p.data_base, p.request_base, p.t1 = word(d, start + 8), word(d, start + 12), word(d, start + 16)
    d.words[#d.words + 1] = string.format("data base %d, request base %d", p.data_base, p.request_base)
    if kind == NACK then
        p.psn = word(d, start + 32)
        local code = d.tvb:range(start + 36, 1):uint()
        p.window = d.tvb:range(start + 38, 1):uint() >= 0x80 and "request" or "data"
        d.words[#d.words + 1] = string.format("refuses %s PSN %d: %s", p.window, p.psn, NACK_CODES[code])
        if code == RNR then
            d.words[#d.words + 1] = RNR_TIMEOUTS[bits(d.tvb:range(start + 37, 1):uint(), 0, 5)]
        end
        tree:add_proto_expert_info(E.nack, "A packet was refused: " .. NACK_CODES[code])
    end
end

-- Adds the rest of a packet with a base header. Returns whether the whole header is there.
local function dissect_base(d, tree, start, kind)
    local p = d.p
    place(d, tree, F, start, BASES)
    place(d, tree, F, start, NUMBERS)
    if kind == RESYNC then
        place(d, tree, F, start, RESYNC_WORDS)
    elseif kind ~= PULL_DATA then
        place(d, tree, F, start, REQUEST_LENGTH)
    end
    if not reaches(d, tree, start + HEADER_LENGTHS[kind], "falcon_truncated") then return false end
    local last = d.tvb:range(start + 7, 1):uint()
    p.protocol = bits(last, 5, 3)
    p.data_base, p.request_base = word(d, start + 8), word(d, start + 12)
    p.psn, p.rsn = word(d, start + 16), word(d, start + 20)
    p.window = kind == PULL_REQUEST and "request" or "data"
    local replaces
    if kind == RESYNC then
        local replaced = bits(d.tvb:range(start + 25, 1):uint(), 4, 4)
        local code = d.tvb:range(start + 24, 1):uint()
        if d.size > start + HEADER_LENGTHS[kind] then refuse(d, tree, "falcon_length") end
        if replaced ~= PULL_REQUEST and replaced ~= PULL_DATA and replaced ~= PUSH_DATA then
            refuse(d, tree, "resync_packet_type") -- D-24
        end
        if replaced == PULL_REQUEST then p.window = "request" end
        replaces = string.format("replaces %s: %s", PACKET_TYPES[replaced], RESYNC_CODES[code])
        tree:add_proto_expert_info(E.resync, "A packet will never be sent again: " .. RESYNC_CODES[code])
    elseif p.protocol ~= 2 and p.protocol ~= 3 then
        refuse(d, tree, "falcon_protocol") -- D-09
    end
    d.words[#d.words + 1] = string.format("%s PSN %d RSN %d", p.window, p.psn, p.rsn)
    if last % 2 == 1 then d.words[#d.words + 1] = "AR" end
    d.words[#d.words + 1] = replaces
    if kind ~= PULL_DATA and kind ~= RESYNC then
        p.request_length = d.tvb:range(start + 26, 2):uint()
        if kind == PUSH_DATA and p.request_length ~= d.size - start - HEADER_LENGTHS[kind] then
            refuse(d, tree, "falcon_length") -- D-16
        end
    end
    return true
end

local function dissect_falcon(d, start)
    local p = d.p
    local kind = start + 8 <= d.captured and bits(d.tvb:range(start + 7, 1):uint(), 1, 4)
    local header = kind and HEADER_LENGTHS[kind] or 8
    local tree = subtree(d, falcon, start, start + header)
    d.tree = tree
    place(d, tree, F, start, FIRST_WORD)
    if not reaches(d, tree, start + 8, "falcon_truncated") then return end
    p.cid, p.kind = d.tvb:range(start + 1, 3):uint(), kind
    d.words[#d.words + 1] = string.format("%s CID %d", PACKET_TYPES[kind], p.cid)
    tree:append_text(string.format(", %s, CID %d", PACKET_TYPES[kind], p.cid))
    place(d, tree, F, start, kind < NACK and BASE_WORD_1 or PACKET_TYPE)
    if bits(d.tvb:range(start, 1):uint(), 4, 4) ~= 1 then
        refuse(d, tree, "falcon_version") -- F-7.2-2
        rest(d, tree, F.data, start + 8)
        return
    end
    if not HEADER_LENGTHS[kind] then
        refuse(d, tree, "falcon_packet_type") -- F-7.2-7
        rest(d, tree, F.data, start + 8)
        return
    end
    if kind >= NACK then
        dissect_acknowledgement(d, tree, start, kind)
    else
        local is_whole = dissect_base(d, tree, start, kind)
        if kind ~= RESYNC then
            if is_whole and p.protocol == 2 then
                dissect_rdma(d, start + header, kind, p.request_length)
            elseif is_whole then
                rest(d, tree, F.data, start + header)
            end
            return
        end
    end
    if d.size > start + header then
        refuse(d, tree, "falcon_length")
        rest(d, tree, F.data, start + header)
    end
end

-- Adds the first word of an encrypted packet; the rest needs the key (F-7.1-3).
local function dissect_encrypted(d, start)
    local tree = subtree(d, falcon, start, d.size)
    d.tree = tree
    place(d, tree, F, start, FIRST_WORD)
    if not reaches(d, tree, start + 4, "falcon_truncated") then return end
    d.words[#d.words + 1] = string.format("Encrypted CID %d", d.tvb:range(start + 1, 3):uint())
    tree:append_text(", encrypted")
    -- The ICV, 16 bytes, is at the end of the datagram (D-03).
    local icv = math.max(d.size - 16, start + 4)
    local last = math.min(icv, d.captured)
    if last > start + 4 then tree:add(F.encrypted, d.tvb:range(start + 4, last - start - 4)) end
    if d.size - icv == 16 and d.captured == d.size then tree:add(P.icv, d.tvb:range(icv, 16)) end
end

local PSP_WORDS = {
    { "next_header", 0, 1 }, { "header_ext_len", 1, 1 }, { "reserved", 2, 1 }, { "crypt_offset", 2, 1 }, { "sample", 3, 1 },
    { "drop", 3, 1 }, { "version", 3, 1 }, { "virtualisation_cookie", 3, 1 }, { "always_one", 3, 1 }, { "spi", 4, 4 },
}
local COOKIE = { { "vc", 16, 8 } }
-- Words that are in clear after the PSP header, by its Next Header: transport mode, and both versions of tunnel mode.
local CLEAR_WORDS = { [252] = 1, [4] = 6, [41] = 11 }

local INNER_IPV4 = {
    { "v4.dscp", 1, 1 }, { "v4.ecn", 1, 1 }, { "v4.total_length", 2, 2 }, { "v4.identification", 4, 2 }, { "v4.ttl", 8, 1 },
    { "v4.protocol", 9, 1 }, { "v4.source", 12, 4 }, { "v4.destination", 16, 4 },
}
local INNER_IPV6 = {
    { "v6.dscp", 0, 2 }, { "v6.ecn", 0, 2 }, { "v6.flow_label", 1, 3 }, { "v6.payload_length", 4, 2 },
    { "v6.next_header", 6, 1 }, { "v6.hop_limit", 7, 1 }, { "v6.source", 8, 16 }, { "v6.destination", 24, 16 },
}
-- Hop-by-hop options, routing, ESP, authentication, destination options, mobility, host identity, shim6, experiments.
local EXTENSIONS = {
    [0] = true, [43] = true, [50] = true, [51] = true, [60] = true, [135] = true, [139] = true, [140] = true, [253] = true,
    [254] = true,
}

-- Returns why a node refuses an inner IPv4 header, or nil.
local function fault_of_ipv4(d, at)
    local first = d.tvb:range(at, 1):uint()
    if bits(first, 4, 4) ~= 4 then return "ipv4_version" end
    if first % 16 < 5 then return "ipv4_header_length" end
    if first % 16 > 5 then return "ipv4_options" end
    local sum = 0
    for i = 0, 18, 2 do sum = sum + d.tvb:range(at + i, 2):uint() end
    while sum >= TWO_16 do sum = sum % TWO_16 + floor(sum / TWO_16) end
    if sum ~= 65535 then return "ipv4_checksum" end
    if d.tvb:range(at + 6, 2):uint() % 16384 ~= 0 then return "fragment" end
    local total = d.tvb:range(at + 2, 2):uint()
    if total < 20 or total > d.size - at then return "ipv4_total_length" end
    if total ~= d.size - at then return "inner_length" end
    if d.tvb:range(at + 9, 1):uint() ~= 252 then return "inner_protocol" end
end

-- Returns why a node refuses an inner IPv6 header, or nil.
local function fault_of_ipv6(d, at)
    if bits(d.tvb:range(at, 1):uint(), 4, 4) ~= 6 then return "ipv6_version" end
    local following = d.tvb:range(at + 6, 1):uint()
    if following == 44 then return "fragment" end
    if EXTENSIONS[following] then return "ipv6_extension" end
    local length = d.tvb:range(at + 4, 2):uint()
    if length > d.size - at - 40 then return "ipv6_payload_length" end
    if length ~= d.size - at - 40 then return "inner_length" end
    if following ~= 252 then return "inner_protocol" end
end

-- Adds the inner IP header of a tunnel, which is never encrypted (F-7.1.2-1). Returns where the Falcon packet begins, or
-- nil.
local function dissect_inner(d, start, is_v4)
    local last = start + (is_v4 and 20 or 40)
    local tree = subtree(d, inner, start, last)
    d.tree = tree
    place(d, tree, I, start, is_v4 and INNER_IPV4 or INNER_IPV6)
    if not reaches(d, tree, last, is_v4 and "ipv4_truncated" or "ipv6_truncated") then return nil end
    local fault = (is_v4 and fault_of_ipv4 or fault_of_ipv6)(d, start)
    if not fault then return last end
    refuse(d, tree, fault)
    return nil
end

local function dissect_psp(d)
    local flags = d.captured >= 4 and d.tvb:range(3, 1):uint() or 0
    local has_cookie = bits(flags, 1, 1) == 1
    local header = has_cookie and 24 or 16
    local tree = subtree(d, psp, 0, header)
    place(d, tree, P, 0, PSP_WORDS)
    if not reaches(d, tree, 16, "psp_truncated") then return end
    local high, low = word(d, 8), word(d, 12)
    local p = d.p
    p.iv, p.tick = string.format("%08x%08x", high, low), tick_of(high, low)
    tree:add(P.iv, d.tvb:range(8, 8)):append_text(" ps = " .. picoseconds(high, low))
    tree:add(P.iv_tick, d.tvb:range(8, 8), p.tick):set_generated()
    local next_header = d.tvb:range(0, 1):uint()
    local clear = CLEAR_WORDS[next_header]
    if not clear then
        refuse(d, tree, "psp_next_header") -- F-7.1-1, F-7.1.2-1
        return
    end
    if flags % 2 == 0 then refuse(d, tree, "psp_trailing_bit") end
    local version = bits(flags, 2, 4)
    if version ~= 0 and version ~= 1 and version ~= 15 then
        refuse(d, tree, "psp_version") -- D-10, D-83
        return
    end
    if d.tvb:range(1, 1):uint() ~= (has_cookie and 2 or 1) then refuse(d, tree, "psp_ext_length") end
    if bits(d.tvb:range(2, 1):uint(), 0, 6) ~= clear + (has_cookie and 2 or 0) then refuse(d, tree, "psp_crypt_offset") end
    if has_cookie then place(d, tree, P, 0, COOKIE) end
    if not reaches(d, tree, header, "psp_truncated") then return end
    local start = header
    if next_header ~= 252 then start = dissect_inner(d, header, next_header == 4) end
    if not start then return end
    if version == 15 then dissect_falcon(d, start) else dissect_encrypted(d, start) end
end

-- An ICMP error has the beginning of a packet that was sent before.
local icmp, icmpv6 = Field.new("icmp.type"), Field.new("icmpv6.type")
-- Known only if Wireshark validates UDP checksums, a preference of UDP: 0 is wrong.
local checksum_status = Field.new("udp.checksum.status")

-- Returns whether a node takes the packet: it is whole, and what is in it was not changed on the way.
local function is_taken(d)
    local status = checksum_status()
    return d.p.data_base and not d.malformed and not icmp() and not icmpv6() and not (status and status.value == 0)
end

function falcon.dissector(tvb, pinfo, root)
    pinfo.cols.protocol = "Falcon"
    local d = {
        tvb = tvb, root = root, size = tvb:reported_len(), captured = tvb:captured_len(), words = {}, marks = {}, p = {},
    }
    local p = d.p
    p.number, p.time = pinfo.number, pinfo.rel_ts
    p.source, p.destination = tostring(pinfo.net_src), tostring(pinfo.net_dst)
    dissect_psp(d)
    if not d.malformed and not d.is_cut then reaches(d, d.tree, d.size) end
    if falcon.prefs.follow and is_taken(d) then
        if not pinfo.visited then follow(p) end
        show_record(d, d.tree)
    end
    for _, mark in ipairs(d.marks) do d.words[#d.words + 1] = mark end
    pinfo.cols.info = table.concat(d.words, " ")
    return d.captured
end

-- Registration -------------------------------------------------------------------------------------------------------

local table_of_ports = DissectorTable.get("udp.port")
local port = falcon.prefs.port
table_of_ports:add(port, falcon)

function falcon.prefs_changed()
    if falcon.prefs.port == port then return end
    table_of_ports:remove(port, falcon)
    port = falcon.prefs.port
    table_of_ports:add(port, falcon)
end
