//! The only code that names libcurl, CUDA, io_uring or raw memory.
#![allow(unsafe_code)]

pub mod cuda;
pub mod curl;
pub mod epoll;
pub mod event;
pub mod fault;
pub mod file;
pub mod limits;
pub mod mem;
pub mod per_process;
pub mod process;
pub mod quiet;
pub mod stderr;
pub mod uring;
