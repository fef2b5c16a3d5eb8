/* RaskIO: ranged reads of HTTP, S3 and WebHDFS objects and of local files into host or CUDA memory.
 *
 * This header is the specification of the C API. It is generated from src/ffi; do not edit it.
 * SPDX-License-Identifier: Apache-2.0
 *
 * THE CONTRACT
 *
 * Threads. Any function may be called from any thread, and handles may be shared between threads. Only the last
 * release of a handle must not race another use of it.
 *
 * Callbacks run on a RaskIO thread (or on one of the client's callback_threads), never inside the call that started
 * them, once for each accepted operation, with no lock held. Inside a callback everything is allowed except the
 * blocking calls, which return RASKIO_ERR_WOULD_DEADLOCK: raskio_client_shut_down, raskio_object_stat_sync,
 * raskio_read_sync, raskio_op_wait. Be brief: other transfers may wait for you. Do not throw.
 *
 * Buffers and user data are RaskIO's from the moment an operation is accepted until its callback begins, also after a
 * cancel. RaskIO writes nothing outside the buffer, and nothing into it once the callback has begun.
 *
 * Release never blocks and never cancels: running operations keep their object and their client alive.
 * Shutdown is bounded: it returns RASKIO_ERR_TIMED_OUT when its time is over, and even then no callback comes while
 * the kernel may still write the buffer.
 *
 * Outputs are written only on success, except the error output: it receives NULL when the call begins and an error
 * object if the call fails. An operation output is written before the work is submitted, so a callback may use it. No
 * output is touched once the work is submitted. Optional outputs may be NULL.
 *
 * Strings are UTF-8 and end with NUL. Strings and options are copied before the call returns. NULL for a required
 * pointer gives RASKIO_ERR_INVALID_ARGUMENT; functions that release or free accept NULL.
 *
 * Option structs grow at their tail. Zero the struct, set struct_size to its sizeof, then set what you want: zero is
 * the default of every field. A struct_size smaller than the first version gives RASKIO_ERR_INVALID_ARGUMENT; a larger
 * one than the library knows is accepted while the unknown tail is zero, and gives RASKIO_ERR_UNSUPPORTED otherwise,
 * so that an older library never silently drops a newer option.
 *
 * Errors. A status names the cause; the optional error object carries a message, the HTTP status and errno. Secrets
 * (keys, tokens, signatures, queries of URLs) appear in no error, log or counter.
 *
 * After fork, a child that inherited handles gets RASKIO_ERR_FORKED from every call with them, at once and without
 * taking a lock; release does nothing there, and functions that return no status do nothing. Error objects still work.
 * A new client, also the default one, works in the child.
 *
 * When the process exits with operations running, RaskIO's threads stop and no callback begins any more: the host may
 * be half gone by then. Call raskio_client_shut_down first if every callback must come.
 *
 * A bug in RaskIO that panics is reported as RASKIO_ERR_INTERNAL; it neither ends the process nor unwinds into yours.
 * RaskIO's threads block all signals. The library is never unloaded, also after dlclose. */
#ifndef RASKIO_H
#define RASKIO_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#  define RASKIO_EXPORT __attribute__((visibility("default")))
#else
#  define RASKIO_EXPORT
#endif

