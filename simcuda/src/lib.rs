//! A simulated CUDA driver for tests: a `libcuda.so.1` that needs no GPU.
//!
//! Streams are threads, copies take time, events are pending until they are done, and device memory crashes the host that
//! touches it. Any call fails on demand, and misuse that a real driver answers with corruption at some later time ends the
//! process at once, saying why. `README.md` says what is faithful and what is not.
//!
//! | where | what |
//! |---|---|
//! | [`abi`] | result codes with their texts, constants, out-parameters |
//! | [`world`] | all state, one lock; how every call begins; current contexts; misuse |
//! | [`faults`] | which call fails with what; how often each was made |
//! | [`memory`] | blocks of device, managed, stream-ordered and pinned memory |
//! | [`stream`] | queues, their threads, order between them |
//! | [`capture`] | stream capture, and what it forbids |
//! | [`calls`] | the exported functions, one file a noun |
//! | [`control`] | what tests call: `include/simcuda.h` |

pub mod abi;
pub mod calls;
pub mod capture;
pub mod control;
pub mod faults;
pub mod memory;
pub mod stream;
pub mod world;
