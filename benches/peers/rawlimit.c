/* What the machine allows: keep-alive connections, epoll, and recv straight into the destination.
 *
 * No HTTP library, no retry: the reference for throughput and for CPU per byte. Over TLS it is OpenSSL's SSL_read straight
 * into the destination, and nothing else. Each thread drives its own connections, one request in flight on each; they are
 * opened in the first repetition. */
#define _GNU_SOURCE
#include "../bench.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>
#ifdef WITH_TLS
#include <openssl/ssl.h>
#else
typedef void SSL, SSL_CTX;
#endif

enum {
    HEAD_MAX = 4096,
    TLS_READ_AHEAD = 4 * 0x401e, /* as libcurl: four records at a time from the socket, instead of two receives for each */
};

struct connection {
    int fd, in_head;
    SSL *ssl; /* NULL: plain */
    size_t span, at, left; /* which, where in the destination, how much is missing; left == 0: idle */
    double started;
    char head[HEAD_MAX];
};

struct worker {
    pthread_t thread;
    int epoll, count;
    struct connection *connections;
};

static struct job job;
static unsigned char *destination;
static struct sockaddr_in server;
static char host[128];
static SSL_CTX *tls; /* NULL: plain */
static atomic_size_t next_span, bytes_done;

static void fail(const char *what)
{
    fprintf(stderr, "rawlimit: %s: %s\n", what, errno ? strerror(errno) : "unexpected answer");
    exit(1);
}

#ifdef WITH_TLS
static void prepare_tls(void)
{
    const char *authorities = getenv("CURL_CA_BUNDLE");
    tls = SSL_CTX_new(TLS_client_method());
    if (!tls || !authorities || SSL_CTX_load_verify_locations(tls, authorities, NULL) != 1)
        fail("CURL_CA_BUNDLE names no certificates");
    SSL_CTX_set_verify(tls, SSL_VERIFY_PEER, NULL);
    SSL_CTX_set_read_ahead(tls, 1);
    SSL_CTX_set_default_read_buffer_len(tls, TLS_READ_AHEAD);
}

static SSL *handshake(int fd)
{
    SSL *ssl = SSL_new(tls);
    if (!ssl || SSL_set_fd(ssl, fd) != 1 || SSL_connect(ssl) != 1)
        fail("the handshake");
    return ssl;
}

static ssize_t take_decrypted(SSL *ssl, void *to, size_t size, int flags)
{
    int most = size < INT_MAX ? (int)size : INT_MAX;
    int got = flags & MSG_PEEK ? SSL_peek(ssl, to, most) : SSL_read(ssl, to, most);
    if (got > 0)
        return got;
    errno = SSL_get_error(ssl, got) == SSL_ERROR_WANT_READ ? EAGAIN : EPROTO;
    return -1;
}

static ssize_t send_encrypted(SSL *ssl, const void *from, size_t size) { return SSL_write(ssl, from, (int)size); }
#else
static void prepare_tls(void) { fail("it was built without OpenSSL"); }
static SSL *handshake(int fd) { return (void)fd, NULL; }
static ssize_t take_decrypted(SSL *ssl, void *to, size_t size, int flags) { return (void)ssl, recv(-1, to, size, flags); }
static ssize_t send_encrypted(SSL *ssl, const void *from, size_t size) { return (void)ssl, send(-1, from, size, 0); }
#endif

/* http://1.2.3.4:port or https://1.2.3.4:port, and nothing else. */
static void parse_base(const char *base)
{
    char scheme[6], address[64];
    int port, used = 0;
    if (sscanf(base, "%5[a-z]://%63[0-9.]:%d%n", scheme, address, &port, &used) != 3 || base[used] ||
        (strcmp(scheme, "http") && strcmp(scheme, "https")) || inet_pton(AF_INET, address, &server.sin_addr) != 1) {
        fprintf(stderr, "rawlimit: BASE is \"%s\"; it must be http://IPV4:PORT or https://IPV4:PORT\n", base);
        exit(2);
    }
    if (!strcmp(scheme, "https"))
        prepare_tls();
    server.sin_family = AF_INET;
    server.sin_port = htons((uint16_t)port);
    snprintf(host, sizeof host, "%s:%d", address, port);
}

static void connect_to_server(struct worker *worker, struct connection *connection)
{
    int on = 1;
    connection->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connection->fd < 0 || connect(connection->fd, (struct sockaddr *)&server, sizeof server))
        fail("connect");
    setsockopt(connection->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (tls)
        connection->ssl = handshake(connection->fd);
    fcntl(connection->fd, F_SETFL, O_NONBLOCK);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = connection};
    if (epoll_ctl(worker->epoll, EPOLL_CTL_ADD, connection->fd, &event))
        fail("epoll_ctl");
}

static ssize_t take(struct connection *connection, void *to, size_t size, int flags)
{
    return connection->ssl ? take_decrypted(connection->ssl, to, size, flags) : recv(connection->fd, to, size, flags);
}

