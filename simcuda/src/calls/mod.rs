//! The exported functions, one file a noun. Names and signatures are the driver's own.
//!
//! They are safe functions in Rust's eyes: what a C caller promises is relied on in [`crate::abi`] and [`crate::memory`].
#![allow(non_snake_case, missing_docs)]

pub mod context;
pub mod copy;
pub mod event;
pub mod init;
pub mod memory;
pub mod pointer;
pub mod stream;
