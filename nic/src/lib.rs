//! What goes through the network interfaces of a Linux machine, sampled from the kernel's counters.
//!
//! | where | what |
//! |---|---|
//! | [`counters`] | one reading of an interface, from /sys/class/net or from anywhere else |
//! | [`rates`] | from two readings: rates, drops, what vanished |
//! | [`select`] | which interfaces |
//! | [`text`] | samples as CSV, as JSON and as a table |
//! | [`publish`] | samples as NVTX counters |

pub mod counters;
pub mod publish;
pub mod rates;
pub mod select;
pub mod text;
