//! Statistics
//!
//! Always on: counting costs a request some 100 ns. For people, and for what scrapes them, there is text.

use super::options::{self, Versioned};
use super::status::raskio_status;
use super::{bare_status, handle, value};
use crate::error::Error;
use crate::stats::{Latencies, Snapshot, process, text};
use std::ffi::c_char;

pub use super::handle::raskio_client;

/// One JSON object: every member of raskio_stats under its name, latencies as objects, last_fault as text or null.
pub const RASKIO_STATS_JSON: u32 = 1;
/// What Prometheus scrapes: its text format 0.0.4, names begin with raskio_, times are in seconds, latencies are histograms.
pub const RASKIO_STATS_PROMETHEUS: u32 = 2;

/// Numbers of one client since it was made, or of the whole process. Each is exact; together they are a moment's blur while
/// work is going on. What counts only grows: the difference of two readings is what happened between them. "Now" marks
/// what goes up and down.
/// struct_size is an input: at most so many bytes are written, and counters that an older library does not have are
/// 0.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct raskio_stats {
    /// sizeof(raskio_stats), set by the caller.
    pub struct_size: usize,
    /// Operations accepted.
    pub ops_started: u64,
    /// Operations whose callback has begun.
    pub ops_finished: u64,
    /// Of these, the ones that ended as CANCELLED.
    pub ops_cancelled: u64,
    /// Requests handed to a transport.
    pub requests_started: u64,
    /// Requests that ended, well or not.
    pub requests_finished: u64,
    /// Attempts after the first.
    pub requests_retried: u64,
    /// Requests that ended with an error.
    pub requests_failed: u64,
    /// Requests that are being worked on now.
    pub requests_in_flight: u64,
    /// Requests that wait now: for their turn, or for their next attempt.
    pub requests_queued: u64,
    /// Body bytes received, those of failed attempts included. Local files are counted in file_bytes_read.
    pub bytes_received: u64,
    /// Bytes copied to device memory, or from it to be written.
    pub bytes_staged: u64,
    /// Connections opened.
    pub connections_opened: u64,
    /// Attempts that found an open connection.
    pub connections_reused: u64,
    /// Pinned buffers that exist now.
    pub bounce_buffers_total: u64,
    /// Pinned buffers in use now.
    pub bounce_buffers_in_use: u64,
    /// Times a request waited for a pinned buffer.
    pub bounce_buffer_waits: u64,
    /// Bytes pinned now.
    pub pinned_bytes: u64,
    /// CUDA events that are free now.
    pub events_free: u64,
    /// CUDA events that exist now.
    pub events_total: u64,
    /// Reactors that failed and were replaced.
    pub reactors_replaced: u64,
    /// libcurl handles that could not be taken back and were given up.
    pub handles_leaked: u64,
    /// Requests that were sent because another was late (RASKIO_HEDGING_ON). They count as requests too.
    pub requests_hedged: u64,
    /// Of the attempts after the first, those made because the server was busy: a status worth a retry.
    pub retries_after_status: u64,
    /// Those made because the one before took too long.
    pub retries_after_timeout: u64,
    /// Those made because the connection, its TLS or the name look-up failed.
    pub retries_after_connection: u64,
    /// Those made because the body ended too early.
    pub retries_after_short_body: u64,
    /// Those made for any other reason.
    pub retries_after_other: u64,
    /// Times a reactor had a request and waited for the right to send it: max_concurrent_requests were in flight, or as many
    /// as bring bytes.
    pub permit_waits: u64,
    /// Requests that may be in flight now: what RASKIO_CONCURRENCY_ADAPTIVE has found, or the fixed number. 0: nothing was read
    /// yet, or EASY_THREADPOOL.
    pub request_limit: u64,
    /// Microseconds in name look-ups, over all attempts.
    pub name_lookup_us: u64,
    /// Microseconds in making connections, after the look-up.
    pub connect_us: u64,
    /// Microseconds in TLS handshakes.
    pub tls_us: u64,
    /// Microseconds from a request's being sent to the first byte of its answer.
    pub wait_us: u64,
    /// Microseconds from the first byte of answers to their last.
    pub body_us: u64,
    /// Microseconds that an operation took, from its start to its callback, at most, in half cases: right within 3.2 %.
    pub op_p50_us: u64,
    /// Microseconds that an operation took, from its start to its callback, at most, in 9 of 10 cases: right within 3.2 %.
    pub op_p90_us: u64,
    /// Microseconds that an operation took, from its start to its callback, at most, in 99 of 100 cases: right within 3.2 %.
    pub op_p99_us: u64,
    /// Microseconds that an operation took, from its start to its callback, at most, in 999 of 1000 cases: right within 3.2 %.
    pub op_p999_us: u64,
    /// The most.
    pub op_max_us: u64,
    /// Microseconds that an attempt took that brought all that was missing, at most, in half cases: right within 3.2 %.
    pub request_p50_us: u64,
    /// Microseconds that an attempt took that brought all that was missing, at most, in 9 of 10 cases: right within 3.2 %.
    pub request_p90_us: u64,
    /// Microseconds that an attempt took that brought all that was missing, at most, in 99 of 100 cases: right within 3.2 %.
    pub request_p99_us: u64,
    /// Microseconds that an attempt took that brought all that was missing, at most, in 999 of 1000 cases: right within 3.2 %.
    pub request_p999_us: u64,
    /// The most.
    pub request_max_us: u64,
    /// Microseconds that an attempt waited for the first byte of its answer, at most, in half cases: right within 3.2 %.
    pub first_byte_p50_us: u64,
    /// Microseconds that an attempt waited for the first byte of its answer, at most, in 9 of 10 cases: right within 3.2 %.
    pub first_byte_p90_us: u64,
    /// Microseconds that an attempt waited for the first byte of its answer, at most, in 99 of 100 cases: right within 3.2 %.
    pub first_byte_p99_us: u64,
    /// Microseconds that an attempt waited for the first byte of its answer, at most, in 999 of 1000 cases: right within 3.2 %.
    pub first_byte_p999_us: u64,
    /// The most.
    pub first_byte_max_us: u64,
    /// Bytes read of local files, those between the ranges of a batch that share a request included.
    pub file_bytes_read: u64,
    /// Of these, those that went past the system's cache (O_DIRECT).
    pub file_bytes_read_direct: u64,
    /// Bytes written to local files.
    pub file_bytes_written: u64,
    /// Of these, those that went past the system's cache.
    pub file_bytes_written_direct: u64,
    /// Bytes of local files, read or written, that io_uring moved; pread and pwrite moved the others.
    pub file_bytes_uring: u64,
}

