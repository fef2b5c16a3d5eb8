/* A bare libcurl loop: one thread, one multi handle, perform + poll, the body copied into the destination.
 *
 * What a straightforward program on the system's libcurl reaches, without checks, retries or limits. */
#include "../bench.h"

#include <curl/curl.h>

struct transfer {
    CURL *easy;
    unsigned char *at, *end;
};

static struct job job;
static unsigned char *destination;
static size_t next_range, ranges_done;
static CURLM *multi;

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

static void start_next(struct transfer *transfer, long buffer)
{
    if (next_range >= job_requests(&job))
        return;
    size_t range = next_range++, length = job_length(&job, range), first = range * job.stride;
    char text[64];
    snprintf(text, sizeof text, "%zu-%zu", first, first + length - 1);
    transfer->at = destination + range * job.request;
    transfer->end = transfer->at + length;
    CURL *easy = transfer->easy;
    curl_easy_reset(easy);
    curl_easy_setopt(easy, CURLOPT_URL, job.url);
    curl_easy_setopt(easy, CURLOPT_RANGE, text);
    curl_easy_setopt(easy, CURLOPT_FAILONERROR, 1L);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, take);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, transfer);
    curl_easy_setopt(easy, CURLOPT_PRIVATE, transfer);
    curl_easy_setopt(easy, CURLOPT_BUFFERSIZE, buffer);
    /* The library itself, unlike the curl tool, does not look at this variable. */
    if (getenv("CURL_CA_BUNDLE"))
        curl_easy_setopt(easy, CURLOPT_CAINFO, getenv("CURL_CA_BUNDLE"));
    curl_multi_add_handle(multi, easy);
}

/* Takes what is done off the multi handle and starts what comes next; whether there was anything. */
static int reap(long buffer)
{
    CURLMsg *message;
    int left, any = 0;
    while ((message = curl_multi_info_read(multi, &left))) {
        struct transfer *transfer;
        CURLcode result = message->data.result;
        curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, (char **)&transfer);
        curl_multi_remove_handle(multi, transfer->easy);
        if (result != CURLE_OK || transfer->at != transfer->end) {
            fprintf(stderr, "curlmulti: %s\n", result ? curl_easy_strerror(result) : "a body is short");
            exit(1);
        }
        ranges_done++;
        start_next(transfer, buffer);
        any = 1;
    }
    return any;
}

int main(int argc, char **argv)
{
    if (argc != 8) {
        fprintf(stderr, "usage: curlmulti URL TOTAL REQUEST STRIDE REPS TRANSFERS BUFFER_BYTES\n");
        return 2;
    }
    job = parse_job(argv);
    size_t transfers = parse_number(argv[6], "TRANSFERS");
    long buffer = (long)parse_number(argv[7], "BUFFER_BYTES");
    curl_global_init(CURL_GLOBAL_ALL);
    multi = curl_multi_init();
    curl_multi_setopt(multi, CURLMOPT_MAXCONNECTS, (long)transfers * 2);
    destination = make_destination(&job);
    struct transfer *all = calloc(transfers, sizeof *all);
    for (size_t i = 0; i < transfers; i++)
        all[i].easy = curl_easy_init();
    for (int rep = 0; rep < job.reps; rep++) {
        memset(destination, 1, job.total);
        next_range = ranges_done = 0;
        double cpu = cpu_seconds(), start = wall_seconds();
        for (size_t i = 0; i < transfers; i++)
            start_next(&all[i], buffer);
        while (ranges_done < job_requests(&job)) {
            int running;
            curl_multi_perform(multi, &running);
            if (!reap(buffer) && ranges_done < job_requests(&job))
                curl_multi_poll(multi, NULL, 0, 1000, NULL);
        }
        double seconds = wall_seconds() - start;
        cpu = cpu_seconds() - cpu;
        report("curl", &job, seconds, cpu, destination, "");
    }
    return 0;
}
