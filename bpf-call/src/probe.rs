//! Checks that the kernel has everything that Tiercel's programs use. It loads a small program that uses all of
//! it.
//!
//! Both users of the check share these instructions. `cargo xtask` checks before it builds anything, and a node
//! checks before it loads its programs.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use super::{Instruction, LIVE_FRAME_BYTES, LoadXdp, XDP_DROP, run_live};

/// The oldest kernel that has all of these features.
pub const OLDEST_KERNEL: &str = "6.9";

/// A feature that the programs use and that a kernel older than [`OLDEST_KERNEL`] may lack.
#[derive(Clone, Copy, Debug)]
pub struct Feature {
    /// Its name for display.
    pub what: &'static str,
    /// The first kernel that has it.
    pub since: &'static str,
    /// Instructions that use it. They find the context in r6 and 8 bytes of zeros on the stack. They may change r0
    /// to r5.
    pub instructions: &'static [Instruction],
}

/// All features that loading a program can show. Live frames are checked by a test run.
pub const FEATURES: [Feature; 4] = [
    Feature {
        what: "atomic BPF operations that return the old value",
        since: "5.12",
        instructions: &[
            // r0 = 0; r0 = cmpxchg_64(r10 - 8, r0, r0); r0 = atomic_fetch_or(r10 - 8, r0); r0 = xchg_64(r10 - 8, r0)
            Instruction::set_result(0),
            Instruction { code: 0xdb, registers: 0x0a, offset: -8, immediate: 0xf1 },
            Instruction { code: 0xdb, registers: 0x0a, offset: -8, immediate: 0x41 },
            Instruction { code: 0xdb, registers: 0x0a, offset: -8, immediate: 0xe1 },
        ],
    },
    Feature {
        what: "the helpers bpf_xdp_load_bytes and bpf_xdp_store_bytes",
        since: "5.18",
        instructions: &[
            CONTEXT,
            OFFSET_0,
            STACK_POINTER,
            STACK_PLACE,
            LENGTH_8,
            call(LOAD_BYTES),
            CONTEXT,
            OFFSET_0,
            STACK_POINTER,
            STACK_PLACE,
            LENGTH_8,
            call(STORE_BYTES),
        ],
    },
    Feature {
        what: "the BPF instruction bswap",
        since: "6.6",
        // r0 = 0; r0 = bswap16 r0
        instructions: &[
            Instruction::set_result(0),
            Instruction { code: 0xd7, registers: 0x00, offset: 0, immediate: 16 },
        ],
    },
    Feature {
        what: "the BPF instruction may_goto",
        since: "6.9",
        // Over the next instruction: before Linux 6.14 the verifier refuses a distance of 0.
        instructions: &[Instruction { offset: 1, ..Instruction::MAY_GOTO }, Instruction::set_result(0)],
    },
];

const LIVE_FRAMES: (&str, &str) = ("live frames in test runs of XDP programs", "5.18");

// From linux/bpf.h: numbers of helpers.
const LOAD_BYTES: i32 = 189;
const STORE_BYTES: i32 = 190;
/// `r1 = r6`.
const CONTEXT: Instruction = Instruction { code: 0xbf, registers: 0x61, offset: 0, immediate: 0 };
/// `r2 = 0`.
const OFFSET_0: Instruction = Instruction { code: 0xb7, registers: 0x02, offset: 0, immediate: 0 };
/// `r3 = r10`.
const STACK_POINTER: Instruction = Instruction { code: 0xbf, registers: 0xa3, offset: 0, immediate: 0 };
/// `r3 += -8`.
const STACK_PLACE: Instruction = Instruction { code: 0x07, registers: 0x03, offset: 0, immediate: -8 };
/// `r4 = 8`.
const LENGTH_8: Instruction = Instruction { code: 0xb7, registers: 0x04, offset: 0, immediate: 8 };

const fn call(helper: i32) -> Instruction {
    Instruction { code: 0x85, registers: 0, offset: 0, immediate: helper }
}

/// `r6 = r1`, `*(u64 *)(r10 - 8) = 0`.
const BEGIN: [Instruction; 2] = [
    Instruction { code: 0xbf, registers: 0x16, offset: 0, immediate: 0 },
    Instruction { code: 0x7a, registers: 0x0a, offset: -8, immediate: 0 },
];
const END: [Instruction; 2] = [Instruction::set_result(XDP_DROP), Instruction::EXIT];

