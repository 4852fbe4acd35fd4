//! Wire formats: golden bytes, a bit-by-bit oracle, round trips.

mod checksum;
mod golden;
mod oracle;
mod properties;
