// Handles of raskio.hpp release themselves: copies, moves, assignments, containers, threads, in any order of destruction.
#include "support.h"

#include <raskio.hpp>

#include <atomic>
#include <cstring>
#include <thread>
#include <type_traits>
#include <vector>

static_assert(std::is_nothrow_move_constructible_v<raskio::object>);
static_assert(std::is_nothrow_copy_constructible_v<raskio::object>);
static_assert(std::is_nothrow_move_assignable_v<raskio::op>);
static_assert(std::is_base_of_v<std::runtime_error, raskio::error>);
static_assert(std::is_base_of_v<raskio::error, raskio::not_found>);
static_assert(sizeof(raskio::client) == sizeof(void *));
static_assert(sizeof(raskio::client_options) == sizeof(raskio_client_options));
static_assert(sizeof(raskio::read_options) == sizeof(raskio_read_options));
static_assert(sizeof(raskio::object_options) == sizeof(raskio_object_options));

static std::atomic<int> ended;
static void last(void *) { ended++; }

static raskio::client make(std::uint32_t backend) {
  raskio::client_options options;
  options.backend = backend;
  options.on_shut_down = last;
  return raskio::client(options);
}

static void wait_for_end(int expected) {
  for (int i = 0; i < 20000 && ended.load() < expected; i++) sleep_ms(1);
  CHECK_EQ(ended.load(), expected);
}

int main() {
  unsigned char *buffer = buffer_new(SMALL);
  FOR_EACH_BACKEND(backend) {
    ended = 0;
    {  // The object outlives the variable that its client was in.
      raskio::object object = make(backend).open(url_of("small"));
      CHECK_EQ(ended.load(), 0);
      CHECK_EQ(object.read(0, buffer, SMALL).get(), SMALL);
      check_buffer(buffer, 0, SMALL, "an object alone");

      raskio::object copy = object;
      CHECK(copy.get() == object.get());
      raskio::object moved = std::move(object);
      CHECK(!object);
      CHECK(moved && moved.get() == copy.get());
      raskio::object &alias = moved;
      moved = alias;
      CHECK(moved.get() == copy.get());
      object = moved;
      moved = raskio::object();
      CHECK(object && !moved);
      copy = std::move(object);
      CHECK(copy && !object);
      CHECK_EQ(copy.read_sync(0, buffer, SMALL), SMALL);

      // A handle that was moved from says what is wrong, and does not crash.
      try {
        object.read_sync(0, buffer, SMALL);
        CHECK_FAILED("nothing was thrown");
      } catch (const raskio::error &error) {
        CHECK_STATUS(error.status(), RASKIO_ERR_INVALID_ARGUMENT);
      }
      CHECK(!object.size());
      raskio::op().cancel();
    }
    wait_for_end(1);

    {  // Operations outlive their handles, objects and client.
      std::future<std::size_t> read = make(backend).open(url_of("small?delay_ms=50")).read(0, buffer, SMALL);
      CHECK_EQ(read.get(), SMALL);
    }
    wait_for_end(2);

    {  // Many threads copy and drop the same handles.
      raskio::client client = make(backend);
      raskio::object object = client.open(url_of("small"));
      std::vector<std::thread> threads;
      for (int t = 0; t < 8; t++) {
        threads.emplace_back([client, object]() mutable {
          unsigned char *mine = buffer_new(SMALL);
          std::vector<raskio::object> copies(50, object);
          for (raskio::object &copy : copies) {
            if (copy.read_sync(0, mine, SMALL) != SMALL) CHECK_FAILED("short");
            copy = client.open(url_of("small"));
          }
          check_buffer(mine, 0, SMALL, "a thread's copy");
          client = raskio::client::process_default();
          buffer_free(mine);
        });
      }
      for (std::thread &thread : threads) thread.join();
      CHECK_EQ(client.stats().ops_started, 8 * 50);
      client.trim();
      client.shut_down();
      client.shut_down();
    }
    wait_for_end(3);
  }

  try {
    raskio::client_options options;
    options.backend = 9;
    raskio::client client(options);
    CHECK_FAILED("nothing was thrown");
  } catch (const raskio::error &error) {
    CHECK_STATUS(error.status(), RASKIO_ERR_INVALID_ARGUMENT);
    CHECK(std::strstr(error.what(), "backend is 9") != nullptr);
  }
  try {
    raskio::client().open(std::string("http://h/a\0b", 12));
    CHECK_FAILED("nothing was thrown");
  } catch (const raskio::error &error) {
    CHECK_STATUS(error.status(), RASKIO_ERR_INVALID_ARGUMENT);
  }
  raskio::client::process_default().shut_down();
  CHECK(std::strcmp(raskio::version(), raskio_version()) == 0);
  buffer_free(buffer);
  return CHECK_DONE();
}
