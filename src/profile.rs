//! Ranges for a profiler that speaks NVTX, such as Nsight Systems: operations, requests, waits, copies. Where there is none, each is a
//! load and a branch.

use raskio_nvtx::{Domain, Range};
use std::ffi::{CStr, CString};
use std::sync::OnceLock;

/// What takes time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Kind {
    /// From the call to the callback.
    Operation = 1,
    /// One attempt of a request, on the wire.
    Request = 2,
    /// A request that is not on the wire: for what, its name says.
    Wait = 3,
    /// Into device memory, with what it waits for.
    Copy = 4,
}

const KINDS: [(Kind, &CStr); 4] =
    [(Kind::Operation, c"operation"), (Kind::Request, c"request"), (Kind::Wait, c"wait"), (Kind::Copy, c"copy")];

fn domain() -> Option<Domain> {
    static DOMAIN: OnceLock<Option<Domain>> = OnceLock::new();
    *DOMAIN.get_or_init(|| {
        let domain = Domain::new(c"raskio")?;
        KINDS.iter().for_each(|(kind, name)| domain.name_category(*kind as u32, name));
        Some(domain)
    })
}

/// Whether a profiler is there.
pub fn is_on() -> bool {
    domain().is_some()
}

/// A range that ends when this is dropped, or nothing.
#[derive(Debug, Default)]
pub struct Span(Option<Range>);

impl Span {
    /// Begins one: `bytes` is its payload. `name` is not asked where no profiler is.
    pub fn begin(kind: Kind, bytes: u64, name: impl FnOnce() -> String) -> Span {
        let Some(domain) = domain() else { return Span(None) };
        let name = CString::new(name()).unwrap_or_default();
        Span(Some(domain.start(kind as u32, &name, bytes)))
    }

    /// A wait.
    pub fn wait(what: &CStr) -> Span {
        Span(domain().map(|domain| domain.start(Kind::Wait as u32, what, 0)))
    }

    /// Whether it is a range.
    pub fn is_running(&self) -> bool {
        self.0.is_some()
    }
}

impl Drop for Span {
    fn drop(&mut self) {
        if let (Some(range), Some(domain)) = (self.0.take(), domain()) {
            domain.end(range);
        }
    }
}
