#include <algorithm>

#include "api/call.h"
#include "api/handles.h"
#include "recording/time_slicer.h"
#include "step/memory_needs.h"

using namespace pumice;
using namespace pumice::api;

extern "C" {

pumice_status pumice_estimate_memory(pumice_device* device, const pumice_source* source,
                                     const pumice_load_options* load, const pumice_session_options* options,
                                     pumice_memory_estimate* estimate, pumice_error* error) {
  return call(error, [&]() -> Status {
    PUMICE_REQUIRE(device);
    PUMICE_REQUIRE(estimate);
    PUMICE_TRY(const pumice_load_options load_given, read(load, "load"));
    PUMICE_TRY(const pumice_session_options session_given, read(options, "options"));
    PUMICE_TRY(const LoadOptions load_options, read_load_options(load_given));
    PUMICE_TRY(ModelFile file, open_source(source, {}, true));
    PUMICE_TRY(const std::shared_ptr<const Model> model,
               Model::plan(std::move(file), device->context, load_options));
    PUMICE_TRY(const SessionOptions session, session_options(session_given, model->shape()));
    std::vector<std::string> readable;
    if (session.logits.buffer) readable = {"logits"};
    PUMICE_TRY(const SessionRunners runners, usual_runners(*model, session.size, readable));
    PUMICE_TRY(const uint64_t slices, TimeSlicer::memory_needed(*model->context().device));
    PUMICE_TRY(const MemoryNeeds needs, memory_needs(*model, runners, slices));
    pumice_memory_estimate own = {sizeof own};
    own.weights = needs.weights;
    own.cache = needs.cache;
    own.scratch = needs.scratch + needs.state;
    own.loading = needs.loading - std::min(needs.loading, needs.session());
    own.peak = needs.peak();
    own.fits = needs.fits();
    PUMICE_TRY(own.longest_context, longest_context(*model, session.size, readable, slices));
    return write(own, estimate, "estimate");
  });
}

} // extern "C"
