//! A connection on which both ends have agreed.

pub(crate) mod static_connection;
