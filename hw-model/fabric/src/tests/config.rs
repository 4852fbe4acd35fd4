//! Tests reading, writing and rejecting the text form.

use core::num::NonZeroU32;

use proptest::prelude::*;

use crate::{
    Alpha, Burst, ByteCount, ConfigError, EcnMark, Fabric, FabricConfig, Impairments, Outage, Probability,
    Rate, Scope, SharedBuffer, Span, Time, Topology,
};

#[test]
fn every_key_is_read() {
    let text = "loss=1%,burst=0.1%/25%/100%,reorder=20000ppm,reorder_distance=3,reorder_hold=1ms,\
                duplicate=0.001,corrupt=0.1%,corrupt_bits=2,delay=50us,jitter=1.5us,rate=2.5Gbps,queue=1MiB,\
                ecn=64KiB,ecn_mark=always,trim=64B,header_queue=8KiB,hops=3,down=10ms-20ms+1s-2s,scope=udp";
    let parts = |parts| Probability::from_parts_per_billion(parts).expect("at most one");
    let expected = Impairments {
        loss: parts(10_000_000),
        burst: Some(Burst { enter: parts(1_000_000), leave: parts(250_000_000), loss: Probability::ALWAYS }),
        reorder: parts(20_000_000),
        reorder_distance: 3.try_into().expect("not zero"),
        reorder_hold: Span::from_millis(1),
        duplicate: parts(1_000_000),
        corrupt: parts(1_000_000),
        corrupt_bits: 2.try_into().expect("not zero"),
        delay: Span::from_micros(50),
        jitter: Span::from_nanos(1_500),
        rate: Rate::from_bits_per_second(2_500_000_000),
        queue: ByteCount(1 << 20),
        ecn: Some(ByteCount(64 << 10)),
        ecn_mark: EcnMark::Always,
        trim: Some(ByteCount(64)),
        header_queue: ByteCount(8 << 10),
        hops: 3,
        down: vec![
            Outage { from: Time(10_000_000_000), until: Time(20_000_000_000) },
            Outage { from: Time(1_000_000_000_000), until: Time(2_000_000_000_000) },
        ],
        scope: Scope::Udp,
    };
    assert_eq!(text.parse(), Ok(expected.clone()));
    assert_eq!(expected.to_string().parse(), Ok(expected));
}

#[test]
fn nothing_is_the_default() {
    assert_eq!("".parse(), Ok(Impairments::default()));
    assert_eq!(Impairments::default().to_string(), "");
    assert_eq!(" loss = 0 , delay=0 ".parse(), Ok(Impairments::default()));
    assert_eq!("".parse(), Ok(FabricConfig::default()));
}

#[test]
fn sections_stand_for_themselves() {
    let text =
        "seed=7,loss=1%;1:delay=50us;3:;trunks:rate=1Gbps;trunk2:loss=2%;switches:buffer=12MiB,alpha=1/2";
    let config: FabricConfig = text.parse().expect("a configuration");
    assert_eq!(config.seed, 7);
    assert_eq!(config.impairments(0).to_string(), "loss=1%");
    assert_eq!(config.impairments(1).to_string(), "delay=50us");
    assert_eq!(config.impairments(3), &Impairments::default());
    assert_eq!(config.trunks.to_string(), "rate=1Gbps");
    assert_eq!(config.trunk_impairments(1).to_string(), "rate=1Gbps");
    assert_eq!(config.trunk_impairments(2).to_string(), "loss=2%");
    assert_eq!(config.switches.map(|memory| memory.bytes), Some(ByteCount(12 << 20)));
    assert_eq!(config.to_string(), text);
    let json = serde_json::to_string(&config).expect("a string");
    assert_eq!(json, format!("{text:?}"));
    assert_eq!(serde_json::from_str::<FabricConfig>(&json).expect("reads back"), config);
    assert_eq!(
        Fabric::new(2, config).map(|_| ()),
        Err(ConfigError::NoSuchPort { port: 3, last: 1 }),
        "a section for a port that does not exist is an error"
    );
    let config: FabricConfig = ";trunk4:loss=1%".parse().expect("a configuration");
    assert_eq!(
        Fabric::with_topology(Topology::dumbbell(1, 1, 2), config).map(|_| ()),
        Err(ConfigError::NoSuchTrunk { trunk: 4, trunks: 4 }),
        "two cables have four trunks"
    );
}

