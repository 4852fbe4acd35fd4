//! The Wireshark dissector: it finds in every packet what the project's own decoder finds (D-83, D-84, F-7.2-1),
//! survives malformed packets, follows connections, and runs on the two versions of Lua that Wireshark has.
//!
//! `TIERCEL_WRITE_GOLDEN=1 cargo test -p tiercel-tests --test wireshark` writes captures and expected output again.
//! `WIRESHARK_SEED` selects other random packets and other simulated runs.

mod capture;
mod followed;
mod packets;
mod tools;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use fabric_model::Probability;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tiercel_cli::decode::{Decoded, Field, Layer, Value};
use tiercel_tests::simulation::{Profile, Scenario};

use crate::capture::Frame;
use crate::tools::{LUAS, Shown, fields, imitated, number, summaries, tshark, tshark_on};

/// Only the trees of the dissector.
const TREES: [&str; 4] =
    ["PSP Security Protocol", "Inner IP of a Falcon tunnel", "Falcon Reliable Transport", "RDMA over Falcon"];

/// Fields of the wire that the project's decoder does not list: constants, reserved bits, bytes without structure.
const MORE: [&str; 12] = [
    "falcon.psp.reserved",
    "falcon.psp.always_one",
    "falcon.psp.iv_tick",
    "falcon.psp.icv",
    "falcon.version",
    "falcon.reserved",
    "falcon.packet_type",
    "falcon.bitmap.psns",
    "falcon.bitmap.bits",
    "falcon.data",
    "falcon.encrypted",
    "falcon.stream",
];
const MORE_OF_RDMA: [&str; 2] = ["falcon.rdma.pad_count", "falcon.rdma.transport_version"];

/// What following a connection finds, in the golden output of a run.
const FOLLOWED: [&str; 14] = [
    "frame.number",
    "falcon.stream",
    "falcon.retransmission.number",
    "falcon.retransmission.first_in",
    "falcon.retransmission.after",
    "falcon.duplicate.of",
    "falcon.acked_in",
    "falcon.acked_after",
    "falcon.acks",
    "falcon.nacked_in",
    "falcon.t1_frame",
    "falcon.rtt",
    "falcon.request_in",
    "falcon.response_after",
];

/// The simulated runs of the golden captures: one loses and reorders packets, one duplicates them and has NACKs.
const RUNS: [(&str, u64); 2] = [("lossy", 161), ("duplicates", 131)];

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/wireshark/golden").join(name)
}

/// Returns the seed in the environment variable `WIRESHARK_SEED`, or another one.
fn seed(default: u64) -> u64 {
    std::env::var("WIRESHARK_SEED").map_or(default, |seed| seed.parse().expect("a number"))
}

/// Returns whether captures and expected output are to be written.
fn writes_golden() -> bool {
    std::env::var_os("TIERCEL_WRITE_GOLDEN").is_some()
}

/// Returns the frames of a golden capture, or writes it.
fn golden_frames(name: &str, make: impl FnOnce() -> Vec<Frame>) -> Result<Vec<Frame>> {
    let file = golden(name);
    if writes_golden() {
        capture::write(&file, &make())?;
    }
    capture::read(&file)
}

/// What to do if the output is right and differs.
const REMEDY: &str = "If this is intended, write the output again: TIERCEL_WRITE_GOLDEN=1";

/// Compares output with the expected one, or writes it.
fn compare_golden(name: &str, text: &str) -> Result<()> {
    let file = golden(name);
    if writes_golden() {
        fs::write(&file, text)?;
    }
    let expected = fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
    for (number, (is, should)) in text.lines().zip(expected.lines()).enumerate() {
        ensure!(
            same_line(is, should),
            "{name}, line {}:\n  is:     {is}\n  should: {should}\n{REMEDY}",
            number + 1
        );
    }
    ensure!(
        text.lines().count() == expected.lines().count(),
        "{name}: the number of lines differs. {REMEDY}"
    );
    Ok(())
}

/// Returns whether two lines say the same. Wireshark cuts long bytes off, and version 4.4 later than 4.0.
fn same_line(is: &str, should: &str) -> bool {
    let begins = |whole: &str, cut: &str| cut.strip_suffix('…').is_some_and(|begin| whole.starts_with(begin));
    is == should || begins(is, should) || begins(should, is)
}

fn each_kind() -> Result<Vec<Frame>> {
    golden_frames("packets.pcapng", || packets::each_kind(&mut StdRng::seed_from_u64(1)))
}

