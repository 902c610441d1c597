#pragma once

#include <functional>
#include <utility>

#include "api/handles.h"
#include "step/work/making.h"

// Making what is neither a model nor generates texts of a decoder: at once, or in the background.
namespace pumice::api {

// Makes something of one kind and sets its handle. Refers to nothing of the application's.
using Maker = std::function<Status(const Making& making, pumice_created& created)>;

// Options are checked, and what they point to is copied.
#define KIND(name) Result<Maker> maker_of(const pumice_model& model, const pumice_##name##_options* options);
#include "api/tasks/kinds.def"

// The create function of a kind, whose `name` is for messages.
template <class Options, class Handle>
pumice_status create(pumice_model* model, const Options* options, Handle** made, const char* name,
                     Handle* pumice_created::*place, pumice_error* error) noexcept {
  return call(error, [&]() -> Status {
    PUMICE_REQUIRE_LIVE(model);
    if (!made) return null_argument(name);
    *made = nullptr;
    PUMICE_TRY(const Maker make, maker_of(*model, options));
    pumice_created created = {sizeof created};
    PUMICE_CHECK(make({}, created));
    *made = created.*place;
    return {};
  });
}

// For kinds whose create function compiles all kernels, too.
inline Making prepared(Making making) {
  making.prepared = true;
  return making;
}

} // namespace pumice::api
