/* A bare libcurl loop: one thread, one multi handle, the body copied into the destination.
 *
 * What a straightforward program on libcurl reaches, without checks, retries or limits, with either of libcurl's two
 * ways to drive a multi handle: `perform` (curl_multi_perform and curl_multi_poll) or `epoll` (curl_multi_socket_action
 * on what epoll reports). */
#include "curl_common.h"

#include <errno.h>
#include <sys/epoll.h>

static struct job job;
static unsigned char *destination;
static size_t next_span, spans_done;
static CURLM *multi;
static int epoll_fd;
static double timer = -1; /* when libcurl wants to be called; negative: never */

static void start_next(struct transfer *transfer)
{
    if (next_span >= job.count)
        return;
    aim(transfer, &job, next_span++, destination);
    curl_multi_add_handle(multi, transfer->easy);
}

/* Takes what is done off the multi handle and starts what comes next; whether there was anything. */
static int reap(void)
{
    CURLMsg *message;
    int left, any = 0;
    while ((message = curl_multi_info_read(multi, &left))) {
        struct transfer *transfer;
        CURLcode result = message->data.result;
        curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, (char **)&transfer);
        curl_multi_remove_handle(multi, transfer->easy);
        expect_whole(transfer, result, &job);
        spans_done++;
        start_next(transfer);
        any = 1;
    }
    return any;
}

static void run_perform(void)
{
    while (spans_done < job.count) {
        int running;
        curl_multi_perform(multi, &running);
        if (!reap() && spans_done < job.count)
            curl_multi_poll(multi, NULL, 0, 1000, NULL);
    }
}

static int watch(CURL *easy, curl_socket_t socket, int what, void *user_data, void *known)
{
    (void)easy;
    (void)user_data;
    struct epoll_event event = {.data.fd = socket};
    event.events = (what & CURL_POLL_IN ? (uint32_t)EPOLLIN : 0) | (what & CURL_POLL_OUT ? (uint32_t)EPOLLOUT : 0);
    if (what == CURL_POLL_REMOVE) {
        epoll_ctl(epoll_fd, EPOLL_CTL_DEL, socket, NULL);
        return 0;
    }
    if (epoll_ctl(epoll_fd, known ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, socket, &event)) {
        perror("curlmulti: epoll_ctl");
        exit(1);
    }
    curl_multi_assign(multi, socket, &epoll_fd); /* anything but NULL: epoll knows this socket */
    return 0;
}

/* Only notes the time: libcurl must not be called from here. */
static int set_timer(CURLM *of, long milliseconds, void *user_data)
{
    (void)of;
    (void)user_data;
    timer = milliseconds < 0 ? -1 : wall_seconds() + milliseconds * 1e-3;
    return 0;
}

static void run_epoll(void)
{
    struct epoll_event events[64];
    int running;
    while (spans_done < job.count) {
        double left = timer < 0 ? 1 : timer - wall_seconds();
        int timeout = left <= 0 ? 0 : left > 1 ? 1000 : (int)(left * 1e3) + 1;
        int count = epoll_wait(epoll_fd, events, 64, timeout);
        if (count < 0 && errno != EINTR) {
            perror("curlmulti: epoll_wait");
            exit(1);
        }
        for (int i = 0; i < count; i++) {
            int what = (events[i].events & (EPOLLIN | EPOLLHUP) ? CURL_CSELECT_IN : 0) |
                       (events[i].events & EPOLLOUT ? CURL_CSELECT_OUT : 0) |
                       (events[i].events & EPOLLERR ? CURL_CSELECT_ERR : 0);
            curl_multi_socket_action(multi, events[i].data.fd, what, &running);
        }
        if (timer >= 0 && wall_seconds() >= timer) {
            timer = -1;
            curl_multi_socket_action(multi, CURL_SOCKET_TIMEOUT, 0, &running);
        }
        reap();
    }
}

static struct transfer *set_up(size_t transfers, long buffer, int by_epoll)
{
    curl_global_init(CURL_GLOBAL_ALL);
    multi = curl_multi_init();
    curl_multi_setopt(multi, CURLMOPT_MAXCONNECTS, (long)transfers * 2);
    if (by_epoll) {
        epoll_fd = epoll_create1(EPOLL_CLOEXEC);
        curl_multi_setopt(multi, CURLMOPT_SOCKETFUNCTION, watch);
        curl_multi_setopt(multi, CURLMOPT_TIMERFUNCTION, set_timer);
    }
    struct transfer *all = make(transfers, sizeof *all);
    for (size_t i = 0; i < transfers; i++)
        prepare(&all[i], buffer);
    return all;
}

int main(int argc, char **argv)
{
    if (argc != 8 || (strcmp(argv[7], "perform") && strcmp(argv[7], "epoll"))) {
        fprintf(stderr, "usage: curlmulti BASE PLAN REQUEST REPS TRANSFERS BUFFER_BYTES perform|epoll\n");
        return 2;
    }
    job = parse_job(argv);
    size_t transfers = parse_number(argv[5], "TRANSFERS");
    long buffer = (long)parse_number(argv[6], "BUFFER_BYTES");
    int by_epoll = !strcmp(argv[7], "epoll");
    cut_into_requests(&job);
    destination = make_destination(&job);
    struct transfer *all = NULL;
    for (int rep = 0; rep < job.reps; rep++) {
        memset(destination, 1, job.total);
        next_span = spans_done = 0;
        double cpu = cpu_seconds(), start = wall_seconds();
        if (!all)
            all = set_up(transfers, buffer, by_epoll); /* a fresh process has this to do, too */
        for (size_t i = 0; i < transfers; i++)
            start_next(&all[i]);
        if (by_epoll)
            run_epoll();
        else
            run_perform();
        double seconds = wall_seconds() - start;
        cpu = cpu_seconds() - cpu;
        report("curl", curl_version(), &job, seconds, cpu, destination, 1, "");
    }
    hold_if_asked();
    return 0;
}
