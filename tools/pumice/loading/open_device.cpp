#include "loading/open_device.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <fstream>
#include <mutex>
#include <random>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/guarded.h"
#include "kernel/probe/open_device.h"
#include "kernel/probe/probe.h"
#include "loading/fitting_size.h"
#include "model/upstream.h"
#include "process/measuring_child.h"
#include "process/processes.h"
#include "stage/local_stages.h"
#include "task/load_model.h"
#include "terminal/counted.h"
#include "terminal/terminal.h"
#include "tuning/check_record.h"
#include "tuning/short_check.h"

namespace pumice::command {

namespace {

std::atomic<uint64_t> messages_seen = 0;
CompiledKernels compiled_so_far;
DeviceSource device_source = new_device;

// Names the variants that are blocked, and the file that says so. Of those that are newly_blocked() more was
// said.
void say_blocked(const OpenedDevice& opened) {
  const Pipelines& pipelines = *opened.context.pipelines;
  std::vector<std::string> keys;
  for (const auto& [key, blocked] : stored_blocklist(pipelines)) {
    if (std::ranges::count(pipelines.noted(), dangerous_result(key)) > 0) continue;
    keys.push_back("'" + key + "'");
    print_detail(blocked_text(key, blocked));
  }
  if (keys.empty()) return;
  print_note(
      fmt::format("{} ({}): not used, which may make it slow: the kernel variant{} {} (blocked by {}); "
                  "'pumice doctor' tries all kernels again",
                  opened.name(), opened.driver(), keys.size() == 1 ? "" : "s", fmt::join(keys, ", "),
                  path_text(pipelines.file())));
}

// Checks that a folder exists or can be created, and that a file can be written to it.
Status check_writable(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (!error) {
    const std::filesystem::path trial = folder / fmt::format(".write-test-{}", std::random_device()());
    if (!(std::ofstream(trial) << "x").flush()) error = std::make_error_code(std::errc::permission_denied);
    std::error_code ignored;
    std::filesystem::remove(trial, ignored);
  }
  if (!error) return {};
  return Error{Code::io,
               fmt::format("{}: the cache folder cannot be written ({}): choose another one with --cache, "
                           "or use --no-cache",
                           path_text(folder), error.message())};
}

Status choose_cache(const DeviceOptions& options, OpenedDevice& opened) {
  if (options.no_cache) return {};
  opened.cache_was_asked_for = !options.cache.empty();
  opened.cache = opened.cache_was_asked_for ? path_of(options.cache) : default_cache_folder();
  if (opened.cache.empty()) return {};
  Status status = check_writable(opened.cache);
  if (status.ok() || opened.cache_was_asked_for) return status;
  print_note(status.error().text());
  opened.cache.clear();
  return {};
}

// Whether the device was used with this cache folder before.
bool was_used(const OpenedDevice& opened) {
  std::error_code ignored;
  return !opened.cache.empty() && std::filesystem::exists(opened.context.pipelines->file(), ignored);
}

// Drivers that compute on the processor have become many times as fast. Empty for one that is new enough.
std::string gain_of_update(const Capabilities& device) {
  constexpr int good = 24; // of Mesa
  constexpr std::string_view mesa = "Mesa ";
  const std::string_view version = device.driver_version;
  if (!device.is_cpu() || !version.starts_with(mesa)) return {};
  const int major = std::atoi(version.substr(mesa.size()).data());
  if (major >= good) return {};
  return fmt::format("; Mesa {} or later computes several times as fast here, and starts sooner", good);
}

// Shows that kernels are being compiled, where that takes long. The driver and the cache folder keep what
// they can: some drivers compile a part again at each start.
Progress compile_progress(bool first_time) {
  struct Compiling {
    explicit Compiling(const char* label) : bar(label, ProgressBar::Look::counted) {}
    std::mutex mutex; // several models may need kernels at once
    ProgressBar bar;
    std::optional<Stopwatch> watch;
  };
  const char* label =
      first_time ? "compiling kernels for this device, first time only" : "compiling kernels for this device";
  return [shared = std::make_shared<Compiling>(label)](uint64_t done, uint64_t total) {
    const std::lock_guard lock(shared->mutex);
    if (!shared->watch) shared->watch.emplace();
    const bool go_on = shared->bar.update(done, total);
    if (done < total) return go_on;
    shared->bar.erase();
    compiled_so_far.count += total;
    compiled_so_far.seconds += shared->watch->seconds();
    shared->watch.reset();
    return go_on;
  };
}

// Error for a kernel variant that the device cannot run at all.
Status check_variant(const std::string& variant, const OpenedDevice& opened) {
  const DeviceProfile& profile = opened.context.profile;
  const std::vector<std::string> tiers = opened.capabilities().tiers();
  const char* missing = nullptr;
  if (variant.starts_with("cpu8") && !profile.cpu8)
    missing = "it is for drivers that compute on the processor";
  if (variant == "dot" && !profile.dot) missing = "it needs integer dot products";
  const std::string tier = variant.substr(0, variant.find('-'));
  if ((tier == "cm" || tier == "cm2") && std::ranges::count(tiers, tier) == 0)
    missing = "it needs cooperative matrices";
  if (!missing) return {};
  return Error{Code::unsupported,
               fmt::format("--kernel-variant {}: {} cannot run it: {} (see 'pumice devices')", variant,
                           opened.name(), missing)};
}

bool has_gpu(const Instance& instance) {
  for (const Capabilities& device : instance.devices()) {
    if (device.usable() && !device.is_cpu()) return true;
  }
  return false;
}

} // namespace

std::filesystem::path default_cache_folder() {
  if (const char* folder = std::getenv("XDG_CACHE_HOME"); folder && *folder) {
    return path_of(folder) / "pumice";
  }
#ifdef _WIN32
  if (const char* folder = std::getenv("LOCALAPPDATA"); folder && *folder) return path_of(folder) / "pumice";
#else
  if (const char* home = std::getenv("HOME"); home && *home) return path_of(home) / ".cache" / "pumice";
#endif
  return {};
}

CompiledKernels compiled_kernels() {
  return compiled_so_far;
}

std::string compiled_text() {
  const auto& [count, seconds] = compiled_so_far;
  return count == 0 ? "" : fmt::format("compiled {} in {:.3f} s\n", counted(count, "kernel"), seconds);
}

uint64_t validation_messages() {
  return messages_seen;
}

Result<std::shared_ptr<Instance>> create_instance(const DeviceOptions& options) {
  InstanceOptions instance;
  instance.loader = options.loader;
  instance.validate = options.validate;
  instance.validation_log = [](const std::string& message) {
    ++messages_seen;
    print_note("validation: " + message);
  };
  return Instance::create(std::move(instance));
}

Result<FoundDevice> new_device(const DeviceOptions& options, const std::filesystem::path& cache) {
  PUMICE_TRY(std::shared_ptr<Instance> instance, create_instance(options));
  PUMICE_TRY(const Capabilities chosen, instance->choose(options.device));
  pumice::DeviceOptions device;
  device.memory_limit = options.memory_limit;
  device.processor_matrices = options.kernel_variant.starts_with("cm");
  FoundDevice found;
  found.beside_gpu = has_gpu(*instance);
  PUMICE_TRY(found.context, pumice::open_device(std::move(instance), chosen, cache, device));
  return found;
}

void use_devices(DeviceSource source) {
  device_source = source ? std::move(source) : new_device;
  compiled_so_far = {};
  messages_seen = 0;
}

struct OpenedDevice::Checking {
  std::unique_ptr<BackgroundCheck> check; // null: there is nothing to check
  ~Checking();
};

// Says how much memory was taken, once the command no longer has the device.
struct OpenedDevice::MemoryNote {
  std::string name;
  std::shared_ptr<const Device> device;
  ~MemoryNote() {
    (void)guarded([&] {
      print_detail(fmt::format("{}: took at most {:.2f} MiB of device memory", name,
                               static_cast<double>(device->memory().peak) / (1 << 20)));
    });
  }
};

namespace {

Result<OpenedDevice> open_one(const DeviceOptions& options, bool with_note) {
  const Stopwatch watch;
  OpenedDevice opened;
  opened.options = options;
  PUMICE_CHECK(choose_cache(options, opened));
  PUMICE_TRY(FoundDevice found, device_source(options, opened.cache));
  opened.context = std::move(found.context);
  opened.shared = found.shared;
  const bool used_before = was_used(opened);
  if (opened.capabilities().is_cpu() && !found.beside_gpu && with_note) {
    print_note(fmt::format("no GPU found; using the CPU device {} ({}){}", opened.name(), opened.driver(),
                           used_before ? "" : gain_of_update(opened.capabilities())));
  }
  for (const std::string& note : newly_blocked(*opened.context.pipelines)) {
    print_note(fmt::format("{} ({}): {}", opened.name(), opened.driver(), note));
  }
  say_blocked(opened);
  PUMICE_CHECK(check_variant(options.kernel_variant, opened));
  opened.context.interrupt = &interrupt_flag();
  opened.context.compiling_threads = SIZE_MAX;
  opened.context.compiling = compile_progress(!opened.cache.empty() && !used_before);
  DeviceProfile& profile = opened.context.profile;
  if (!options.kernel_variant.empty()) profile.forced = options.kernel_variant;
  if (options.no_tune) profile.choices = nullptr;
  opened.tunes = !options.no_tune && profile.forced.empty();
  print_detail(fmt::format("opened {} ({}) in {:.3f} s; cache folder: {}", opened.name(), opened.driver(),
                           watch.seconds(), opened.cache.empty() ? "none" : path_text(opened.cache)));
  const std::string where = others() ? others()->name(others()->rank()) + ", " : "";
  opened.checking = std::make_shared<OpenedDevice::Checking>();
  opened.at_end.reset(new OpenedDevice::MemoryNote{where + opened.name(), opened.context.device});
  return opened;
}

} // namespace

Result<OpenedDevice> open_device(const DeviceOptions& options) {
  if (others()) {
    PUMICE_TRY(const DeviceOptions process_options, own_options(options));
    return open_one(process_options, true);
  }
  if (options.devices.size() < 2 && !options.split.empty()) {
    return Error{Code::invalid_argument, "--split is for several devices: name them with --devices, or start "
                                         "the command with mpirun"};
  }
  if (options.devices.empty()) return open_one(options, true);
  std::vector<OpenedDevice> all;
  for (const std::string& name : options.devices) {
    DeviceOptions one = options;
    one.device = name;
    PUMICE_TRY(OpenedDevice opened, open_one(one, all.empty()));
    all.push_back(std::move(opened));
  }
  OpenedDevice last = std::move(all.back());
  all.pop_back();
  last.before = std::move(all);
  return last;
}

std::string OpenedDevice::driver() const {
  return fmt::format("{} {}", capabilities().driver, capabilities().driver_version);
}

namespace {

constexpr const char* without_check = "--no-tune goes on nevertheless";

void say_checked(const ShortCheck& check) {
  if (check.cases > 0)
    print_detail(fmt::format("checked {} in {:.3f} s{}", counted(check.cases, "kernel"), check.seconds,
                             check.complete ? "" : ", and others later"));
  if (!check.warning.empty()) print_note(check.warning);
}

// What was found wrong was used meanwhile.
Status end_check(BackgroundCheck& check) {
  Result<ShortCheck> found = check.finish([] {
    if (stderr_is_terminal() && !interrupted())
      print_note("waiting for the check of a kernel, once for this driver; Ctrl-C leaves it for later");
  });
  if (!found.ok()) {
    Error error = found.error();
    if (error.code == Code::unsupported) error.message += std::string("; ") + without_check;
    return error;
  }
  if (!found->warning.empty()) found->warning += "; it was used this time: what came of it may be wrong";
  say_checked(*found);
  return {};
}

} // namespace

// Of a command that did not come to its end.
OpenedDevice::Checking::~Checking() {
  if (check) (void)guarded([&] { return end_check(*check); });
}

// Before the check ends, which Ctrl-C may cut short, and again with what it found.
Status OpenedDevice::save_pipelines() const {
  for (const OpenedDevice& device : before) PUMICE_CHECK(device.save_pipelines());
  const auto save = [&] {
    const SavedWork saved;
    return context.pipelines->save();
  };
  Status status = save();
  if (checking && checking->check) {
    const Status checked = end_check(*checking->check);
    if (status.ok()) status = save();
    PUMICE_CHECK(checked);
  }
  if (status.ok() || cache_was_asked_for) return status;
  print_note(status.error().text());
  return {};
}

namespace {

// Ctrl-C ends the command; after any other error the model runs without tuning results.
Result<std::optional<DeviceProfile>> applied(const Result<Tuning>& tuning, const OpenedDevice& device) {
  if (interrupted()) return interruption();
  if (tuning.ok()) return std::optional(apply_tuning(*tuning, device));
  if (tuning.error().code == Code::cancelled) return tuning.error();
  print_detail("kernels could not be measured: " + tuning.error().text());
  return std::optional<DeviceProfile>();
}

// Measuring when a model is first used: a short `pumice tune`.
class FirstUse {
public:
  FirstUse(const OpenedDevice& device, const LoadOptions& load, const SizeOptions* size)
      : device_(device), load_(load), size_(size) {
    // Drivers of GPUs compile a class's variants for longer than those run, and what was not measured can be
    // five times slower.
    if (!device.context.profile.cpu) how_.seconds = 15;
  }

