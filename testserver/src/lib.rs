//! A small HTTP/1.1 server on 127.0.0.1 that answers right by default and wrong when told to.
//!
//! ```
//! use raskio_testserver::{Object, Reply, Server, get};
//!
//! let server = Server::start();
//! server.put("/data", Object::pattern(100));
//! // The first GET stops after 7 bytes, every later one is answered right.
//! server.script(get("/data"), [Reply::object().stall_after(7), Reply::object()]);
//! let url = server.url("/data"); // http://127.0.0.1:PORT/data
//! assert_eq!(server.gets(), 0);
//! # let _ = url;
//! ```
//!
//! | where | what |
//! |---|---|
//! | [`Server`], [`Builder`] | start, stop, refuse and re-open connections, counts, log of requests, [`Server::wait_for`] |
//! | [`Object`], [`Body`] | what is served: bytes, the test pattern of any size, a file, a function of the offset |
//! | [`Reply`] | one answer and every way in which it can go wrong; the methods compose |
//! | [`Match`], [`get`], [`head`], [`path`], [`any`] | which requests a script is for |
//! | [`RequestInfo`] | what arrived: method, target and headers as on the wire, connection, time |
//! | [`Gate`] | holds replies until the test, or the n-th request, opens it |
//! | [`BlackHole`] | an address that never answers a connect |
//! | [`s3`] | checks signatures as S3 does |
//! | [`webhdfs`] | simulates a name node and a data node |
//! | [`knobs`] | the same misbehaviour as query parameters, and `/ctl/…`, for tests in other languages |
//!
//! Each connection has a thread with a small stack, so that thousands are affordable. Call
//! [`raise_open_file_limit`] first in a test that needs more than about 500 connections: both ends are in one process.
//!
//! A test whose process forks should use the program (`raskio-testserver --help`) instead: the child would hold on to the
//! server's sockets, and a reset happens only when the last holder closes.

mod black_hole;
mod body;
mod gate;
pub mod knobs;
mod plan;
mod reply;
mod request;
pub mod s3;
mod script;
mod send;
mod server;
mod watch;
pub mod webhdfs;

pub use black_hole::BlackHole;
pub use body::{Body, Object, pattern, pattern_at, pattern_crc32};
pub use gate::Gate;
pub use reply::Reply;
pub use request::{ByteRange, RequestInfo};
pub use s3::S3Account;
pub use script::{Match, any, get, head, path};
pub use server::{Builder, Server};
pub use watch::Counts;
pub use webhdfs::WebHdfs;

/// Raises the soft limit of open files to the hard one and returns it.
pub fn raise_open_file_limit() -> u64 {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        // Where it is refused the old limit stays, and is what the caller is told.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    }
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}