fn each_code() -> Result<Vec<Frame>> {
    golden_frames("codes.pcapng", || packets::each_code(&mut StdRng::seed_from_u64(2)))
}

fn runs() -> Result<Vec<Frame>> {
    let runs = RUNS.map(|(name, seed)| run(name, seed));
    runs.into_iter().collect::<Result<Vec<_>>>().map(|runs| runs.concat())
}

fn run(name: &str, seed: u64) -> Result<Vec<Frame>> {
    golden_frames(&format!("{name}.pcapng"), || capture::simulated(seed))
}

#[test]
fn every_kind_of_packet_in_detail() -> Result<()> {
    let frames = each_kind()?;
    let text = tshark_on(&frames, &["-O", "falcon.psp,falcon.inner,falcon,falcon.rdma"])?;
    // Other protocols are shown by one line each, whose text belongs to Wireshark.
    let mut own = false;
    let mut kept = summaries(&frames)?.join("\n") + "\n\n";
    for line in text.lines() {
        if !line.starts_with(' ') {
            own = TREES.iter().any(|tree| line.starts_with(tree));
        }
        if own {
            writeln!(kept, "{}", line.trim_end())?;
        }
    }
    compare_golden("packets.txt", &kept)
}

#[test]
fn every_code_in_words() -> Result<()> {
    compare_golden("codes.txt", &(summaries(&each_code()?)?.join("\n") + "\n"))
}

#[test]
fn runs_are_followed() -> Result<()> {
    for (name, seed) in RUNS {
        run(name, seed)?;
        let mut options = vec!["-2", "-T", "fields", "-E", "separator=|", "-E", "occurrence=a"];
        FOLLOWED.iter().for_each(|name| options.extend(["-e", name]));
        let table = tshark(&golden(&format!("{name}.pcapng")), &options)?;
        compare_golden(&format!("{name}.txt"), &format!("{}\n{table}", FOLLOWED.join("|")))?;
    }
    Ok(())
}

/// Returns the beginning of the names of the dissector's fields for a layer of the project's decoder.
fn prefix(layer: &Layer) -> Option<&'static str> {
    match layer.name {
        "PSP" => Some("falcon.psp."),
        "Inner IPv4" => Some("falcon.inner.v4."),
        "Inner IPv6" => Some("falcon.inner.v6."),
        name if name.starts_with("Falcon") => Some("falcon."),
        name if name.starts_with("RDMA") => Some("falcon.rdma."),
        _ => None,
    }
}

/// Checks that a field of the dissector has the value and the meaning of the field of the project's decoder.
fn compare_field(shown: &Shown, field: &Field, psns: &mut impl Iterator<Item = String>) -> Result<()> {
    match &field.value {
        Value::Number(value) => ensure!(number(&shown.value) == Some(*value), "{shown:?}, {field:?}"),
        Value::Flag(value) => {
            ensure!(number(&shown.value) == Some(u64::from(*value)), "{shown:?}, {field:?}")
        }
        Value::Text(value) => {
            ensure!(shown.value == *value || shown.value.replace(':', "") == *value, "{shown:?}, {field:?}")
        }
    }
    if field.name.ends_with("bitmap") {
        let psns = psns.next();
        ensure!(psns.as_ref() == Some(&field.text), "{psns:?}, {field:?}");
    }
    // Words in brackets are the meaning of a number; "10 ps = 0.000000000010 s" is a time.
    let has_meaning = field.text.ends_with(')') && !["address", "psn", "crypt_offset"].contains(&field.name);
    if has_meaning || ["window", "iv"].contains(&field.name) {
        ensure!(shown.line.contains(&field.text), "{shown:?}, {field:?}");
    }
    Ok(())
}

/// Checks that the dissector has every field of the project's decoder, and refuses a packet for the same reason. If the
/// packet is not refused, the dissector has no other fields.
fn compare(decoded: &Decoded, shown: &[Shown]) -> Result<()> {
    let mut used = BTreeSet::new();
    let mut psns = shown.iter().filter(|shown| shown.name == "falcon.bitmap.psns").map(|it| it.value.clone());
    for (layer, prefix) in decoded.layers.iter().filter_map(|layer| Some((layer, prefix(layer)?))) {
        for field in &layer.fields {
            let name = format!("{prefix}{}", field.name);
            let found = shown.iter().find(|shown| shown.name == name);
            let found = found.with_context(|| format!("{name} is missing: {field:?}"))?;
            compare_field(found, field, &mut psns)?;
            used.insert(name);
        }
    }
    let reason =
        shown.iter().find(|shown| shown.name == "falcon.malformed").map(|shown| shown.value.as_str());
    let expected = decoded.error.as_ref().map(|error| error.reason);
    ensure!(reason == expected, "the reason is {reason:?} and should be {expected:?}");
    if decoded.error.is_none() {
        for shown in shown.iter().filter(|shown| !is_found(&shown.name)) {
            let known = MORE.contains(&shown.name.as_str()) || MORE_OF_RDMA.contains(&shown.name.as_str());
            ensure!(used.contains(&shown.name) || known, "the decoder does not have {shown:?}");
        }
    }
    Ok(())
}