#[test]
fn what_is_wrong_is_named() {
    let cases = [
        ("loss", "`loss` is not of the form key=value"),
        ("loss=1%,loss=2%", "`loss` is given twice"),
        ("seed=1,seed=2", "`seed` is given twice"),
        ("seed=x", "seed: `x` is not a 64-bit number"),
        ("loss=101%", "loss: `101%` is more than 100%"),
        ("loss=1.0.0%", "loss: `1.0.0%` is not a number with a unit"),
        ("loss=-1%", "loss: `-1%` is not a number with a unit"),
        ("loss=0.00000001%", "loss: `0.00000001%` is finer or larger than can be represented"),
        ("delay=50", "delay: `50` needs one of the units s, ms, us, ns, ps"),
        ("delay=99999999999s", "delay: `99999999999s` is finer or larger than can be represented"),
        ("rate=0Gbps", "rate: `0Gbps` must be more than 0"),
        ("rate=1GB", "rate: `1GB` needs one of the units Gbps, Mbps, Kbps, bps"),
        ("queue=12kb", "queue: `12kb` needs one of the units GiB, MiB, KiB, B"),
        ("burst=1%", "burst: `1%` must be three probabilities, as in 0.1%/25%/100%"),
        ("down=2ms-1ms", "down: `2ms-1ms` ends before it begins"),
        ("ecn_mark=never", "ecn_mark: `never` must be one of ect always"),
        ("loss=1%;delay=1us", "section `delay=1us` must begin with a port number that no other section has"),
        ("loss=1%;1:;1:", "section `1:` must begin with a port number that no other section has"),
        (";trunk2:;trunk2:", "section `trunk2:` must begin with a port number that no other section has"),
        (";trunk:loss=1%", "section `trunk:loss=1%` must begin with a port number"),
        (";trunk65536:", "section `trunk65536:` must begin with a port number"),
        (";trunks:;trunks:", "section `trunks:` must begin with a port number that no other section has"),
        (
            ";switches:buffer=1B;switches:buffer=1B",
            "section `switches:buffer=1B` must begin with a port number",
        ),
        (";switches:alpha=1", "buffer: `` is missing"),
        (";switches:buffer=1B,buffer=2B", "`buffer` is given twice"),
        (";switches:buffer=1B,alpha=1,alpha=1", "`alpha` is given twice"),
        (
            ";switches:buffer=1B,alpha=0/3",
            "alpha: `0/3` must be a number or a fraction above 0, as in 8 or 1/2",
        ),
        (
            ";switches:buffer=1B,alpha=1/0",
            "alpha: `1/0` must be a number or a fraction above 0, as in 8 or 1/2",
        ),
        (";switches:rate=1Gbps", "unknown key `rate`; known are buffer, alpha"),
        ("trim=53B", "trim: `53B` must be at least 54B, the Ethernet and IPv6 headers"),
        ("los=1%", "unknown key `los`; known are seed, loss, burst, "),
        ("loss=1%,,delay=1us", "`` is not of the form key=value"),
    ];
    for (text, message) in cases {
        let error = text.parse::<FabricConfig>().expect_err(text).to_string();
        assert!(error.starts_with(message), "{text}: {error}");
    }
    for text in ["corrupt_bits=0", "reorder_distance=0", "hops=256"] {
        let error = text.parse::<FabricConfig>().expect_err(text);
        assert!(matches!(error, ConfigError::Value { .. }), "{text}: {error}");
    }
}

proptest! {
    #[test]
    fn text_reads_back(
        seed: u64, parts in 0..=Probability::DENOMINATOR, hold: u64, rate in 1u64.., queue: u64, hops: u8,
        trim in prop::option::of(54u64..), numerator in 1u32.., denominator: NonZeroU32,
    ) {
        let loss = Probability::from_parts_per_billion(parts).expect("at most one");
        let common = Impairments {
            loss, reorder_hold: Span(hold), rate: Rate::from_bits_per_second(rate), queue: ByteCount(queue), hops,
            trim: trim.map(ByteCount),
            ..Impairments::default()
        };
        let towards = [(9, Impairments { delay: Span(hold), ..Impairments::default() })].into();
        let trunks = Impairments { delay: Span(hold), hops, ..Impairments::default() };
        let over = [(3, Impairments { hops, ..Impairments::default() })].into();
        let switches = Some(SharedBuffer { bytes: ByteCount(queue), alpha: Alpha { numerator, denominator } });
        let config = FabricConfig { seed, common, towards, trunks, over, switches };
        prop_assert_eq!(config.to_string().parse(), Ok(config));
    }

    #[test]
    fn no_text_panics(text in "[a-z=:;,%./0-9-]{0,40}") {
        let _: Result<FabricConfig, _> = text.parse();
    }
}
