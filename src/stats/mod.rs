//! Statistics: relaxed counters and histograms written where things happen, read as one snapshot.
//!
//! | file | what |
//! |---|---|
//! | [`histogram`] | how long things took |
//! | [`process`] | all clients of the process together, and its last fault |
//! | [`text`] | as JSON, and as Prometheus reads it |

pub mod histogram;
pub mod process;
pub mod text;

use crate::events::Observer;
use histogram::{Distribution, Histogram};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// How a number changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It only grows: the difference between two readings is what happened between them.
    Counter,
    /// As a counter, in microseconds.
    Microseconds,
    /// It is what is there now.
    Gauge,
}

macro_rules! numbers {
    ($($kind:ident $name:ident $help:literal,)*) => {
        /// The live numbers of one client.
        #[derive(Debug, Default)]
        pub struct Stats {
            $(#[doc = $help] pub $name: AtomicU64,)*
            /// From the start of an operation to its callback.
            pub op_latency: Histogram,
            /// From the start of an attempt that brought all that was missing to its end.
            pub request_latency: Histogram,
            /// From the start of an attempt to the first byte of the answer.
            pub first_byte_latency: Histogram,
            /// Who is told of what numbers do not tell.
            pub observer: Observer,
        }

        /// What the numbers were at one moment.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Snapshot { $(#[doc = $help] pub $name: u64,)* }

        impl Stats {
            /// Reads every number. Each is exact; together they are a moment's blur while operations run.
            pub fn snapshot(&self) -> Snapshot {
                Snapshot { $($name: self.$name.load(Relaxed)),* }
            }
        }

        impl Snapshot {
            /// Name, kind, meaning and value of each number, in order.
            pub fn numbers(&self) -> Vec<(&'static str, Kind, &'static str, u64)> {
                vec![$((stringify!($name), Kind::$kind, $help, self.$name)),*]
            }

            /// Adds what `other` counted; of what is there now, `gauges` says whether it counts too.
            pub fn add(&mut self, other: &Snapshot, gauges: bool) {
                $(if gauges || Kind::$kind != Kind::Gauge {
                    self.$name = self.$name.wrapping_add(other.$name);
                })*
            }
        }
    };
}

numbers! {
    Counter ops_started "Operations accepted.",
    Counter ops_finished "Operations whose callback has begun.",
    Counter ops_cancelled "Of these, the ones that ended as CANCELLED.",
    Counter requests_started "Requests handed to a transport.",
    Counter requests_finished "Requests that ended, well or not.",
    Counter requests_retried "Attempts after the first.",
    Counter requests_failed "Requests that ended with an error.",
    Gauge requests_in_flight "Requests that a transport is working on now.",
    Gauge requests_queued "Requests that wait for a permit, for a buffer or for their next attempt.",
    Counter bytes_received "Body bytes received, those of failed attempts included.",
    Counter bytes_staged "Bytes copied to device memory, or from it to be written.",
    Counter connections_opened "Connections opened.",
    Counter connections_reused "Attempts that found an open connection.",
    Gauge bounce_buffers_total "Pinned buffers that exist.",
    Gauge bounce_buffers_in_use "Pinned buffers in use.",
    Counter bounce_buffer_waits "Times a request waited for a pinned buffer.",
    Gauge pinned_bytes "Bytes pinned.",
    Gauge events_free "CUDA events that are kept for later.",
    Gauge events_total "CUDA events that exist.",
    Counter reactors_replaced "Reactors that failed and were replaced.",
    Counter handles_leaked "libcurl handles that could not be taken back and were given up.",
    Counter requests_hedged "Requests that were sent because another was late; each is a request of its own as well.",
    Counter retries_after_status "Attempts made because the server was busy: a status worth a retry.",
    Counter retries_after_timeout "Attempts made because the one before took too long.",
    Counter retries_after_connection "Attempts made because the connection, its TLS or the name look-up failed.",
    Counter retries_after_short_body "Attempts made because the body ended too early.",
    Counter retries_after_other "Attempts made for any other reason.",
    Counter permit_waits "Times a reactor had a request and waited for the right to send it.",
    Gauge request_limit "Requests that may be in flight now: what the adaptive limit has found, or the fixed one; 0 without one.",
    Microseconds name_lookup_us "Time in name look-ups.",
    Microseconds connect_us "Time in making connections, after the look-up.",
    Microseconds tls_us "Time in TLS handshakes.",
    Microseconds wait_us "Time from a request's being sent to the first byte of its answer.",
    Microseconds body_us "Time from the first byte of answers to their last.",
    Counter file_bytes_read "Bytes read of local files.",
    Counter file_bytes_read_direct "Of these, those that went past the system's cache.",
    Counter file_bytes_written "Bytes written to local files.",
    Counter file_bytes_written_direct "Of these, those that went past the system's cache.",
    Counter file_bytes_uring "Bytes of local files that io_uring moved; pread and pwrite moved the others.",
}

/// How long things took.
#[derive(Clone, Debug, Default)]
pub struct Latencies {
    /// From the start of an operation to its callback.
    pub op: Distribution,
    /// From the start of an attempt that brought all that was missing to its end.
    pub request: Distribution,
    /// From the start of an attempt to the first byte of the answer.
    pub first_byte: Distribution,
}

impl Stats {
    /// Of a client, counted into the process's.
    pub fn of_client() -> Arc<Stats> {
        process::register()
    }

    /// Reads the histograms.
    pub fn latencies(&self) -> Latencies {
        Latencies {
            op: self.op_latency.read(),
            request: self.request_latency.read(),
            first_byte: self.first_byte_latency.read(),
        }
    }
}

impl Latencies {
    /// Adds what `other` counted.
    pub fn add(&mut self, other: &Latencies) {
        self.op.add(&other.op);
        self.request.add(&other.request);
        self.first_byte.add(&other.first_byte);
    }
}

/// Adds `n`.
pub fn add(counter: &AtomicU64, n: u64) {
    counter.fetch_add(n, Relaxed);
}

/// Takes `n` away again.
pub fn sub(counter: &AtomicU64, n: u64) {
    counter.fetch_sub(n, Relaxed);
}