/// Why the kernel cannot run Tiercel's programs.
#[derive(Debug)]
pub enum Unfit {
    /// It loads no XDP program at all. The process lacks the permission, or the kernel has no BPF.
    Refused(io::Error),
    /// It lacks a feature. The sentence says which one, and what to do.
    Lacks(String),
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(error) => write!(f, "the kernel loads no XDP program: {error}"),
            Self::Lacks(sentence) => f.write_str(sentence),
        }
    }
}

impl std::error::Error for Unfit {}

/// Checks everything that the programs use.
///
/// # Errors
/// The kernel refuses all programs, or it lacks a feature.
pub fn probe() -> Result<(), Unfit> {
    probe_for(&FEATURES)
}

/// Like [`probe`], for the given features. Tests pass one that no kernel has.
///
/// # Errors
/// Those of [`probe`].
pub fn probe_for(features: &[Feature]) -> Result<(), Unfit> {
    let lacking: Vec<_> = match load(features) {
        Ok(program) if run_live(program.as_fd(), 1, 1, LIVE_FRAME_BYTES).is_ok() => return Ok(()),
        _ => {
            let plain = load(&[]).map_err(Unfit::Refused)?;
            let lacking = features.iter().filter(|feature| load(&[**feature]).is_err());
            let named = lacking.map(|feature| (feature.what, feature.since));
            named
                .chain(run_live(plain.as_fd(), 1, 1, LIVE_FRAME_BYTES).is_err().then_some(LIVE_FRAMES))
                .collect()
        }
    };
    Err(Unfit::Lacks(sentence(&release(), &lacking)))
}

/// Loads a program that uses these features.
fn load(features: &[Feature]) -> io::Result<OwnedFd> {
    let mut instructions = BEGIN.to_vec();
    instructions.extend(features.iter().flat_map(|feature| feature.instructions));
    instructions.extend(END);
    let (name, license) = (c"tiercel_probe", c"Dual MIT/GPL");
    LoadXdp { name, license, instructions: &instructions, bound_to: None }.load(&mut [])
}

/// Returns the sentence for the user: the kernel's version, the missing features, and the first kernel that has
/// each.
pub fn sentence(release: &str, lacking: &[(&str, &str)]) -> String {
    let named: Vec<String> = lacking.iter().map(|(what, since)| format!("{what} (Linux {since})")).collect();
    let lacks = match named.split_last() {
        None => "something that Tiercel's programs use together".to_owned(),
        Some((only, [])) => only.clone(),
        Some((last, rest)) => format!("{} and {last}", rest.join(", ")),
    };
    format!("Linux {release} lacks {lacks}: boot Linux {OLDEST_KERNEL} or newer")
}

/// Returns the kernel's release, such as `6.1.0-18-amd64`.
fn release() -> String {
    std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_sentence_says_version_lack_and_remedy() {
        let may_goto = ("the BPF instruction may_goto", "6.9");
        assert_eq!(
            sentence("6.6.30", &[may_goto]),
            "Linux 6.6.30 lacks the BPF instruction may_goto (Linux 6.9): boot Linux 6.9 or newer"
        );
        assert_eq!(
            sentence("6.1.0", &[("a", "6.6"), ("b", "6.6"), may_goto]),
            "Linux 6.1.0 lacks a (Linux 6.6), b (Linux 6.6) and the BPF instruction may_goto (Linux 6.9): boot Linux 6.9 \
             or newer"
        );
        assert!(sentence("6.9.0", &[]).contains("use together"));
    }

    #[test]
    #[ignore = "needs root: cargo xtask test"]
    fn this_kernel_has_all() {
        probe().unwrap();
        for feature in FEATURES {
            load(&[feature]).unwrap_or_else(|error| panic!("{}: {error}", feature.what));
        }
    }

    /// An instruction that no kernel has takes the place of one that an older kernel lacks.
    #[test]
    #[ignore = "needs root: cargo xtask test"]
    fn what_the_verifier_refuses_is_named_and_nothing_else() {
        const UNKNOWN: Feature = Feature {
            what: "the unknown instruction",
            since: "99.9",
            instructions: &[Instruction { code: 0xff, registers: 0, offset: 0, immediate: 0 }],
        };
        let features = [FEATURES[0], UNKNOWN, FEATURES[3]];
        let Err(Unfit::Lacks(said)) = probe_for(&features) else { panic!("nothing is missing") };
        let lacks = "lacks the unknown instruction (Linux 99.9): boot Linux 6.9 or newer";
        assert!(said.starts_with("Linux ") && said.ends_with(lacks), "{said}");
        assert_eq!(said.lines().count(), 1);
    }
}