#ifdef __cplusplus
#  define RASKIO_NOEXCEPT noexcept
extern "C" {
#else
#  define RASKIO_NOEXCEPT
#endif

/* ---- Versions ----------------------------------------------------------------------------------------------------- *
 *
 * The ABI version grows its minor number when something is added, and its major number when a program compiled
 * against the old header would break. While the major number is 0, RaskIO 0.x keeps the SONAME libraskio.so.0 and
 * only adds. */

#define RASKIO_ABI_MAJOR 0u /**< The ABI that this header describes. */
#define RASKIO_ABI_MINOR 1u /**< A library whose raskio_abi_version() has less is older than this header. */

/**
 * The version of the library that was loaded, as "major.minor.patch". Static: never free it.
 * Any thread; never blocks; never fails.
 */
RASKIO_EXPORT const char *raskio_version(void) RASKIO_NOEXCEPT;

/**
 * The ABI of the library that was loaded: major << 16 | minor.
 * Any thread; never blocks; never fails.
 */
RASKIO_EXPORT uint32_t raskio_abi_version(void) RASKIO_NOEXCEPT;

/* ---- Status ------------------------------------------------------------------------------------------------------- *
 *
 * One integer that names the cause, so that a program can branch on it. New numbers may be added; treat one that you
 * do not know as a failure. What the server, the system and libcurl report becomes a status by this table; HTTP
 * status and errno stay readable in the error object. "HTTP" means a status that is not the one asked for.
 *
 *     HTTP     401 403                            RASKIO_ERR_PERMISSION_DENIED
 *     HTTP     404 410                            RASKIO_ERR_NOT_FOUND
 *     HTTP     408                                RASKIO_ERR_TIMED_OUT
 *     HTTP     412                                RASKIO_ERR_OBJECT_CHANGED
 *     HTTP     416                                RASKIO_ERR_RANGE
 *     HTTP     429 500-599                        RASKIO_ERR_UNAVAILABLE
 *     HTTP     other                              RASKIO_ERR_HTTP
 *     errno    ENOENT ENOTDIR                     RASKIO_ERR_NOT_FOUND
 *     errno    EACCES EPERM EROFS                 RASKIO_ERR_PERMISSION_DENIED
 *     errno    ENOMEM                             RASKIO_ERR_OUT_OF_MEMORY
 *     errno    ETIMEDOUT                          RASKIO_ERR_TIMED_OUT
 *     errno    ECONNREFUSED ECONNRESET            RASKIO_ERR_CONNECTION
 *     errno    ECONNABORTED EPIPE EHOSTUNREACH    RASKIO_ERR_CONNECTION
 *     errno    ENETUNREACH ENETDOWN               RASKIO_ERR_CONNECTION
 *     errno    EINVAL EISDIR ENAMETOOLONG         RASKIO_ERR_INVALID_ARGUMENT
 *     errno    ENOSYS EOPNOTSUPP                  RASKIO_ERR_UNSUPPORTED
 *     errno    other                              RASKIO_ERR_IO
 *     CURLcode UNSUPPORTED_PROTOCOL NOT_BUILT_IN  RASKIO_ERR_UNSUPPORTED
 *     CURLcode URL_MALFORMAT                      RASKIO_ERR_INVALID_ARGUMENT
 *     CURLcode COULDNT_RESOLVE_PROXY              RASKIO_ERR_CONNECTION
 *     CURLcode COULDNT_RESOLVE_HOST               RASKIO_ERR_CONNECTION
 *     CURLcode COULDNT_CONNECT WEIRD_SERVER_REPLY RASKIO_ERR_CONNECTION
 *     CURLcode PARTIAL_FILE GOT_NOTHING           RASKIO_ERR_CONNECTION
 *     CURLcode SEND_ERROR RECV_ERROR PROXY        RASKIO_ERR_CONNECTION
 *     CURLcode OUT_OF_MEMORY                      RASKIO_ERR_OUT_OF_MEMORY
 *     CURLcode OPERATION_TIMEDOUT                 RASKIO_ERR_TIMED_OUT
 *     CURLcode BAD_FUNCTION_ARGUMENT              RASKIO_ERR_TLS
 *     CURLcode SSL_CONNECT_ERROR SSL_CIPHER       RASKIO_ERR_TLS
 *     CURLcode SSL_ENGINE_NOTFOUND                RASKIO_ERR_TLS
 *     CURLcode SSL_ENGINE_SETFAILED               RASKIO_ERR_TLS
 *     CURLcode SSL_ENGINE_INITFAILED              RASKIO_ERR_TLS
 *     CURLcode SSL_CERTPROBLEM SSL_CLIENTCERT     RASKIO_ERR_TLS
 *     CURLcode PEER_FAILED_VERIFICATION           RASKIO_ERR_TLS
 *     CURLcode USE_SSL_FAILED SSL_CACERT_BADFILE  RASKIO_ERR_TLS
 *     CURLcode SSL_SHUTDOWN_FAILED                RASKIO_ERR_TLS
 *     CURLcode SSL_CRL_BADFILE SSL_ISSUER_ERROR   RASKIO_ERR_TLS
 *     CURLcode SSL_PINNEDPUBKEYNOTMATCH           RASKIO_ERR_TLS
 *     CURLcode SSL_INVALIDCERTSTATUS              RASKIO_ERR_TLS
 *     CURLcode other                              RASKIO_ERR_IO */

/** RASKIO_OK or RASKIO_ERR_*. */
typedef int32_t raskio_status;

#define RASKIO_OK                    ((raskio_status)0)  /**< Success. */
#define RASKIO_ERR_INVALID_ARGUMENT  ((raskio_status)1)  /**< It can never work: a NULL, a bad option, a bad range. */
#define RASKIO_ERR_UNSUPPORTED       ((raskio_status)2)  /**< This version, build or machine cannot do it. */
#define RASKIO_ERR_CANCELLED         ((raskio_status)3)  /**< raskio_op_cancel won the race. */
#define RASKIO_ERR_TIMED_OUT         ((raskio_status)4)  /**< A time limit ran out. */
#define RASKIO_ERR_NOT_FOUND         ((raskio_status)5)  /**< There is no such object. */
#define RASKIO_ERR_PERMISSION_DENIED ((raskio_status)6)  /**< The server or the system refused access. */
#define RASKIO_ERR_UNAVAILABLE       ((raskio_status)7)  /**< The server cannot answer now; attempts are used up. */
/** A range wrong, ignored (HTTP status 200), short, too far. */
#define RASKIO_ERR_RANGE             ((raskio_status)8)
#define RASKIO_ERR_IO                ((raskio_status)9)  /**< Any other failure of a file, a socket or the system. */
#define RASKIO_ERR_CUDA              ((raskio_status)10) /**< The CUDA driver reported a failure. */
#define RASKIO_ERR_OUT_OF_MEMORY     ((raskio_status)11) /**< Memory could not be had. */
#define RASKIO_ERR_SHUT_DOWN         ((raskio_status)12) /**< The client is shut down. */
#define RASKIO_ERR_WOULD_DEADLOCK    ((raskio_status)13) /**< A blocking call from inside a callback. */
#define RASKIO_ERR_FORKED            ((raskio_status)14) /**< The handle is one of this forked process's parent. */
#define RASKIO_ERR_INTERNAL          ((raskio_status)15) /**< A bug in RaskIO: a panic was caught. */
#define RASKIO_ERR_OBJECT_CHANGED    ((raskio_status)16) /**< The object is not the one of earlier replies any more. */
#define RASKIO_ERR_CONNECTION        ((raskio_status)17) /**< Name look-up failed; refused, reset or closed early. */
#define RASKIO_ERR_TLS               ((raskio_status)18) /**< The TLS handshake or the certificate check failed. */
#define RASKIO_ERR_HTTP              ((raskio_status)19) /**< Any other HTTP status. */

/**
 * The name of a status without its prefix, such as "OK" or "NOT_FOUND"; "unknown" for a number that this library
 * does not know. Static: never free it. Any thread; never blocks; never fails.
 */
RASKIO_EXPORT const char *raskio_status_name(raskio_status status) RASKIO_NOEXCEPT;

/* ---- Handles ------------------------------------------------------------------------------------------------------ *
 *
 * Opaque and reference-counted. Each function that returns a handle says who must give it back; the `acquire`
 * functions add a reference, the `release` functions give one back. NULL is accepted by both. */

/** Owns threads, connections, memory and limits. Make one for a whole program, or use raskio_client_default. */
typedef struct raskio_client raskio_client;

/** What went wrong: a status, a message, and the HTTP status or errno behind them. Immutable. */
typedef struct raskio_error raskio_error;

/** One remote object or local file, opened through a client, which it keeps alive. */
typedef struct raskio_object raskio_object;

/** One read, batch, write or stat. The work runs on without the handle; hold one to cancel or to wait. */
typedef struct raskio_op raskio_op;

/* ---- Error objects ------------------------------------------------------------------------------------------------ *
 *
 * Every function that can fail for more than one reason takes an optional `error_out`. Pass NULL to go without the
 * detail. Reading an error never blocks; all functions of this section work in a forked child too, and in callbacks. */

/** The cause to branch on, RASKIO_ERR_*. RASKIO_OK for NULL. */
RASKIO_EXPORT raskio_status raskio_error_status(const raskio_error *error) RASKIO_NOEXCEPT;

/**
 * What happened, to which object, and what can be done: UTF-8, one line, NUL-ended, free of secrets. Belongs to the
 * error object and lives as long as it. An empty string for NULL.
 */
RASKIO_EXPORT const char *raskio_error_message(const raskio_error *error) RASKIO_NOEXCEPT;

/** The HTTP status that caused the error, 0 if none did. */
RASKIO_EXPORT int32_t raskio_error_http_status(const raskio_error *error) RASKIO_NOEXCEPT;

/** The errno that caused the error, 0 if none did. */
RASKIO_EXPORT int32_t raskio_error_os_code(const raskio_error *error) RASKIO_NOEXCEPT;

/**
 * Keeps an error beyond the callback that lent it. The result must eventually be given to raskio_error_free.
 * NULL gives NULL.
 */
RASKIO_EXPORT raskio_error *raskio_error_clone(const raskio_error *error) RASKIO_NOEXCEPT;

/**
 * Frees an error that came from an `error_out` or from raskio_error_clone; never one that a callback was lent.
 * NULL is accepted.
 */
RASKIO_EXPORT void raskio_error_free(raskio_error *error) RASKIO_NOEXCEPT;

/* ---- Secrets from the host ---------------------------------------------------------------------------------------- *
 *
 * A program that has credentials of its own hands them over by callbacks, which are set in the options of a client.
 * They run on a RaskIO thread that does no other work, one at a time, and may block; the requests that need the
 * secret wait. What they hand over is kept, shared by all objects of the client, and asked for again shortly before
 * it expires, or once when a server refuses it as expired. Inside them the calls that wait return WOULD_DEADLOCK. */

/** Credentials for S3, filled by a raskio_credentials_fn. */
typedef struct raskio_credentials {
  /** Set by RaskIO: sizeof(raskio_credentials) as the library knows it. */
  size_t struct_size;
  /** UTF-8, NUL-ended. NULL, and secret_access_key too: there are none, and requests go out unsigned. */
  const char *access_key_id;
  /** UTF-8, NUL-ended. */
  const char *secret_access_key;
  /** UTF-8, NUL-ended. NULL: none. */
  const char *session_token;
  /**
   * Seconds since 1970-01-01 UTC. 0: they never expire. A time that is over is taken for a service that cannot renew
   * now: they are used for a minute, with a warning in the log.
   */
  int64_t expires_unix_s;
} raskio_credentials;

/**
 * Fills `out`, which is zero but for struct_size, when credentials are needed or about to expire; returns 0 if it
 * did. Any other number fails the requests that wait, with PERMISSION_DENIED and that number in the message. The
 * strings must stay as they are until the next call, or until the client's last callback, on_shut_down.
 */
typedef int32_t (*raskio_credentials_fn)(void *user_data, raskio_credentials *out);

/** A bearer token, filled by a raskio_bearer_fn. */
typedef struct raskio_bearer {
  /** Set by RaskIO: sizeof(raskio_bearer) as the library knows it. */
  size_t struct_size;
  /**
   * Set by RaskIO: the origin that the token is for and will be sent to, "https://host:port". Valid during the
   * call.
   */
  const char *origin;
  /** What stands behind "Authorization: Bearer ". UTF-8, NUL-ended, one word. */
  const char *token;
  /** Seconds since 1970-01-01 UTC. 0: it never expires. */
  int64_t expires_unix_s;
} raskio_bearer;

/**
 * As raskio_credentials_fn, for objects opened with RASKIO_OBJECT_BEARER_FROM_HOST: asked for each origin, again five minutes
 * before the token expires (in the last quarter of a shorter life), and once when a server answers 401.
 */
typedef int32_t (*raskio_bearer_fn)(void *user_data, raskio_bearer *out);

/* ---- Events ------------------------------------------------------------------------------------------------------- *
 *
 * What happens to operations and to their requests on the way, for a program that counts it or says it in its own words: set
 * on_event in the options of a client. The result of an operation does not depend on it.
 *
 * Of each operation STARTED is told when its first request is sent (at its end, if it sends none), and FINISHED before its
 * callback begins. So an operation that waits long for its turn is seen by queued_ns. */

#define RASKIO_EVENT_RETRY       1u /**< An attempt of a request failed, and there will be another one. */
#define RASKIO_EVENT_CONNECTED   2u /**< A request opened connections. */
#define RASKIO_EVENT_OP_STARTED  3u /**< The first request of an operation is sent. */
#define RASKIO_EVENT_OP_FINISHED 4u /**< An operation is over; its callback comes next. */

#define RASKIO_OP_STAT  1u /**< An operation that asks for the size. */
#define RASKIO_OP_READ  2u /**< An operation that reads one range. */
#define RASKIO_OP_BATCH 3u /**< A batch. */
#define RASKIO_OP_WRITE 4u /**< An operation that writes one range of a local file. */

/** One event. Valid during the callback only; what does not belong to its kind is 0. */
typedef struct raskio_event {
  /** sizeof(raskio_event) as the library knows it. */
  size_t struct_size;
  /** RASKIO_EVENT_*. More may be added: ignore what you do not know. */
  uint32_t kind;
  /** RETRY: why the attempt failed. OP_FINISHED: how the operation ended. */
  raskio_status status;
  /** RETRY, OP_FINISHED: the HTTP status behind that, 0 if none is. */
  uint32_t http_status;
  /** RETRY: how many attempts of this request have failed by now. */
  uint32_t attempt;
  /** RETRY: how many may fail without progress. */
  uint32_t max_attempts;
  /** RETRY: milliseconds until the next one. */
  uint32_t wait_ms;
  /** CONNECTED: how many were opened. */
  uint64_t connections;
  /** CONNECTED: nanoseconds for the look-up of the name. */
  uint64_t name_lookup_ns;
  /** CONNECTED: nanoseconds for connecting. */
  uint64_t connect_ns;
  /** CONNECTED: nanoseconds for the TLS handshake. */
  uint64_t tls_ns;
  /** OP_*: tells the operation apart from all others of the process. */
  uint64_t op_number;
  /** OP_*: the object without secrets, UTF-8, NUL-ended; empty for a batch. NULL for events of other kinds. */
  const char *object;
  /**
   * OP_*: offset of the first byte; 0 for a batch, and before the end for the last bytes of an object of unknown size.
   */
  uint64_t offset;
  /** OP_*: bytes asked for; of a batch, of all its items. */
  uint64_t size;
  /** OP_FINISHED: bytes now in the caller's buffers. */
  uint64_t bytes;
  /** OP_*: nanoseconds from the call to the first request. */
  uint64_t queued_ns;
  /** OP_FINISHED: nanoseconds from the call to the end. */
  uint64_t took_ns;
  /** OP_*: RASKIO_OP_*. More may be added. */
  uint32_t op_kind;
  /** OP_FINISHED: requests sent, retries included. */
  uint32_t attempts;
} raskio_event;

/**
 * Told of an event, on a RaskIO thread, also on several at once, under the rules of raskio_done_fn. Set in the options of
 * a client, with whose user_data it is called until on_shut_down has been. A request waits while it runs: be brief.
 */
typedef void (*raskio_event_fn)(void *user_data, const raskio_event *event);

/* ---- Clients ------------------------------------------------------------------------------------------------------ *
 *
 * Settings come from three places, the later one wins: the default, the environment (the variable named at
 * the option), the option. Options are numbers of which zero means "not set here". */

#define RASKIO_BACKEND_AUTO            0u /**< KVIKIO_REMOTE_IO_BACKEND, and without it EASY_THREADPOOL. */
#define RASKIO_BACKEND_EASY_THREADPOOL 1u /**< num_threads threads, one request each. */
#define RASKIO_BACKEND_MULTI_POLL      2u /**< num_reactors threads, many requests each: the fast one. */

#define RASKIO_DISPATCH_AUTO      0u /**< KVIKIO_REMOTE_IO_REACTOR_DISPATCH, and without it PER_CHUNK. */
#define RASKIO_DISPATCH_PER_CHUNK 1u /**< The requests of one read are spread over the reactors. */
#define RASKIO_DISPATCH_PER_PREAD 2u /**< All requests of one read stay on one reactor. */

#define RASKIO_CONCURRENCY_AUTO     0u /**< RASKIO_CONCURRENCY, and without it ADAPTIVE. */
/** As many requests in flight as bring bytes, at most max_concurrent_requests: what a path can use is found out while reading. A fast network is not slowed down by hundreds of connections, and a slow store gets the many that it needs. */
#define RASKIO_CONCURRENCY_ADAPTIVE 1u
#define RASKIO_CONCURRENCY_FIXED    2u /**< max_concurrent_requests requests in flight whenever there are so many. */

#define RASKIO_HEDGING_AUTO 0u /**< RASKIO_HEDGING, and without it OFF. */
#define RASKIO_HEDGING_OFF  1u /**< Every request is sent once, and again only if it failed. */
/** A request of MULTI_POLL that takes longer than all but 1 in 40 of its size from the same server is sent once more, on another connection, and the first answer counts: for servers that are slow now and then. At most 2.5 % more requests; a second one needs a buffer of a request's size, in host memory. */
#define RASKIO_HEDGING_ON   2u

/** RASKIO_LOCAL_BACKEND (AUTO, URING or PREAD), and without it io_uring where the kernel allows it, else pread: then a warning in the log says why. */
#define RASKIO_LOCAL_AUTO  0u
#define RASKIO_LOCAL_URING 1u /**< io_uring: without it raskio_object_open of a local file fails. */
#define RASKIO_LOCAL_PREAD 2u /**< pread and pwrite on up to num_threads threads. */

#define RASKIO_UNLIMITED UINT32_MAX /**< No limit: for max_concurrent_requests and for every time in milliseconds. */

/** How a client works. Zero all of it, set struct_size, then what you want to set. Copied before the call returns. */
typedef struct raskio_client_options {
  /** sizeof(raskio_client_options). */
  size_t struct_size;
  /** RASKIO_BACKEND_*. KVIKIO_REMOTE_IO_BACKEND; default EASY_THREADPOOL. */
  uint32_t backend;
  /** RASKIO_DISPATCH_*, for MULTI_POLL. KVIKIO_REMOTE_IO_REACTOR_DISPATCH; default PER_CHUNK. */
  uint32_t reactor_dispatch;
  /** Reactor threads of MULTI_POLL, 1 to 1024. KVIKIO_REMOTE_IO_NUM_REACTORS; default 1. */
  uint32_t num_reactors;
  /** Threads of EASY_THREADPOOL, at least 1, and at most those for local files. KVIKIO_NTHREADS; default 16. */
  uint32_t num_threads;
  /**
   * Requests in flight at most, one budget over all reactors; RASKIO_UNLIMITED: no limit.
   * KVIKIO_REMOTE_IO_MAX_CONCURRENT_REQUESTS (there 0 is no limit); default 256. A reactor keeps as many connections, but at
   * least 64, unless that is more than the open-file limit bears over all reactors.
   */
  uint32_t max_concurrent_requests;
  /** Attempts of one request, the first included; 1: never retry. KVIKIO_HTTP_MAX_ATTEMPTS; default 3. */
  uint32_t max_attempts;
  /** Bytes of one request: a larger read is split. KVIKIO_TASK_SIZE; default 4194304. */
  uint64_t task_size;
  /** Milliseconds for name look-up, connect and TLS handshake together; RASKIO_UNLIMITED: no limit. Default 10000. */
  uint32_t connect_timeout_ms;
  /** Milliseconds without a byte that end an attempt; RASKIO_UNLIMITED: no limit. Default 30000. */
  uint32_t stall_timeout_ms;
  /**
   * Milliseconds for one attempt as a whole; RASKIO_UNLIMITED: no limit. KVIKIO_HTTP_TIMEOUT, in seconds there;
   * default 60000.
   */
  uint32_t request_timeout_ms;
  /** Threads that run callbacks. Default 0: callbacks run on the thread that finished the work. */
  uint32_t callback_threads;
  /**
   * The HTTP statuses that are worth a retry, retry_status_count of them; NULL: not set here. Not NULL with a
   * count of 0: none is. KVIKIO_HTTP_STATUS_CODES; default 408, 429, 500, 502, 503, 504. A 408 on a connection that was
   * used before, without Retry-After, is how some servers close what is idle: up to three of a request are repeated at
   * once, whatever stands here, and use up no attempt.
   */
  const uint16_t *retry_status;
  /** Entries of retry_status. */
  size_t retry_status_count;
  /** Bytes of one pinned buffer, for device reads. KVIKIO_BOUNCE_BUFFER_SIZE; default 16777216. */
  uint64_t bounce_buffer_size;
  /** Bytes pinned at most for each CUDA context, for device reads. Default 268435456, or one buffer if that is more. */
  uint64_t max_pinned_bytes;
  /**
   * The host's own pool of pinned memory, for device reads: returns size bytes that CUDA has pinned (for every context,
   * if the client reads into several), or NULL. Set together with pinned_free. Runs on a RaskIO thread, under the rules
   * of raskio_done_fn, with the CUDA context current that the buffer is for.
   */
  void *(*pinned_alloc)(void *user_data, size_t size);
  /** Gives back what pinned_alloc gave, under the same rules; without a current context if that is gone, or broken. */
  void (*pinned_free)(void *user_data, void *memory, size_t size);
  /**
   * RASKIO_LOCAL_*: how local files are read and written. Nothing is started for them before the first one is opened.
   * RASKIO_LOCAL_BACKEND; default AUTO.
   */
  uint32_t local_backend;
  /**
   * Reads and writes of local files in flight for each block device, which has an io_uring of its own: 1 to 32768, and no
   * more than max_concurrent_requests. No variable; default 128.
   */
  uint32_t uring_queue_depth;
  /**
   * Milliseconds after which an idle thread of the kernel's sleeps, which takes what is submitted to an io_uring without a system
   * call. It costs a whole core while it is awake. Default 0: no such thread.
   */
  uint32_t uring_sqpoll_idle_ms;
  /** RASKIO_CONCURRENCY_*, for MULTI_POLL. RASKIO_CONCURRENCY; default ADAPTIVE. */
  uint32_t concurrency;
  /** S3 credentials from the host, instead of environment, files and services; called with user_data. May be NULL. */
  raskio_credentials_fn credentials;
  /**
   * Called once with user_data, on a RaskIO thread, as the last callback of this client: when it is shut down, or
   * when it ends because nothing refers to it any more. May be NULL.
   */
  void (*on_shut_down)(void *user_data);
  /** Handed to the callbacks of this struct. */
  void *user_data;
  /** CUDA events kept for each context while they are not used. Default 1024. */
  uint32_t max_free_events;
  /** RASKIO_HEDGING_*, for MULTI_POLL. RASKIO_HEDGING; default OFF. */
  uint32_t hedging;
  /** Bearer tokens from the host, for objects that ask for them; called with user_data. May be NULL. */
  raskio_bearer_fn bearer;
  /** Told of operations, retries and new connections; called with user_data. May be NULL. */
  raskio_event_fn on_event;
} raskio_client_options;

/**
 * Makes a client and starts its threads. Does no network I/O. Any thread, callbacks included.
 *
 * options: NULL for the environment's settings and the defaults.
 * client_out: receives the client, which must eventually be given to raskio_client_release.
 * error_out: may be NULL; receives an error that must eventually be given to raskio_error_free, or NULL on success.
 *
 * INVALID_ARGUMENT: an option or a variable has a bad value; the message names it, its value and what is allowed.
 * UNSUPPORTED: an option that this version does not have; or the libcurl in use lacks what is needed. IO: the system
 * has no threads or files left.
 */
RASKIO_EXPORT raskio_status raskio_client_new(
    const raskio_client_options *options, raskio_client **client_out, raskio_error **error_out) RASKIO_NOEXCEPT;

/**
 * The client of the whole process, made on first use from the environment alone; every caller gets the same one. A
 * child process gets one of its own. Any thread, callbacks included.
 *
 * client_out: receives a reference that must eventually be given to raskio_client_release. The client itself lives
 * on.
 * error_out: may be NULL; as for raskio_client_new.
 *
 * INVALID_ARGUMENT, UNSUPPORTED: as for raskio_client_new. SHUT_DOWN is never returned here: a shut-down default
 * client is handed out as it is, and its calls say SHUT_DOWN.
 */
RASKIO_EXPORT raskio_status raskio_client_default(raskio_client **client_out, raskio_error **error_out) RASKIO_NOEXCEPT;

/**
 * Adds a reference, which must eventually be given to raskio_client_release. Returns its argument. Any thread; never
 * blocks.
 */
RASKIO_EXPORT raskio_client *raskio_client_acquire(raskio_client *client) RASKIO_NOEXCEPT;

/**
 * Gives a reference back. Never blocks and never cancels: the client ends when no reference, no object and no
 * running operation is left. Any thread, callbacks included; in a forked child it does nothing. NULL is accepted.
 */
RASKIO_EXPORT void raskio_client_release(raskio_client *client) RASKIO_NOEXCEPT;

/**
 * Ends every operation with SHUT_DOWN, each through its callback, stops the threads, and waits for both. Afterwards
 * the client and its objects refuse work with SHUT_DOWN; their handles must still be released. May be called again,
 * from any thread, also while another one is inside it. Blocks, so not from a callback. A thread that the system has kept
 * inside opening a local file for 2 s, or asking for its size, is not waited for: it holds nothing of the caller's.
 *
 * timeout_ms: how long to wait; RASKIO_UNLIMITED: until it is done; 0: start it and look.
 * error_out: may be NULL; as for raskio_client_new.
 *
 * TIMED_OUT: not everything has ended yet; the end goes on by itself, and a later call can wait for the rest.
 * WOULD_DEADLOCK: called from inside a callback. FORKED.
 */
RASKIO_EXPORT raskio_status raskio_client_shut_down(
    raskio_client *client, uint32_t timeout_ms, raskio_error **error_out) RASKIO_NOEXCEPT;

/**
 * Gives back idle memory and closes idle connections. A hint: it never fails, does not wait, and does nothing in a
 * forked child or for NULL. Any thread, callbacks included.
 */
RASKIO_EXPORT void raskio_client_trim(raskio_client *client) RASKIO_NOEXCEPT;

/* ---- Operations --------------------------------------------------------------------------------------------------- *
 *
 * What every read, batch, write and stat has in common: how it is asked for, how it reports, how it is waited for.
 * An asynchronous call that returns RASKIO_OK has accepted the operation, and exactly one callback follows; any
 * other status means that no callback will come. */

#define RASKIO_MEMORY_AUTO 0u /**< Ask the CUDA driver if the process has loaded one, else host memory. */
#define RASKIO_MEMORY_HOST 1u /**< Host memory. */
#define RASKIO_MEMORY_CUDA 2u /**< Memory that the CUDA driver knows, pinned host memory included. */

#define RASKIO_READ_FROM_END  1u /**< Flag: the last `size` bytes of the object; offset must be 0. See "Reads". */
#define RASKIO_READ_ON_STREAM 2u /**< Flag: copies are ordered on `stream` (NULL: the legacy stream). */

/** Flag of raskio_write: the callback comes when the bytes are on the device (fdatasync), and so is the name of a file that this object has made (fsync of its directory). */
#define RASKIO_WRITE_DURABLE   4u
/** Flag of raskio_write: as RASKIO_READ_ON_STREAM, copies of CUDA memory are ordered on `stream` (NULL: the legacy stream). */
#define RASKIO_WRITE_ON_STREAM 2u

/** How one operation runs. NULL: all defaults. Copied before the call returns. */
typedef struct raskio_read_options {
  /** sizeof(raskio_read_options). */
  size_t struct_size;
  /**
   * RASKIO_MEMORY_*: where the buffer is. CUDA memory of any kind will do: of cuMemAlloc, stream-ordered, managed, mapped
   * by hand. With RASKIO_MEMORY_CUDA the driver is loaded if it is not.
   */
  uint32_t memory;
  /** RASKIO_READ_*, for raskio_write RASKIO_WRITE_*, combined with |. */
  uint32_t flags;
  /** Bytes of one request. 0: the client's task_size. */
  uint64_t task_size;
  /**
   * Milliseconds for the operation as a whole, retries included; then it ends with TIMED_OUT. 0 or
   * RASKIO_UNLIMITED: no limit.
   */
  uint32_t deadline_ms;
  /** Must be zero. */
  uint32_t reserved0;
  /**
   * A CUstream of the buffer's context, with RASKIO_READ_ON_STREAM or RASKIO_WRITE_ON_STREAM. The copies come after
   * everything that it was given before they begin, so that the buffer need not be ready at the call. It must last until
   * the callback and must not be captured meanwhile; it cannot be the per-thread stream. Without that flag it must be
   * NULL, copies run on a stream of RaskIO's, and the buffer must be ready at the call.
   */
  void *stream;
} raskio_read_options;

/** How one item of a batch ended. Arrays of it are handed out with their stride, so that it can grow. */
typedef struct raskio_item_result {
  /** RASKIO_OK: every byte of the item is in its place. */
  raskio_status status;
  /** Requests sent for it, retries included. One that several items share counts for each of them. */
  uint32_t attempts;
  /** Bytes now in the item's buffer. */
  uint64_t bytes;
  /** Borrowed for the callback, NULL on success; raskio_error_clone to keep. */
  const raskio_error *error;
  /**
   * Offset of the first byte in the object; of an item that failed before it was found out (RASKIO_READ_FROM_END), or that
   * was refused, that of its spec.
   */
  uint64_t offset;
} raskio_item_result;

/** How an operation ended. Valid during the callback only. */
typedef struct raskio_result {
  /** sizeof(raskio_result) as the library knows it. */
  size_t struct_size;
  /** RASKIO_OK: every byte is in its place. Otherwise the cause of the first failure. */
  raskio_status status;
  /** Requests sent, retries included. */
  uint32_t attempts;
  /**
   * Bytes now in the caller's buffers: on success what was asked for, or less of an object that is smaller
   * (RASKIO_READ_FROM_END). On failure the buffer's contents are unspecified. Of a batch: those of all items together.
   */
  uint64_t bytes;
  /** Offset of the first byte in the object. Of a batch: 0. */
  uint64_t offset;
  /** Borrowed for the callback, NULL on success; raskio_error_clone to keep. */
  const raskio_error *error;
  /** For a batch: one result for each spec, in the order given. Otherwise NULL. */
  const raskio_item_result *items;
  /** Entries of items. */
  size_t item_count;
  /** Bytes from one entry of items to the next. */
  size_t item_size;
} raskio_result;

/**
 * Called once when an operation has ended: on a RaskIO thread, never inside the call that started it, with no lock
 * held. From its begin the buffer and user_data are the caller's again. Everything is allowed inside except the
 * blocking calls, which return WOULD_DEADLOCK. Be brief: transfers may wait for you. Do not throw and do not end the
 * thread.
 */
typedef void (*raskio_done_fn)(void *user_data, const raskio_result *result);

/**
 * Adds a reference, which must eventually be given to raskio_op_release. Returns its argument. Any thread; never
 * blocks.
 */
RASKIO_EXPORT raskio_op *raskio_op_acquire(raskio_op *op) RASKIO_NOEXCEPT;

/**
 * Asks an operation to end. A request, not a result: the callback still comes, with CANCELLED, or with OK or another
 * error if the operation was faster. Until it does, the buffer is still RaskIO's. Never blocks; any thread,
 * callbacks included. Does nothing once the operation has ended, in a forked child, or for NULL.
 */
RASKIO_EXPORT void raskio_op_cancel(raskio_op *op) RASKIO_NOEXCEPT;

/**
 * Waits until the operation's callback has returned. How the operation ended is what the callback was told. Blocks,
 * so not from a callback; any number of threads may wait for one operation.
 *
 * timeout_ms: how long to wait; RASKIO_UNLIMITED: until it has; 0: look and return.
 *
 * OK: the callback has returned. TIMED_OUT: not yet. WOULD_DEADLOCK: called from inside a callback.
 * INVALID_ARGUMENT: NULL. FORKED.
 */
RASKIO_EXPORT raskio_status raskio_op_wait(raskio_op *op, uint32_t timeout_ms) RASKIO_NOEXCEPT;

/**
 * Gives a reference back. Does not cancel and never blocks: the operation runs on and calls back without any handle.
 * Any thread, callbacks included; in a forked child it does nothing. NULL is accepted.
 */
RASKIO_EXPORT void raskio_op_release(raskio_op *op) RASKIO_NOEXCEPT;

/* ---- Objects ------------------------------------------------------------------------------------------------------ *
 *
 * An object is a URL and what has been learned about it. Opening one does no network I/O; the first stat or read
 * does. */

#define RASKIO_ENDPOINT_AUTO         0u /**< Infer the kind of object from its URL. */
#define RASKIO_ENDPOINT_HTTP         1u /**< http:// or https://, sent byte for byte. */
#define RASKIO_ENDPOINT_S3           2u /**< S3: signed, or unsigned where no credentials are found. */
#define RASKIO_ENDPOINT_S3_PUBLIC    3u /**< S3, never signed. */
/** A URL with a signature in its query, of S3 or any compatible service; its size is asked for by GET. */
#define RASKIO_ENDPOINT_S3_PRESIGNED 4u
#define RASKIO_ENDPOINT_WEBHDFS      5u /**< WebHDFS or HttpFS. */
/** A local file, or a block device: file:///path with percent-encoding, or a path as it is. Inferred from file: and from a path that begins with /, ./ or ../ (relative to the working directory at its first stat, read or write); whoever opens names from elsewhere and means no files leaves it out of allowed_endpoints. */
#define RASKIO_ENDPOINT_FILE         6u

#define RASKIO_OBJECT_SIZE_KNOWN       1u   /**< Flag: `size` is the object's size, 0 included. */
/** Flag: a local file that raskio_write may change, and makes if it is missing. */
#define RASKIO_OBJECT_WRITABLE         2u
/** Flag: the server's certificate is not verified. Everyone between can read and change everything; logged as a warning. */
#define RASKIO_OBJECT_TLS_UNVERIFIED   4u
/** Flag: for s3://bucket/key, the bucket becomes part of the host name. The default at AWS, where its name allows it. */
#define RASKIO_OBJECT_S3_VIRTUAL_HOST  8u
/** Flag: for s3://bucket/key, the bucket becomes the first part of the path. The default at other services. */
#define RASKIO_OBJECT_S3_PATH_STYLE    16u
/** Flag: HTTP: the bearer token comes from the callback in the client's options. */
#define RASKIO_OBJECT_BEARER_FROM_HOST 32u
/** Flag: a local file is read and written past the system's cache where the file system can do that (O_DIRECT), whatever KVIKIO_AUTO_DIRECT_IO_READ and _WRITE say. What is not aligned goes through the cache, or is read with what surrounds it if KVIKIO_AUTO_DIRECT_IO_READ_OVERREAD is on. The statistics tell how many bytes went which way. */
#define RASKIO_OBJECT_DIRECT           64u
#define RASKIO_OBJECT_BUFFERED         128u /**< Flag: never past the system's cache. */

#define RASKIO_SIZE_UNKNOWN UINT64_MAX /**< The size is not known yet. */

/**
 * How to open an object. Zero all of it, set struct_size, then what you want to set. Copied before the call returns,
 * the strings included; strings are UTF-8 and end with NUL.
 */
typedef struct raskio_object_options {
  /** sizeof(raskio_object_options). */
  size_t struct_size;
  /** RASKIO_ENDPOINT_*. */
  uint32_t endpoint;
  /** RASKIO_OBJECT_*, combined with |. */
  uint32_t flags;
  /** Bytes, with RASKIO_OBJECT_SIZE_KNOWN. Without that flag it must be 0. */
  uint64_t size;
  /**
   * S3 (as all that names a kind of storage, it is ignored by the others): the region. NULL: AWS_REGION, AWS_DEFAULT_REGION, the profile's, the host name's, us-east-1. A wrong one
   * is put right once, by what the service answers.
   */
  const char *region;
  /**
   * S3: the URL of a compatible service (http://host:port), for s3://bucket/key. NULL: AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, the
   * profile's, AWS itself.
   */
  const char *endpoint_url;
  /**
   * S3: set together with secret_access_key, or NULL: the client's callback, the environment, the shared files,
   * web identity, container and instance metadata, in this order; unsigned where none has any. An http(s) URL that
   * is opened with it, and is not signed itself, is taken for S3; keys from the other places need
   * RASKIO_ENDPOINT_S3 for that.
   */
  const char *access_key_id;
  /** S3. */
  const char *secret_access_key;
  /** S3: with the two above; may be NULL. WebHDFS: the delegation token. */
  const char *session_token;
  /** WebHDFS: the user. NULL: user.name of the URL's query, KVIKIO_WEBHDFS_USERNAME, none. */
  const char *user_name;
  /**
   * A file of CA certificates in PEM form, instead of CURL_CA_BUNDLE, SSL_CERT_FILE, SSL_CERT_DIR and the
   * system's.
   */
  const char *ca_file;
  /**
   * header_count strings "Name: value", sent with every request to the object's own origin (scheme, host and port)
   * and to no other, whatever is redirected where.
   */
  const char *const *headers;
  /** Entries of headers. */
  size_t header_count;
  /** Kinds that RASKIO_ENDPOINT_AUTO may choose, 1u << RASKIO_ENDPOINT_* combined with |. 0: all. */
  uint32_t allowed_endpoints;
  /** Must be zero. */
  uint32_t reserved0;
  /** HTTP alone (refused by the others): goes into "Authorization: Bearer ", to the object's own origin only. */
  const char *bearer_token;
  /** https: a file with the client's certificate in PEM form, shown to the object's own origin only. */
  const char *client_certificate;
  /** A file with its key in PEM form. NULL: the certificate's file holds it. */
  const char *client_key;
  /** The password of that key. */
  const char *client_key_password;
  /**
   * The URL of a proxy (http, https, socks4, socks4a, socks5, socks5h), with user and password if it wants them:
   * http://user:password@host:port. host:port is http. NULL: the environment's (http_proxy, https_proxy, all_proxy,
   * no_proxy); "": none.
   */
  const char *proxy;
  /**
   * The path of a unix socket to connect to instead of host and port, at most 107 bytes; "@name" for an abstract one.
   * The URL's host (http://localhost/…) is what the server is told. Not together with proxy, before one of the
   * environment, and for the object's own origin only.
   */
  const char *unix_socket;
} raskio_object_options;

/** What is known about an object. struct_size is an input: at most so many bytes are written. */
typedef struct raskio_object_info {
  /** sizeof(raskio_object_info), set by the caller. */
  size_t struct_size;
  /** RASKIO_ENDPOINT_*: the kind that was chosen or inferred. */
  uint32_t endpoint;
  /** Zero. */
  uint32_t reserved0;
  /** Bytes, or RASKIO_SIZE_UNKNOWN. */
  uint64_t size;
  /** The entity tag as the server writes it, quotes included; NULL if none is known. Lives as long as the object. */
  const char *etag;
} raskio_object_info;

/**
 * The kind of object that a URL stands for, RASKIO_ENDPOINT_*; RASKIO_ENDPOINT_AUTO if none fits, or for NULL. No
 * network I/O. Any thread; never blocks.
 *
 * url: UTF-8, NUL-ended.
 */
RASKIO_EXPORT uint32_t raskio_endpoint_infer(const char *url) RASKIO_NOEXCEPT;

/**
 * Opens an object: checks the URL and the options, does no network I/O. Any thread, callbacks included.
 *
 * client: the object keeps its own reference to it.
 * url: UTF-8, NUL-ended, copied. User name and password in it, and everything after '?', stay out of messages and
 * logs. A path that is not UTF-8, or holds control characters, is given as file:///path, with %XX for each such byte.
 * options: may be NULL.
 * object_out: receives the object, which must eventually be given to raskio_object_release.
 * error_out: may be NULL; receives an error that must eventually be given to raskio_error_free, or NULL on success.
 *
 * INVALID_ARGUMENT: a NULL, a URL or an option that cannot be right; the message names the part at fault.
 * UNSUPPORTED: a kind of object or an option that this version does not have. SHUT_DOWN, FORKED. Of a local file, as long as
 * none could be opened: IO: no threads are left; and where io_uring was asked for (RASKIO_LOCAL_URING) and cannot be had:
 * UNSUPPORTED, PERMISSION_DENIED, OUT_OF_MEMORY, IO. Whether the file is there is found out by its first stat, read or write.
 */
RASKIO_EXPORT raskio_status raskio_object_open(
    raskio_client *client, const char *url, const raskio_object_options *options, raskio_object **object_out,
    raskio_error **error_out) RASKIO_NOEXCEPT;

/**
 * Adds a reference, which must eventually be given to raskio_object_release. Returns its argument. Any thread; never
 * blocks.
 */
RASKIO_EXPORT raskio_object *raskio_object_acquire(raskio_object *object) RASKIO_NOEXCEPT;

/**
 * Gives a reference back. Never blocks and never cancels: running operations keep the object. Any thread, callbacks
 * included; in a forked child it does nothing. NULL is accepted.
 */
RASKIO_EXPORT void raskio_object_release(raskio_object *object) RASKIO_NOEXCEPT;

/**
 * Asks the server for the object's size and entity tag, and calls back. On success raskio_object_size and
 * raskio_object_info_get know them, also inside the callback; bytes of the result is 0. Any thread, callbacks
 * included.
 *
 * options: may be NULL; deadline_ms counts, the rest is checked and has no meaning here.
 * done: called once with user_data if RASKIO_OK is returned, never otherwise. Required.
 * op_out: may be NULL; receives the operation before it is submitted, which must eventually be given to
 *   raskio_op_release.
 * error_out: may be NULL; as for raskio_object_open.
 *
 * At the call: INVALID_ARGUMENT, UNSUPPORTED, SHUT_DOWN, FORKED. In the callback: every other status too; RANGE when
 * the server does not tell the size.
 */
RASKIO_EXPORT raskio_status raskio_object_stat(
    raskio_object *object, const raskio_read_options *options, raskio_done_fn done, void *user_data, raskio_op **op_out,
    raskio_error **error_out) RASKIO_NOEXCEPT;

/**
 * As raskio_object_stat, and waits. Blocks, so not from a callback.
 *
 * size_out: may be NULL; receives the size in bytes.
 * error_out: may be NULL; as for raskio_object_open.
 *
 * WOULD_DEADLOCK: called from inside a callback. Every status of raskio_object_stat.
 */
RASKIO_EXPORT raskio_status raskio_object_stat_sync(
    raskio_object *object, uint64_t *size_out, raskio_error **error_out) RASKIO_NOEXCEPT;

/**
 * What is known without asking: from the options, a stat, or the reply to any read. Any thread, callbacks included.
 *
 * info_out: struct_size is read, at most so many bytes are written.
 *
 * INVALID_ARGUMENT: a NULL, or a struct_size that cannot be one. FORKED.
 */
RASKIO_EXPORT raskio_status raskio_object_info_get(
    const raskio_object *object, raskio_object_info *info_out) RASKIO_NOEXCEPT;

/**
 * The size in bytes if it is known, else RASKIO_SIZE_UNKNOWN; that too for NULL and in a forked child. Asks nobody.
 * Any thread, callbacks included.
 */
RASKIO_EXPORT uint64_t raskio_object_size(const raskio_object *object) RASKIO_NOEXCEPT;

/**
 * Writes a local file's dirty pages and drops its pages from the system's cache, so that the next read comes from the device:
 * for tests and measurements. May wait for the device. Any thread, callbacks included.
 *
 * error_out: may be NULL; as for raskio_object_open.
 *
 * UNSUPPORTED: a remote object. INVALID_ARGUMENT: NULL. NOT_FOUND and what else the system says. FORKED.
 */
RASKIO_EXPORT raskio_status raskio_object_drop_cache(raskio_object *object, raskio_error **error_out) RASKIO_NOEXCEPT;

/* ---- Reads -------------------------------------------------------------------------------------------------------- *
 *
 * A read delivers all of its bytes or fails. Bounds are checked at the call when the object's size is known, and
 * overflow always is; with an unknown size, a range that turns out to lie beyond the end ends with RANGE. A read of
 * 0 bytes sends nothing and completes like any other, through its callback.
 *
 * With RASKIO_READ_FROM_END a read delivers the last size bytes of the object, or all that it has if that is less, into the
 * start of the buffer; the result says how many they are and where they lie. That is how a file's footer costs one round
 * trip: an object's size that is not known is learned from the same reply. It is asked for first where the storage has no
 * such request (WebHDFS) or the server does not answer it as one, and for more than task_size bytes, which then come by
 * several requests.
 *
 * Local files are read by the same calls, and written by raskio_write, both with host and CUDA memory: by io_uring where the
 * kernel allows it, else by pread on threads (local_backend of the client). What the kernel has begun to move cannot be taken
 * back, so a cancel or a deadline waits for it; neither waits for a file that the system is still opening. */

/**
 * Reads size bytes from offset into data, and calls back. Any thread, callbacks included; does not wait for the
 * network.
 *
 * data: size writable bytes, of host or CUDA memory (raskio_read_options), that nobody else touches from the call until
 *   the callback begins, also after a cancel. Then the bytes are there, in device memory too. NULL is allowed when size
 *   is 0. CUDA memory is written in its own context, which must last as long; memory that has none, in the calling
 *   thread's current one if that is of its device, else in the device's primary one. What is current stays so.
 * options: may be NULL.
 * done: called once with user_data if RASKIO_OK is returned, never otherwise. Required.
 * op_out: may be NULL; receives the operation before it is submitted, so that the callback may use it. It must
 *   eventually be given to raskio_op_release.
 * error_out: may be NULL; receives an error that must eventually be given to raskio_error_free, or NULL on success.
 *
 * At the call: INVALID_ARGUMENT for a NULL, a bad option, offset + size or data + size that overflow, a range beyond a
 * known size, RASKIO_MEMORY_CUDA for other memory, a stream that cannot be used; UNSUPPORTED, also where there is no CUDA
 * driver or an old one; CUDA: the driver failed, or this process was forked from one that used it; IO: no threads are
 * left; SHUT_DOWN, FORKED. In the callback: every status of the table at the head, CANCELLED, SHUT_DOWN, TIMED_OUT,
 * RANGE, OBJECT_CHANGED, CUDA.
 */
RASKIO_EXPORT raskio_status raskio_read(
    raskio_object *object, uint64_t offset, void *data, uint64_t size, const raskio_read_options *options,
    raskio_done_fn done, void *user_data, raskio_op **op_out, raskio_error **error_out) RASKIO_NOEXCEPT;

/**
 * As raskio_read, and waits. Blocks, so not from a callback.
 *
 * bytes_out: may be NULL; receives the bytes read, which is size; with RASKIO_READ_FROM_END less, of an object that has
 *   less. raskio_object_size knows then where they lie.
 * error_out: may be NULL; as for raskio_read.
 *
 * WOULD_DEADLOCK: called from inside a callback. Every status of raskio_read.
 */
RASKIO_EXPORT raskio_status raskio_read_sync(
    raskio_object *object, uint64_t offset, void *data, uint64_t size, const raskio_read_options *options,
    uint64_t *bytes_out, raskio_error **error_out) RASKIO_NOEXCEPT;

/**
 * Writes size bytes from data to offset of a local file that was opened with RASKIO_OBJECT_WRITABLE, and calls back. The file
 * is made if it is missing, also by a write of size 0, and grows if it is shorter. Any thread, callbacks included; does not
 * wait for the device.
 *
 * data: size bytes of host or CUDA memory (raskio_read_options) that nobody changes from the call until the callback begins, also
 *   after a cancel. NULL is allowed when size is 0. CUDA memory is copied to pinned buffers, in its own context as for
 *   raskio_read, in pieces of at most bounce_buffer_size.
 * options: may be NULL; flags may have RASKIO_WRITE_DURABLE and RASKIO_WRITE_ON_STREAM.
 * The rest as for raskio_read.
 *
 * A write that fails (no room, a device that reports an error, a limit) ends with the cause, and bytes of the result are those
 * that were written: the first ones, if the write took one request (task_size, and of CUDA memory bounce_buffer_size), else
 * those of each request together.
 *
 * At the call: as for raskio_read; UNSUPPORTED: a remote object, a file that was not opened for writing. In the callback: every
 * status that errno leads to, CANCELLED, SHUT_DOWN, TIMED_OUT, CUDA, UNSUPPORTED: a CUDA driver without cuMemcpyDtoHAsync.
 */
RASKIO_EXPORT raskio_status raskio_write(
    raskio_object *object, uint64_t offset, const void *data, uint64_t size, const raskio_read_options *options,
    raskio_done_fn done, void *user_data, raskio_op **op_out, raskio_error **error_out) RASKIO_NOEXCEPT;

/* ---- Batches ------------------------------------------------------------------------------------------------------ *
 *
 * Many ranges by one call: what a reader of Parquet, Zarr or safetensors wants. One round trip for as many as there may be
 * requests at a time, and fewer requests than ranges where ranges are near each other: by default up to 32 KiB apart over
 * HTTP, 128 KiB in S3 and over WebHDFS; of a local file only those that touch or overlap. */

#define RASKIO_COALESCE_DEFAULT 0u         /**< Merge ranges as far as it pays. See "Batches". */
#define RASKIO_COALESCE_NEVER   UINT64_MAX /**< One request for each range, even if ranges overlap. */

/** One range of a batch. Arrays of it are passed with their stride, so that it can grow. */
typedef struct raskio_read_spec {
  /** Borrowed; the operation takes its own reference. */
  raskio_object *object;
  /** First byte in the object. */
  uint64_t offset;
  /** Where the bytes go. */
  void *data;
  /** Bytes. */
  uint64_t size;
  /** Handed to item_done. */
  void *user_data;
  /** RASKIO_READ_FROM_END: the last bytes of this object. 0: from offset on. */
  uint32_t flags;
  /** Must be zero. */
  uint32_t reserved0;
} raskio_read_spec;

/**
 * Called once for each item of a batch as it ends, under the rules of raskio_done_fn, before the batch's own
 * callback. index is the item's place in specs. From its begin the item's buffer is the caller's again. Items that end
 * together are told of one after the other; calls for others may run at the same time, with callback_threads or without.
 */
typedef void (*raskio_item_done_fn)(void *item_user_data, size_t index, const raskio_item_result *result);

/** How a batch runs. NULL: all defaults. Copied before the call returns. */
typedef struct raskio_batch_options {
  /** sizeof(raskio_batch_options). */
  size_t struct_size;
  /**
   * Ranges of one object that are at most so many bytes apart share a request, and what lies between them is read too, and
   * dropped as it comes. Ranges that overlap or touch are 0 bytes apart. RASKIO_COALESCE_*, or a number of bytes.
   */
  uint64_t coalesce_gap;
  /** But a request does not grow beyond so many bytes by that. 0: task_size. */
  uint64_t coalesce_max;
  /**
   * For every item; deadline_ms is that of the whole batch, and RASKIO_READ_FROM_END is better set in a spec. May be NULL.
   */
  const raskio_read_options *read;
  /** Called for each item as it ends. May be NULL. */
  raskio_item_done_fn item_done;
} raskio_batch_options;

/**
 * Reads many ranges, of one object or of several, as one operation, and calls back. Any thread, callbacks included; does
 * not wait for the network.
 *
 * Ranges may overlap, repeat, touch and be empty, in any order; those of one object that are near each other share a request
 * (raskio_batch_options). Buffers may be of any kind, host and devices mixed, and must not overlap. An item fails alone: also
 * for what is wrong with its spec, a NULL or a range beyond a known size, the others are read. Nothing of the batch holds up
 * what is submitted after it for longer than a turn of 64 requests or 16 MiB. An item takes less than 400 bytes of memory until
 * the batch has ended.
 *
 * client: the client of all the objects.
 * specs: spec_count ranges, spec_size bytes apart (sizeof(raskio_read_spec)). Copied before the call returns. May be NULL if
 *   spec_count is 0. Each buffer is RaskIO's from the call until item_done or the callback begins.
 * options: may be NULL.
 * done: called once with user_data if RASKIO_OK is returned, never otherwise: when every item has ended. Its result has one
 *   raskio_item_result for each spec, in the order of specs; its status is that of the first item that failed. Required.
 * op_out: may be NULL; as for raskio_read. raskio_op_cancel ends all of it: items that were not done by then are CANCELLED.
 * error_out: may be NULL; as for raskio_read.
 *
 * At the call: INVALID_ARGUMENT for a NULL, a bad option, a spec_size that cannot be one; OUT_OF_MEMORY; SHUT_DOWN, FORKED.
 * For an item: what raskio_read says at the call or in the callback.
 */
RASKIO_EXPORT raskio_status raskio_read_batch(
    raskio_client *client, const raskio_read_spec *specs, size_t spec_count, size_t spec_size,
    const raskio_batch_options *options, raskio_done_fn done, void *user_data, raskio_op **op_out,
    raskio_error **error_out) RASKIO_NOEXCEPT;

/* ---- Statistics --------------------------------------------------------------------------------------------------- *
 *
 * Always on: counting costs a request some 100 ns. For people, and for what scrapes them, there is text. */

/** One JSON object: every member of raskio_stats under its name, latencies as objects, last_fault as text or null. */
#define RASKIO_STATS_JSON       1u
/** What Prometheus scrapes: its text format 0.0.4, names begin with raskio_, times are in seconds, latencies are histograms. */
#define RASKIO_STATS_PROMETHEUS 2u

/**
 * Numbers of one client since it was made, or of the whole process. Each is exact; together they are a moment's blur while
 * work is going on. What counts only grows: the difference of two readings is what happened between them. "Now" marks
 * what goes up and down.
 * struct_size is an input: at most so many bytes are written, and counters that an older library does not have are
 * 0.
 */
typedef struct raskio_stats {
  /** sizeof(raskio_stats), set by the caller. */
  size_t struct_size;
  /** Operations accepted. */
  uint64_t ops_started;
  /** Operations whose callback has begun. */
  uint64_t ops_finished;
  /** Of these, the ones that ended as CANCELLED. */
  uint64_t ops_cancelled;
  /** Requests handed to a transport. */
  uint64_t requests_started;
  /** Requests that ended, well or not. */
  uint64_t requests_finished;
  /** Attempts after the first. */
  uint64_t requests_retried;
  /** Requests that ended with an error. */
  uint64_t requests_failed;
  /** Requests that are being worked on now. */
  uint64_t requests_in_flight;
  /** Requests that wait now: for their turn, or for their next attempt. */
  uint64_t requests_queued;
  /** Body bytes received, those of failed attempts included. Local files are counted in file_bytes_read. */
  uint64_t bytes_received;
  /** Bytes copied to device memory, or from it to be written. */
  uint64_t bytes_staged;
  /** Connections opened. */
  uint64_t connections_opened;
  /** Attempts that found an open connection. */
  uint64_t connections_reused;
  /** Pinned buffers that exist now. */
  uint64_t bounce_buffers_total;
  /** Pinned buffers in use now. */
  uint64_t bounce_buffers_in_use;
  /** Times a request waited for a pinned buffer. */
  uint64_t bounce_buffer_waits;
  /** Bytes pinned now. */
  uint64_t pinned_bytes;
  /** CUDA events that are free now. */
  uint64_t events_free;
  /** CUDA events that exist now. */
  uint64_t events_total;
  /** Reactors that failed and were replaced. */
  uint64_t reactors_replaced;
  /** libcurl handles that could not be taken back and were given up. */
  uint64_t handles_leaked;
  /** Requests that were sent because another was late (RASKIO_HEDGING_ON). They count as requests too. */
  uint64_t requests_hedged;
  /** Of the attempts after the first, those made because the server was busy: a status worth a retry. */
  uint64_t retries_after_status;
  /** Those made because the one before took too long. */
  uint64_t retries_after_timeout;
  /** Those made because the connection, its TLS or the name look-up failed. */
  uint64_t retries_after_connection;
  /** Those made because the body ended too early. */
  uint64_t retries_after_short_body;
  /** Those made for any other reason. */
  uint64_t retries_after_other;
  /**
   * Times a reactor had a request and waited for the right to send it: max_concurrent_requests were in flight, or as many
   * as bring bytes.
   */
  uint64_t permit_waits;
  /**
   * Requests that may be in flight now: what RASKIO_CONCURRENCY_ADAPTIVE has found, or the fixed number. 0: nothing was read
   * yet, or EASY_THREADPOOL.
   */
  uint64_t request_limit;
  /** Microseconds in name look-ups, over all attempts. */
  uint64_t name_lookup_us;
  /** Microseconds in making connections, after the look-up. */
  uint64_t connect_us;
  /** Microseconds in TLS handshakes. */
  uint64_t tls_us;
  /** Microseconds from a request's being sent to the first byte of its answer. */
  uint64_t wait_us;
  /** Microseconds from the first byte of answers to their last. */
  uint64_t body_us;
  /**
   * Microseconds that an operation took, from its start to its callback, at most, in half cases: right within 3.2 %.
   */
  uint64_t op_p50_us;
  /**
   * Microseconds that an operation took, from its start to its callback, at most, in 9 of 10 cases: right within 3.2 %.
   */
  uint64_t op_p90_us;
  /**
   * Microseconds that an operation took, from its start to its callback, at most, in 99 of 100 cases: right within 3.2 %.
   */
  uint64_t op_p99_us;
  /**
   * Microseconds that an operation took, from its start to its callback, at most, in 999 of 1000 cases: right within 3.2 %.
   */
  uint64_t op_p999_us;
  /** The most. */
  uint64_t op_max_us;
  /**
   * Microseconds that an attempt took that brought all that was missing, at most, in half cases: right within 3.2 %.
   */
  uint64_t request_p50_us;
  /**
   * Microseconds that an attempt took that brought all that was missing, at most, in 9 of 10 cases: right within 3.2 %.
   */
  uint64_t request_p90_us;
  /**
   * Microseconds that an attempt took that brought all that was missing, at most, in 99 of 100 cases: right within 3.2 %.
   */
  uint64_t request_p99_us;
  /**
   * Microseconds that an attempt took that brought all that was missing, at most, in 999 of 1000 cases: right within 3.2 %.
   */
  uint64_t request_p999_us;
  /** The most. */
  uint64_t request_max_us;
  /**
   * Microseconds that an attempt waited for the first byte of its answer, at most, in half cases: right within 3.2 %.
   */
  uint64_t first_byte_p50_us;
  /**
   * Microseconds that an attempt waited for the first byte of its answer, at most, in 9 of 10 cases: right within 3.2 %.
   */
  uint64_t first_byte_p90_us;
  /**
   * Microseconds that an attempt waited for the first byte of its answer, at most, in 99 of 100 cases: right within 3.2 %.
   */
  uint64_t first_byte_p99_us;
  /**
   * Microseconds that an attempt waited for the first byte of its answer, at most, in 999 of 1000 cases: right within 3.2 %.
   */
  uint64_t first_byte_p999_us;
  /** The most. */
  uint64_t first_byte_max_us;
  /** Bytes read of local files, those between the ranges of a batch that share a request included. */
  uint64_t file_bytes_read;
  /** Of these, those that went past the system's cache (O_DIRECT). */
  uint64_t file_bytes_read_direct;
  /** Bytes written to local files. */
  uint64_t file_bytes_written;
  /** Of these, those that went past the system's cache. */
  uint64_t file_bytes_written_direct;
  /** Bytes of local files, read or written, that io_uring moved; pread and pwrite moved the others. */
  uint64_t file_bytes_uring;
} raskio_stats;

/**
 * Reads the numbers of a client. Any thread, callbacks included; never blocks.
 *
 * stats_out: struct_size is read, at most so many bytes are written.
 *
 * INVALID_ARGUMENT: a NULL, or a struct_size that cannot be one. FORKED.
 */
RASKIO_EXPORT raskio_status raskio_client_stats(const raskio_client *client, raskio_stats *stats_out) RASKIO_NOEXCEPT;

/**
 * Reads the sums over all clients of the process, those that are gone included; a forked child begins with nothing. Of what
 * is there now, only what the living clients have. Any thread, callbacks included; never blocks for long.
 *
 * stats_out: as for raskio_client_stats.
 *
 * INVALID_ARGUMENT: as for raskio_client_stats.
 */
RASKIO_EXPORT raskio_status raskio_process_stats(raskio_stats *stats_out) RASKIO_NOEXCEPT;

/**
 * Writes the numbers as text, as snprintf does: at most room bytes, the NUL that ends them included. Returns the length of
 * the whole text without the NUL, so that text of at least room bytes was cut off; 0 on failure: an unknown format, a client of a
 * parent process. Any thread, callbacks included; never blocks for long.
 *
 * client: whose numbers; NULL: the sums of the process, as raskio_process_stats.
 * format: RASKIO_STATS_*.
 * text: may be NULL if room is 0.
 */
RASKIO_EXPORT size_t raskio_stats_text(
    const raskio_client *client, uint32_t format, char *text, size_t room) RASKIO_NOEXCEPT;

/**
 * The last fault inside RaskIO that was contained (a reactor that had to be replaced, a libcurl handle that had to be given
 * up), written as by raskio_stats_text. Returns 0 if there was none in this process.
 *
 * text: may be NULL if room is 0.
 */
RASKIO_EXPORT size_t raskio_last_fault(char *text, size_t room) RASKIO_NOEXCEPT;

/* ---- Log ---------------------------------------------------------------------------------------------------------- *
 *
 * RaskIO is silent unless it is asked: by a hook, or without one by the environment (RUST_LOG,
 * KVIKIO_REMOTE_VERBOSE), and then it writes to standard error. It never writes to standard output. */

#define RASKIO_LOG_ERROR 1u /**< Something failed. */
#define RASKIO_LOG_WARN  2u /**< Something is wrong that RaskIO can live with. */
#define RASKIO_LOG_INFO  3u /**< What was done. */
/** How it was decided: what is passed over, tried otherwise, moved. What goes over the wire is KVIKIO_REMOTE_VERBOSE's matter; a retry is a warning. */
#define RASKIO_LOG_DEBUG 4u
#define RASKIO_LOG_TRACE 5u /**< Everything. */

/** One record. Valid during the hook only. */
typedef struct raskio_log_record {
  /** sizeof(raskio_log_record) as the library knows it. */
  size_t struct_size;
  /** RASKIO_LOG_*. */
  uint32_t level;
  /** Line in RaskIO's source. 0: unknown. */
  uint32_t line;
  /** Which part of RaskIO speaks: UTF-8, not NUL-ended, target_size bytes. */
  const char *target;
  /** Bytes of target. */
  size_t target_size;
  /** What it says: UTF-8, not NUL-ended, message_size bytes, free of secrets. */
  const char *message;
  /** Bytes of message. */
  size_t message_size;
} raskio_log_record;

/**
 * Receives the log. Called from any thread, also from several at once. Blocking calls return WOULD_DEADLOCK inside,
 * and what RaskIO would log while inside is dropped. Be brief, do not throw and do not end the thread.
 */
typedef void (*raskio_log_fn)(void *user_data, const raskio_log_record *record);

/**
 * Sets, replaces or removes the hook of the whole process. Returns when no thread is inside the old hook, whose
 * user_data may then be freed. Any thread.
 *
 * hook: NULL removes the hook.
 * user_data: handed to the hook.
 * max_level: RASKIO_LOG_*; records of a larger number are not made. Ignored when hook is NULL.
 *
 * INVALID_ARGUMENT: max_level is none of RASKIO_LOG_*. WOULD_DEADLOCK: called from inside a hook.
 */
RASKIO_EXPORT raskio_status raskio_set_log_hook(
    raskio_log_fn hook, void *user_data, uint32_t max_level) RASKIO_NOEXCEPT;

/* ---- One symbol for dlopen ---------------------------------------------------------------------------------------- *
 *
 * A program that does not link RaskIO opens libraskio.so.0, asks dlsym for "raskio_get_api", and calls through the
 * table.
 *
 *     void* library = dlopen("libraskio.so.0", RTLD_NOW | RTLD_LOCAL);
 *     raskio_get_api_fn get_api = (raskio_get_api_fn)dlsym(library, "raskio_get_api");
 *     const raskio_api* api = get_api ? get_api(RASKIO_ABI_MAJOR) : NULL;
 *     if (api && RASKIO_API_HAS(api, read)) { api->read(...); } */

/**
 * Every function of this header, in the order in which they were added: the same pointers as the direct symbols.
 * Members are only ever appended. A library may be older than the header you compile with, so ask RASKIO_API_HAS
 * before you use a member that was not in the first version.
 */
typedef struct raskio_api {
  /** Bytes filled by this library. */
  size_t struct_size;
  /** RASKIO_ABI_MAJOR of this library. */
  uint32_t abi_major;
  /** RASKIO_ABI_MINOR of this library. */
  uint32_t abi_minor;
  const char *(*version)(void);
  uint32_t (*abi_version)(void);
  raskio_status (*client_new)(const raskio_client_options *options,
                              raskio_client **client_out,
                              raskio_error **error_out);
  raskio_status (*client_default)(raskio_client **client_out, raskio_error **error_out);
  raskio_client *(*client_acquire)(raskio_client *client);
  void (*client_release)(raskio_client *client);
  raskio_status (*client_shut_down)(raskio_client *client, uint32_t timeout_ms, raskio_error **error_out);
  void (*client_trim)(raskio_client *client);
  raskio_status (*client_stats)(const raskio_client *client, raskio_stats *stats_out);
  uint32_t (*endpoint_infer)(const char *url);
  raskio_status (*object_open)(raskio_client *client,
                               const char *url,
                               const raskio_object_options *options,
                               raskio_object **object_out,
                               raskio_error **error_out);
  raskio_object *(*object_acquire)(raskio_object *object);
  void (*object_release)(raskio_object *object);
  raskio_status (*object_stat)(raskio_object *object,
                               const raskio_read_options *options,
                               raskio_done_fn done,
                               void *user_data,
                               raskio_op **op_out,
                               raskio_error **error_out);
  raskio_status (*object_stat_sync)(raskio_object *object, uint64_t *size_out, raskio_error **error_out);
  raskio_status (*object_info_get)(const raskio_object *object, raskio_object_info *info_out);
  uint64_t (*object_size)(const raskio_object *object);
  raskio_status (*object_drop_cache)(raskio_object *object, raskio_error **error_out);
  raskio_status (*read)(raskio_object *object,
                        uint64_t offset,
                        void *data,
                        uint64_t size,
                        const raskio_read_options *options,
                        raskio_done_fn done,
                        void *user_data,
                        raskio_op **op_out,
                        raskio_error **error_out);
  raskio_status (*read_sync)(raskio_object *object,
                             uint64_t offset,
                             void *data,
                             uint64_t size,
                             const raskio_read_options *options,
                             uint64_t *bytes_out,
                             raskio_error **error_out);
  raskio_status (*read_batch)(raskio_client *client,
                              const raskio_read_spec *specs,
                              size_t spec_count,
                              size_t spec_size,
                              const raskio_batch_options *options,
                              raskio_done_fn done,
                              void *user_data,
                              raskio_op **op_out,
                              raskio_error **error_out);
  raskio_status (*write)(raskio_object *object,
                         uint64_t offset,
                         const void *data,
                         uint64_t size,
                         const raskio_read_options *options,
                         raskio_done_fn done,
                         void *user_data,
                         raskio_op **op_out,
                         raskio_error **error_out);
  raskio_op *(*op_acquire)(raskio_op *op);
  void (*op_cancel)(raskio_op *op);
  raskio_status (*op_wait)(raskio_op *op, uint32_t timeout_ms);
  void (*op_release)(raskio_op *op);
  const char *(*status_name)(raskio_status status);
  raskio_status (*error_status)(const raskio_error *error);
  const char *(*error_message)(const raskio_error *error);
  int32_t (*error_http_status)(const raskio_error *error);
  int32_t (*error_os_code)(const raskio_error *error);
  raskio_error *(*error_clone)(const raskio_error *error);
  void (*error_free)(raskio_error *error);
  raskio_status (*set_log_hook)(raskio_log_fn hook, void *user_data, uint32_t max_level);
  raskio_status (*process_stats)(raskio_stats *stats_out);
  size_t (*stats_text)(const raskio_client *client, uint32_t format, char *text, size_t room);
  size_t (*last_fault)(char *text, size_t room);
} raskio_api;

/** The type of raskio_get_api, for the result of dlsym. */
typedef const raskio_api *(*raskio_get_api_fn)(uint32_t abi_major);

/**
 * The table for a major version of the ABI; NULL if this library does not have that one. Static: never free it, and
 * it stays valid after dlclose. Any thread; never blocks.
 */
RASKIO_EXPORT const raskio_api *raskio_get_api(uint32_t abi_major) RASKIO_NOEXCEPT;

/** Whether the table has this member: RASKIO_API_HAS(api, read_batch). */
#define RASKIO_API_HAS(api, member) \
  ((api)->struct_size >= offsetof(raskio_api, member) + sizeof((api)->member) && (api)->member != NULL)

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* RASKIO_H */
