//! Tonic from outside: packets in, segment addresses out.

mod published;
