#include <cmath>

#include <fmt/format.h>

#include "api/buffer.h"
#include "api/call.h"
#include "api/handles.h"

using namespace pumice;
using namespace pumice::api;

void AdapterList::add(const std::shared_ptr<const Adapter>& adapter) {
  const std::lock_guard lock(mutex_);
  std::erase_if(adapters_, [](const std::weak_ptr<const Adapter>& each) { return each.expired(); });
  adapters_.push_back(adapter);
}

Result<std::shared_ptr<const AdapterRoom>> AdapterList::room(uint32_t places, const std::string& name) const {
  constexpr uint32_t most_places = 1024;
  if (places == 0) return std::shared_ptr<const AdapterRoom>();
  if (places > most_places) {
    return Error{Code::invalid_argument,
                 fmt::format("{} is {}: expected at most {}", name, places, most_places)};
  }
  std::vector<std::shared_ptr<const Adapter>> there;
  const std::lock_guard lock(mutex_);
  for (const std::weak_ptr<const Adapter>& each : adapters_) {
    if (std::shared_ptr<const Adapter> adapter = each.lock()) there.push_back(std::move(adapter));
  }
  if (!there.empty()) return room_for(there, places);
  return Error{
      Code::invalid_argument,
      fmt::format("{} is {}, and the model has no adapter yet: load one first, by which the places are "
                  "made",
                  name, places)};
}

extern "C" {

pumice_status pumice_adapter_load(pumice_model* model, const char* path, pumice_adapter** adapter,
                                  pumice_error* error) {
  return call(error, [&]() -> Status {
    PUMICE_REQUIRE_LIVE(model);
    PUMICE_REQUIRE(path);
    PUMICE_REQUIRE(adapter);
    *adapter = nullptr;
    PUMICE_CHECK(check_decoder(*model, "an adapter"));
    const Model& of = *model->model;
    if (of.upstream()) {
      return Error{Code::unsupported,
                   fmt::format("{}: adapters are for a model on one device", of.file().path())};
    }
    auto loaded = std::make_unique<pumice_adapter>();
    PUMICE_TRY(loaded->adapter, Adapter::load(path_of(path), of.definition(), of.file()));
    loaded->list = model->adapters;
    loaded->list->add(loaded->adapter);
    *adapter = loaded.release();
    return {};
  });
}

pumice_status pumice_adapter_combine(const pumice_adapter* const* adapters, const float* scales, size_t count,
                                     pumice_adapter** combined_adapter, pumice_error* error) {
  return call(error, [&]() -> Status {
    PUMICE_REQUIRE(adapters);
    PUMICE_REQUIRE(combined_adapter);
    *combined_adapter = nullptr;
    PUMICE_CHECK(check_array(adapters, count, sizeof *adapters, "adapters"));
    if (count == 0) return Error{Code::invalid_argument, "count is 0: expected at least one adapter"};
    std::vector<AdapterChoice> choices;
    for (size_t i = 0; i < count; ++i) {
      const pumice_adapter* each = adapters[i];
      PUMICE_CHECK(check_live(each, fmt::format("adapters[{}]", i).c_str()));
      if (each->list != adapters[0]->list) {
        return Error{Code::invalid_argument,
                     fmt::format("adapters[{}] is another model's than adapters[0]", i)};
      }
      const float scale = scales ? scales[i] : 1;
      if (const Status status = check_scale(scale); !status.ok())
        return Error{Code::invalid_argument, fmt::format("scales[{}]: {}", i, status.error().message)};
      choices.push_back({each->adapter, scale * each->scale});
    }
    auto made = std::make_unique<pumice_adapter>();
    const AdapterChoice sum = combined(choices);
    made->adapter = sum.adapter;
    made->scale = sum.scale;
    made->list = adapters[0]->list;
    made->list->add(made->adapter);
    *combined_adapter = made.release();
    return {};
  });
}

void pumice_adapter_destroy(pumice_adapter* adapter) {
  destroy_live(adapter);
}

} // extern "C"
