#include "api/load.h"

#include <atomic>
#include <system_error>
#include <thread>

#include "api/call.h"

using namespace pumice;
using namespace pumice::api;

struct pumice_load {
  pumice_device device; // shares what the caller's has
  pumice_source source = {};
  pumice_load_options options = {};
  std::thread thread;
  std::atomic<bool> cancelled = false;
  std::atomic<bool> ended = false;
  std::atomic<uint64_t> done = 0;
  std::atomic<uint64_t> total = 0;
  // Of the thread, until it has been joined.
  std::unique_ptr<pumice_model> model;
  pumice_error error = {};
  bool taken = false;

  void run() {
    call(&error, [this]() -> Status {
      const Progress progress = [this](uint64_t bytes, uint64_t all) {
        done = bytes;
        total = all;
        if (options.progress && !options.progress(options.user, bytes, all)) return false;
        return !cancelled.load();
      };
      PUMICE_TRY(model, load_model(device, &source, options, progress));
      return {};
    });
    ended = true;
  }
  void join() {
    if (thread.joinable()) thread.join();
  }
};

extern "C" {

pumice_status pumice_load_start(pumice_device* device, const pumice_source* source,
                                const pumice_load_options* options, pumice_load** load, pumice_error* error) {
  return call(error, [&]() -> Status {
    PUMICE_REQUIRE(device);
    PUMICE_REQUIRE(source);
    PUMICE_REQUIRE(load);
    *load = nullptr;
    auto handle = std::make_unique<pumice_load>();
    handle->device = *device;
    PUMICE_TRY(handle->source, read(source, "source"));
    PUMICE_TRY(handle->options, read(options, "options"));
    try {
      handle->thread = std::thread([raw = handle.get()] { raw->run(); });
    } catch (const std::system_error& refused) {
      return Error{Code::out_of_memory,
                   std::string("the system started no thread to load the model with: ") + refused.what()};
    }
    *load = handle.release();
    return {};
  });
}

bool pumice_load_poll(pumice_load* load, uint64_t* done, uint64_t* total) {
  if (!load) return true;
  if (done) *done = load->done;
  if (total) *total = load->total;
  return load->ended;
}

void pumice_load_cancel(pumice_load* load) {
  if (load) load->cancelled = true;
}

pumice_status pumice_load_finish(pumice_load* load, pumice_model** model, pumice_error* error) {
  return call(error, [&]() -> Status {
    PUMICE_REQUIRE(load);
    PUMICE_REQUIRE(model);
    *model = nullptr;
    load->join();
    if (load->error.status != PUMICE_OK) return Error{to_code(load->error.status), load->error.message};
    if (load->taken) {
      return Error{Code::invalid_argument, "the model of this load has been handed out already"};
    }
    load->taken = true;
    *model = load->model.release();
    return {};
  });
}

void pumice_load_destroy(pumice_load* load) {
  if (!load) return;
  load->cancelled = true;
  load->join();
  delete load;
}

} // extern "C"