/// Returns whether a field is not on the wire: what following the connection found, and notes for experts.
fn is_found(name: &str) -> bool {
    FOLLOWED.contains(&name)
        || name.starts_with("falcon.expert.")
        || [
            "falcon.retransmission",
            "falcon.duplicate",
            "falcon.replaces",
            "falcon.nacks",
            "falcon.response_in",
        ]
        .contains(&name)
}

/// Compares the dissector with the project's decoder. Returns the number of packets with each reason to refuse them.
fn compare_all(frames: &[Frame]) -> Result<BTreeMap<&'static str, usize>> {
    let mut reasons = BTreeMap::new();
    for (frame, shown) in frames.iter().zip(fields(frames)?) {
        let decoded = frame.decoded();
        let below = ["Ethernet", "IPv4", "IPv6", "UDP"];
        if decoded.error.as_ref().is_some_and(|error| below.contains(&error.layer)) {
            continue;
        }
        compare(&decoded, &shown).with_context(|| format!("{decoded}\n{shown:#?}"))?;
        *reasons.entry(decoded.error.map_or("none", |error| error.reason)).or_default() += 1;
    }
    Ok(reasons)
}

#[test]
fn golden_captures_agree_with_the_decoder() -> Result<()> {
    for frames in [each_kind()?, each_code()?, runs()?] {
        compare_all(&frames)?;
    }
    Ok(())
}

#[test]
fn random_packets_agree_with_the_decoder() -> Result<()> {
    let frames = packets::random(&mut StdRng::seed_from_u64(seed(3)), 6000);
    let reasons = compare_all(&frames)?;
    // Every reason of the four layers occurs several times, so the comparison has met each of them.
    assert_eq!(reasons.len(), 1 + 31, "{reasons:?}");
    assert!(reasons.values().all(|count| *count >= 4), "{reasons:?}");
    assert!(reasons["none"] > 1000, "{reasons:?}");
    Ok(())
}

/// A dissector that disagrees is found.
#[test]
fn a_wrong_field_is_found() -> Result<()> {
    let frames = each_kind()?;
    let (decoded, shown) = (frames[3].decoded(), fields(&frames[3..4])?.remove(0));
    compare(&decoded, &shown)?;
    for at in 0..shown.len() {
        let name = &shown[at].name;
        if is_found(name) || MORE.contains(&name.as_str()) || MORE_OF_RDMA.contains(&name.as_str()) {
            continue;
        }
        let (mut less, mut other, mut more) = (shown.clone(), shown.clone(), shown.clone());
        less.remove(at);
        other[at].value = "4711".into();
        more[at].name += "_unknown";
        for wrong in [less, other, more] {
            assert!(compare(&decoded, &wrong).is_err(), "{name}");
        }
    }
    Ok(())
}

/// Returns every frame of `frames` as a capture with a snap length leaves it: cut to every length of its headers.
fn cut_by_capture(frames: &[Frame]) -> Vec<Frame> {
    let cut = |frame: &Frame, length: usize| Frame { bytes: frame.bytes[..length].to_vec(), ..frame.clone() };
    let lengths =
        frames.iter().flat_map(|frame| (42..frame.bytes.len()).map(move |length| cut(frame, length)));
    lengths.enumerate().map(|(n, frame)| Frame { after: Frame::whole(n, vec![]).after, ..frame }).collect()
}

#[test]
fn cut_packets_are_told_from_malformed_ones() -> Result<()> {
    let cut = cut_by_capture(&each_kind()?);
    let shown = fields(&cut)?;
    let mut noted = 0;
    for (frame, shown) in cut.iter().zip(&shown) {
        let has = |name: &str| shown.iter().any(|shown| shown.name == name);
        assert!(!has("falcon.malformed"), "{shown:#?}");
        noted += usize::from(has("falcon.expert.cut") || frame.bytes.len() <= 54);
    }
    assert!(noted * 2 > cut.len(), "{noted} of {} are noted", cut.len());
    Ok(())
}

