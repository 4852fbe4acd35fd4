//! Explains a refused attachment by what the driver can do and by the kernel's message.

use std::io;
use std::os::fd::BorrowedFd;

use crate::node::error::NodeError;
use crate::node::interface::netdev::Netdev;
use crate::node::interface::netlink::{Interface, xdp_refusal};
use crate::node::xdp::attach_mode::AttachMode;

const NO_NATIVE: &str = "The driver of this interface has no native XDP: attach in generic mode (--generic)";
const NOT_AS_IT_IS: &str = "The driver has native XDP, but not as the interface is set up now: change what the kernel names (of \
                            virtio_net in a guest, the offloads: QEMU's options guest_tso4=off,guest_tso6=off,guest_ecn=off,\
                            guest_ufo=off,guest_csum=off of the device), or attach in generic mode (--generic)";

/// The causes that were found for a refusal.
pub(crate) struct Reason {
    /// The kernel's message.
    words: Option<String>,
    /// Whether the driver runs XDP programs at all; `None` if it could not be asked.
    native: Option<bool>,
}

impl Reason {
    /// Finds out why `program` was not attached to `interface`, in the calling thread's network namespace.
    pub(crate) fn ask(interface: &Interface, program: BorrowedFd<'_>, mode: u32) -> Self {
        let features = Netdev::open().and_then(|netdev| netdev.xdp_features(interface.index));
        Self {
            words: xdp_refusal(interface.index, program, mode),
            native: features.ok().map(|features| features.native()),
        }
    }

    /// Returns the error with the kernel's message and a hint that fits.
    pub(crate) fn explain(self, error: NodeError) -> NodeError {
        let NodeError::Attach { interface, mode, mut hint, source } = error else { return error };
        let unsupported = source.raw_os_error() == Some(libc::EOPNOTSUPP);
        if unsupported && mode == AttachMode::Native {
            match self.native {
                Some(true) => hint = NOT_AS_IT_IS,
                Some(false) => hint = NO_NATIVE,
                None => {}
            }
        }
        let source = match self.words {
            Some(words) => io::Error::new(source.kind(), format!("{words} ({source})")),
            None => source,
        };
        NodeError::Attach { interface, mode, hint, source }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn explained(code: i32, mode: AttachMode, words: Option<&str>, native: Option<bool>) -> String {
        let source = io::Error::from_raw_os_error(code);
        let error = NodeError::Attach { interface: "eth0".into(), mode, hint: "as before", source };
        Reason { words: words.map(str::to_owned), native }.explain(error).to_string()
    }

    #[test]
    fn a_driver_without_native_xdp_is_told_from_one_whose_offloads_are_in_the_way() {
        let words = Some("Underlying driver does not support XDP in native mode");
        let none = explained(libc::EOPNOTSUPP, AttachMode::Native, words, Some(false));
        assert!(none.contains("Underlying driver does not support XDP in native mode (Operation"), "{none}");
        assert!(none.contains("has no native XDP") && !none.contains("offloads"), "{none}");
        let words = Some("virtio_net: Can't set XDP while host is implementing GRO_HW/CSUM");
        let offloads = explained(libc::EOPNOTSUPP, AttachMode::Native, words, Some(true));
        assert!(offloads.contains("GRO_HW/CSUM") && offloads.contains("guest_tso4=off"), "{offloads}");
        for said in [none, offloads] {
            assert!(said.contains("--generic") && said.lines().count() == 1, "{said}");
        }
    }

    #[test]
    fn other_refusals_keep_their_remedy() {
        assert!(explained(libc::ERANGE, AttachMode::Native, None, Some(true)).ends_with("as before"));
        assert!(explained(libc::EOPNOTSUPP, AttachMode::Native, None, None).ends_with("as before"));
        let generic = explained(libc::EOPNOTSUPP, AttachMode::Generic, Some("why"), Some(false));
        assert!(generic.contains("why (") && generic.ends_with("as before"), "{generic}");
    }
}
