//! The CUDA driver: loaded when a device read needs it, or used if the host has loaded it. Never required.
//!
//! Everything takes the driver as an argument or holds it, so nothing can be called that was not found. Handles are
//! numbers: a thread may hand them on, and whether they still mean something only the driver knows.

pub mod context;
pub mod event;
pub mod library;
pub mod memory;
pub mod pointer;
pub mod stream;

pub use context::{Context, Current, Relaxed};
pub use event::Event;
pub use library::{Driver, Failure};
pub use memory::{Pinned, PinnedPool, Registration};
pub use pointer::{CudaBuffer, CudaPart};
pub use stream::Stream;
