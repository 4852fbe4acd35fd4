// Swift with PLB: a fixed amount of work on an event and a connection's record (Falcon rev 0.9, section 10).
//
// The result of each event equals that of transport-common's Swift in every bit. The formats are the same: windows
// 11.10, durations in ticks of 131.072 ns, smoothed delay and target 24.16, factors 16.16. P4 has no division, so:
// - by the window or the delay: a reciprocal from a table, two steps of Newton's iteration, and one correction
// - by fcwnd below one packet, and by the level of a buffer: exact reciprocals from tables
// - 1 / sqrt(fcwnd): the polynomial and the iteration of transport-common
//
// The parts between `made:` and `end` are generated from transport-common's constants (see src/generate.rs).

match_kind { exact, ternary }

extern register<T> {
    register(bit<32> size);
    void read(out T result, in bit<32> index);
    void write(in bit<32> index, in T value);
}

typedef bit<24> ticks_t;     // ticks of 131.072 ns, times modulo 2^24
typedef bit<40> fine_t;      // 2^-16 ticks
typedef bit<17> fraction_t;  // 0 to 1 in 2^-16
typedef bit<21> window_t;    // 2^-10 packets

const bit<2> ACK = 0;
const bit<2> NACK = 1;
const bit<2> RETRANSMIT = 2;
const bit<8> INSUFFICIENT_RESOURCES = 1;
const bit<1> DECREASE = 0;
const bit<1> INCREASE = 1;
const fraction_t ONE = 0x10000;
const window_t ONE_PACKET = 1024;
const fine_t LONGEST = 0xffffffffff;
// A time without the OWN bit and the highest bit (D-05, D-07).
const bit<24> PASSED_METADATA = 0x7ffffc;
// Number of connections in the registers. The index is the low bits of the connection's number.
const bit<32> CONNECTIONS = 4096;

// made: start
// 1 / sqrt(m) for m in [1, 4): START_0 - START_1 m + START_2 m^2, 31 bits behind the point.
const bit<32> START_0 = 2822490379;
const bit<32> START_1 = 841268886;
const bit<32> START_2 = 102219160;
// end

// The event of an ACK, a NACK or a retransmission (10.6.2.1).
header event_t {
    bit<24> connection_id;
    bit<2>  event_type;
    ticks_t t1;
    ticks_t t2;
    ticks_t t3;
    ticks_t t4;                 // the time of a retransmit event (D-70)
    bit<3>  retransmit_count;
    bit<8>  nack_code;
    bit<4>  forward_hops;
    bit<5>  rx_buffer_level;
    bit<24> cc_metadata;
    bit<10> num_packets_acked;
    bit<1>  eack_drop;
}

// The state of the connection. It comes with the event and returns with the result (F-10.6.2.2-5).
struct connection_t {
    window_t fcwnd;
    bit<11>  ncwnd;
    bit<20>  inter_packet_gap;  // 512 ns
    ticks_t  retransmit_timeout;
    ticks_t  fabric_window_time_marker;
    ticks_t  nic_window_time_marker;
    bit<1>   ncwnd_direction;
    ticks_t  base_delay_target;
    ticks_t  delay_state;
    ticks_t  rtt_state;
    bit<2>   delay_select;
    bit<4>   profile;           // selects the parameters
}

struct result_t {
    bit<24> cc_metadata;
    bit<1>  randomize_path;
}

// The parameters of section 10.5, and constants calculated from the parameters of flow scaling.
struct parameters_t {
    window_t   max_fcwnd;
    window_t   min_fcwnd;
    window_t   fai;
    fraction_t fmdf;
    fraction_t max_fmdf;
    bit<11>    max_ncwnd;
    bit<11>    min_ncwnd;
    bit<11>    nai;
    fraction_t nmdf;
    fraction_t max_nmdf;
    bit<5>     target_level;
    bit<21>    plb_multiplier;
    fraction_t plb_threshold;
    bit<4>     plb_attempts;
    fraction_t rtt_alpha;
    fraction_t delay_alpha;
    ticks_t    per_hop;
    bit<25>    timeout_scalar;
    bit<3>     retransmit_limit;
    ticks_t    min_timeout;
    bit<1>     eack_drop;
    bit<46>    y_low;
    bit<46>    y_high;
    bit<34>    slope;
    fine_t     max_scaling;
    bit<6>     way_shift;
    bit<6>     slope_bits;
}

control RateUpdate(in event_t event, inout connection_t connection, out result_t result);
package RateUpdateEngine(RateUpdate update);

