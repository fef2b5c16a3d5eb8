/* What the C clients share: clocks, the check sum, and the JSON line that benches/run.py reads. */
#ifndef RASKIO_BENCH_H
#define RASKIO_BENCH_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

/* Which bytes a client reads: range i is [i * stride, i * stride + request), up to `total` bytes, and lands at
 * i * request in the destination. stride == request reads the object's head as a whole. */
struct job {
    const char *url;
    size_t total, request, stride;
    int reps;
};

static inline size_t job_requests(const struct job *job)
{
    return (job->total + job->request - 1) / job->request;
}

/* Bytes of range i: the last one may be short. */
static inline size_t job_length(const struct job *job, size_t i)
{
    size_t left = job->total - i * job->request;
    return left < job->request ? left : job->request;
}

static inline uint64_t parse_number(const char *text, const char *name)
{
    char *end;
    uint64_t number = strtoull(text, &end, 10);
    if (*text < '0' || *text > '9' || *end) {
        fprintf(stderr, "%s is \"%s\"; it must be a whole number\n", name, text);
        exit(2);
    }
    return number;
}

/* The five arguments that every client starts with. */
static inline struct job parse_job(char **argv)
{
    struct job job = {
        .url = argv[1],
        .total = parse_number(argv[2], "TOTAL"),
        .request = parse_number(argv[3], "REQUEST"),
        .stride = parse_number(argv[4], "STRIDE"),
        .reps = (int)parse_number(argv[5], "REPS"),
    };
    if (!job.total || !job.request || job.stride < job.request || job.reps < 1) {
        fprintf(stderr, "TOTAL, REQUEST and REPS must be at least 1, STRIDE at least REQUEST\n");
        exit(2);
    }
    return job;
}

static inline double wall_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec + now.tv_nsec * 1e-9;
}

/* User and system time of every thread of this process. */
static inline double cpu_seconds(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_utime.tv_sec + usage.ru_utime.tv_usec * 1e-6 + usage.ru_stime.tv_sec +
           usage.ru_stime.tv_usec * 1e-6;
}

/* zlib's Adler-32, which Python has built in. 5552 bytes are the most that cannot overflow 32 bits. */
static inline uint32_t adler32(const unsigned char *bytes, size_t size)
{
    uint32_t a = 1, b = 0;
    while (size) {
        size_t block = size < 5552 ? size : 5552;
        size -= block;
        while (block--) {
            a += *bytes++;
            b += a;
        }
        a %= 65521;
        b %= 65521;
    }
    return b << 16 | a;
}

/* The destination, every page of it present. */
static inline unsigned char *make_destination(const struct job *job)
{
    unsigned char *bytes = malloc(job->total);
    if (!bytes) {
        fprintf(stderr, "no memory for %zu bytes\n", job->total);
        exit(1);
    }
    memset(bytes, 1, job->total);
    return bytes;
}

/* One repetition, as one line of JSON; `extra` is empty or `, "name": value` pairs. */
static inline void report(const char *client, const struct job *job, double seconds, double cpu,
                          const unsigned char *destination, const char *extra)
{
    printf("{\"client\": \"%s\", \"bytes\": %zu, \"requests\": %zu, \"seconds\": %.6f, \"cpu_seconds\": %.6f, "
           "\"adler32\": %u%s}\n",
           client, job->total, job_requests(job), seconds, cpu, adler32(destination, job->total), extra);
    fflush(stdout);
}

#endif
