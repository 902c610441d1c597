#include "api/load.h"

#include "api/background.h"

using namespace pumice;
using namespace pumice::api;

struct pumice_load : Live<pumice_load> {
  pumice_device device; // shares what the caller's has
  pumice_source source = {};
  pumice_load_options options = {};
  StageList stages;
  Background<pumice_model> loading; // uses those before it
};

extern "C" {

pumice_status pumice_load_start(pumice_device* device, const pumice_source* source,
                                const pumice_load_options* options, pumice_load** load, pumice_error* error) {
  return call(error, [&]() -> Status {
    PUMICE_REQUIRE_LIVE(device);
    PUMICE_REQUIRE(source);
    PUMICE_REQUIRE(load);
    *load = nullptr;
    auto handle = std::make_unique<pumice_load>();
    handle->device = *device;
    PUMICE_TRY(handle->source, read(source, "source"));
    PUMICE_TRY(handle->options, read(options, "options"));
    PUMICE_TRY(handle->stages, read_stages(handle->options, *device));
    const auto work = [started = handle.get()](const Progress& progress) {
      return load_model(started->device, &started->source, started->options, started->stages,
                        both(started->options.progress, started->options.user, progress));
    };
    PUMICE_CHECK(handle->loading.start(work, "the model"));
    *load = handle.release();
    return {};
  });
}

bool pumice_load_poll(pumice_load* load, uint64_t* done, uint64_t* total) {
  return !is_live(load) || load->loading.poll(done, total);
}

void pumice_load_cancel(pumice_load* load) {
  if (is_live(load)) load->loading.cancel();
}

pumice_status pumice_load_finish(pumice_load* load, pumice_model** model, pumice_error* error) {
  return call(error, [&]() -> Status {
    PUMICE_REQUIRE_LIVE(load);
    PUMICE_REQUIRE(model);
    *model = nullptr;
    PUMICE_TRY(std::unique_ptr<pumice_model> made, load->loading.finish());
    *model = made.release();
    return {};
  });
}

void pumice_load_destroy(pumice_load* load) {
  destroy_live(load);
}

} // extern "C"