// SAFETY: repr(C), struct_size first, integers of 8 bytes each, so no padding.
unsafe impl Versioned for raskio_stats {
    const NAME: &'static str = "raskio_stats";
    const VERSION_1: usize = 176;
}

/// Reads the numbers of a client. Any thread, callbacks included; never blocks.
///
/// stats_out: struct_size is read, at most so many bytes are written.
///
/// INVALID_ARGUMENT: a NULL, or a struct_size that cannot be one. FORKED.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn raskio_client_stats(
    client: *const raskio_client,
    stats_out: *mut raskio_stats,
) -> raskio_status {
    bare_status(|| {
        // SAFETY: the C contract: NULL or valid, and stats_out holds struct_size bytes.
        unsafe {
            let client = handle::get(client, "client")?;
            options::write(stats_out, "stats_out", &raskio_stats::new(&client.stats(), &client.latencies()))
        }
    })
}

/// Reads the sums over all clients of the process, those that are gone included; a forked child begins with nothing. Of what
/// is there now, only what the living clients have. Any thread, callbacks included; never blocks for long.
///
/// stats_out: as for raskio_client_stats.
///
/// INVALID_ARGUMENT: as for raskio_client_stats.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn raskio_process_stats(stats_out: *mut raskio_stats) -> raskio_status {
    bare_status(|| {
        let (numbers, latencies) = process::read();
        // SAFETY: the C contract: NULL, or stats_out holds struct_size bytes.
        unsafe { options::write(stats_out, "stats_out", &raskio_stats::new(&numbers, &latencies)) }
    })
}

/// Writes the numbers as text, as snprintf does: at most room bytes, the NUL that ends them included. Returns the length of
/// the whole text without the NUL, so that text of at least room bytes was cut off; 0 on failure: an unknown format, a client of a
/// parent process. Any thread, callbacks included; never blocks for long.
///
/// client: whose numbers; NULL: the sums of the process, as raskio_process_stats.
/// format: RASKIO_STATS_*.
/// text: may be NULL if room is 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn raskio_stats_text(
    client: *const raskio_client,
    format: u32,
    text: *mut c_char,
    room: usize,
) -> usize {
    value(0, || {
        let (numbers, latencies) = if client.is_null() {
            process::read()
        } else {
            // SAFETY: a client that the caller holds.
            let client = unsafe { handle::get(client, "client") }?;
            (client.stats(), client.latencies())
        };
        let words = match format {
            RASKIO_STATS_JSON => text::json(&numbers, &latencies, process::last_fault().as_deref()),
            RASKIO_STATS_PROMETHEUS => text::prometheus(&numbers, &latencies),
            _ => return Err(Error::invalid(format!("format is {format}; it must be one of RASKIO_STATS_*"))),
        };
        // SAFETY: the C contract: room writable bytes.
        Ok(unsafe { put(&words, text, room) })
    })
}

