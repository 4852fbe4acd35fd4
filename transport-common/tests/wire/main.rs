//! Wire formats: golden bytes, a bit-by-bit oracle, round trips.

mod bounds;
mod checksum;
mod etherparse;
mod golden;
mod oracle;
mod properties;
