// Batches of raskio.hpp: one future for all, one for each item, a callback, and ends of objects.
#include "support.h"

#include <raskio.hpp>

#include <array>
#include <memory>
#include <vector>

static void one_future(raskio::client &client) {
  raskio::object object = client.open(url_of("medium"));
  raskio::object missing = client.open(url_of("medium?status=404"));
  std::array<unsigned char *, 4> buffers{};
  for (auto &buffer : buffers) buffer = buffer_new(1000);
  std::vector<raskio::read_spec> specs{{object, 5000, buffers[0], 1000}, {object, 0, buffers[1], 1000}};
  specs.emplace_back(missing, 0, buffers[2], 1000);
  specs.push_back(raskio::read_spec::last(object, buffers[3], 1000));
  raskio::batch_result result = client.read_batch(specs).get();
  CHECK(!result.ok());
  CHECK_EQ(result.items.size(), 4);
  CHECK_EQ(result.bytes, 3000);
  CHECK(result.attempts >= 3);
  const std::uint64_t offsets[] = {5000, 0, 0, MEDIUM - 1000};
  for (std::size_t i = 0; i < 4; i++) {
    const raskio::item_result &item = result.items[i];
    CHECK_EQ(item.ok(), i != 2);
    if (i != 2) {
      item.check();
      CHECK_EQ(item.bytes, 1000);
      CHECK_EQ(item.offset, offsets[i]);
      check_buffer(buffers[i], offsets[i], 1000, "an item");
    } else {
      check_untouched(buffers[i], 1000, "a missing object");
    }
    buffer_free(buffers[i]);
  }
  for (auto check : {+[](const raskio::batch_result &all) { all.check(); },
                     +[](const raskio::batch_result &all) { all.items[2].check(); }}) {
    try {
      check(result);
      CHECK_FAILED("nothing was thrown");
    } catch (const raskio::not_found &error) {
      CHECK_EQ(error.http_status(), 404);
    }
  }
  std::vector<raskio::read_spec> none;
  CHECK(client.read_batch(none).get().ok());
}

static void a_future_for_each(raskio::client &client) {
  raskio::object object = client.open(url_of("medium"));
  raskio::object missing = client.open(url_of("medium?status=404"));
  unsigned char *buffer = buffer_new(100 * 64);
  std::vector<raskio::read_spec> specs;
  for (std::size_t i = 0; i < 100; i++) specs.emplace_back(i == 50 ? missing : object, i * 64, buffer + i * 64, 64);
  raskio::batch_options options;
  options.coalesce_gap = 1;
  auto futures = client.read_each(specs, options);
  CHECK_EQ(futures.size(), 100);
  for (std::size_t i = 0; i < 100; i++) {
    try {
      CHECK_EQ(futures[i].get(), 64);
      CHECK(i != 50);
      CHECK(buffer[i * 64] == pattern(i * 64) && buffer[i * 64 + 63] == pattern(i * 64 + 63));
    } catch (const raskio::not_found &) {
      CHECK_EQ(i, 50);
    }
  }
  check_guards(buffer, 100 * 64, "a future for each");
  buffer_free(buffer);
}

static void a_callback(raskio::client &client) {
  raskio::object object = client.open(url_of("small"));
  unsigned char *buffer = buffer_new(SMALL);
  auto alive = std::make_shared<int>(0);
  std::promise<void> over;
  const raskio::read_spec specs[] = {{object, 0, buffer, 50}, {object, 50, buffer + 50, SMALL - 50}};
  raskio::op op = client.read_batch_then(specs, [alive, &over](const raskio::result &result) {
    CHECK(result.ok());
    CHECK_EQ(result.item_count(), 2);
    CHECK_EQ(result.item(1).bytes, SMALL - 50);
    over.set_value();
  });
  over.get_future().get();
  op.wait();
  CHECK_EQ(alive.use_count(), 1);
  check_buffer(buffer, 0, SMALL, "a callback");
  // A refused call destroys the callable, and the promises of all futures.
  raskio::batch_options wrong;
  wrong.struct_size = 1;
  try {
    client.read_each(specs, wrong);
    CHECK_FAILED("nothing was thrown");
  } catch (const raskio::error &error) {
    CHECK_STATUS(error.status(), RASKIO_ERR_INVALID_ARGUMENT);
  }
  // Nobody waits for these.
  client.read_batch(specs);
  client.read_each(specs);
  client.shut_down();
  buffer_free(buffer);
}

int main() {
  FOR_EACH_BACKEND(backend) {
    raskio::client_options options;
    options.backend = backend;
    options.num_threads = 4;
    options.max_attempts = 1;
    raskio::client client(options);
    one_future(client);
    a_future_for_each(client);
    a_callback(client);
  }
  return CHECK_DONE();
}