control Swift(in event_t event, inout connection_t connection, out result_t result) {
    register<bit<24>>(CONNECTIONS) plb;  // packets 10, congested packets 10, attempts 4
    parameters_t p;

    // The parameters of each profile. A profile without an entry has those of D-78.
    action set_parameters(window_t max_fcwnd, window_t min_fcwnd, window_t fai, fraction_t fmdf, fraction_t max_fmdf,
                          bit<11> max_ncwnd, bit<11> min_ncwnd, bit<11> nai, fraction_t nmdf, fraction_t max_nmdf,
                          bit<5> target_level, bit<21> plb_multiplier, fraction_t plb_threshold, bit<4> plb_attempts,
                          fraction_t rtt_alpha, fraction_t delay_alpha, ticks_t per_hop, bit<25> timeout_scalar,
                          bit<3> retransmit_limit, ticks_t min_timeout, bit<1> eack_drop, bit<46> y_low,
                          bit<46> y_high, bit<34> slope, fine_t max_scaling, bit<6> way_shift, bit<6> slope_bits) {
        p.max_fcwnd = max_fcwnd;
        p.min_fcwnd = min_fcwnd;
        p.fai = fai;
        p.fmdf = fmdf;
        p.max_fmdf = max_fmdf;
        p.max_ncwnd = max_ncwnd;
        p.min_ncwnd = min_ncwnd;
        p.nai = nai;
        p.nmdf = nmdf;
        p.max_nmdf = max_nmdf;
        p.target_level = target_level;
        p.plb_multiplier = plb_multiplier;
        p.plb_threshold = plb_threshold;
        p.plb_attempts = plb_attempts;
        p.rtt_alpha = rtt_alpha;
        p.delay_alpha = delay_alpha;
        p.per_hop = per_hop;
        p.timeout_scalar = timeout_scalar;
        p.retransmit_limit = retransmit_limit;
        p.min_timeout = min_timeout;
        p.eack_drop = eack_drop;
        p.y_low = y_low;
        p.y_high = y_high;
        p.slope = slope;
        p.max_scaling = max_scaling;
        p.way_shift = way_shift;
        p.slope_bits = slope_bits;
    }

    table profile {
        key = { connection.profile : exact; }
        actions = { set_parameters; }
        size = 16;
        // made: profile
        default_action = set_parameters(
            262144, 10, 1024, 52429, 32768, 256, 1, 1, 65536,
            32768, 15, 66191, 32768, 5, 49152, 0, 8, 131072,
            3, 7629, 0, 68719476704, 3483771957248, 4121420039, 50003968, 11, 37);
        // end
    }

    // A value times a factor, rounded to nearest.
    action scaled(in window_t value, in fraction_t factor, out window_t product) {
        bit<39> exact_product = (bit<39>) value * (bit<39>) factor + 0x8000;
        product = exact_product[36:16];
    }

    action smoothed(in ticks_t history, in ticks_t sample, in fraction_t alpha, out fine_t sum) {
        sum = (fine_t) history * (fine_t) alpha + (fine_t) sample * (fine_t) (ONE - alpha);
    }

    // The new value of a marker whose window did not change (F-10.3.4-5).
    action drag(in ticks_t rtt, inout ticks_t marker) {
        marker = event.t4 - marker > rtt ? event.t4 - rtt : marker;
    }

    // 1 / sqrt(fcwnd): which power of four brings the window into [1, 4).
    bit<4> power = 0;
    action set_power(bit<4> n) {
        power = n;
    }
    table scale {
        key = { connection.fcwnd : ternary; }
        actions = { set_power; }
        // made: scale
        const default_action = set_power(10);
        const entries = {
            0x100000 &&& 0x100000 : set_power(0); 0x080000 &&& 0x080000 : set_power(1);
            0x040000 &&& 0x040000 : set_power(1); 0x020000 &&& 0x020000 : set_power(2);
            0x010000 &&& 0x010000 : set_power(2); 0x008000 &&& 0x008000 : set_power(3);
            0x004000 &&& 0x004000 : set_power(3); 0x002000 &&& 0x002000 : set_power(4);
            0x001000 &&& 0x001000 : set_power(4); 0x000800 &&& 0x000800 : set_power(5);
            0x000400 &&& 0x000400 : set_power(5); 0x000200 &&& 0x000200 : set_power(6);
            0x000100 &&& 0x000100 : set_power(6); 0x000080 &&& 0x000080 : set_power(7);
            0x000040 &&& 0x000040 : set_power(7); 0x000020 &&& 0x000020 : set_power(8);
            0x000010 &&& 0x000010 : set_power(8); 0x000008 &&& 0x000008 : set_power(9);
            0x000004 &&& 0x000004 : set_power(9); 0x000002 &&& 0x000002 : set_power(10);
            0x000001 &&& 0x000001 : set_power(10);
        }
        // end
    }

    // y (3 - m y^2) / 2
    action newton(in bit<22> m, inout bit<32> y) {
        bit<64> square = (bit<64>) y * (bit<64>) y;
        bit<64> residue = (bit<64>) square[63:22] * (bit<64>) m;
        bit<64> next = (bit<64>) y * (bit<64>) (33w0x180000000 - residue[61:29]);
        y = next[63:32];
    }

    action reciprocal_sqrt(out bit<46> root) {
        window_t window = connection.fcwnd == 0 ? 1 : connection.fcwnd;
        bit<22> m = (bit<22>) window << (power ++ 1w0);
        bit<52> square = (bit<52>) START_2 * (bit<52>) m;
        bit<52> slope = (bit<52>) (START_1 - square[51:20]) * (bit<52>) m;
        bit<32> y = START_0 - slope[51:20];
        newton(m, y);
        newton(m, y);
        newton(m, y);
        root = (bit<46>) y << (power + 4);
    }

    // FabricDelayTarget (F-10.3.4-2).
    action delay_target(out fine_t target) {
        bit<46> y;
        reciprocal_sqrt(y);
        bit<64> way = (bit<64>) ((y |-| p.y_low) >> p.way_shift);
        bit<64> sum = (way * (bit<64>) p.slope + ((64w1 << p.slope_bits) >> 1)) >> p.slope_bits;
        fine_t flow = sum[63:40] != 0 ? LONGEST : sum[39:0];
        if (y >= p.y_high) {
            flow = p.max_scaling;
        }
        bit<29> whole = (bit<29>) connection.base_delay_target + (bit<29>) event.forward_hops * (bit<29>) p.per_hop;
        bit<46> fine = (bit<46>) (whole ++ 16w0) + (bit<46>) flow;
        target = fine[45:40] != 0 ? LONGEST : fine[39:0];
    }

    // The quotient of the fabric window's step: numerator and divisor, the reciprocal, and a correction by one.
    bit<63> numerator = 0;
    fine_t divisor = 0;
    bit<6> leading = 0;
    bit<11> start = 0;
    bit<23> quotient = 0;
    fine_t normal = 0;

    action set_leading(bit<6> zeros) {
        leading = zeros;
    }
    table normalise {
        key = { divisor : ternary; }
        actions = { set_leading; }
        // made: normalise
        const default_action = set_leading(0);
        const entries = {
            0x8000000000 &&& 0x8000000000 : set_leading(0); 0x4000000000 &&& 0x4000000000 : set_leading(1);
            0x2000000000 &&& 0x2000000000 : set_leading(2); 0x1000000000 &&& 0x1000000000 : set_leading(3);
            0x0800000000 &&& 0x0800000000 : set_leading(4); 0x0400000000 &&& 0x0400000000 : set_leading(5);
            0x0200000000 &&& 0x0200000000 : set_leading(6); 0x0100000000 &&& 0x0100000000 : set_leading(7);
            0x0080000000 &&& 0x0080000000 : set_leading(8); 0x0040000000 &&& 0x0040000000 : set_leading(9);
            0x0020000000 &&& 0x0020000000 : set_leading(10); 0x0010000000 &&& 0x0010000000 : set_leading(11);
            0x0008000000 &&& 0x0008000000 : set_leading(12); 0x0004000000 &&& 0x0004000000 : set_leading(13);
            0x0002000000 &&& 0x0002000000 : set_leading(14); 0x0001000000 &&& 0x0001000000 : set_leading(15);
            0x0000800000 &&& 0x0000800000 : set_leading(16); 0x0000400000 &&& 0x0000400000 : set_leading(17);
            0x0000200000 &&& 0x0000200000 : set_leading(18); 0x0000100000 &&& 0x0000100000 : set_leading(19);
            0x0000080000 &&& 0x0000080000 : set_leading(20); 0x0000040000 &&& 0x0000040000 : set_leading(21);
            0x0000020000 &&& 0x0000020000 : set_leading(22); 0x0000010000 &&& 0x0000010000 : set_leading(23);
            0x0000008000 &&& 0x0000008000 : set_leading(24); 0x0000004000 &&& 0x0000004000 : set_leading(25);
            0x0000002000 &&& 0x0000002000 : set_leading(26); 0x0000001000 &&& 0x0000001000 : set_leading(27);
            0x0000000800 &&& 0x0000000800 : set_leading(28); 0x0000000400 &&& 0x0000000400 : set_leading(29);
            0x0000000200 &&& 0x0000000200 : set_leading(30); 0x0000000100 &&& 0x0000000100 : set_leading(31);
            0x0000000080 &&& 0x0000000080 : set_leading(32); 0x0000000040 &&& 0x0000000040 : set_leading(33);
            0x0000000020 &&& 0x0000000020 : set_leading(34); 0x0000000010 &&& 0x0000000010 : set_leading(35);
            0x0000000008 &&& 0x0000000008 : set_leading(36); 0x0000000004 &&& 0x0000000004 : set_leading(37);
            0x0000000002 &&& 0x0000000002 : set_leading(38); 0x0000000001 &&& 0x0000000001 : set_leading(39);
        }
        // end
    }

    action set_start(bit<11> value) {
        start = value;
    }
    table reciprocal {
        key = { normal[38:31] : exact; }
        actions = { set_start; }
        // made: reciprocal
        const default_action = set_start(0);
        const entries = {
            0x00 : set_start(2044); 0x01 : set_start(2036); 0x02 : set_start(2028); 0x03 : set_start(2020);
            0x04 : set_start(2013); 0x05 : set_start(2005); 0x06 : set_start(1997); 0x07 : set_start(1990);
            0x08 : set_start(1982); 0x09 : set_start(1975); 0x0a : set_start(1967); 0x0b : set_start(1960);
            0x0c : set_start(1953); 0x0d : set_start(1945); 0x0e : set_start(1938); 0x0f : set_start(1931);
            0x10 : set_start(1924); 0x11 : set_start(1917); 0x12 : set_start(1910); 0x13 : set_start(1903);
            0x14 : set_start(1896); 0x15 : set_start(1889); 0x16 : set_start(1883); 0x17 : set_start(1876);
            0x18 : set_start(1869); 0x19 : set_start(1862); 0x1a : set_start(1856); 0x1b : set_start(1849);
            0x1c : set_start(1843); 0x1d : set_start(1836); 0x1e : set_start(1830); 0x1f : set_start(1824);
            0x20 : set_start(1817); 0x21 : set_start(1811); 0x22 : set_start(1805); 0x23 : set_start(1799);
            0x24 : set_start(1792); 0x25 : set_start(1786); 0x26 : set_start(1780); 0x27 : set_start(1774);
            0x28 : set_start(1768); 0x29 : set_start(1762); 0x2a : set_start(1756); 0x2b : set_start(1751);
            0x2c : set_start(1745); 0x2d : set_start(1739); 0x2e : set_start(1733); 0x2f : set_start(1727);
            0x30 : set_start(1722); 0x31 : set_start(1716); 0x32 : set_start(1711); 0x33 : set_start(1705);
            0x34 : set_start(1699); 0x35 : set_start(1694); 0x36 : set_start(1689); 0x37 : set_start(1683);
            0x38 : set_start(1678); 0x39 : set_start(1672); 0x3a : set_start(1667); 0x3b : set_start(1662);
            0x3c : set_start(1657); 0x3d : set_start(1651); 0x3e : set_start(1646); 0x3f : set_start(1641);
            0x40 : set_start(1636); 0x41 : set_start(1631); 0x42 : set_start(1626); 0x43 : set_start(1621);
            0x44 : set_start(1616); 0x45 : set_start(1611); 0x46 : set_start(1606); 0x47 : set_start(1601);
            0x48 : set_start(1596); 0x49 : set_start(1591); 0x4a : set_start(1586); 0x4b : set_start(1582);
            0x4c : set_start(1577); 0x4d : set_start(1572); 0x4e : set_start(1567); 0x4f : set_start(1563);
            0x50 : set_start(1558); 0x51 : set_start(1553); 0x52 : set_start(1549); 0x53 : set_start(1544);
            0x54 : set_start(1540); 0x55 : set_start(1535); 0x56 : set_start(1531); 0x57 : set_start(1526);
            0x58 : set_start(1522); 0x59 : set_start(1517); 0x5a : set_start(1513); 0x5b : set_start(1509);
            0x5c : set_start(1504); 0x5d : set_start(1500); 0x5e : set_start(1496); 0x5f : set_start(1492);
            0x60 : set_start(1487); 0x61 : set_start(1483); 0x62 : set_start(1479); 0x63 : set_start(1475);
            0x64 : set_start(1471); 0x65 : set_start(1467); 0x66 : set_start(1462); 0x67 : set_start(1458);
            0x68 : set_start(1454); 0x69 : set_start(1450); 0x6a : set_start(1446); 0x6b : set_start(1442);
            0x6c : set_start(1438); 0x6d : set_start(1434); 0x6e : set_start(1431); 0x6f : set_start(1427);
            0x70 : set_start(1423); 0x71 : set_start(1419); 0x72 : set_start(1415); 0x73 : set_start(1411);
            0x74 : set_start(1407); 0x75 : set_start(1404); 0x76 : set_start(1400); 0x77 : set_start(1396);
            0x78 : set_start(1393); 0x79 : set_start(1389); 0x7a : set_start(1385); 0x7b : set_start(1382);
            0x7c : set_start(1378); 0x7d : set_start(1374); 0x7e : set_start(1371); 0x7f : set_start(1367);
            0x80 : set_start(1364); 0x81 : set_start(1360); 0x82 : set_start(1357); 0x83 : set_start(1353);
            0x84 : set_start(1350); 0x85 : set_start(1346); 0x86 : set_start(1343); 0x87 : set_start(1339);
            0x88 : set_start(1336); 0x89 : set_start(1332); 0x8a : set_start(1329); 0x8b : set_start(1326);
            0x8c : set_start(1322); 0x8d : set_start(1319); 0x8e : set_start(1316); 0x8f : set_start(1312);
            0x90 : set_start(1309); 0x91 : set_start(1306); 0x92 : set_start(1303); 0x93 : set_start(1299);
            0x94 : set_start(1296); 0x95 : set_start(1293); 0x96 : set_start(1290); 0x97 : set_start(1287);
            0x98 : set_start(1283); 0x99 : set_start(1280); 0x9a : set_start(1277); 0x9b : set_start(1274);
            0x9c : set_start(1271); 0x9d : set_start(1268); 0x9e : set_start(1265); 0x9f : set_start(1262);
            0xa0 : set_start(1259); 0xa1 : set_start(1256); 0xa2 : set_start(1253); 0xa3 : set_start(1250);
            0xa4 : set_start(1247); 0xa5 : set_start(1244); 0xa6 : set_start(1241); 0xa7 : set_start(1238);
            0xa8 : set_start(1235); 0xa9 : set_start(1232); 0xaa : set_start(1229); 0xab : set_start(1226);
            0xac : set_start(1224); 0xad : set_start(1221); 0xae : set_start(1218); 0xaf : set_start(1215);
            0xb0 : set_start(1212); 0xb1 : set_start(1209); 0xb2 : set_start(1207); 0xb3 : set_start(1204);
            0xb4 : set_start(1201); 0xb5 : set_start(1198); 0xb6 : set_start(1196); 0xb7 : set_start(1193);
            0xb8 : set_start(1190); 0xb9 : set_start(1188); 0xba : set_start(1185); 0xbb : set_start(1182);
            0xbc : set_start(1180); 0xbd : set_start(1177); 0xbe : set_start(1174); 0xbf : set_start(1172);
            0xc0 : set_start(1169); 0xc1 : set_start(1166); 0xc2 : set_start(1164); 0xc3 : set_start(1161);
            0xc4 : set_start(1159); 0xc5 : set_start(1156); 0xc6 : set_start(1154); 0xc7 : set_start(1151);
            0xc8 : set_start(1148); 0xc9 : set_start(1146); 0xca : set_start(1143); 0xcb : set_start(1141);
            0xcc : set_start(1139); 0xcd : set_start(1136); 0xce : set_start(1134); 0xcf : set_start(1131);
            0xd0 : set_start(1129); 0xd1 : set_start(1126); 0xd2 : set_start(1124); 0xd3 : set_start(1121);
            0xd4 : set_start(1119); 0xd5 : set_start(1117); 0xd6 : set_start(1114); 0xd7 : set_start(1112);
            0xd8 : set_start(1110); 0xd9 : set_start(1107); 0xda : set_start(1105); 0xdb : set_start(1103);
            0xdc : set_start(1100); 0xdd : set_start(1098); 0xde : set_start(1096); 0xdf : set_start(1093);
            0xe0 : set_start(1091); 0xe1 : set_start(1089); 0xe2 : set_start(1087); 0xe3 : set_start(1084);
            0xe4 : set_start(1082); 0xe5 : set_start(1080); 0xe6 : set_start(1078); 0xe7 : set_start(1075);
            0xe8 : set_start(1073); 0xe9 : set_start(1071); 0xea : set_start(1069); 0xeb : set_start(1067);
            0xec : set_start(1065); 0xed : set_start(1062); 0xee : set_start(1060); 0xef : set_start(1058);
            0xf0 : set_start(1056); 0xf1 : set_start(1054); 0xf2 : set_start(1052); 0xf3 : set_start(1050);
            0xf4 : set_start(1048); 0xf5 : set_start(1045); 0xf6 : set_start(1043); 0xf7 : set_start(1041);
            0xf8 : set_start(1039); 0xf9 : set_start(1037); 0xfa : set_start(1035); 0xfb : set_start(1033);
            0xfc : set_start(1031); 0xfd : set_start(1029); 0xfe : set_start(1027); 0xff : set_start(1025);
        }
        // end
    }

    action divide() {
        // 2^-10, then 2^-24, then 2^-32: each at most the reciprocal of normal * 2^-40.
        bit<52> first = 52w0x8000000000000 - (bit<52>) normal * (bit<52>) start;
        bit<36> rough = ((bit<36>) start * (bit<36>) first[51:28]) >> 8;
        bit<66> second = 66w0x20000000000000000 - (bit<66>) normal * (bit<66>) rough[25:0];
        bit<60> fine = ((bit<60>) rough[25:0] * (bit<60>) second[65:34]) >> 22;
        bit<97> product = ((bit<97>) numerator * (bit<97>) fine[33:0]) >> (7w72 - (bit<7>) leading);
        bit<22> guess = product[96:22] != 0 ? 22w0x3fffff : product[21:0];
        bit<63> rest = numerator - (bit<63>) guess * (bit<63>) divisor;
        quotient = (bit<23>) guess + (rest >= (bit<63>) divisor ? 23w1 : 0);
    }

    // fcwnd < 1: half of 125 fcwnd, and 2^54 / (125 fcwnd) rounded up, exact for gaps below 2^20 (D-63).
    bit<16> gap_half = 0;
    bit<48> gap_reciprocal = 0;
    action set_gap(bit<16> half, bit<48> value) {
        gap_half = half;
        gap_reciprocal = value;
    }
    table gap {
        key = { connection.fcwnd[9:0] : exact; }
        actions = { set_gap; }
        // made: gap
        const default_action = set_gap(0, 0);
        const entries = {
            0x001 : set_gap(62, 144115188075856); 0x002 : set_gap(125, 72057594037928); 0x003 : set_gap(187, 48038396025286);
            0x004 : set_gap(250, 36028797018964); 0x005 : set_gap(312, 28823037615172); 0x006 : set_gap(375, 24019198012643);
            0x007 : set_gap(437, 20587884010837); 0x008 : set_gap(500, 18014398509482); 0x009 : set_gap(562, 16012798675096);
            0x00a : set_gap(625, 14411518807586); 0x00b : set_gap(687, 13101380734169); 0x00c : set_gap(750, 12009599006322);
            0x00d : set_gap(812, 11085783698143); 0x00e : set_gap(875, 10293942005419); 0x00f : set_gap(937, 9607679205058);
            0x010 : set_gap(1000, 9007199254741); 0x011 : set_gap(1062, 8477364004463); 0x012 : set_gap(1125, 8006399337548);
            0x013 : set_gap(1187, 7585009898730); 0x014 : set_gap(1250, 7205759403793); 0x015 : set_gap(1312, 6862628003613);
            0x016 : set_gap(1375, 6550690367085); 0x017 : set_gap(1437, 6265877742429); 0x018 : set_gap(1500, 6004799503161);
            0x019 : set_gap(1562, 5764607523035); 0x01a : set_gap(1625, 5542891849072); 0x01b : set_gap(1687, 5337599558366);
            0x01c : set_gap(1750, 5146971002710); 0x01d : set_gap(1812, 4969489243996); 0x01e : set_gap(1875, 4803839602529);
            0x01f : set_gap(1937, 4648877034706); 0x020 : set_gap(2000, 4503599627371); 0x021 : set_gap(2062, 4367126911390);
            0x022 : set_gap(2125, 4238682002232); 0x023 : set_gap(2187, 4117576802168); 0x024 : set_gap(2250, 4003199668774);
            0x025 : set_gap(2312, 3895005083132); 0x026 : set_gap(2375, 3792504949365); 0x027 : set_gap(2437, 3695261232715);
            0x028 : set_gap(2500, 3602879701897); 0x029 : set_gap(2562, 3515004587216); 0x02a : set_gap(2625, 3431314001807);
            0x02b : set_gap(2687, 3351516001765); 0x02c : set_gap(2750, 3275345183543); 0x02d : set_gap(2812, 3202559735020);
            0x02e : set_gap(2875, 3132938871215); 0x02f : set_gap(2937, 3066280597359); 0x030 : set_gap(3000, 3002399751581);
            0x031 : set_gap(3062, 2941126287263); 0x032 : set_gap(3125, 2882303761518); 0x033 : set_gap(3187, 2825788001488);
            0x034 : set_gap(3250, 2771445924536); 0x035 : set_gap(3312, 2719154491998); 0x036 : set_gap(3375, 2668799779183);
            0x037 : set_gap(3437, 2620276146834); 0x038 : set_gap(3500, 2573485501355); 0x039 : set_gap(3562, 2528336632910);
            0x03a : set_gap(3625, 2484744621998); 0x03b : set_gap(3687, 2442630306371); 0x03c : set_gap(3750, 2401919801265);
            0x03d : set_gap(3812, 2362544066818); 0x03e : set_gap(3875, 2324438517353); 0x03f : set_gap(3937, 2287542667871);
            0x040 : set_gap(4000, 2251799813686); 0x041 : set_gap(4062, 2217156739629); 0x042 : set_gap(4125, 2183563455695);
            0x043 : set_gap(4187, 2150972956357); 0x044 : set_gap(4250, 2119341001116); 0x045 : set_gap(4312, 2088625914143);
            0x046 : set_gap(4375, 2058788401084); 0x047 : set_gap(4437, 2029791381351); 0x048 : set_gap(4500, 2001599834387);
            0x049 : set_gap(4562, 1974180658574); 0x04a : set_gap(4625, 1947502541566); 0x04b : set_gap(4687, 1921535841012);
            0x04c : set_gap(4750, 1896252474683); 0x04d : set_gap(4812, 1871625819167); 0x04e : set_gap(4875, 1847630616358);
            0x04f : set_gap(4937, 1824242887037); 0x050 : set_gap(5000, 1801439850949); 0x051 : set_gap(5062, 1779199852789);
            0x052 : set_gap(5125, 1757502293608); 0x053 : set_gap(5187, 1736327567179); 0x054 : set_gap(5250, 1715657000904);
            0x055 : set_gap(5312, 1695472800893); 0x056 : set_gap(5375, 1675758000883); 0x057 : set_gap(5437, 1656496414666);
            0x058 : set_gap(5500, 1637672591772); 0x059 : set_gap(5562, 1619271776134); 0x05a : set_gap(5625, 1601279867510);
            0x05b : set_gap(5687, 1583683385449); 0x05c : set_gap(5750, 1566469435608); 0x05d : set_gap(5812, 1549625678236);
            0x05e : set_gap(5875, 1533140298680); 0x05f : set_gap(5937, 1517001979746); 0x060 : set_gap(6000, 1501199875791);
            0x061 : set_gap(6062, 1485723588411); 0x062 : set_gap(6125, 1470563143632); 0x063 : set_gap(6187, 1455708970464);
            0x064 : set_gap(6250, 1441151880759); 0x065 : set_gap(6312, 1426883050256); 0x066 : set_gap(6375, 1412894000744);
            0x067 : set_gap(6437, 1399176583261); 0x068 : set_gap(6500, 1385722962268); 0x069 : set_gap(6562, 1372525600723);
            0x06a : set_gap(6625, 1359577245999); 0x06b : set_gap(6687, 1346870916597); 0x06c : set_gap(6750, 1334399889592);
            0x06d : set_gap(6812, 1322157688770); 0x06e : set_gap(6875, 1310138073417); 0x06f : set_gap(6937, 1298335027711);
            0x070 : set_gap(7000, 1286742750678); 0x071 : set_gap(7062, 1275355646689); 0x072 : set_gap(7125, 1264168316455);
            0x073 : set_gap(7187, 1253175548486); 0x074 : set_gap(7250, 1242372310999); 0x075 : set_gap(7312, 1231753744239);
            0x076 : set_gap(7375, 1221315153186); 0x077 : set_gap(7437, 1211052000638); 0x078 : set_gap(7500, 1200959900633);
            0x079 : set_gap(7562, 1191034612198); 0x07a : set_gap(7625, 1181272033409); 0x07b : set_gap(7687, 1171668195739);
            0x07c : set_gap(7750, 1162219258677); 0x07d : set_gap(7812, 1152921504607); 0x07e : set_gap(7875, 1143771333936);
            0x07f : set_gap(7937, 1134765260440); 0x080 : set_gap(8000, 1125899906843); 0x081 : set_gap(8062, 1117172000589);
            0x082 : set_gap(8125, 1108578369815); 0x083 : set_gap(8187, 1100115939511); 0x084 : set_gap(8250, 1091781727848);
            0x085 : set_gap(8312, 1083572842676); 0x086 : set_gap(8375, 1075486478179); 0x087 : set_gap(8437, 1067519911674);
            0x088 : set_gap(8500, 1059670500558); 0x089 : set_gap(8562, 1051935679386); 0x08a : set_gap(8625, 1044312957072);
            0x08b : set_gap(8687, 1036799914215); 0x08c : set_gap(8750, 1029394200542); 0x08d : set_gap(8812, 1022093532453);
            0x08e : set_gap(8875, 1014895690676); 0x08f : set_gap(8937, 1007798518013); 0x090 : set_gap(9000, 1000799917194);
            0x091 : set_gap(9062, 993897848800); 0x092 : set_gap(9125, 987090329287); 0x093 : set_gap(9187, 980375429088);
            0x094 : set_gap(9250, 973751270783); 0x095 : set_gap(9312, 967216027355); 0x096 : set_gap(9375, 960767920506);
            0x097 : set_gap(9437, 954405219046); 0x098 : set_gap(9500, 948126237342); 0x099 : set_gap(9562, 941929333830);
            0x09a : set_gap(9625, 935812909584); 0x09b : set_gap(9687, 929775406942); 0x09c : set_gap(9750, 923815308179);
            0x09d : set_gap(9812, 917931134242); 0x09e : set_gap(9875, 912121443519); 0x09f : set_gap(9937, 906384830666);
            0x0a0 : set_gap(10000, 900719925475); 0x0a1 : set_gap(10062, 895125391776); 0x0a2 : set_gap(10125, 889599926395);
            0x0a3 : set_gap(10187, 884142258135); 0x0a4 : set_gap(10250, 878751146804); 0x0a5 : set_gap(10312, 873425382278);
            0x0a6 : set_gap(10375, 868163783590); 0x0a7 : set_gap(10437, 862965198060); 0x0a8 : set_gap(10500, 857828500452);
            0x0a9 : set_gap(10562, 852752592165); 0x0aa : set_gap(10625, 847736400447); 0x0ab : set_gap(10687, 842778877637);
            0x0ac : set_gap(10750, 837879000442); 0x0ad : set_gap(10812, 833035769225); 0x0ae : set_gap(10875, 828248207333);
            0x0af : set_gap(10937, 823515360434); 0x0b0 : set_gap(11000, 818836295886); 0x0b1 : set_gap(11062, 814210102124);
            0x0b2 : set_gap(11125, 809635888067); 0x0b3 : set_gap(11187, 805112782547); 0x0b4 : set_gap(11250, 800639933755);
            0x0b5 : set_gap(11312, 796216508707); 0x0b6 : set_gap(11375, 791841692725); 0x0b7 : set_gap(11437, 787514688940);
            0x0b8 : set_gap(11500, 783234717804); 0x0b9 : set_gap(11562, 779001016627); 0x0ba : set_gap(11625, 774812839118);
            0x0bb : set_gap(11687, 770669454952); 0x0bc : set_gap(11750, 766570149340); 0x0bd : set_gap(11812, 762514222624);
            0x0be : set_gap(11875, 758500989873); 0x0bf : set_gap(11937, 754529780502); 0x0c0 : set_gap(12000, 750599937896);
            0x0c1 : set_gap(12062, 746710819046); 0x0c2 : set_gap(12125, 742861794206); 0x0c3 : set_gap(12187, 739052246543);
            0x0c4 : set_gap(12250, 735281571816); 0x0c5 : set_gap(12312, 731549178051); 0x0c6 : set_gap(12375, 727854485232);
            0x0c7 : set_gap(12437, 724196925005); 0x0c8 : set_gap(12500, 720575940380); 0x0c9 : set_gap(12562, 716990985453);
            0x0ca : set_gap(12625, 713441525128); 0x0cb : set_gap(12687, 709927034857); 0x0cc : set_gap(12750, 706447000372);
            0x0cd : set_gap(12812, 703000917444); 0x0ce : set_gap(12875, 699588291631); 0x0cf : set_gap(12937, 696208638048);
            0x0d0 : set_gap(13000, 692861481134); 0x0d1 : set_gap(13062, 689546354430); 0x0d2 : set_gap(13125, 686262800362);
            0x0d3 : set_gap(13187, 683010370028); 0x0d4 : set_gap(13250, 679788623000); 0x0d5 : set_gap(13312, 676597127117);
            0x0d6 : set_gap(13375, 673435458299); 0x0d7 : set_gap(13437, 670303200353); 0x0d8 : set_gap(13500, 667199944796);
            0x0d9 : set_gap(13562, 664125290673); 0x0da : set_gap(13625, 661078844385); 0x0db : set_gap(13687, 658060219525);
            0x0dc : set_gap(13750, 655069036709); 0x0dd : set_gap(13812, 652104923421); 0x0de : set_gap(13875, 649167513856);
            0x0df : set_gap(13937, 646256448771); 0x0e0 : set_gap(14000, 643371375339); 0x0e1 : set_gap(14062, 640511947004);
            0x0e2 : set_gap(14125, 637677823345); 0x0e3 : set_gap(14187, 634868669938); 0x0e4 : set_gap(14250, 632084158228);
            0x0e5 : set_gap(14312, 629323965397); 0x0e6 : set_gap(14375, 626587774243); 0x0e7 : set_gap(14437, 623875273056);
            0x0e8 : set_gap(14500, 621186155500); 0x0e9 : set_gap(14562, 618520120498); 0x0ea : set_gap(14625, 615876872120);
            0x0eb : set_gap(14687, 613256119472); 0x0ec : set_gap(14750, 610657576593); 0x0ed : set_gap(14812, 608080962346);
            0x0ee : set_gap(14875, 605526000319); 0x0ef : set_gap(14937, 602992418728); 0x0f0 : set_gap(15000, 600479950317);
            0x0f1 : set_gap(15062, 597988332265); 0x0f2 : set_gap(15125, 595517306099); 0x0f3 : set_gap(15187, 593066617597);
            0x0f4 : set_gap(15250, 590636016705); 0x0f5 : set_gap(15312, 588225257453); 0x0f6 : set_gap(15375, 585834097870);
            0x0f7 : set_gap(15437, 583462299903); 0x0f8 : set_gap(15500, 581109629339); 0x0f9 : set_gap(15562, 578775855727);
            0x0fa : set_gap(15625, 576460752304); 0x0fb : set_gap(15687, 574164095920); 0x0fc : set_gap(15750, 571885666968);
            0x0fd : set_gap(15812, 569625249312); 0x0fe : set_gap(15875, 567382630220); 0x0ff : set_gap(15937, 565157600298);
            0x100 : set_gap(16000, 562949953422); 0x101 : set_gap(16062, 560759486677); 0x102 : set_gap(16125, 558586000295);
            0x103 : set_gap(16187, 556429297591); 0x104 : set_gap(16250, 554289184908); 0x105 : set_gap(16312, 552165471556);
            0x106 : set_gap(16375, 550057969756); 0x107 : set_gap(16437, 547966494586); 0x108 : set_gap(16500, 545890863924);
            0x109 : set_gap(16562, 543830898400); 0x10a : set_gap(16625, 541786421338); 0x10b : set_gap(16687, 539757258712);
            0x10c : set_gap(16750, 537743239090); 0x10d : set_gap(16812, 535744193591); 0x10e : set_gap(16875, 533759955837);
            0x10f : set_gap(16937, 531790361904); 0x110 : set_gap(17000, 529835250279); 0x111 : set_gap(17062, 527894461817);
            0x112 : set_gap(17125, 525967839693); 0x113 : set_gap(17187, 524055229367); 0x114 : set_gap(17250, 522156478536);
            0x115 : set_gap(17312, 520271437097); 0x116 : set_gap(17375, 518399957108); 0x117 : set_gap(17437, 516541892746);
            0x118 : set_gap(17500, 514697100271); 0x119 : set_gap(17562, 512865437993); 0x11a : set_gap(17625, 511046766227);
            0x11b : set_gap(17687, 509240947265); 0x11c : set_gap(17750, 507447845338); 0x11d : set_gap(17812, 505667326582);
            0x11e : set_gap(17875, 503899259007); 0x11f : set_gap(17937, 502143512460); 0x120 : set_gap(18000, 500399958597);
            0x121 : set_gap(18062, 498668470851); 0x122 : set_gap(18125, 496948924400); 0x123 : set_gap(18187, 495241196137);
            0x124 : set_gap(18250, 493545164644); 0x125 : set_gap(18312, 491860710157); 0x126 : set_gap(18375, 490187714544);
            0x127 : set_gap(18437, 488526061275); 0x128 : set_gap(18500, 486875635392); 0x129 : set_gap(18562, 485236323488);
            0x12a : set_gap(18625, 483608013678); 0x12b : set_gap(18687, 481990595572); 0x12c : set_gap(18750, 480383960253);
            0x12d : set_gap(18812, 478788000253); 0x12e : set_gap(18875, 477202609523); 0x12f : set_gap(18937, 475627683419);
            0x130 : set_gap(19000, 474063118671); 0x131 : set_gap(19062, 472508813364); 0x132 : set_gap(19125, 470964666915);
            0x133 : set_gap(19187, 469430580052); 0x134 : set_gap(19250, 467906454792); 0x135 : set_gap(19312, 466392194421);
            0x136 : set_gap(19375, 464887703471); 0x137 : set_gap(19437, 463392887704); 0x138 : set_gap(19500, 461907654090);
            0x139 : set_gap(19562, 460431910786); 0x13a : set_gap(19625, 458965567121); 0x13b : set_gap(19687, 457508533575);
            0x13c : set_gap(19750, 456060721760); 0x13d : set_gap(19812, 454622044404); 0x13e : set_gap(19875, 453192415333);
            0x13f : set_gap(19937, 451771749455); 0x140 : set_gap(20000, 450359962738); 0x141 : set_gap(20062, 448956972199);
            0x142 : set_gap(20125, 447562695888); 0x143 : set_gap(20187, 446177052867); 0x144 : set_gap(20250, 444799963198);
            0x145 : set_gap(20312, 443431347926); 0x146 : set_gap(20375, 442071129068); 0x147 : set_gap(20437, 440719229590);
            0x148 : set_gap(20500, 439375573402); 0x149 : set_gap(20562, 438040085337); 0x14a : set_gap(20625, 436712691139);
            0x14b : set_gap(20687, 435393317450); 0x14c : set_gap(20750, 434081891795); 0x14d : set_gap(20812, 432778342571);
            0x14e : set_gap(20875, 431482599030); 0x14f : set_gap(20937, 430194591272); 0x150 : set_gap(21000, 428914250226);
            0x151 : set_gap(21062, 427641507644); 0x152 : set_gap(21125, 426376296083); 0x153 : set_gap(21187, 425118548897);
            0x154 : set_gap(21250, 423868200224); 0x155 : set_gap(21312, 422625184974); 0x156 : set_gap(21375, 421389438819);
            0x157 : set_gap(21437, 420160898181); 0x158 : set_gap(21500, 418939500221); 0x159 : set_gap(21562, 417725182829);
            0x15a : set_gap(21625, 416517884613); 0x15b : set_gap(21687, 415317544888); 0x15c : set_gap(21750, 414124103667);
            0x15d : set_gap(21812, 412937501651); 0x15e : set_gap(21875, 411757680217); 0x15f : set_gap(21937, 410584581413);
            0x160 : set_gap(22000, 409418147943); 0x161 : set_gap(22062, 408258323162); 0x162 : set_gap(22125, 407105051062);
            0x163 : set_gap(22187, 405958276271); 0x164 : set_gap(22250, 404817944034); 0x165 : set_gap(22312, 403684000213);
            0x166 : set_gap(22375, 402556391274); 0x167 : set_gap(22437, 401435064279); 0x168 : set_gap(22500, 400319966878);
            0x169 : set_gap(22562, 399211047302); 0x16a : set_gap(22625, 398108254354); 0x16b : set_gap(22687, 397011537400);
            0x16c : set_gap(22750, 395920846363); 0x16d : set_gap(22812, 394836131715); 0x16e : set_gap(22875, 393757344470);
            0x16f : set_gap(22937, 392684436174); 0x170 : set_gap(23000, 391617358902); 0x171 : set_gap(23062, 390556065247);
            0x172 : set_gap(23125, 389500508314); 0x173 : set_gap(23187, 388450641714); 0x174 : set_gap(23250, 387406419559);
            0x175 : set_gap(23312, 386367796451); 0x176 : set_gap(23375, 385334727476); 0x177 : set_gap(23437, 384307168203);
            0x178 : set_gap(23500, 383285074670); 0x179 : set_gap(23562, 382268403385); 0x17a : set_gap(23625, 381257111312);
            0x17b : set_gap(23687, 380251155873); 0x17c : set_gap(23750, 379250494937); 0x17d : set_gap(23812, 378255086814);
            0x17e : set_gap(23875, 377264890251); 0x17f : set_gap(23937, 376279864428); 0x180 : set_gap(24000, 375299968948);
            0x181 : set_gap(24062, 374325163834); 0x182 : set_gap(24125, 373355409523); 0x183 : set_gap(24187, 372390666863);
            0x184 : set_gap(24250, 371430897103); 0x185 : set_gap(24312, 370476061892); 0x186 : set_gap(24375, 369526123272);
            0x187 : set_gap(24437, 368581043673); 0x188 : set_gap(24500, 367640785908); 0x189 : set_gap(24562, 366705313171);
            0x18a : set_gap(24625, 365774589026); 0x18b : set_gap(24687, 364848577408); 0x18c : set_gap(24750, 363927242616);
            0x18d : set_gap(24812, 363010549310); 0x18e : set_gap(24875, 362098462503); 0x18f : set_gap(24937, 361190947559);
            0x190 : set_gap(25000, 360287970190); 0x191 : set_gap(25062, 359389496449); 0x192 : set_gap(25125, 358495492727);
            0x193 : set_gap(25187, 357605925747); 0x194 : set_gap(25250, 356720762564); 0x195 : set_gap(25312, 355839970558);
            0x196 : set_gap(25375, 354963517429); 0x197 : set_gap(25437, 354091371194); 0x198 : set_gap(25500, 353223500186);
            0x199 : set_gap(25562, 352359873047); 0x19a : set_gap(25625, 351500458722); 0x19b : set_gap(25687, 350645226462);
            0x19c : set_gap(25750, 349794145816); 0x19d : set_gap(25812, 348947186625); 0x19e : set_gap(25875, 348104319024);
            0x19f : set_gap(25937, 347265513436); 0x1a0 : set_gap(26000, 346430740567); 0x1a1 : set_gap(26062, 345599971405);
            0x1a2 : set_gap(26125, 344773177215); 0x1a3 : set_gap(26187, 343950329537); 0x1a4 : set_gap(26250, 343131400181);
            0x1a5 : set_gap(26312, 342316361226); 0x1a6 : set_gap(26375, 341505185014); 0x1a7 : set_gap(26437, 340697844151);
            0x1a8 : set_gap(26500, 339894311500); 0x1a9 : set_gap(26562, 339094560179); 0x1aa : set_gap(26625, 338298563559);
            0x1ab : set_gap(26687, 337506295260); 0x1ac : set_gap(26750, 336717729150); 0x1ad : set_gap(26812, 335932839338);
            0x1ae : set_gap(26875, 335151600177); 0x1af : set_gap(26937, 334373986255); 0x1b0 : set_gap(27000, 333599972398);
            0x1b1 : set_gap(27062, 332829533663); 0x1b2 : set_gap(27125, 332062645337); 0x1b3 : set_gap(27187, 331299282934);
            0x1b4 : set_gap(27250, 330539422193); 0x1b5 : set_gap(27312, 329783039076); 0x1b6 : set_gap(27375, 329030109763);
            0x1b7 : set_gap(27437, 328280610652); 0x1b8 : set_gap(27500, 327534518355); 0x1b9 : set_gap(27562, 326791809696);
            0x1ba : set_gap(27625, 326052461711); 0x1bb : set_gap(27687, 325316451639); 0x1bc : set_gap(27750, 324583756928);
            0x1bd : set_gap(27812, 323854355227); 0x1be : set_gap(27875, 323128224386); 0x1bf : set_gap(27937, 322405342452);
            0x1c0 : set_gap(28000, 321685687670); 0x1c1 : set_gap(28062, 320969238477); 0x1c2 : set_gap(28125, 320255973502);
            0x1c3 : set_gap(28187, 319545871566); 0x1c4 : set_gap(28250, 318838911673); 0x1c5 : set_gap(28312, 318135073016);
            0x1c6 : set_gap(28375, 317434334969); 0x1c7 : set_gap(28437, 316736677090); 0x1c8 : set_gap(28500, 316042079114);
            0x1c9 : set_gap(28562, 315350520954); 0x1ca : set_gap(28625, 314661982699); 0x1cb : set_gap(28687, 313976444610);
            0x1cc : set_gap(28750, 313293887122); 0x1cd : set_gap(28812, 312614290837); 0x1ce : set_gap(28875, 311937636528);
            0x1cf : set_gap(28937, 311263905132); 0x1d0 : set_gap(29000, 310593077750); 0x1d1 : set_gap(29062, 309925135648);
            0x1d2 : set_gap(29125, 309260060249); 0x1d3 : set_gap(29187, 308597833139); 0x1d4 : set_gap(29250, 307938436060);
            0x1d5 : set_gap(29312, 307281850909); 0x1d6 : set_gap(29375, 306628059736); 0x1d7 : set_gap(29437, 305977044748);
            0x1d8 : set_gap(29500, 305328788297); 0x1d9 : set_gap(29562, 304683272888); 0x1da : set_gap(29625, 304040481173);
            0x1db : set_gap(29687, 303400395950); 0x1dc : set_gap(29750, 302763000160); 0x1dd : set_gap(29812, 302128276889);
            0x1de : set_gap(29875, 301496209364); 0x1df : set_gap(29937, 300866780952); 0x1e0 : set_gap(30000, 300239975159);
            0x1e1 : set_gap(30062, 299615775626); 0x1e2 : set_gap(30125, 298994166133); 0x1e3 : set_gap(30187, 298375130592);
            0x1e4 : set_gap(30250, 297758653050); 0x1e5 : set_gap(30312, 297144717683); 0x1e6 : set_gap(30375, 296533308799);
            0x1e7 : set_gap(30437, 295924410834); 0x1e8 : set_gap(30500, 295318008353); 0x1e9 : set_gap(30562, 294714086045);
            0x1ea : set_gap(30625, 294112628727); 0x1eb : set_gap(30687, 293513621336); 0x1ec : set_gap(30750, 292917048935);
            0x1ed : set_gap(30812, 292322896706); 0x1ee : set_gap(30875, 291731149952); 0x1ef : set_gap(30937, 291141794093);
            0x1f0 : set_gap(31000, 290554814670); 0x1f1 : set_gap(31062, 289970197336); 0x1f2 : set_gap(31125, 289387927864);
            0x1f3 : set_gap(31187, 288807992136); 0x1f4 : set_gap(31250, 288230376152); 0x1f5 : set_gap(31312, 287655066020);
            0x1f6 : set_gap(31375, 287082047960); 0x1f7 : set_gap(31437, 286511308302); 0x1f8 : set_gap(31500, 285942833484);
            0x1f9 : set_gap(31562, 285376610052); 0x1fa : set_gap(31625, 284812624656); 0x1fb : set_gap(31687, 284250864055);
            0x1fc : set_gap(31750, 283691315110); 0x1fd : set_gap(31812, 283133964786); 0x1fe : set_gap(31875, 282578800149);
            0x1ff : set_gap(31937, 282025808368); 0x200 : set_gap(32000, 281474976711); 0x201 : set_gap(32062, 280926292546);
            0x202 : set_gap(32125, 280379743339); 0x203 : set_gap(32187, 279835316653); 0x204 : set_gap(32250, 279293000148);
            0x205 : set_gap(32312, 278752781579); 0x206 : set_gap(32375, 278214648796); 0x207 : set_gap(32437, 277678589742);
            0x208 : set_gap(32500, 277144592454); 0x209 : set_gap(32562, 276612645060); 0x20a : set_gap(32625, 276082735778);
            0x20b : set_gap(32687, 275554852918); 0x20c : set_gap(32750, 275028984878); 0x20d : set_gap(32812, 274505120145);
            0x20e : set_gap(32875, 273983247293); 0x20f : set_gap(32937, 273463354983); 0x210 : set_gap(33000, 272945431962);
            0x211 : set_gap(33062, 272429467063); 0x212 : set_gap(33125, 271915449200); 0x213 : set_gap(33187, 271403367375);
            0x214 : set_gap(33250, 270893210669); 0x215 : set_gap(33312, 270384968248); 0x216 : set_gap(33375, 269878629356);
            0x217 : set_gap(33437, 269374183320); 0x218 : set_gap(33500, 268871619545); 0x219 : set_gap(33562, 268370927516);
            0x21a : set_gap(33625, 267872096796); 0x21b : set_gap(33687, 267375117024); 0x21c : set_gap(33750, 266879977919);
            0x21d : set_gap(33812, 266386669272); 0x21e : set_gap(33875, 265895180952); 0x21f : set_gap(33937, 265405502903);
            0x220 : set_gap(34000, 264917625140); 0x221 : set_gap(34062, 264431537754); 0x222 : set_gap(34125, 263947230909);
            0x223 : set_gap(34187, 263464694838); 0x224 : set_gap(34250, 262983919847); 0x225 : set_gap(34312, 262504896314);
            0x226 : set_gap(34375, 262027614684); 0x227 : set_gap(34437, 261552065474); 0x228 : set_gap(34500, 261078239268);
            0x229 : set_gap(34562, 260606126720); 0x22a : set_gap(34625, 260135718549); 0x22b : set_gap(34687, 259667005543);
            0x22c : set_gap(34750, 259199978554); 0x22d : set_gap(34812, 258734628503); 0x22e : set_gap(34875, 258270946373);
            0x22f : set_gap(34937, 257808923213); 0x230 : set_gap(35000, 257348550136); 0x231 : set_gap(35062, 256889818318);
            0x232 : set_gap(35125, 256432718997); 0x233 : set_gap(35187, 255977243474); 0x234 : set_gap(35250, 255523383114);
            0x235 : set_gap(35312, 255071129338); 0x236 : set_gap(35375, 254620473633); 0x237 : set_gap(35437, 254171407542);
            0x238 : set_gap(35500, 253723922669); 0x239 : set_gap(35562, 253278010679); 0x23a : set_gap(35625, 252833663291);
            0x23b : set_gap(35687, 252390872287); 0x23c : set_gap(35750, 251949629504); 0x23d : set_gap(35812, 251509926834);
            0x23e : set_gap(35875, 251071756230); 0x23f : set_gap(35937, 250635109698); 0x240 : set_gap(36000, 250199979299);
            0x241 : set_gap(36062, 249766357151); 0x242 : set_gap(36125, 249334235426); 0x243 : set_gap(36187, 248903606349);
            0x244 : set_gap(36250, 248474462200); 0x245 : set_gap(36312, 248046795312); 0x246 : set_gap(36375, 247620598069);
            0x247 : set_gap(36437, 247195862909); 0x248 : set_gap(36500, 246772582322); 0x249 : set_gap(36562, 246350748848);
            0x24a : set_gap(36625, 245930355079); 0x24b : set_gap(36687, 245511393656); 0x24c : set_gap(36750, 245093857272);
            0x24d : set_gap(36812, 244677738669); 0x24e : set_gap(36875, 244263030638); 0x24f : set_gap(36937, 243849726017);
            0x250 : set_gap(37000, 243437817696); 0x251 : set_gap(37062, 243027298611); 0x252 : set_gap(37125, 242618161744);
            0x253 : set_gap(37187, 242210400128); 0x254 : set_gap(37250, 241804006839); 0x255 : set_gap(37312, 241398975002);
            0x256 : set_gap(37375, 240995297786); 0x257 : set_gap(37437, 240592968408); 0x258 : set_gap(37500, 240191980127);
            0x259 : set_gap(37562, 239792326250); 0x25a : set_gap(37625, 239394000127); 0x25b : set_gap(37687, 238996995151);
            0x25c : set_gap(37750, 238601304762); 0x25d : set_gap(37812, 238206922440); 0x25e : set_gap(37875, 237813841710);
            0x25f : set_gap(37937, 237422056139); 0x260 : set_gap(38000, 237031559336); 0x261 : set_gap(38062, 236642344953);
            0x262 : set_gap(38125, 236254406682); 0x263 : set_gap(38187, 235867738259); 0x264 : set_gap(38250, 235482333458);
            0x265 : set_gap(38312, 235098186095); 0x266 : set_gap(38375, 234715290026); 0x267 : set_gap(38437, 234333639148);
            0x268 : set_gap(38500, 233953227396); 0x269 : set_gap(38562, 233574048746); 0x26a : set_gap(38625, 233196097211);
            0x26b : set_gap(38687, 232819366844); 0x26c : set_gap(38750, 232443851736); 0x26d : set_gap(38812, 232069546016);
            0x26e : set_gap(38875, 231696443852); 0x26f : set_gap(38937, 231324539448); 0x270 : set_gap(39000, 230953827045);
            0x271 : set_gap(39062, 230584300922); 0x272 : set_gap(39125, 230215955393); 0x273 : set_gap(39187, 229848784810);
            0x274 : set_gap(39250, 229482783561); 0x275 : set_gap(39312, 229117946067); 0x276 : set_gap(39375, 228754266788);
            0x277 : set_gap(39437, 228391740216); 0x278 : set_gap(39500, 228030360880); 0x279 : set_gap(39562, 227670123343);
            0x27a : set_gap(39625, 227311022202); 0x27b : set_gap(39687, 226953052088); 0x27c : set_gap(39750, 226596207667);
            0x27d : set_gap(39812, 226240483636); 0x27e : set_gap(39875, 225885874728); 0x27f : set_gap(39937, 225532375706);
            0x280 : set_gap(40000, 225179981369); 0x281 : set_gap(40062, 224828686546); 0x282 : set_gap(40125, 224478486100);
            0x283 : set_gap(40187, 224129374924); 0x284 : set_gap(40250, 223781347944); 0x285 : set_gap(40312, 223434400118);
            0x286 : set_gap(40375, 223088526434); 0x287 : set_gap(40437, 222743721911); 0x288 : set_gap(40500, 222399981599);
            0x289 : set_gap(40562, 222057300580); 0x28a : set_gap(40625, 221715673963); 0x28b : set_gap(40687, 221375096891);
            0x28c : set_gap(40750, 221035564534); 0x28d : set_gap(40812, 220697072092); 0x28e : set_gap(40875, 220359614795);
            0x28f : set_gap(40937, 220023187903); 0x290 : set_gap(41000, 219687786701); 0x291 : set_gap(41062, 219353406509);
            0x292 : set_gap(41125, 219020042669); 0x293 : set_gap(41187, 218687690556); 0x294 : set_gap(41250, 218356345570);
            0x295 : set_gap(41312, 218026003141); 0x296 : set_gap(41375, 217696658725); 0x297 : set_gap(41437, 217368307807);
            0x298 : set_gap(41500, 217040945898); 0x299 : set_gap(41562, 216714568536); 0x29a : set_gap(41625, 216389171286);
            0x29b : set_gap(41687, 216064749739); 0x29c : set_gap(41750, 215741299515); 0x29d : set_gap(41812, 215418816257);
            0x29e : set_gap(41875, 215097295636); 0x29f : set_gap(41937, 214776733348); 0x2a0 : set_gap(42000, 214457125113);
            0x2a1 : set_gap(42062, 214138466681); 0x2a2 : set_gap(42125, 213820753822); 0x2a3 : set_gap(42187, 213503982335);
            0x2a4 : set_gap(42250, 213188148042); 0x2a5 : set_gap(42312, 212873246789); 0x2a6 : set_gap(42375, 212559274449);
            0x2a7 : set_gap(42437, 212246226916); 0x2a8 : set_gap(42500, 211934100112); 0x2a9 : set_gap(42562, 211622889980);
            0x2aa : set_gap(42625, 211312592487); 0x2ab : set_gap(42687, 211003203625); 0x2ac : set_gap(42750, 210694719410);
            0x2ad : set_gap(42812, 210387135878); 0x2ae : set_gap(42875, 210080449091); 0x2af : set_gap(42937, 209774655133);
            0x2b0 : set_gap(43000, 209469750111); 0x2b1 : set_gap(43062, 209165730154); 0x2b2 : set_gap(43125, 208862591415);
            0x2b3 : set_gap(43187, 208560330067); 0x2b4 : set_gap(43250, 208258942307); 0x2b5 : set_gap(43312, 207958424352);
            0x2b6 : set_gap(43375, 207658772444); 0x2b7 : set_gap(43437, 207359982843); 0x2b8 : set_gap(43500, 207062051834);
            0x2b9 : set_gap(43562, 206764975719); 0x2ba : set_gap(43625, 206468750826); 0x2bb : set_gap(43687, 206173373500);
            0x2bc : set_gap(43750, 205878840109); 0x2bd : set_gap(43812, 205585147042); 0x2be : set_gap(43875, 205292290707);
            0x2bf : set_gap(43937, 205000267534); 0x2c0 : set_gap(44000, 204709073972); 0x2c1 : set_gap(44062, 204418706491);
            0x2c2 : set_gap(44125, 204129161581); 0x2c3 : set_gap(44187, 203840435751); 0x2c4 : set_gap(44250, 203552525531);
            0x2c5 : set_gap(44312, 203265427470); 0x2c6 : set_gap(44375, 202979138136); 0x2c7 : set_gap(44437, 202693654116);
            0x2c8 : set_gap(44500, 202408972017); 0x2c9 : set_gap(44562, 202125088466); 0x2ca : set_gap(44625, 201842000107);
            0x2cb : set_gap(44687, 201559703603); 0x2cc : set_gap(44750, 201278195637); 0x2cd : set_gap(44812, 200997472910);
            0x2ce : set_gap(44875, 200717532140); 0x2cf : set_gap(44937, 200438370064); 0x2d0 : set_gap(45000, 200159983439);
            0x2d1 : set_gap(45062, 199882369038); 0x2d2 : set_gap(45125, 199605523651); 0x2d3 : set_gap(45187, 199329444089);
            0x2d4 : set_gap(45250, 199054127177); 0x2d5 : set_gap(45312, 198779569760); 0x2d6 : set_gap(45375, 198505768700);
            0x2d7 : set_gap(45437, 198232720875); 0x2d8 : set_gap(45500, 197960423182); 0x2d9 : set_gap(45562, 197688872533);
            0x2da : set_gap(45625, 197418065858); 0x2db : set_gap(45687, 197148000104); 0x2dc : set_gap(45750, 196878672235);
            0x2dd : set_gap(45812, 196610079231); 0x2de : set_gap(45875, 196342218087); 0x2df : set_gap(45937, 196075085818);
            0x2e0 : set_gap(46000, 195808679451); 0x2e1 : set_gap(46062, 195542996033); 0x2e2 : set_gap(46125, 195278032624);
            0x2e3 : set_gap(46187, 195013786301); 0x2e4 : set_gap(46250, 194750254157); 0x2e5 : set_gap(46312, 194487433301);
            0x2e6 : set_gap(46375, 194225320857); 0x2e7 : set_gap(46437, 193963913965); 0x2e8 : set_gap(46500, 193703209780);
            0x2e9 : set_gap(46562, 193443205471); 0x2ea : set_gap(46625, 193183898226); 0x2eb : set_gap(46687, 192925285243);
            0x2ec : set_gap(46750, 192667363738); 0x2ed : set_gap(46812, 192410130943); 0x2ee : set_gap(46875, 192153584102);
            0x2ef : set_gap(46937, 191897720474); 0x2f0 : set_gap(47000, 191642537335); 0x2f1 : set_gap(47062, 191388031974);
            0x2f2 : set_gap(47125, 191134201693); 0x2f3 : set_gap(47187, 190881043810); 0x2f4 : set_gap(47250, 190628555656);
            0x2f5 : set_gap(47312, 190376734579); 0x2f6 : set_gap(47375, 190125577937); 0x2f7 : set_gap(47437, 189875083104);
            0x2f8 : set_gap(47500, 189625247469); 0x2f9 : set_gap(47562, 189376068431); 0x2fa : set_gap(47625, 189127543407);
            0x2fb : set_gap(47687, 188879669825); 0x2fc : set_gap(47750, 188632445126); 0x2fd : set_gap(47812, 188385866766);
            0x2fe : set_gap(47875, 188139932214); 0x2ff : set_gap(47937, 187894638952); 0x300 : set_gap(48000, 187649984474);
            0x301 : set_gap(48062, 187405966289); 0x302 : set_gap(48125, 187162581917); 0x303 : set_gap(48187, 186919828893);
            0x304 : set_gap(48250, 186677704762); 0x305 : set_gap(48312, 186436207084); 0x306 : set_gap(48375, 186195333432);
            0x307 : set_gap(48437, 185955081389); 0x308 : set_gap(48500, 185715448552); 0x309 : set_gap(48562, 185476432531);
            0x30a : set_gap(48625, 185238030946); 0x30b : set_gap(48687, 185000241433); 0x30c : set_gap(48750, 184763061636);
            0x30d : set_gap(48812, 184526489214); 0x30e : set_gap(48875, 184290521837); 0x30f : set_gap(48937, 184055157186);
            0x310 : set_gap(49000, 183820392954); 0x311 : set_gap(49062, 183586226849); 0x312 : set_gap(49125, 183352656586);
            0x313 : set_gap(49187, 183119679894); 0x314 : set_gap(49250, 182887294513); 0x315 : set_gap(49312, 182655498196);
            0x316 : set_gap(49375, 182424288704); 0x317 : set_gap(49437, 182193663813); 0x318 : set_gap(49500, 181963621308);
            0x319 : set_gap(49562, 181734158986); 0x31a : set_gap(49625, 181505274655); 0x31b : set_gap(49687, 181276966134);
            0x31c : set_gap(49750, 181049231252); 0x31d : set_gap(49812, 180822067850); 0x31e : set_gap(49875, 180595473780);
            0x31f : set_gap(49937, 180369446904); 0x320 : set_gap(50000, 180143985095); 0x321 : set_gap(50062, 179919086238);
            0x322 : set_gap(50125, 179694748225); 0x323 : set_gap(50187, 179470968962); 0x324 : set_gap(50250, 179247746364);
            0x325 : set_gap(50312, 179025078356); 0x326 : set_gap(50375, 178802962874); 0x327 : set_gap(50437, 178581397864);
            0x328 : set_gap(50500, 178360381282); 0x329 : set_gap(50562, 178139911096); 0x32a : set_gap(50625, 177919985279);
            0x32b : set_gap(50687, 177700601820); 0x32c : set_gap(50750, 177481758715); 0x32d : set_gap(50812, 177263453968);
            0x32e : set_gap(50875, 177045685597); 0x32f : set_gap(50937, 176828451627); 0x330 : set_gap(51000, 176611750093);
            0x331 : set_gap(51062, 176395579041); 0x332 : set_gap(51125, 176179936524); 0x333 : set_gap(51187, 175964820606);
            0x334 : set_gap(51250, 175750229361); 0x335 : set_gap(51312, 175536160872); 0x336 : set_gap(51375, 175322613231);
            0x337 : set_gap(51437, 175109584540); 0x338 : set_gap(51500, 174897072908); 0x339 : set_gap(51562, 174685076456);
            0x33a : set_gap(51625, 174473593313); 0x33b : set_gap(51687, 174262621616); 0x33c : set_gap(51750, 174052159512);
            0x33d : set_gap(51812, 173842205158); 0x33e : set_gap(51875, 173632756718); 0x33f : set_gap(51937, 173423812366);
            0x340 : set_gap(52000, 173215370284); 0x341 : set_gap(52062, 173007428663); 0x342 : set_gap(52125, 172799985703);
            0x343 : set_gap(52187, 172593039612); 0x344 : set_gap(52250, 172386588608); 0x345 : set_gap(52312, 172180630916);
            0x346 : set_gap(52375, 171975164769); 0x347 : set_gap(52437, 171770188410); 0x348 : set_gap(52500, 171565700091);
            0x349 : set_gap(52562, 171361698069); 0x34a : set_gap(52625, 171158180613); 0x34b : set_gap(52687, 170955145998);
            0x34c : set_gap(52750, 170752592507); 0x34d : set_gap(52812, 170550518433); 0x34e : set_gap(52875, 170348922076);
            0x34f : set_gap(52937, 170147801743); 0x350 : set_gap(53000, 169947155750); 0x351 : set_gap(53062, 169746982422);
            0x352 : set_gap(53125, 169547280090); 0x353 : set_gap(53187, 169348047093); 0x354 : set_gap(53250, 169149281780);
            0x355 : set_gap(53312, 168950982504); 0x356 : set_gap(53375, 168753147630); 0x357 : set_gap(53437, 168555775528);
            0x358 : set_gap(53500, 168358864575); 0x359 : set_gap(53562, 168162413158); 0x35a : set_gap(53625, 167966419669);
            0x35b : set_gap(53687, 167770882510); 0x35c : set_gap(53750, 167575800089); 0x35d : set_gap(53812, 167381170820);
            0x35e : set_gap(53875, 167186993128); 0x35f : set_gap(53937, 166993265442); 0x360 : set_gap(54000, 166799986199);
            0x361 : set_gap(54062, 166607153845); 0x362 : set_gap(54125, 166414766832); 0x363 : set_gap(54187, 166222823617);
            0x364 : set_gap(54250, 166031322669); 0x365 : set_gap(54312, 165840262458); 0x366 : set_gap(54375, 165649641467);
            0x367 : set_gap(54437, 165459458182); 0x368 : set_gap(54500, 165269711097); 0x369 : set_gap(54562, 165080398713);
            0x36a : set_gap(54625, 164891519538); 0x36b : set_gap(54687, 164703072087); 0x36c : set_gap(54750, 164515054882);
            0x36d : set_gap(54812, 164327466450); 0x36e : set_gap(54875, 164140305326); 0x36f : set_gap(54937, 163953570053);
            0x370 : set_gap(55000, 163767259178); 0x371 : set_gap(55062, 163581371256); 0x372 : set_gap(55125, 163395904848);
            0x373 : set_gap(55187, 163210858524); 0x374 : set_gap(55250, 163026230856); 0x375 : set_gap(55312, 162842020425);
            0x376 : set_gap(55375, 162658225820); 0x377 : set_gap(55437, 162474845633); 0x378 : set_gap(55500, 162291878464);
            0x379 : set_gap(55562, 162109322920); 0x37a : set_gap(55625, 161927177614); 0x37b : set_gap(55687, 161745441163);
            0x37c : set_gap(55750, 161564112193); 0x37d : set_gap(55812, 161383189335); 0x37e : set_gap(55875, 161202671226);
            0x37f : set_gap(55937, 161022556510); 0x380 : set_gap(56000, 160842843835); 0x381 : set_gap(56062, 160663531858);
            0x382 : set_gap(56125, 160484619239); 0x383 : set_gap(56187, 160306104646); 0x384 : set_gap(56250, 160127986751);
            0x385 : set_gap(56312, 159950264236); 0x386 : set_gap(56375, 159772935783); 0x387 : set_gap(56437, 159596000085);
            0x388 : set_gap(56500, 159419455837); 0x389 : set_gap(56562, 159243301742); 0x38a : set_gap(56625, 159067536508);
            0x38b : set_gap(56687, 158892158849); 0x38c : set_gap(56750, 158717167485); 0x38d : set_gap(56812, 158542561140);
            0x38e : set_gap(56875, 158368338545); 0x38f : set_gap(56937, 158194498437); 0x390 : set_gap(57000, 158021039557);
            0x391 : set_gap(57062, 157847960653); 0x392 : set_gap(57125, 157675260477); 0x393 : set_gap(57187, 157502937788);
            0x394 : set_gap(57250, 157330991350); 0x395 : set_gap(57312, 157159419931); 0x396 : set_gap(57375, 156988222305);
            0x397 : set_gap(57437, 156817397254); 0x398 : set_gap(57500, 156646943561); 0x399 : set_gap(57562, 156476860018);
            0x39a : set_gap(57625, 156307145419); 0x39b : set_gap(57687, 156137798566); 0x39c : set_gap(57750, 155968818264);
            0x39d : set_gap(57812, 155800203326); 0x39e : set_gap(57875, 155631952566); 0x39f : set_gap(57937, 155464064807);
            0x3a0 : set_gap(58000, 155296538875); 0x3a1 : set_gap(58062, 155129373602); 0x3a2 : set_gap(58125, 154962567824);
            0x3a3 : set_gap(58187, 154796120383); 0x3a4 : set_gap(58250, 154630030125); 0x3a5 : set_gap(58312, 154464295902);
            0x3a6 : set_gap(58375, 154298916570); 0x3a7 : set_gap(58437, 154133890991); 0x3a8 : set_gap(58500, 153969218030);
            0x3a9 : set_gap(58562, 153804896560); 0x3aa : set_gap(58625, 153640925455); 0x3ab : set_gap(58687, 153477303596);
            0x3ac : set_gap(58750, 153314029868); 0x3ad : set_gap(58812, 153151103163); 0x3ae : set_gap(58875, 152988522374);
            0x3af : set_gap(58937, 152826286401); 0x3b0 : set_gap(59000, 152664394149); 0x3b1 : set_gap(59062, 152502844525);
            0x3b2 : set_gap(59125, 152341636444); 0x3b3 : set_gap(59187, 152180768824); 0x3b4 : set_gap(59250, 152020240587);
            0x3b5 : set_gap(59312, 151860050660); 0x3b6 : set_gap(59375, 151700197975); 0x3b7 : set_gap(59437, 151540681468);
            0x3b8 : set_gap(59500, 151381500080); 0x3b9 : set_gap(59562, 151222652756); 0x3ba : set_gap(59625, 151064138445);
            0x3bb : set_gap(59687, 150905956101); 0x3bc : set_gap(59750, 150748104682); 0x3bd : set_gap(59812, 150590583152);
            0x3be : set_gap(59875, 150433390476); 0x3bf : set_gap(59937, 150276525627); 0x3c0 : set_gap(60000, 150119987580);
            0x3c1 : set_gap(60062, 149963775314); 0x3c2 : set_gap(60125, 149807887813); 0x3c3 : set_gap(60187, 149652324067);
            0x3c4 : set_gap(60250, 149497083067); 0x3c5 : set_gap(60312, 149342163810); 0x3c6 : set_gap(60375, 149187565296);
            0x3c7 : set_gap(60437, 149033286532); 0x3c8 : set_gap(60500, 148879326525); 0x3c9 : set_gap(60562, 148725684289);
            0x3ca : set_gap(60625, 148572358842); 0x3cb : set_gap(60687, 148419349203); 0x3cc : set_gap(60750, 148266654400);
            0x3cd : set_gap(60812, 148114273460); 0x3ce : set_gap(60875, 147962205417); 0x3cf : set_gap(60937, 147810449309);
            0x3d0 : set_gap(61000, 147659004177); 0x3d1 : set_gap(61062, 147507869065); 0x3d2 : set_gap(61125, 147357043023);
            0x3d3 : set_gap(61187, 147206525104); 0x3d4 : set_gap(61250, 147056314364); 0x3d5 : set_gap(61312, 146906409864);
            0x3d6 : set_gap(61375, 146756810668); 0x3d7 : set_gap(61437, 146607515846); 0x3d8 : set_gap(61500, 146458524468);
            0x3d9 : set_gap(61562, 146309835611); 0x3da : set_gap(61625, 146161448353); 0x3db : set_gap(61687, 146013361779);
            0x3dc : set_gap(61750, 145865574976); 0x3dd : set_gap(61812, 145718087034); 0x3de : set_gap(61875, 145570897047);
            0x3df : set_gap(61937, 145424004113); 0x3e0 : set_gap(62000, 145277407335); 0x3e1 : set_gap(62062, 145131105817);
            0x3e2 : set_gap(62125, 144985098668); 0x3e3 : set_gap(62187, 144839385001); 0x3e4 : set_gap(62250, 144693963932);
            0x3e5 : set_gap(62312, 144548834580); 0x3e6 : set_gap(62375, 144403996068); 0x3e7 : set_gap(62437, 144259447524);
            0x3e8 : set_gap(62500, 144115188076); 0x3e9 : set_gap(62562, 143971216859); 0x3ea : set_gap(62625, 143827533010);
            0x3eb : set_gap(62687, 143684135669); 0x3ec : set_gap(62750, 143541023980); 0x3ed : set_gap(62812, 143398197091);
            0x3ee : set_gap(62875, 143255654151); 0x3ef : set_gap(62937, 143113394316); 0x3f0 : set_gap(63000, 142971416742);
            0x3f1 : set_gap(63062, 142829720591); 0x3f2 : set_gap(63125, 142688305026); 0x3f3 : set_gap(63187, 142547169215);
            0x3f4 : set_gap(63250, 142406312328); 0x3f5 : set_gap(63312, 142265733540); 0x3f6 : set_gap(63375, 142125432028);
            0x3f7 : set_gap(63437, 141985406972); 0x3f8 : set_gap(63500, 141845657555); 0x3f9 : set_gap(63562, 141706182966);
            0x3fa : set_gap(63625, 141566982393); 0x3fb : set_gap(63687, 141428055031); 0x3fc : set_gap(63750, 141289400075);
            0x3fd : set_gap(63812, 141151016725); 0x3fe : set_gap(63875, 141012904184); 0x3ff : set_gap(63937, 140875061658);
        }
        // end
    }

    // 2^21 / level rounded up, exact for numerators of 17 bits.
    bit<22> level_reciprocal = 0;
    action set_level(bit<22> value) {
        level_reciprocal = value;
    }
    table level {
        key = { event.rx_buffer_level : exact; }
        actions = { set_level; }
        // made: level
        const default_action = set_level(0);
        const entries = {
            1 : set_level(2097152); 2 : set_level(1048576); 3 : set_level(699051); 4 : set_level(524288);
            5 : set_level(419431); 6 : set_level(349526); 7 : set_level(299594); 8 : set_level(262144);
            9 : set_level(233017); 10 : set_level(209716); 11 : set_level(190651); 12 : set_level(174763);
            13 : set_level(161320); 14 : set_level(149797); 15 : set_level(139811); 16 : set_level(131072);
            17 : set_level(123362); 18 : set_level(116509); 19 : set_level(110377); 20 : set_level(104858);
            21 : set_level(99865); 22 : set_level(95326); 23 : set_level(91181); 24 : set_level(87382);
            25 : set_level(83887); 26 : set_level(80660); 27 : set_level(77673); 28 : set_level(74899);
            29 : set_level(72316); 30 : set_level(69906); 31 : set_level(67651);
        }
        // end
    }

    // The NIC window of an ACK or NACK (F-10.3.1-6 to F-10.3.1-8, F-10.3.3-1, D-60, D-65, D-66, D-71).
    action nic_window(in ticks_t rtt) {
        bit<11> previous = connection.ncwnd;
        bit<5> at = event.rx_buffer_level;
        bool elapsed = event.t4 - connection.nic_window_time_marker >= rtt;
        bool exhausted = event.event_type == NACK && event.nack_code == INSUFFICIENT_RESOURCES;
        fraction_t kept = ONE - p.max_nmdf;

        bit<22> measured = (bit<22>) (at ++ 16w0) |-| (bit<22>) p.nmdf * (bit<22>) (at |-| p.target_level);
        bit<22> bound = (bit<22>) kept * (bit<22>) at;
        bit<22> factor = measured > bound ? measured : bound;
        bit<33> weighted = (bit<33>) previous * (bit<33>) factor + (bit<33>) (at ++ 15w0);
        bit<39> lowered = (bit<39>) weighted[32:16] * (bit<39>) level_reciprocal;

        bool cut = false;
        bit<12> window = (bit<12>) previous;
        if (exhausted) {
            if (connection.ncwnd_direction == INCREASE || elapsed) {
                window_t halved;
                scaled((window_t) previous, kept, halved);
                window = halved[11:0];
                cut = true;
            }
        } else if (at < p.target_level) {
            if (connection.ncwnd_direction == DECREASE || elapsed) {
                window = (bit<12>) previous + (bit<12>) p.nai;
            }
        } else if (at > p.target_level && elapsed) {
            window = lowered[32:21];
        }
        window = window > (bit<12>) p.max_ncwnd ? (bit<12>) p.max_ncwnd : window;
        connection.ncwnd = window[10:0] < p.min_ncwnd ? p.min_ncwnd : window[10:0];

        if (cut || connection.ncwnd < previous || connection.ncwnd == p.min_ncwnd) {
            connection.nic_window_time_marker = event.t4;
            connection.ncwnd_direction = DECREASE;
        } else if (connection.ncwnd > previous || connection.ncwnd == p.max_ncwnd) {
            connection.nic_window_time_marker = event.t4;
            connection.ncwnd_direction = exhausted ? DECREASE : INCREASE;
        } else {
            drag(rtt, connection.nic_window_time_marker);
        }
    }

    // PLB of an ACK, with the window and the target before the update (10.4, D-72).
    action another_path(in fine_t delay, in fine_t target, in window_t fcwnd, in bit<11> ncwnd) {
        bit<24> counters;
        plb.read(counters, (bit<32>) event.connection_id[11:0]);
        bool congested = (bit<61>) (delay ++ 16w0) > (bit<61>) target * (bit<61>) p.plb_multiplier;
        bit<10> packets = counters[23:14] |+| event.num_packets_acked;
        bit<10> congested_packets = counters[13:4] |+| (congested ? event.num_packets_acked : 0);
        bit<4> attempts = counters[3:0];
        window_t window = fcwnd < ncwnd ++ 10w0 ? fcwnd : ncwnd ++ 10w0;
        if (packets == 1023 || (window_t) packets << 10 >= window) {
            if ((bit<27>) (congested_packets ++ 16w0) < (bit<27>) packets * (bit<27>) p.plb_threshold) {
                attempts = 0;
            } else {
                attempts = attempts + 1;
                if (attempts >= p.plb_attempts) {
                    result.randomize_path = 1;
                    attempts = 0;
                }
            }
            packets = 0;
            congested_packets = 0;
        }
        plb.write((bit<32>) event.connection_id[11:0], packets ++ congested_packets ++ attempts);
    }

    apply {
        profile.apply();
        window_t previous = connection.fcwnd;
        bit<11> previous_ncwnd = connection.ncwnd;
        bool measures = event.event_type <= NACK;
        ticks_t full = event.t4 - event.t1;
        ticks_t rtt = measures ? full : connection.rtt_state;
        bool elapsed = event.t4 - connection.fabric_window_time_marker >= rtt;
        bool lost = p.eack_drop == 1 && event.eack_drop == 1;
        fine_t delay = 0;
        fine_t target = 0;
        bit<32> window = (bit<32>) previous;
        window_t cut;
        scaled(previous, ONE - p.max_fmdf, cut);
        result.cc_metadata = event.cc_metadata & PASSED_METADATA;
        result.randomize_path = 0;

        if (measures) {
            // The delay that the connection uses. A difference of two clocks can be negative (10.1).
            ticks_t one_way = connection.delay_select == 2 ? event.t2 - event.t1 : event.t4 - event.t3;
            ticks_t two_clocks = connection.delay_select == 1 ? full - (event.t3 - event.t2) : one_way;
            ticks_t not_negative = two_clocks[23:23] == 1 ? 0 : two_clocks;
            ticks_t sample = connection.delay_select == 0 ? full : not_negative;
            fine_t smoothed_rtt;
            smoothed(connection.delay_state, sample, p.delay_alpha, delay);
            smoothed(connection.rtt_state, full, p.rtt_alpha, smoothed_rtt);
            connection.delay_state = (delay |+| 0x8000)[39:16];
            connection.rtt_state = (smoothed_rtt |+| 0x8000)[39:16];
            scale.apply();
            delay_target(target);

            // The fabric window (F-10.3.1-1 to F-10.3.1-5).
            bool grows = delay <= target;
            bit<31> increment = (bit<31>) p.fai * (bit<31>) event.num_packets_acked;
            bit<38> weighted = (bit<38>) previous * (bit<38>) p.fmdf;
            bit<79> decrease = (bit<79>) weighted * (bit<79>) (delay |-| target) + ((bit<79>) delay << 15) - (bit<79>) delay;
            numerator = grows ? (bit<63>) (increment ++ 10w0) + (bit<63>) (previous >> 1) : decrease[78:16];
            divisor = grows ? (fine_t) previous : delay;
            normalise.apply();
            normal = divisor << leading;
            reciprocal.apply();
            divide();
            bit<39> bound = (bit<39>) previous * (bit<39>) p.max_fmdf + 0x7fff;
            if (lost) {
                window = elapsed ? (bit<32>) cut : window;
            } else if (grows) {
                window = window + (previous < ONE_PACKET ? (bit<32>) increment : (bit<32>) quotient);
            } else if (elapsed) {
                window = window - (bit<32>) (quotient < bound[38:16] ? quotient : bound[38:16]);
            }
        } else if (event.event_type == RETRANSMIT) {
            // F-10.3.2-1, F-10.3.2-2, D-67
            if (event.retransmit_count == 1 && elapsed) {
                window = (bit<32>) cut;
                connection.fabric_window_time_marker = event.t4;
            } else if (event.retransmit_count >= p.retransmit_limit) {
                window = (bit<32>) p.min_fcwnd;
                connection.fabric_window_time_marker = event.t4;
            } else {
                drag(rtt, connection.fabric_window_time_marker);
            }
        }
        if (event.event_type <= RETRANSMIT) {
            window = window > (bit<32>) p.max_fcwnd ? (bit<32>) p.max_fcwnd : window;
            connection.fcwnd = window[20:0] < p.min_fcwnd ? p.min_fcwnd : window[20:0];
        }
        if (measures) {
            if (connection.fcwnd < previous || connection.fcwnd == p.min_fcwnd) {
                connection.fabric_window_time_marker = event.t4;
            } else {
                drag(rtt, connection.fabric_window_time_marker);
            }
            level.apply();
            nic_window(rtt);
            if (event.event_type == ACK) {
                another_path(delay, target, previous, previous_ncwnd);
            }
        }

        // The gap between packets (F-10.3.4-6, D-63) and the timeout (F-10.3.2-3, D-69).
        gap.apply();
        bit<88> packets_gap = (bit<88>) ((bit<40>) (rtt ++ 15w0) + (bit<40>) gap_half) * (bit<88>) gap_reciprocal;
        bit<20> paced = packets_gap[87:74] != 0 ? 0xfffff : packets_gap[73:54];
        connection.inter_packet_gap = connection.fcwnd >= ONE_PACKET ? 0 : paced;
        bit<49> timeout = (bit<49>) connection.rtt_state * (bit<49>) p.timeout_scalar + 0x8000;
        ticks_t whole = timeout[48:40] != 0 ? 0xffffff : timeout[39:16];
        connection.retransmit_timeout = whole < p.min_timeout ? p.min_timeout : whole;
    }
}

RateUpdateEngine(Swift()) main;
