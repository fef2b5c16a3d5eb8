/* What the C clients share: the plan of reads, clocks, the check sum, and the JSON line that benches/run.py reads.
 *
 * A plan is a text file with one read a line, "PATH FIRST LENGTH"; the reads' bytes lie one behind the other in the
 * destination, in the order of the file. BASE is scheme, host and port of all of them. */
#ifndef RASKIO_BENCH_H
#define RASKIO_BENCH_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

struct span {
    char *path;
    uint64_t first;
    size_t length, at; /* at: where in the destination */
};

struct job {
    const char *base;
    struct span *reads;
    size_t count, total, request; /* request: bytes of one request at most */
    int reps;
    size_t memory_before;
    double *latencies; /* µs, one for each span that is reported */
};

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

static inline void *make(size_t count, size_t size)
{
    void *memory = calloc(count, size);
    if (!memory) {
        fprintf(stderr, "no memory for %zu × %zu bytes\n", count, size);
        exit(1);
    }
    return memory;
}

/* The four arguments that every client starts with: BASE PLAN REQUEST REPS. */
static inline struct job parse_job(char **argv)
{
    struct job job = {
        .base = argv[1],
        .request = parse_number(argv[3], "REQUEST"),
        .reps = (int)parse_number(argv[4], "REPS"),
    };
    FILE *plan = fopen(argv[2], "r");
    if (!plan || !job.request || job.reps < 1) {
        fprintf(stderr, "PLAN \"%s\" must be readable, REQUEST and REPS at least 1\n", argv[2]);
        exit(2);
    }
    size_t room = 0;
    char path[256];
    unsigned long long first, length;
    while (fscanf(plan, "%255s %llu %llu", path, &first, &length) == 3) {
        if (job.count == room) {
            room = room ? 2 * room : 256;
            job.reads = realloc(job.reads, room * sizeof *job.reads);
            if (!job.reads)
                exit(1);
        }
        char *known = job.count ? job.reads[job.count - 1].path : NULL;
        job.reads[job.count++] = (struct span){
            .path = known && !strcmp(known, path) ? known : strdup(path),
            .first = first,
            .length = length,
            .at = job.total,
        };
        job.total += length;
    }
    if (!feof(plan) || !job.total) {
        fprintf(stderr, "PLAN \"%s\": a line is not PATH FIRST LENGTH, or there is none\n", argv[2]);
        exit(2);
    }
    fclose(plan);
    return job;
}

static inline size_t count_requests(const struct job *job)
{
    size_t count = 0;
    for (size_t i = 0; i < job->count; i++)
        count += (job->reads[i].length + job->request - 1) / job->request;
    return count;
}

/* For clients that send requests themselves: the reads cut into requests take the reads' place. */
static inline void cut_into_requests(struct job *job)
{
    size_t count = count_requests(job), next = 0;
    struct span *requests = make(count, sizeof *requests);
    for (size_t i = 0; i < job->count; i++) {
        struct span left = job->reads[i];
        while (left.length) {
            size_t size = left.length < job->request ? left.length : job->request;
            requests[next] = left;
            requests[next++].length = size;
            left.first += size;
            left.at += size;
            left.length -= size;
        }
    }
    free(job->reads);
    job->reads = requests;
    job->count = count;
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

/* A line of /proc/self/status, in bytes: "VmRSS:" is what is resident now, "VmHWM:" the most that ever was. */
static inline size_t memory(const char *name)
{
    char line[256];
    unsigned long kilobytes = 0;
    FILE *status = fopen("/proc/self/status", "r");
    while (status && fgets(line, sizeof line, status))
        if (!strncmp(line, name, strlen(name)))
            sscanf(line + strlen(name), "%lu", &kilobytes);
    if (status)
        fclose(status);
    return (size_t)kilobytes << 10;
}

/* zlib's Adler-32, which Python has built in, as two sums that the compiler can vectorise. 5552 bytes are the most
 * that cannot overflow 32 bits. */
static inline uint32_t adler32(const unsigned char *bytes, size_t size)
{
    uint32_t a = 1, b = 0;
    while (size) {
        uint32_t block = size < 5552 ? (uint32_t)size : 5552, sum = 0, weighted = 0;
        for (uint32_t i = 0; i < block; i++) {
            sum += bytes[i];
            weighted += (block - i) * bytes[i];
        }
        b = (b + block * a + weighted) % 65521;
        a = (a + sum) % 65521;
        bytes += block;
        size -= block;
    }
    return b << 16 | a;
}

/* The destination, every page of it present. The last thing to make before the first read: what the process has by
 * then does not count as grown. */
static inline unsigned char *make_destination(struct job *job)
{
    unsigned char *bytes = malloc(job->total);
    job->latencies = malloc(job->count * sizeof *job->latencies);
    if (!bytes || !job->latencies) {
        fprintf(stderr, "no memory for %zu bytes\n", job->total);
        exit(1);
    }
    memset(bytes, 1, job->total);
    for (size_t i = 0; i < job->count; i++)
        job->latencies[i] = 0;
    job->memory_before = memory("VmRSS:");
    return bytes;
}

static inline int compare_latencies(const void *one, const void *other)
{
    double a = *(const double *)one, b = *(const double *)other;
    return (a > b) - (a < b);
}

/* One repetition, as one line of JSON. `timed`: job->latencies has a figure for every span. `extra` is empty or
 * `, "name": value` pairs. */
static inline void report(const char *client, const char *version, struct job *job, double seconds, double cpu,
                          const unsigned char *destination, int timed, const char *extra)
{
    size_t peak = memory("VmHWM:");
    printf("{\"client\": \"%s\", \"version\": \"%s\", \"bytes\": %zu, \"requests\": %zu, \"seconds\": %.6f, "
           "\"cpu_seconds\": %.6f, \"adler32\": %u, \"peak_memory\": %zu, \"grown_memory\": %zu%s",
           client, version, job->total, count_requests(job), seconds, cpu, adler32(destination, job->total),
           peak > job->total ? peak - job->total : 0, peak > job->memory_before ? peak - job->memory_before : 0, extra);
    if (timed) {
        /* Nearest rank. */
        qsort(job->latencies, job->count, sizeof *job->latencies, compare_latencies);
        printf(", \"latency_p50_us\": %.1f, \"latency_p99_us\": %.1f", job->latencies[(job->count * 50 + 99) / 100 - 1],
               job->latencies[(job->count * 99 + 99) / 100 - 1]);
    }
    printf("}\n");
    fflush(stdout);
}

/* Where benches/run.py watches an idle client: everything stays open until it closes standard input. */
static inline void hold_if_asked(void)
{
    char byte;
    while (getenv("BENCH_HOLD") && read(STDIN_FILENO, &byte, 1) > 0)
        ;
}

#endif
