//! RaskIO: ranged reads of HTTP objects and local files into host or CUDA memory, behind a C ABI.
#![deny(unsafe_code)]

pub mod callbacks;
pub mod client;
pub mod config;
pub mod endpoint;
pub mod error;
mod exit;
pub mod ffi;
pub mod limit;
pub mod log;
pub mod object;
pub mod op;
pub mod plan;
pub mod retry;
pub mod staging;
pub mod stats;
pub mod sync;
pub mod sys;
pub mod transport;