  // In a child process. Nothing if there is nothing to measure, or no such process.
  Result<std::optional<DeviceProfile>> measure_apart(const Model& model) {
    if (size_) {
      const SessionSize size = session_size(*size_, model.shape());
      how_.context = size.context;
      how_.chunk = size.chunk;
      how_.cache = size.cache;
    }
    const Result<bool> needed = needs_tuning(model, how_);
    if (!needed.ok() || !*needed) return std::optional<DeviceProfile>();
    const Result<Tuning> tuning = measure_in_child(device_, {model.file().path(), load_, how_});
    here_ = !tuning.ok() && tuning.error().code == Code::unsupported;
    return here_ ? std::optional<DeviceProfile>() : applied(tuning, device_);
  }

  // In this process, where there is no other one.
  Result<DeviceProfile> measure_here(const std::shared_ptr<const Model>& model) {
    const DeviceProfile& before = model->context().profile;
    if (!here_) return before;
    ProgressBar bar("measuring the device");
    how_.progress = bar.callback();
    PUMICE_TRY(const std::optional<DeviceProfile> after, applied(tune_model(model, how_), device_));
    return after.value_or(before);
  }

private:
  const OpenedDevice& device_;
  const LoadOptions& load_;
  const SizeOptions* size_;
  TuneOptions how_;
  bool here_ = false;
};

// Where a driver takes seconds to compile a kernel, as those of processors do, and what is found is kept.
bool checks_in_background(const OpenedDevice& device) {
  return device.tunes && device.context.profile.cpu && device.context.pipelines->can_save() &&
         !device.options.measures && !device.shared;
}

// On a device of its own, so that the model's is not waited for. A command's second model is checked once
// its first one is.
void check_in_background(std::shared_ptr<const Model> model, const OpenedDevice& device) {
  if (device.checking->check) return;
  (void)device.context.pipelines->save(); // so that the other device knows what was found out about this one
  const auto open = [options = device.options, cache = device.cache]() mutable -> Result<DeviceContext> {
    options.memory_limit = 0;
    PUMICE_TRY(FoundDevice own, device_source(options, cache));
    own.context.interrupt = &interrupt_flag();
    return std::move(own.context);
  };
  (void)guarded([&] { // without a thread the next start tries again
    device.checking->check = std::make_unique<BackgroundCheck>(std::move(model), open);
  });
}

// The file is opened once more for each stage.
Result<std::shared_ptr<const Model>> load_stages(OpenedModel opened, const OpenedDevice& device,
                                                 const LoadOptions& options) {
  if (!opened.definition) {
    PUMICE_TRY(opened, OpenedModel::open(std::move(opened.file), options.settings));
  }
  const ModelFile& file = opened.file;
  const uint32_t count = static_cast<uint32_t>(device.before.size()) + 1;
  std::vector<uint32_t> layers = device.options.split;
  if (layers.empty()) {
    PUMICE_TRY(layers, even_split(file.path(), opened.definition->shape(), count));
  }
  if (layers.size() != count) {
    return Error{Code::invalid_argument,
                 fmt::format("--split has {}, and --devices has {}: give as many numbers as devices",
                             counted(layers.size(), "number"), counted(count, "device"))};
  }
  std::vector<DeviceContext> contexts;
  for (const OpenedDevice& each : device.before) contexts.push_back(each.context);
  contexts.push_back(device.context);
  const Stopwatch watch;
  ProgressBar bar("loading the model");
  PUMICE_TRY(std::shared_ptr<const Model> model,
             load_in_stages(path_of(file.path()), contexts, layers, options, bar.callback()));
  bar.erase();
  for (const std::string& stage :
       model->upstream() ? model->upstream()->describe() : std::vector<std::string>())
    print_detail(stage);
  print_detail(fmt::format("loaded {} in {:.3f} s: the last {} on {}, {:.1f} MiB of weights there",
                           file.path(), watch.seconds(), counted(layers.back(), "layer"), device.name(),
                           static_cast<double>(model->weight_bytes()) / (1 << 20)));
  return model;
}

} // namespace

DeviceProfile apply_tuning(const Tuning& tuning, const OpenedDevice& device) {
  Pipelines& pipelines = *device.context.pipelines;
  keep_tuning(tuning, pipelines, [&](const std::string& note) {
    print_note(fmt::format("{} ({}): {}", device.name(), device.driver(), note));
  });
  return with_tuning_results(device.context.profile, pipelines);
}

namespace {

bool in_stages(const OpenedDevice& device) {
  return !device.before.empty() || (others() && others()->size() > 1);
}

Result<std::shared_ptr<const Model>> load_planned(std::shared_ptr<const Model> planned,
                                                  const OpenedDevice& device, const LoadOptions& options,
                                                  const SizeOptions* size, const Stopwatch& watch) {
  ProgressBar bar("loading the model");
  FirstUse first_use(device, options, size);
  ProgressBar checking("checking kernels, once for this driver");
  KernelTrials trials;
  trials.check.progress = checking.callback();
  trials.measure_before = [&](const Model& model) { return first_use.measure_apart(model); };
  trials.how_to_go_on = without_check;
  const bool apart = checks_in_background(device);
  // With a driver that is new, the first kernels are checked before they are used. Later it is only seen
  // whether there are others.
  if (apart && !stored_checks(*device.context.pipelines, device.capabilities()).empty())
    trials.check.seconds = 0;
  bool checked = true;
  trials.checked = [&](const ShortCheck& check) {
    bar.erase();
    checking.erase();
    say_checked(check);
    checked = checked && check.complete;
  };
  trials.measure = [&](const std::shared_ptr<const Model>& model) {
    bar.erase();
    return first_use.measure_here(model);
  };
  PUMICE_TRY(std::shared_ptr<const Model> model,
             pumice::load_model(std::move(planned), bar.callback(), device.tunes ? &trials : nullptr));
  bar.erase();
  if (apart && !checked) check_in_background(model, device);
  for (const std::string& each : unread_settings(model->file())) print_note(each);
  print_detail(fmt::format("loaded {} in {:.3f} s: {:.1f} MiB of weights on the device", model->file().path(),
                           watch.seconds(), static_cast<double>(model->weight_bytes()) / (1 << 20)));
  return model;
}

} // namespace

Result<std::shared_ptr<const Model>> load_model(OpenedModel model, const OpenedDevice& device,
                                                const LoadOptions& options, const SizeOptions* size) {
  if (others() && others()->size() > 1) return load_last_stage(std::move(model), device, options);
  if (in_stages(device)) return load_stages(std::move(model), device, options);
  const Stopwatch watch;
  PUMICE_TRY(std::shared_ptr<const Model> planned, Model::plan(std::move(model), device.context, options));
  return load_planned(std::move(planned), device, options, size, watch);
}

Result<std::shared_ptr<const Model>> load_fitting_model(OpenedModel model, const OpenedDevice& device,
                                                        SizeOptions& size) {
  const bool staged = in_stages(device) || (others() && others()->size() > 1);
  if (!size.fit && staged) return load_model(std::move(model), device, size.load, &size);
  if (in_stages(device)) {
    return Error{Code::invalid_argument, "--fit is for one device: leave out --fit or --devices"};
  }
  const Stopwatch watch;
  PUMICE_TRY(std::shared_ptr<const Model> planned, Model::plan(std::move(model), device.context, size.load));
  PUMICE_TRY(size, size.fit ? fitting_size(size, *planned) : default_size(size, *planned));
  return load_planned(std::move(planned), device, size.load, &size, watch);
}

} // namespace pumice::command
