/* on_event is told of the operation, of each retry, with what failed and how long the wait is, and of each new connection,
 * on a thread of RaskIO's, where blocking calls are refused. Nobody asks for it: nobody is told. */
#include "support.h"

struct heard {
  pthread_mutex_t lock;
  pthread_t caller;
  int retries, wrong_retries, started, finished, on_our_thread, unknown, blocked;
  uint64_t connections;
  uint32_t waited_ms;
  raskio_client *client;
};

static void on_event(void *user_data, const raskio_event *event) {
  struct heard *heard = (struct heard *)user_data;
  pthread_mutex_lock(&heard->lock);
  if (pthread_equal(pthread_self(), heard->caller)) heard->on_our_thread++;
  if (event->struct_size < sizeof(raskio_event)) heard->unknown++;
  switch (event->kind) {
    case RASKIO_EVENT_RETRY:
      heard->retries++;
      heard->waited_ms += event->wait_ms;
      if (event->status != RASKIO_ERR_UNAVAILABLE || event->http_status != 503 || event->max_attempts != 3 ||
          event->attempt != (uint32_t)heard->retries || event->connections != 0) {
        heard->wrong_retries++;
      }
      if (raskio_client_shut_down(heard->client, 0, NULL) == RASKIO_ERR_WOULD_DEADLOCK) heard->blocked++;
      break;
    case RASKIO_EVENT_CONNECTED:
      heard->connections += event->connections;
      if (event->attempt != 0 || event->tls_ns != 0) heard->unknown++;
      break;
    case RASKIO_EVENT_OP_STARTED:
      heard->started++;
      if (event->op_kind != RASKIO_OP_READ || event->size != SMALL || event->op_number == 0 || !event->object) heard->unknown++;
      break;
    case RASKIO_EVENT_OP_FINISHED:
      heard->finished++;
      if (event->bytes != SMALL || event->attempts != 3 || event->status != RASKIO_OK || event->took_ns < event->queued_ns ||
          strstr(event->object, "/small") == NULL) {
        heard->unknown++;
      }
      break;
    default: heard->unknown++;
  }
  pthread_mutex_unlock(&heard->lock);
}

int main(void) {
  FOR_EACH_BACKEND(backend) {
    raskio_client_options options = client_options(backend);
    raskio_client *client = NULL;
    raskio_object *object;
    raskio_stats stats;
    raskio_error *error = NULL;
    unsigned char *buffer = buffer_new(SMALL);
    char path[96];
    struct heard heard;
    memset(&heard, 0, sizeof heard);
    pthread_mutex_init(&heard.lock, NULL);
    heard.caller = pthread_self();
    options.on_event = on_event;
    options.user_data = &heard;
    REQUIRE_OK(raskio_client_new(&options, &client, &error), error);
    heard.client = client;
    /* The server counts for each target: one of its own for each process and backend. */
    snprintf(path, sizeof path, "small?status=503&times=2&header=X:%ld-%u", (long)getpid(), (unsigned)backend);
    object = open_object(client, path);
    CHECK_STATUS(raskio_read_sync(object, 0, buffer, SMALL, NULL, NULL, NULL), RASKIO_OK);
    raskio_object_release(object);
    memset(&stats, 0, sizeof stats);
    stats.struct_size = sizeof stats;
    CHECK_STATUS(raskio_client_stats(client, &stats), RASKIO_OK);
    shut_down(client);
    CHECK_EQ(heard.retries, 2);
    CHECK_EQ(heard.wrong_retries, 0);
    CHECK_EQ(heard.blocked, 2);
    CHECK_EQ(heard.on_our_thread, 0);
    CHECK_EQ(heard.unknown, 0);
    CHECK_EQ(heard.started, 1);
    CHECK_EQ(heard.finished, 1);
    CHECK_EQ(heard.connections, stats.connections_opened);
    CHECK_EQ(heard.connections > 0, 1);
    CHECK_EQ(heard.waited_ms >= 1500, 1);
    pthread_mutex_destroy(&heard.lock);
    buffer_free(buffer);
  }
  return CHECK_DONE();
}
