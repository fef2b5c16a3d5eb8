/* A bare libcurl easy handle: one blocking request after the other, on one connection. The reference for latency. */
#include "curl_common.h"

int main(int argc, char **argv)
{
    if (argc != 6) {
        fprintf(stderr, "usage: curleasy BASE PLAN REQUEST REPS BUFFER_BYTES\n");
        return 2;
    }
    struct job job = parse_job(argv);
    long buffer = (long)parse_number(argv[5], "BUFFER_BYTES");
    cut_into_requests(&job);
    curl_global_init(CURL_GLOBAL_ALL);
    unsigned char *destination = make_destination(&job);
    struct transfer transfer;
    prepare(&transfer, buffer);
    for (int rep = 0; rep < job.reps; rep++) {
        memset(destination, 1, job.total);
        double cpu = cpu_seconds(), start = wall_seconds();
        for (size_t i = 0; i < job.count; i++) {
            aim(&transfer, &job, i, destination);
            expect_whole(&transfer, curl_easy_perform(transfer.easy), &job);
        }
        double seconds = wall_seconds() - start;
        report("curl", curl_version(), &job, seconds, cpu_seconds() - cpu, destination, 1, "");
    }
    hold_if_asked();
    return 0;
}
