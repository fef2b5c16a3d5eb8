/* libraskio_kvikio.so: an unmodified KvikIO reads remote objects through RaskIO.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The library works by being loaded before libkvikio.so, and silently does nothing if it is not. So a program that relies
 * on it asks raskio_kvikio_enabled() once KvikIO is loaded. A reference to it also keeps a linker from dropping the
 * library (--as-needed). How to load it, and what changes: docs/kvikio.md. */
#ifndef RASKIO_KVIKIO_H
#define RASKIO_KVIKIO_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#  define RASKIO_KVIKIO_EXPORT __attribute__((visibility("default")))
#else
#  define RASKIO_KVIKIO_EXPORT
#endif

#ifdef __cplusplus
#  define RASKIO_KVIKIO_NOEXCEPT noexcept
extern "C" {
#else
#  define RASKIO_KVIKIO_NOEXCEPT
#endif

#define RASKIO_KVIKIO_ON    1u /**< RaskIO's reactors, whatever backend KvikIO has by default. */
#define RASKIO_KVIKIO_OFF   2u /**< RASKIO_KVIKIO=off: everything goes to KvikIO's own code. */
#define RASKIO_KVIKIO_EXACT 3u /**< RASKIO_KVIKIO=exact: the backend that KvikIO would use. */

/* Why RaskIO does not do KvikIO's reads, for programs. More may be added. */
#define RASKIO_KVIKIO_REASON_NONE      0u /**< It does them. */
#define RASKIO_KVIKIO_REASON_OFF       1u /**< RASKIO_KVIKIO=off. */
#define RASKIO_KVIKIO_REASON_NO_KVIKIO 2u /**< KvikIO is not loaded yet. */
#define RASKIO_KVIKIO_REASON_COPY      3u /**< Another copy of this library was loaded before, and does them. */
#define RASKIO_KVIKIO_REASON_TOO_LATE  4u /**< libkvikio.so was loaded before this library: load this one first. */
#define RASKIO_KVIKIO_REASON_UNKNOWN   5u /**< This KvikIO is laid out in a way that is not known. */
#define RASKIO_KVIKIO_REASON_NO_RASKIO 6u /**< libraskio.so cannot be loaded, or not used. */
#define RASKIO_KVIKIO_REASON_MEMORY    7u /**< Memory could not be had. */

/** What goes on. struct_size is an input: at most so many bytes are written. Strings are static or stay for ever. */
typedef struct raskio_kvikio_info {
  /** sizeof(raskio_kvikio_info), set by the caller. */
  size_t struct_size;
  /** RASKIO_KVIKIO_*, from the environment variable RASKIO_KVIKIO. */
  uint32_t mode;
  /** 1: KvikIO is loaded, its remote reads come here, and RaskIO does them. */
  uint32_t enabled;
  /** If it is not 1: why, in words that may change; reason_code is for programs. Otherwise NULL. */
  const char *reason;
  /** The libkvikio.so that was found. NULL: none is loaded. */
  const char *kvikio;
  /** The libraskio.so that is used. NULL: none was needed yet, or none could be loaded. */
  const char *raskio;
  /** Its version. NULL as above. */
  const char *raskio_version;
  /** Reads that RaskIO did or does. */
  uint64_t reads;
  /** Bytes that they delivered. */
  uint64_t bytes;
  /** Of these reads, those that failed. */
  uint64_t failures;
  /** Questions for an object's size that RaskIO answered. */
  uint64_t size_probes;
  /** Reads and questions that were left to KvikIO's own code. */
  uint64_t left_to_kvikio;
  /** Why the last of those was. NULL: none was. */
  const char *left_reason;
  /** Reads that were handed over in batches. */
  uint64_t batch_items;
  /** Objects that are kept open. */
  uint64_t open_objects;
  /** RASKIO_KVIKIO_REASON_*: why it is not enabled. */
  uint32_t reason_code;
} raskio_kvikio_info;

/** Fills info. Returns 0, or 1 if info is NULL or its struct_size cannot be one. Any thread. */
RASKIO_KVIKIO_EXPORT int raskio_kvikio_status(raskio_kvikio_info *info) RASKIO_KVIKIO_NOEXCEPT;

/** Whether KvikIO's remote reads are RaskIO's now: the field of that name. Any thread. */
RASKIO_KVIKIO_EXPORT int raskio_kvikio_enabled(void) RASKIO_KVIKIO_NOEXCEPT;

/**
 * From now on reads that this thread starts (RemoteHandle::pread) are collected: their futures wait until they are handed
 * over. Returns 0, or 1 if this thread collects already. raskio_kvikio_batch_submit or raskio_kvikio_batch_abandon must
 * follow on the same thread, and no future of these reads may be waited for before.
 */
RASKIO_KVIKIO_EXPORT int raskio_kvikio_batch_begin(void) RASKIO_KVIKIO_NOEXCEPT;

/**
 * Hands over what this thread has collected, as one batch (raskio_read_batch): ranges of an object that are close to each
 * other become one request. Each future gets its own result.
 *
 * coalesce_gap: merge ranges at most so many bytes apart; 0: RaskIO's own measure; UINT64_MAX: never merge.
 * coalesce_max: but never into more than so many bytes; 0: RaskIO's own measure.
 *
 * Returns how many reads were handed over, or -1 if this thread does not collect or memory is over.
 */
RASKIO_KVIKIO_EXPORT int64_t raskio_kvikio_batch_submit(
    uint64_t coalesce_gap, uint64_t coalesce_max) RASKIO_KVIKIO_NOEXCEPT;

/** Forgets what this thread has collected. The futures throw std::future_error (broken promise). */
RASKIO_KVIKIO_EXPORT void raskio_kvikio_batch_abandon(void) RASKIO_KVIKIO_NOEXCEPT;

/**
 * Ends every read in progress with an error and stops RaskIO's threads, within timeout_ms milliseconds. For interpreters
 * that are torn down before the process ends; reads after it start new threads. Not from a RaskIO callback.
 */
RASKIO_KVIKIO_EXPORT void raskio_kvikio_stop(uint32_t timeout_ms) RASKIO_KVIKIO_NOEXCEPT;

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* RASKIO_KVIKIO_H */
