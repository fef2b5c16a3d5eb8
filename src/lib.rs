//! RaskIO.
#![deny(unsafe_code)]
pub mod error;