#[test]
fn mutated_packets_cause_no_error_in_the_dissector() -> Result<()> {
    let rng = &mut StdRng::seed_from_u64(5);
    let mut frames = packets::random(rng, 2000);
    for (number, frame) in runs()?.into_iter().chain(each_kind()?).enumerate() {
        let mut bytes = frame.bytes;
        for _ in 0..rng.random_range(1..6) {
            let at = rng.random_range(42..bytes.len());
            bytes[at] = rng.random();
        }
        let cut = rng.random_range(43..=bytes.len());
        let whole = Frame { length: bytes.len(), ..Frame::whole(number, bytes[..cut].to_vec()) };
        frames.push(whole);
    }
    // Twice, so that what was found is shown as well.
    tshark_on(&frames, &["-2", "-V"])?;
    Ok(())
}

/// Following connections finds what the packets and the connections' CIDs imply, also with several connections.
#[test]
fn connections_are_followed_rightly() -> Result<()> {
    let mut score = followed::Score::default();
    let whole = |seed| {
        let scenario = Scenario::random(seed, Profile::Lossy);
        // A corrupted packet has no meaning.
        (scenario.fabric.common.corrupt == Probability::NEVER).then_some(scenario)
    };
    // At least twelve runs, and as many as have enough of what is rare.
    let enough = |score: &followed::Score| score.retransmissions > 100 && score.duplicates > 50;
    // In the first two, connections between the same hosts have similar PSNs: a guess which directions belong together
    // is wrong there.
    let scenarios = [316, 530].into_iter().chain(seed(0)..).filter_map(whole).take(60);
    for (count, scenario) in scenarios.enumerate() {
        if count >= 12 && enough(&score) {
            break;
        }
        let frames = capture::simulated(scenario.seed);
        let pdml = tshark_on(&frames, &["-2", "-T", "pdml", "-J", "falcon"])?;
        followed::check(&scenario, &frames, &tools::parsed(&pdml)?, &mut score);
    }
    eprintln!("{score:?}");
    assert!(enough(&score), "{score:?}");
    for (found, of) in [
        (score.acknowledged_found, score.acknowledged),
        (score.times_found, score.times),
        (score.responses_found, score.responses),
    ] {
        assert!(found * 100 >= of * 95, "{score:?}");
    }
    Ok(())
}

/// The interpreters find the same, and what tshark shows.
#[test]
fn both_versions_of_lua_find_the_same() -> Result<()> {
    let mut frames = packets::random(&mut StdRng::seed_from_u64(6), 1500);
    frames.retain(|frame| frame.datagram().is_some());
    for frames in [each_kind()?, each_code()?, runs()?, frames] {
        let [older, newer] = LUAS.map(|lua| imitated(lua, &frames));
        let (older, newer) = (older?, newer?);
        let (shown, infos) = (fields(&frames)?, summaries(&frames)?);
        for (((older, newer), shown), info) in older.iter().zip(&newer).zip(&shown).zip(&infos) {
            assert_eq!(older, newer);
            assert_eq!(&newer.info, info);
            for shown in shown.iter().filter(|shown| !shown.name.starts_with("falcon.expert.")) {
                let values = newer.fields.get(&shown.name).with_context(|| format!("{shown:?}"))?;
                let Some(value) = number(&shown.value) else { continue };
                // Bytes may look like a number.
                let same = |text: &String| number(text) == Some(value) || *text == shown.value;
                assert!(values.iter().any(same), "{shown:?}: {values:?}");
            }
        }
    }
    Ok(())
}

/// The way of docs/wireshark.md: the file lies in the folder of personal plugins. The port is a preference.
#[test]
fn the_installed_plugin_follows_its_preferences() -> Result<()> {
    let file = golden("lossy.pcapng");
    let count =
        |options: &[&str]| -> Result<usize> { Ok(tools::with_plugin(&file, options)?.lines().count()) };
    let falcon = |options: &[&str]| count(&[&["-Y", "falcon"], options].concat());
    let all = count(&[])?;
    assert_eq!(falcon(&[])?, all);
    assert_eq!(falcon(&["-o", "falcon.port:1001"])?, 0);
    assert!(falcon(&["-o", "falcon.port:1001", "-d", "udp.port==61835,falcon"])? > 0);
    assert!(count(&["-Y", "falcon.retransmission"])? > 0);
    assert_eq!(count(&["-Y", "falcon.retransmission", "-o", "falcon.follow:FALSE"])?, 0);
    Ok(())
}
