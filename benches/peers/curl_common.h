/* What the libcurl clients share: a transfer, its write callback, and the settings of its handle. */
#ifndef RASKIO_BENCH_CURL_H
#define RASKIO_BENCH_CURL_H

#include "../bench.h"

#include <curl/curl.h>

struct transfer {
    CURL *easy;
    size_t span;
    unsigned char *at, *end;
    double started;
};

static size_t take(char *bytes, size_t one, size_t size, void *user_data)
{
    struct transfer *transfer = user_data;
    (void)one;
    if (size > (size_t)(transfer->end - transfer->at))
        return 0;
    memcpy(transfer->at, bytes, size);
    transfer->at += size;
    return size;
}

/* What stays the same for all requests of a handle. */
static inline void prepare(struct transfer *transfer, long buffer)
{
    CURL *easy = transfer->easy = curl_easy_init();
    curl_easy_setopt(easy, CURLOPT_FAILONERROR, 1L);
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, take);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, transfer);
    curl_easy_setopt(easy, CURLOPT_PRIVATE, transfer);
    curl_easy_setopt(easy, CURLOPT_BUFFERSIZE, buffer);
    /* The library itself, unlike the curl tool, does not look at this variable. */
    if (getenv("CURL_CA_BUNDLE"))
        curl_easy_setopt(easy, CURLOPT_CAINFO, getenv("CURL_CA_BUNDLE"));
}

/* And what is the request's own. */
static inline void aim(struct transfer *transfer, const struct job *job, size_t index, unsigned char *destination)
{
    const struct span *span = &job->reads[index];
    char range[64], url[512];
    snprintf(range, sizeof range, "%llu-%llu", (unsigned long long)span->first,
             (unsigned long long)(span->first + span->length - 1));
    snprintf(url, sizeof url, "%s%s", job->base, span->path);
    curl_easy_setopt(transfer->easy, CURLOPT_URL, url);
    curl_easy_setopt(transfer->easy, CURLOPT_RANGE, range);
    transfer->span = index;
    transfer->at = destination + span->at;
    transfer->end = transfer->at + span->length;
    transfer->started = wall_seconds();
}

/* Ends the program unless the whole body came; notes how long it took. */
static inline void expect_whole(const struct transfer *transfer, CURLcode result, struct job *job)
{
    if (result != CURLE_OK || transfer->at != transfer->end) {
        fprintf(stderr, "libcurl: %s\n", result ? curl_easy_strerror(result) : "a body is short");
        exit(1);
    }
    job->latencies[transfer->span] = (wall_seconds() - transfer->started) * 1e6;
}

#endif