static void send_next(struct connection *connection)
{
    size_t index = atomic_fetch_add(&next_span, 1);
    if (index >= job.count) {
        connection->left = 0;
        return;
    }
    char request[1024];
    const struct span *span = &job.reads[index];
    connection->span = index;
    connection->at = span->at;
    connection->left = span->length;
    connection->in_head = 1;
    connection->started = wall_seconds();
    int size = snprintf(request, sizeof request, "GET %s HTTP/1.1\r\nHost: %s\r\nRange: bytes=%llu-%llu\r\n\r\n",
                        span->path, host, (unsigned long long)span->first,
                        (unsigned long long)(span->first + span->length - 1));
    ssize_t sent = connection->ssl ? send_encrypted(connection->ssl, request, (size_t)size)
                                   : write(connection->fd, request, (size_t)size);
    if (sent != size)
        fail("write");
}

/* Looks at the head without taking it; takes it once it is whole. False: not yet. */
static int take_head(struct connection *connection)
{
    ssize_t size = take(connection, connection->head, HEAD_MAX - 1, MSG_PEEK);
    if (size < 0 && errno == EAGAIN)
        return 0;
    errno = size < 0 ? errno : 0;
    if (size <= 0)
        fail("the server closed the connection");
    connection->head[size] = 0;
    char *end = strstr(connection->head, "\r\n\r\n");
    if (!end)
        return 0;
    if (strncmp(connection->head, "HTTP/1.1 206", 12))
        fail("the status is not 206");
    take(connection, connection->head, (size_t)(end + 4 - connection->head), 0);
    connection->in_head = 0;
    return 1;
}

/* False: nothing more is there now. */
static int receive_some(struct connection *connection)
{
    if (!connection->left || (connection->in_head && !take_head(connection)))
        return 0;
    ssize_t size = take(connection, destination + connection->at, connection->left, 0);
    if (size < 0 && errno == EAGAIN)
        return 0;
    errno = size < 0 ? errno : 0;
    if (size <= 0)
        fail("recv");
    connection->at += (size_t)size;
    connection->left -= (size_t)size;
    atomic_fetch_add(&bytes_done, (size_t)size);
    if (!connection->left) {
        job.latencies[connection->span] = (wall_seconds() - connection->started) * 1e6;
        send_next(connection);
    }
    return 1;
}

static void receive(struct connection *connection)
{
    /* What OpenSSL has read ahead makes no socket readable: only asking tells. */
    while (receive_some(connection) && connection->ssl)
        ;
}

static void *run(void *argument)
{
    struct worker *worker = argument;
    for (int i = 0; i < worker->count; i++) {
        if (!worker->connections[i].fd)
            connect_to_server(worker, &worker->connections[i]);
        send_next(&worker->connections[i]);
    }
    for (;;) {
        int busy = 0;
        for (int i = 0; i < worker->count && !busy; i++)
            busy = worker->connections[i].left != 0;
        if (!busy)
            return NULL;
        struct epoll_event events[64];
        int count = epoll_wait(worker->epoll, events, 64, -1);
        for (int i = 0; i < count; i++)
            receive(events[i].data.ptr);
    }
}

int main(int argc, char **argv)
{
    if (argc != 7) {
        fprintf(stderr, "usage: rawlimit BASE PLAN REQUEST REPS CONNECTIONS THREADS\n");
        return 2;
    }
    job = parse_job(argv);
    int connections = (int)parse_number(argv[5], "CONNECTIONS"), threads = (int)parse_number(argv[6], "THREADS");
    if (threads < 1 || connections < threads) {
        fprintf(stderr, "THREADS must be at least 1, CONNECTIONS at least THREADS\n");
        return 2;
    }
    parse_base(job.base);
    cut_into_requests(&job);
    destination = make_destination(&job);
    struct worker *workers = make((size_t)threads, sizeof *workers);
    for (int t = 0; t < threads; t++) {
        workers[t].epoll = epoll_create1(EPOLL_CLOEXEC);
        workers[t].count = connections / threads + (t < connections % threads);
        workers[t].connections = make((size_t)workers[t].count, sizeof *workers[t].connections);
    }
    for (int rep = 0; rep < job.reps; rep++) {
        memset(destination, 1, job.total);
        atomic_store(&next_span, 0);
        atomic_store(&bytes_done, 0);
        double cpu = cpu_seconds(), start = wall_seconds();
        /* One thread: the main one, as there is nothing to hand over. */
        for (int t = 1; t < threads; t++)
            pthread_create(&workers[t].thread, NULL, run, &workers[t]);
        run(&workers[0]);
        for (int t = 1; t < threads; t++)
            pthread_join(workers[t].thread, NULL);
        double seconds = wall_seconds() - start;
        cpu = cpu_seconds() - cpu;
        if (atomic_load(&bytes_done) != job.total)
            fail("bytes are missing");
        report("raw", "rawlimit.c", &job, seconds, cpu, destination, 1, "");
    }
    hold_if_asked();
    return 0;
}
