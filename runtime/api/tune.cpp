#include "api/tune.h"

#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "api/background.h"
#include "api/stages.h"
#include "api/work.h"
#include "gpu/cache_folder/tuning_file.h"
#include "kernel/probe/probe.h"
#include "tuning/check_record.h"
#include "tuning/device_work.h"
#include "tuning/short_check.h"

using namespace pumice;
using namespace pumice::api;

struct pumice_tune : pumice_work, Live<pumice_tune> {
  pumice_tune() : pumice_work("measurement") {}
  ~pumice_tune() override { pumice_tune::cancel(); } // before `measuring` waits for its thread

  Result<SliceResult> slice(const SliceRequest& request) override;
  Status discard() override { return {}; } // there are no recorded ones
  void cancel() override {
    measuring.cancel();
    if (sliced) sliced->cancel();
    cancelled = true;
  }

  std::shared_ptr<const Model> model;
  std::shared_ptr<const Log> log;
  TuneOptions options;
  std::shared_ptr<SlicedWork> sliced; // null: the thread submits its work itself
  std::atomic<bool> cancelled = false;
  Background<Tuning> measuring; // uses those before it
};

Result<SliceResult> pumice_tune::slice(const SliceRequest& request) {
  if (!sliced) {
    return Error{Code::invalid_argument,
                 "the measurement was started without options.in_slices: it submits its work itself"};
  }
  PUMICE_TRY(SliceResult result, sliced->slice(request));
  result.active = !measuring.poll(nullptr, nullptr);
  return result;
}

namespace {

// Keeps what was measured, and stores it where there is a cache folder.
void keep(const Tuning& tuning, const Model& model, const Log& log) {
  if (tuning.classes.empty()) return; // everything was known
  const DeviceContext& context = model.context();
  keep_tuning(tuning, *context.pipelines,
              [&](const std::string& note) { log.say(PUMICE_LOG_WARNING, note); });
  save_pipelines(context, log);
  log.say(PUMICE_LOG_INFO, fmt::format("{}: measured kernels for {} classes of shapes{}", model.file().path(),
                                       tuning.classes.size(), tuning.complete ? "" : ", not for all"));
}

Result<std::unique_ptr<Tuning>> measure(const pumice_tune& tune, const Progress& progress) {
  TuneOptions options = tune.options;
  options.progress = progress;
  options.before_matrices = [&](const Tuning& so_far) { keep(so_far, *tune.model, *tune.log); };
  PUMICE_TRY(Tuning tuning, tune_model(tune.model, options));
  keep(tuning, *tune.model, *tune.log);
  return std::make_unique<Tuning>(std::move(tuning));
}

Result<DeviceProfile> tune_loaded(const std::shared_ptr<const Model>& model, double seconds, const Log& log,
                                  const std::function<bool()>& go_on) {
  constexpr double longest_submission = 0.004; // the application may draw meanwhile
  bool wanted = true;
  TuneOptions options;
  options.seconds = seconds;
  options.work = std::make_shared<DirectWork>(model->context().device, longest_submission);
  options.before_matrices = [&](const Tuning& so_far) { keep(so_far, *model, log); };
  options.strict = true;
  options.keep_cancelled = true;
  options.progress = [&](uint64_t, uint64_t) { return wanted = wanted && go_on(); };
  const Result<bool> needed = needs_tuning(*model, options);
  if (needed.ok() && !*needed) return model->context().profile;
  const Result<Tuning> tuning = tune_model(model, options);
  if (!tuning.ok()) {
    if (tuning.error().code == Code::device_lost) return tuning.error();
    log.say(PUMICE_LOG_WARNING, "kernels could not be measured: " + tuning.error().text());
    return model->context().profile;
  }
  keep(*tuning, *model, log);
  if (!wanted) return Error{Code::cancelled, "loading was cancelled while kernels were measured"};
  return with_tuning_results(model->context().profile, *model->context().pipelines);
}

Result<TuneOptions> tune_options(const pumice_tune_options& options, const ModelShape& shape) {
  TuneOptions result;
  PUMICE_TRY(result.seconds, read_seconds(options.seconds, "options.seconds"));
  if (result.seconds == 0) result.seconds = std::numeric_limits<double>::infinity();
  pumice_session_options session = {sizeof session};
  session.context = options.context;
  session.chunk = options.chunk;
  PUMICE_CHECK(session_options(session, shape));
  PUMICE_TRY(result.cache, read_cache_type(options.cache));
  result.context = options.context;
  result.chunk = options.chunk;
  result.strict = true;
  result.keep_cancelled = true;
  if (options.thorough) result.make_thorough();
  return result;
}

} // namespace

Result<double> pumice::api::read_seconds(float seconds, const char* name) {
  constexpr float most = 86400;
  if (seconds >= 0 && seconds <= most) return double{seconds};
  return Error{Code::invalid_argument, fmt::format("{} is {}: expected 0 to {}", name, seconds, most)};
}

Result<std::optional<double>> pumice::api::load_tune_seconds(float seconds, const Pipelines& pipelines) {
  constexpr double usual = 2;
  if (seconds < 0) return std::optional<double>();
  if (seconds == 0)
    return std::optional(pipelines.can_save() ? usual : 0.0); // else every load measures again
  PUMICE_TRY(const double limit, read_seconds(seconds, "options.tune_seconds"));
  return std::optional(limit);
}

std::shared_ptr<const Model> pumice::api::current_model(const std::shared_ptr<const Model>& model) {
  const DeviceContext& context = model->context();
  const DeviceProfile& known = context.profile;
  DeviceProfile profile = with_tuning_results(known, *context.pipelines);
  if (*profile.choices == *known.choices && *profile.blocklist == *known.blocklist) return model;
  return model->with_profile(std::move(profile));
}

