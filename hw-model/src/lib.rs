//! The network card in cycles, and the fabric around it.
//!
//! Without the feature `cards` there is the fabric alone ([`network`]).

#[cfg(feature = "cards")]
pub mod clocked;
#[cfg(feature = "cards")]
pub mod context_cache;
#[cfg(feature = "cards")]
pub mod datacentre;
#[cfg(feature = "cards")]
pub mod experiments;
#[cfg(feature = "cards")]
pub mod falcon_nic;
#[cfg(feature = "cards")]
pub mod host_nic;
pub mod network;
#[cfg(feature = "cards")]
pub mod p4;
#[cfg(feature = "cards")]
pub mod reference_senders;
#[cfg(feature = "cards")]
pub mod replay;
#[cfg(feature = "cards")]
pub mod tonic;
#[cfg(feature = "cards")]
pub mod tonic_network;
