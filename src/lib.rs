//! RaskIO: ranged reads of HTTP objects and local files into host or CUDA memory, behind a C ABI.
#![deny(unsafe_code)]

pub mod client;
pub mod config;
pub mod error;
pub mod log;
pub mod object;
pub mod op;
pub mod stats;
pub mod sync;
pub mod sys;