TuningResults pumice::api::shipped_results(const pumice_device_options& options, const Capabilities& device,
                                           const Log& log) {
  if (!options.tuning_file && options.tuning_bytes == 0) return {};
  const std::string name =
      options.tuning_file ? path_text(path_of(options.tuning_file)) : "the tuning results in memory";
  const std::span memory(static_cast<const std::byte*>(options.tuning), options.tuning_bytes);
  const Result<TuningFile> file =
      options.tuning_file ? TuningFile::read(path_of(options.tuning_file)) : TuningFile::parse(memory, name);
  if (!file.ok()) {
    log.say(PUMICE_LOG_WARNING, file.error().text());
    return {};
  }
  std::optional<TuningResults> results = file->find(device);
  if (results) {
    std::erase_if(*results, [](const auto& result) { return is_check(result.first); });
    return *std::move(results);
  }
  log.say(
      PUMICE_LOG_INFO,
      fmt::format("{}: none of its tuning results is of {} with the driver {} {} and this version of Pumice",
                  name, device.name, device.driver, device.driver_version));
  return {};
}

KernelTrials pumice::api::load_trials(double seconds, size_t threads, const Log& log,
                                      std::function<bool()> go_on) {
  KernelTrials trials;
  if (seconds > 0) trials.check.seconds = std::min(trials.check.seconds, seconds);
  trials.check.threads = threads;
  trials.check.go_on = go_on;
  trials.how_to_go_on = "to load the model nevertheless, set pumice_load_options.tune_seconds below 0";
  trials.checked = [&log](const ShortCheck& check) {
    if (!check.known.empty()) log.say(PUMICE_LOG_INFO, check.known);
    if (!check.warning.empty()) log.say(PUMICE_LOG_WARNING, check.warning);
  };
  if (seconds == 0) return trials;
  trials.measure = [seconds, &log, go_on](const std::shared_ptr<const Model>& model) {
    return tune_loaded(model, seconds, log, go_on);
  };
  return trials;
}

extern "C" {

pumice_status pumice_tune_start(pumice_model* model, const pumice_tune_options* caller_options,
                                pumice_tune** tune, pumice_error* error) {
  return call(error, [&]() -> Status {
    PUMICE_REQUIRE_LIVE(model);
    PUMICE_REQUIRE(tune);
    *tune = nullptr;
    PUMICE_TRY(const pumice_tune_options options, read(caller_options, "options"));
    auto handle = std::make_unique<pumice_tune>();
    PUMICE_CHECK(check_one_device(*model->model, "measuring kernels"));
    handle->model = current_model(*model);
    handle->log = model->log;
    PUMICE_TRY(handle->options, tune_options(options, model->model->shape()));
    const std::shared_ptr<Device>& device = model->model->context().device;
    if (options.in_slices) {
      if (!device->capabilities().timestamps) {
        return Error{Code::unsupported,
                     "options.in_slices: the device's queue has no timestamps to measure slices with"};
      }
      handle->sliced = std::make_shared<SlicedWork>(device);
      handle->options.work = handle->sliced;
    }
    const auto work = [started = handle.get()](const Progress& progress) {
      return measure(*started, progress);
    };
    PUMICE_CHECK(handle->measuring.start(work, "the measurement"));
    *tune = handle.release();
    return {};
  });
}

bool pumice_tune_poll(pumice_tune* tune, uint64_t* done, uint64_t* total) {
  return !is_live(tune) || tune->measuring.poll(done, total);
}

pumice_work* pumice_tune_work(pumice_tune* tune) {
  return is_live(tune) ? tune : nullptr;
}

pumice_status pumice_tune_finish(pumice_tune* tune, pumice_tune_report* report, pumice_error* error) {
  return call(error, [&]() -> Status {
    PUMICE_REQUIRE_LIVE(tune);
    if (tune->sliced && !tune->cancelled && !tune->measuring.poll(nullptr, nullptr)) {
      return Error{Code::not_ready, "the measurement waits for more slices: call pumice_work_advance until "
                                    "slice.active is false, or pumice_work_cancel"};
    }
    PUMICE_TRY(const std::unique_ptr<Tuning> tuning, tune->measuring.finish());
    pumice_tune_report result = {sizeof result};
    result.classes = static_cast<uint32_t>(tuning->classes.size());
    result.complete = tuning->complete;
    return write(result, report, "report");
  });
}

void pumice_tune_destroy(pumice_tune* tune) {
  destroy_live(tune);
}

pumice_status pumice_device_save_tuning(const pumice_device* device, const char* path, pumice_error* error) {
  return call(error, [&]() -> Status {
    PUMICE_REQUIRE_LIVE(device);
    PUMICE_REQUIRE(path);
    return add_to_tuning_file(path_of(path), device->context.device->capabilities(),
                              device->context.pipelines->tuning_results());
  });
}

pumice_status pumice_device_write_tuning(const pumice_device* device, pumice_write_function write, void* user,
                                         pumice_error* error) {
  return call(error, [&]() -> Status {
    PUMICE_REQUIRE_LIVE(device);
    PUMICE_REQUIRE(write);
    TuningFile file;
    file.set(device->context.device->capabilities(), device->context.pipelines->tuning_results());
    const std::vector<std::byte> bytes = file.bytes();
    if (write(user, bytes.data(), bytes.size())) return {};
    return Error{Code::io, "the application's function did not take the bytes of the tuning results"};
  });
}

} // extern "C"
