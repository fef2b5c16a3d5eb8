//! The files of RaskIO that loom checks, compiled as they are, in the module tree that they expect.
//!
//! Run with `RUSTFLAGS="--cfg loom" cargo test --release -p raskio-loom`.
#![cfg(loom)]

#[path = "../../src/error.rs"]
pub mod error;
#[path = "../../src/limit/mod.rs"]
pub mod limit;
#[path = "../../src/op/mod.rs"]
pub mod op;
#[path = "../../src/sync.rs"]
pub mod sync;

/// As in RaskIO.
#[path = "."]
pub mod sys {
    #[path = "../../src/sys/event.rs"]
    pub mod event;
    #[path = "../../src/sys/limits.rs"]
    pub mod limits;
}

/// As in RaskIO.
#[path = "."]
pub mod transport {
    #[path = "../../src/transport/inbox.rs"]
    pub mod inbox;
    #[path = "../../src/transport/waker.rs"]
    pub mod waker;
}
