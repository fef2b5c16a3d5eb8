// Futures and callbacks of raskio.hpp: right bytes, exceptions of the right class, callables that can only be moved, and no
// exception that leaves a callback.
#include "support.h"

#include <raskio.hpp>

#include <cstring>
#include <memory>
#include <vector>

static raskio::client make(std::uint32_t backend) {
  raskio::client_options options;
  options.backend = backend;
  options.num_threads = 8;
  options.max_attempts = 1;
  return raskio::client(options);
}

template <class Exception, class Call>
static void throws(Call &&call, raskio_status status, int http_status, const char *what) {
  try {
    call();
    CHECK_FAILED("%s: nothing was thrown", what);
  } catch (const Exception &error) {
    CHECK_STATUS(error.status(), status);
    CHECK_EQ(error.http_status(), http_status);
    CHECK(std::strlen(error.what()) > 0);
  } catch (const std::exception &error) {
    CHECK_FAILED("%s: another exception: %s", what, error.what());
  }
}

static void futures(raskio::client &client) {
  raskio::object object = client.open(url_of("medium"));
  CHECK(!object.size());
  CHECK_EQ(object.stat().get(), MEDIUM);
  CHECK_EQ(object.size().value_or(0), MEDIUM);
  CHECK_EQ(object.info().size, MEDIUM);

  std::vector<unsigned char *> buffers;
  std::vector<std::future<std::size_t>> reads;
  for (std::size_t i = 0; i < 50; i++) {
    buffers.push_back(buffer_new(1000 + i));
    reads.push_back(object.read(i * 1000, buffers[i], 1000 + i));
  }
  for (std::size_t i = 0; i < 50; i++) {
    CHECK_EQ(reads[i].get(), 1000 + i);
    check_buffer(buffers[i], i * 1000, 1000 + i, "a future");
    buffer_free(buffers[i]);
  }
  unsigned char *buffer = buffer_new(SMALL);
  CHECK_EQ(object.read_sync(7, buffer, SMALL), SMALL);
  check_buffer(buffer, 7, SMALL, "read_sync");
  CHECK_EQ(object.read(0, nullptr, 0).get(), 0);

  throws<raskio::error>([&] { object.read(MEDIUM, buffer, 1); }, RASKIO_ERR_INVALID_ARGUMENT, 0, "beyond the end");
  raskio::object missing = client.open(url_of("medium?status=404"));
  throws<raskio::not_found>([&] { missing.read(0, buffer, 1).get(); }, RASKIO_ERR_NOT_FOUND, 404, "a missing object");
  throws<raskio::not_found>([&] { missing.read_sync(0, buffer, 1); }, RASKIO_ERR_NOT_FOUND, 404, "a missing object");
  throws<raskio::not_found>([&] { missing.stat().get(); }, RASKIO_ERR_NOT_FOUND, 404, "a missing object");
  throws<raskio::not_found>([&] { missing.stat_sync(); }, RASKIO_ERR_NOT_FOUND, 404, "a missing object");
  raskio::object busy = client.open(url_of("medium?status=503"));
  throws<raskio::error>([&] { busy.read(0, buffer, 1).get(); }, RASKIO_ERR_UNAVAILABLE, 503, "an overloaded server");

  raskio::object stuck = client.open(url_of("medium?stall=1"));
  raskio::read_options options;
  options.deadline_ms = 200;
  throws<raskio::timed_out>([&] { stuck.read(0, buffer, 1, options).get(); }, RASKIO_ERR_TIMED_OUT, 0, "a deadline");
  buffer_free(buffer);
}

static void callbacks(raskio::client &client) {
  raskio::object object = client.open(url_of("small"));
  raskio::object stuck = client.open(url_of("small?stall=1"));
  unsigned char *buffer = buffer_new(SMALL);

  // A callable that can only be moved, and is destroyed once it has run.
  auto alive = std::make_shared<int>(5);
  std::promise<int> got;
  std::future<int> future = got.get_future();
  raskio::op op = object.read_then(0, buffer, SMALL,
                                   [alive, got = std::move(got)](const raskio::result &result) mutable {
                                     CHECK(result.ok());
                                     CHECK_EQ(result.bytes(), SMALL);
                                     result.check();
                                     got.set_value(*alive);
                                   });
  CHECK_EQ(future.get(), 5);
  op.wait();
  CHECK(op.wait_for(std::chrono::milliseconds(0)));
  CHECK_EQ(alive.use_count(), 1);
  check_buffer(buffer, 0, SMALL, "read_then");

  // A refused call destroys the callable without calling it.
  try {
    object.read_then(1u << 30, nullptr, 1, [alive](const raskio::result &) { CHECK_FAILED("called"); });
    CHECK_FAILED("nothing was thrown");
  } catch (const raskio::error &error) {
    CHECK_STATUS(error.status(), RASKIO_ERR_INVALID_ARGUMENT);
  }
  CHECK_EQ(alive.use_count(), 1);

  // An exception stays inside, and RaskIO goes on.
  op = object.read_then(0, buffer, SMALL, [](const raskio::result &) { throw 7; });
  CHECK(op.wait_for(std::chrono::seconds(20)));
  CHECK_EQ(object.read(0, buffer, SMALL).get(), SMALL);

  // Cancel; the failure may be kept as an exception.
  std::promise<std::exception_ptr> failure;
  op = stuck.read_then(0, buffer, SMALL,
                       [&failure](const raskio::result &result) { failure.set_value(result.exception()); });
  CHECK(!op.wait_for(std::chrono::milliseconds(50)));
  op.cancel();
  throws<raskio::cancelled>([&] { std::rethrow_exception(failure.get_future().get()); }, RASKIO_ERR_CANCELLED, 0, "a cancel");
  op.wait();

  // A future that nobody waits for.
  object.read(0, buffer, SMALL);
  std::promise<void> statted;
  object.stat_then([&statted](const raskio::result &result) {
    CHECK(result.ok());
    statted.set_value();
  });
  statted.get_future().get();
  client.shut_down(std::chrono::seconds(20));
  check_buffer(buffer, 0, SMALL, "after all");
  throws<raskio::error>([&] { object.read(0, buffer, 1); }, RASKIO_ERR_SHUT_DOWN, 0, "after the shutdown");
  buffer_free(buffer);
}

int main() {
  FOR_EACH_BACKEND(backend) {
    raskio::client client = make(backend);
    futures(client);
    callbacks(client);
  }
  return CHECK_DONE();
}