/// The last fault inside RaskIO that was contained (a reactor that had to be replaced, a libcurl handle that had to be given
/// up), written as by raskio_stats_text. Returns 0 if there was none in this process.
///
/// text: may be NULL if room is 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn raskio_last_fault(text: *mut c_char, room: usize) -> usize {
    value(0, || {
        let words = process::last_fault().unwrap_or_default();
        // SAFETY: the C contract: room writable bytes.
        Ok(unsafe { put(&words, text, room) })
    })
}

/// Copies what there is room for, with a NUL behind it. Returns the whole length.
///
/// # Safety
/// `room` bytes at `to` can be written.
unsafe fn put(words: &str, to: *mut c_char, room: usize) -> usize {
    if !to.is_null() && room > 0 {
        let n = words.len().min(room - 1);
        // SAFETY: n + 1 bytes are within the room.
        unsafe {
            std::ptr::copy_nonoverlapping(words.as_ptr().cast::<c_char>(), to, n);
            to.add(n).write(0);
        }
    }
    words.len()
}

impl raskio_stats {
    fn new(now: &Snapshot, took: &Latencies) -> raskio_stats {
        raskio_stats {
            struct_size: size_of::<raskio_stats>(),
            ops_started: now.ops_started,
            ops_finished: now.ops_finished,
            ops_cancelled: now.ops_cancelled,
            requests_started: now.requests_started,
            requests_finished: now.requests_finished,
            requests_retried: now.requests_retried,
            requests_failed: now.requests_failed,
            requests_in_flight: now.requests_in_flight,
            requests_queued: now.requests_queued,
            bytes_received: now.bytes_received,
            bytes_staged: now.bytes_staged,
            connections_opened: now.connections_opened,
            connections_reused: now.connections_reused,
            bounce_buffers_total: now.bounce_buffers_total,
            bounce_buffers_in_use: now.bounce_buffers_in_use,
            bounce_buffer_waits: now.bounce_buffer_waits,
            pinned_bytes: now.pinned_bytes,
            events_free: now.events_free,
            events_total: now.events_total,
            reactors_replaced: now.reactors_replaced,
            handles_leaked: now.handles_leaked,
            requests_hedged: now.requests_hedged,
            retries_after_status: now.retries_after_status,
            retries_after_timeout: now.retries_after_timeout,
            retries_after_connection: now.retries_after_connection,
            retries_after_short_body: now.retries_after_short_body,
            retries_after_other: now.retries_after_other,
            permit_waits: now.permit_waits,
            request_limit: now.request_limit,
            name_lookup_us: now.name_lookup_us,
            connect_us: now.connect_us,
            tls_us: now.tls_us,
            wait_us: now.wait_us,
            body_us: now.body_us,
            op_p50_us: took.op.quantile(0.5),
            op_p90_us: took.op.quantile(0.9),
            op_p99_us: took.op.quantile(0.99),
            op_p999_us: took.op.quantile(0.999),
            op_max_us: took.op.max_us,
            request_p50_us: took.request.quantile(0.5),
            request_p90_us: took.request.quantile(0.9),
            request_p99_us: took.request.quantile(0.99),
            request_p999_us: took.request.quantile(0.999),
            request_max_us: took.request.max_us,
            first_byte_p50_us: took.first_byte.quantile(0.5),
            first_byte_p90_us: took.first_byte.quantile(0.9),
            first_byte_p99_us: took.first_byte.quantile(0.99),
            first_byte_p999_us: took.first_byte.quantile(0.999),
            first_byte_max_us: took.first_byte.max_us,
            file_bytes_read: now.file_bytes_read,
            file_bytes_read_direct: now.file_bytes_read_direct,
            file_bytes_written: now.file_bytes_written,
            file_bytes_written_direct: now.file_bytes_written_direct,
            file_bytes_uring: now.file_bytes_uring,
        }
    }
}
