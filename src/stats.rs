//! Counters: relaxed atomics written where things happen, read as one snapshot.

use crate::events::Observer;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// The live counters of one client.
        #[derive(Debug, Default)]
        pub struct Stats {
            $($(#[$doc])* pub $name: AtomicU64,)*
            /// Who is told of what counters do not tell.
            pub observer: Observer,
        }

        /// What the counters said at one moment.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Snapshot { $($(#[$doc])* pub $name: u64),* }

        impl Stats {
            /// Reads every counter. Each is exact; together they are a moment's blur while operations run.
            pub fn snapshot(&self) -> Snapshot {
                Snapshot { $($name: self.$name.load(Relaxed)),* }
            }
        }
    };
}

counters! {
    /// Operations accepted.
    ops_started,
    /// Operations whose callback has begun.
    ops_finished,
    /// Of these, the ones that ended as CANCELLED.
    ops_cancelled,
    /// Requests handed to a transport.
    requests_started,
    /// Requests that ended, well or not.
    requests_finished,
    /// Attempts after the first.
    requests_retried,
    /// Requests that ended with an error.
    requests_failed,
    /// Requests that a transport is working on now: a permit is held.
    requests_in_flight,
    /// Requests that wait for a permit or for their next attempt.
    requests_queued,
    /// Body bytes received, those of failed attempts included.
    bytes_received,
    /// Bytes copied to device memory.
    bytes_staged,
    /// Connections opened.
    connections_opened,
    /// Attempts that found an open connection.
    connections_reused,
    /// Bounce buffers that exist.
    bounce_buffers_total,
    /// Bounce buffers in use.
    bounce_buffers_in_use,
    /// Times a request waited for a bounce buffer.
    bounce_buffer_waits,
    /// Bytes pinned.
    pinned_bytes,
    /// CUDA events that are free.
    events_free,
    /// CUDA events that exist.
    events_total,
    /// Reactors that failed and were replaced.
    reactors_replaced,
    /// libcurl handles that could not be taken back and were given up.
    handles_leaked,
}

/// Adds `n`.
pub fn add(counter: &AtomicU64, n: u64) {
    counter.fetch_add(n, Relaxed);
}

/// Takes `n` away again.
pub fn sub(counter: &AtomicU64, n: u64) {
    counter.fetch_sub(n, Relaxed);
}
