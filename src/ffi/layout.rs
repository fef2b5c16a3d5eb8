//! The layout of every public struct, in numbers: a change here breaks programs that are already compiled.
//!
//! New fields go to the tail and add lines; an existing line never changes. `tests_c/layout.c` says the same in C.

use super::batch::{raskio_batch_options, raskio_read_spec};
use super::client::raskio_client_options;
use super::events::raskio_event;
use super::log::raskio_log_record;
use super::object::{raskio_object_info, raskio_object_options};
use super::op::{raskio_item_result, raskio_read_options, raskio_result};
use super::secrets::{raskio_bearer, raskio_credentials};
use super::stats::raskio_stats;
use super::table::raskio_api;
use std::mem::offset_of;

macro_rules! layout {
    ($($name:ident: $size:literal { $($field:ident @ $offset:literal),* $(,)? })*) => {
        #[cfg(target_pointer_width = "64")]
        const _: () = {
            $(
                assert!(size_of::<$name>() == $size, concat!("size of ", stringify!($name)));
                $(assert!(offset_of!($name, $field) == $offset, concat!(stringify!($name), ".", stringify!($field)));)*
            )*
        };
    };
}

layout! {
    raskio_credentials: 40 {
        struct_size @ 0,
        access_key_id @ 8,
        secret_access_key @ 16,
        session_token @ 24,
        expires_unix_s @ 32,
    }
    raskio_bearer: 32 {
        struct_size @ 0,
        origin @ 8,
        token @ 16,
        expires_unix_s @ 24,
    }
    raskio_client_options: 168 {
        struct_size @ 0,
        backend @ 8,
        reactor_dispatch @ 12,
        num_reactors @ 16,
        num_threads @ 20,
        max_concurrent_requests @ 24,
        max_attempts @ 28,
        task_size @ 32,
        connect_timeout_ms @ 40,
        stall_timeout_ms @ 44,
        request_timeout_ms @ 48,
        callback_threads @ 52,
        retry_status @ 56,
        retry_status_count @ 64,
        bounce_buffer_size @ 72,
        max_pinned_bytes @ 80,
        pinned_alloc @ 88,
        pinned_free @ 96,
        local_backend @ 104,
        uring_queue_depth @ 108,
        uring_sqpoll_idle_ms @ 112,
        concurrency @ 116,
        credentials @ 120,
        on_shut_down @ 128,
        user_data @ 136,
        max_free_events @ 144,
        hedging @ 148,
        bearer @ 152,
        on_event @ 160,
    }
    raskio_event: 128 {
        struct_size @ 0,
        kind @ 8,
        status @ 12,
        http_status @ 16,
        attempt @ 20,
        max_attempts @ 24,
        wait_ms @ 28,
        connections @ 32,
        name_lookup_ns @ 40,
        connect_ns @ 48,
        tls_ns @ 56,
        op_number @ 64,
        object @ 72,
        offset @ 80,
        size @ 88,
        bytes @ 96,
        queued_ns @ 104,
        took_ns @ 112,
        op_kind @ 120,
        attempts @ 124,
    }
    raskio_stats: 440 {
        struct_size @ 0,
        ops_started @ 8,
        ops_finished @ 16,
        ops_cancelled @ 24,
        requests_started @ 32,
        requests_finished @ 40,
        requests_retried @ 48,
        requests_failed @ 56,
        requests_in_flight @ 64,
        requests_queued @ 72,
        bytes_received @ 80,
        bytes_staged @ 88,
        connections_opened @ 96,
        connections_reused @ 104,
        bounce_buffers_total @ 112,
        bounce_buffers_in_use @ 120,
        bounce_buffer_waits @ 128,
        pinned_bytes @ 136,
        events_free @ 144,
        events_total @ 152,
        reactors_replaced @ 160,
        handles_leaked @ 168,
        requests_hedged @ 176,
        retries_after_status @ 184,
        retries_after_timeout @ 192,
        retries_after_connection @ 200,
        retries_after_short_body @ 208,
        retries_after_other @ 216,
        permit_waits @ 224,
        request_limit @ 232,
        name_lookup_us @ 240,
        connect_us @ 248,
        tls_us @ 256,
        wait_us @ 264,
        body_us @ 272,
        op_p50_us @ 280,
        op_p90_us @ 288,
        op_p99_us @ 296,
        op_p999_us @ 304,
        op_max_us @ 312,
        request_p50_us @ 320,
        request_p90_us @ 328,
        request_p99_us @ 336,
        request_p999_us @ 344,
        request_max_us @ 352,
        first_byte_p50_us @ 360,
        first_byte_p90_us @ 368,
        first_byte_p99_us @ 376,
        first_byte_p999_us @ 384,
        first_byte_max_us @ 392,
        file_bytes_read @ 400,
        file_bytes_read_direct @ 408,
        file_bytes_written @ 416,
        file_bytes_written_direct @ 424,
        file_bytes_uring @ 432,
    }
    raskio_read_options: 40 {
        struct_size @ 0,
        memory @ 8,
        flags @ 12,
        task_size @ 16,
        deadline_ms @ 24,
        reserved0 @ 28,
        stream @ 32,
    }
    raskio_item_result: 32 {
        status @ 0,
        attempts @ 4,
        bytes @ 8,
        error @ 16,
        offset @ 24,
    }
    raskio_result: 64 {
        struct_size @ 0,
        status @ 8,
        attempts @ 12,
        bytes @ 16,
        offset @ 24,
        error @ 32,
        items @ 40,
        item_count @ 48,
        item_size @ 56,
    }
    raskio_object_options: 152 {
        struct_size @ 0,
        endpoint @ 8,
        flags @ 12,
        size @ 16,
        region @ 24,
        endpoint_url @ 32,
        access_key_id @ 40,
        secret_access_key @ 48,
        session_token @ 56,
        user_name @ 64,
        ca_file @ 72,
        headers @ 80,
        header_count @ 88,
        allowed_endpoints @ 96,
        reserved0 @ 100,
        bearer_token @ 104,
        client_certificate @ 112,
        client_key @ 120,
        client_key_password @ 128,
        proxy @ 136,
        unix_socket @ 144,
    }
    raskio_object_info: 32 {
        struct_size @ 0,
        endpoint @ 8,
        reserved0 @ 12,
        size @ 16,
        etag @ 24,
    }
    raskio_read_spec: 48 {
        object @ 0,
        offset @ 8,
        data @ 16,
        size @ 24,
        user_data @ 32,
        flags @ 40,
        reserved0 @ 44,
    }
    raskio_batch_options: 40 {
        struct_size @ 0,
        coalesce_gap @ 8,
        coalesce_max @ 16,
        read @ 24,
        item_done @ 32,
    }
    raskio_log_record: 48 {
        struct_size @ 0,
        level @ 8,
        line @ 12,
        target @ 16,
        target_size @ 24,
        message @ 32,
        message_size @ 40,
    }
    raskio_api: 312 {
        struct_size @ 0,
        abi_major @ 8,
        abi_minor @ 12,
        version @ 16,
        abi_version @ 24,
        client_new @ 32,
        client_default @ 40,
        client_acquire @ 48,
        client_release @ 56,
        client_shut_down @ 64,
        client_trim @ 72,
        client_stats @ 80,
        endpoint_infer @ 88,
        object_open @ 96,
        object_acquire @ 104,
        object_release @ 112,
        object_stat @ 120,
        object_stat_sync @ 128,
        object_info_get @ 136,
        object_size @ 144,
        object_drop_cache @ 152,
        read @ 160,
        read_sync @ 168,
        read_batch @ 176,
        write @ 184,
        op_acquire @ 192,
        op_cancel @ 200,
        op_wait @ 208,
        op_release @ 216,
        status_name @ 224,
        error_status @ 232,
        error_message @ 240,
        error_http_status @ 248,
        error_os_code @ 256,
        error_clone @ 264,
        error_free @ 272,
        set_log_hook @ 280,
        process_stats @ 288,
        stats_text @ 296,
        last_fault @ 304,
    }
}
