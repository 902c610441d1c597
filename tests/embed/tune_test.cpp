// Measuring kernels through the library, and shipping what was found.
#include <vulkan/vulkan.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>
#include <mutex>
#include <thread>

#include "api/handles.h"
#include "api/tune.h"
#include "gpu/cache_folder/tuning_file.h"
#include "step/runner_layout.h"
#include "support/files/temporary_folder.h"
#include "support/skip.h"
#include "support/vulkan/vulkan_program.h"
#include "tuning/trials.h"

using pumice::Capabilities;
using pumice::TuningFile;
using pumice::TuningResults;

namespace {

using TuneHandle = std::unique_ptr<pumice_tune, Destroy<pumice_tune_destroy>>;
constexpr uint32_t context = 64, chunk = 16;

// What the library says, by all threads.
struct Said {
  std::mutex mutex;
  std::vector<std::string> warnings, infos;

  static void hear(void* user, pumice_log_level level, const char* message) {
    auto& self = *static_cast<Said*>(user);
    const std::lock_guard lock(self.mutex);
    if (std::string_view(message).find("not switched on") != std::string_view::npos) return;
    (level == PUMICE_LOG_WARNING ? self.warnings : self.infos).push_back(message);
  }
  static size_t count(const std::vector<std::string>& all, std::initializer_list<const char*> parts) {
    return static_cast<size_t>(std::ranges::count_if(all, [&](const std::string& message) {
      return std::ranges::all_of(parts,
                                 [&](const char* part) { return message.find(part) != std::string::npos; });
    }));
  }
};

// A program's device without buffer addresses, which is called a GPU: a CPU driver then has the kernels of
// GPUs, which have rivals.
class GpuLike {
public:
  DeviceHandle device(pumice_device_options options = {sizeof(pumice_device_options)}) {
    options.log = Said::hear;
    options.log_user = &said;
    DeviceHandle device = program_.device(options);
    device->context.profile.cpu = false;
    return device;
  }

  Said said;

private:
  static constexpr const char* extension = VK_KHR_SHADER_INTEGER_DOT_PRODUCT_EXTENSION_NAME;
  static const VkPhysicalDeviceVulkan12Features& features() {
    static VkPhysicalDeviceVulkan13Features v13{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES};
    v13.shaderIntegerDotProduct = v13.subgroupSizeControl = v13.computeFullSubgroups = VK_TRUE;
    static VkPhysicalDeviceVulkan12Features v12{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES, &v13};
    v12.timelineSemaphore = VK_TRUE;
    return v12;
  }
  VulkanProgram program_{&features(), std::span(&extension, 1)};
};

pumice_tune_options small_sessions(bool in_slices) {
  pumice_tune_options options = {sizeof options};
  options.context = context;
  options.chunk = chunk;
  options.in_slices = in_slices;
  return options;
}

TuneHandle start(pumice_model* model, const pumice_tune_options& options) {
  pumice_tune* tune = nullptr;
  pumice_error error;
  require_ok(pumice_tune_start(model, &options, &tune, &error), error);
  return TuneHandle(tune);
}

pumice_tune_report finish(const TuneHandle& tune) {
  pumice_tune_report report = {sizeof report};
  pumice_error error;
  require_ok(pumice_tune_finish(tune.get(), &report, &error), error);
  return report;
}

// The plans of the steps of a session that is created now.
std::vector<pumice::Plan> plans_of(const ModelHandle& model) {
  pumice::RunnerOptions options;
  options.size.context = context;
  options.size.chunk = chunk;
  return pumice::lay_out_runner(*pumice::api::current_model(*model), options, nullptr)->plans;
}

// The variants that they use, by class, where there are several to measure.
std::map<std::string, std::string> chosen(const ModelHandle& model) {
  std::map<std::string, std::string> variants;
  for (const pumice::Plan& plan : plans_of(model)) {
    for (const pumice::VariantChoice& choice : plan.choices) {
      if (choice.variants.size() > 1 && !choice.settled) variants[choice.shape_class] = choice.chosen;
    }
  }
  return variants;
}

std::map<std::string, std::string> known(const DeviceHandle& device) {
  return pumice::stored_choices(*device->context.pipelines);
}

const Capabilities& capabilities(const DeviceHandle& device) {
  return device->context.device->capabilities();
}

SessionHandle small_session(const ModelHandle& model) {
  pumice_session_options options = {sizeof options};
  options.context = context;
  options.chunk = chunk;
  return make_session(model.get(), options);
}

// Every variant is the plain one, as nothing that was measured ever says.
TuningResults all_portable(const std::map<std::string, std::string>& choices) {
  TuningResults results;
  for (const auto& [shape_class, variant] : choices) results["choice " + shape_class] = "portable";
  return results;
}

std::string text_of(const std::filesystem::path& path) {
  return path.string();
}

} // namespace

TEST_CASE("kernels that were measured are used by what is created afterwards, and kept in the cache folder") {
  const TemporaryFolder cache;
  const std::string folder = text_of(cache.path());
  GpuLike program;
  pumice_device_options options = {sizeof options};
  options.cache_folder = folder.c_str();
  std::map<std::string, std::string> measured;
  {
    const DeviceHandle device = program.device(options);
    const ModelHandle model = load(device.get(), stories, -1);
    const auto before = chosen(model);
    REQUIRE(before.size() > 3);
    CHECK(known(device).empty());
    // So that what is measured differs from what there was.
    device->context.pipelines->add_tuning_results(all_portable(before));
    CHECK(chosen(model) == std::map(known(device)));

    pumice_tune_options how = small_sessions(false);
    how.thorough = true;
    how.seconds = 4;
    const TuneHandle tune = start(model.get(), how);
    uint64_t done = 0, total = 0;
    while (!pumice_tune_poll(tune.get(), &done, &total)) std::this_thread::yield();
    const pumice_tune_report report = finish(tune);
    CHECK(report.classes > 0);
    CHECK(done <= total);
    measured = known(device);
    size_t changed = 0;
    for (const auto& choice : chosen(model)) {
      const auto& shape_class = choice.first;
      const auto& variant = choice.second;
      CAPTURE(shape_class);
      CHECK(measured.at(shape_class) == variant);
      changed += variant != "portable";
    }
    CHECK(changed > 0); // the plain one never wins
    pumice_error error;
    CHECK(pumice_tune_finish(tune.get(), nullptr, &error) == PUMICE_INVALID_ARGUMENT);
    CHECK(tell(small_session(model).get(), "Once upon a time", 4).tokens.size() == 4);
  }
  // The file is the one that the command reads and writes.
  const DeviceHandle again = program.device(options);
  CHECK(known(again) == measured);
  const auto file = pumice::device_file_path(cache.path(), capabilities(again));
  CHECK(pumice::read_device_file(file, capabilities(again)).tuning_results ==
        again->context.pipelines->tuning_results());
  CHECK(program.said.warnings.empty());
}

TEST_CASE("measuring goes on in slices between frames") {
  GpuLike program;
  const DeviceHandle device = program.device();
  const ModelHandle model = load(device.get(), stories, 0);
  pumice_tune_options how = small_sessions(true);
  how.thorough = true;
  how.seconds = 4;
  const TuneHandle tune = start(model.get(), how);
  pumice_error error;
  CHECK(pumice_tune_finish(tune.get(), nullptr, &error) == PUMICE_NOT_READY);
  pumice_slice slice = {sizeof slice, true};
  // Nothing of it is recorded.
  const auto commands = reinterpret_cast<VkCommandBuffer>(&slice);
  CHECK(pumice_work_record(pumice_tune_work(tune.get()), commands, 500, nullptr, &error) ==
        PUMICE_UNSUPPORTED);
  CHECK(pumice_work_discard(pumice_tune_work(tune.get()), &error) == PUMICE_OK);
  size_t slices = 0, several = 0;
  while (slice.active) {
    require_ok(pumice_work_advance(pumice_tune_work(tune.get()), 500, nullptr, &slice, &error), error);
    // One piece, which nothing can divide, or what is expected to fit.
    CHECK((slice.dispatches <= 1 || slice.expected_us <= 500));
    slices += slice.dispatches > 0;
    several += slice.dispatches > 1;
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  CHECK(slices > 50);
  CHECK(several > 0);
  CHECK(finish(tune).classes > 0);
  // They are used from now on.
  const auto found = known(device);
  CHECK(found.size() > 0);
  size_t used = 0;
  for (const auto& choice : chosen(model)) {
    const auto& shape_class = choice.first;
    const auto& variant = choice.second;
    CAPTURE(shape_class);
    if (!found.contains(shape_class)) continue;
    CHECK(found.at(shape_class) == variant);
    ++used;
  }
  CHECK(used > 0);
  CHECK(program.said.warnings.empty());
  // What is known is not measured again.
  const TuneHandle second = start(model.get(), small_sessions(false));
  finish(second);
  for (const auto& [shape_class, variant] : found) CHECK(known(device).at(shape_class) == variant);
}

TEST_CASE("measuring ends when it is cancelled, and keeps what it has") {
  GpuLike program;
  const DeviceHandle device = program.device();
  const ModelHandle model = load(device.get(), stories, 0);
  pumice_tune_options how = small_sessions(false);
  how.thorough = true;
  const TuneHandle tune = start(model.get(), how);
  uint64_t done = 0;
  while (done < 2 && !pumice_tune_poll(tune.get(), &done, nullptr)) std::this_thread::yield();
  pumice_work_cancel(pumice_tune_work(tune.get()));
  const pumice_tune_report report = finish(tune);
  CHECK_FALSE(report.complete);
  CHECK(report.classes > 0);
  CHECK(known(device).size() == report.classes);

  // In slices: before the first, after some, and by destroying it.
  const auto before = known(device);
  how.in_slices = true;
  for (int slices : {0, 9}) {
    const TuneHandle sliced = start(model.get(), how);
    for (int i = 0; i < slices; ++i) {
      pumice_error error;
      require_ok(pumice_work_advance(pumice_tune_work(sliced.get()), 500, nullptr, nullptr, &error), error);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    pumice_work_cancel(pumice_tune_work(sliced.get()));
    CHECK_FALSE(finish(sliced).complete);
    CHECK(known(device) == before);
  }
  pumice_error error;
  const TuneHandle destroyed = start(model.get(), how);
  require_ok(pumice_work_advance(pumice_tune_work(destroyed.get()), 500, nullptr, nullptr, &error), error);
}

TEST_CASE("a limit of time ends measuring, whatever is under way") {
  GpuLike program;
  const DeviceHandle device = program.device();
  const ModelHandle model = load(device.get(), stories, 0);
  pumice_tune_options how = small_sessions(false);
  how.thorough = true;
  how.seconds = 0.3f;
  const auto begun = std::chrono::steady_clock::now();
  const TuneHandle tune = start(model.get(), how);
  CHECK_FALSE(finish(tune).complete);
  CHECK(std::chrono::steady_clock::now() - begun < std::chrono::seconds(8));
}

TEST_CASE("a model is measured while it is loaded, once for each cache folder") {
  // Where the build has no kernel for dot products, the plain kernels have one rival each at most, and there
  // is nothing to choose.
  const bool choice = pumice::find_kernel("matmul.dot.q8_0") != nullptr;
  const TemporaryFolder cache;
  const std::string folder = text_of(cache.path());
  GpuLike program;
  pumice_device_options options = {sizeof options};
  options.cache_folder = folder.c_str();
  const auto load_measured = [](const DeviceHandle& device) { return load(device.get(), stories, 60); };
  const auto measured = [&] { return Said::count(program.said.infos, {"measured"}); };
  {
    const DeviceHandle device = program.device(options);
    const ModelHandle model = load_measured(device);
    CHECK(measured() == choice);
    CHECK((known(device).size() > 3) == choice);
    CHECK(tell(small_session(model).get(), "Once upon a time", 4).tokens.size() == 4);
  }
  const DeviceHandle again = program.device(options);
  const auto kept = known(again);
  CHECK((kept.size() > 3) == choice);
  const ModelHandle model = load_measured(again);
  CHECK(known(again) == kept);
  CHECK(measured() == choice); // not again
  CHECK(program.said.warnings.empty());
}

TEST_CASE("with a cache folder a model is measured when it is first loaded, unless the program says no") {
  if (!pumice::find_kernel("matmul.dot.q8_0")) return skip("this build has nothing to choose from");
  const TemporaryFolder cache;
  const std::string folder = text_of(cache.path());
  GpuLike program;
  pumice_device_options options = {sizeof options};
  options.cache_folder = folder.c_str();
  load(program.device(options).get(), stories, -1);
  load(program.device().get()); // there is no folder to keep results in
  const std::string nowhere = "/dev/null/folder";
  pumice_device_options unwritable = options;
  unwritable.cache_folder = nowhere.c_str();
  load(program.device(unwritable).get());
  CHECK(Said::count(program.said.infos, {"measured"}) == 0);
  program.said.warnings.clear(); // of the folder

  // Where compilers are slow, two seconds are not enough for anything; a next load finds the kernels
  // compiled.
  const DeviceHandle device = program.device(options);
  ModelHandle model;
  for (int loads = 0; loads < 20 && known(device).empty(); ++loads) model = load(device.get(), stories, 0);
  CHECK(Said::count(program.said.infos, {"measured"}) == 1);
  const auto found = known(device);
  CHECK(found.size() > 0);
  for (const auto& choice : chosen(model)) {
    CAPTURE(choice.first);
    if (found.contains(choice.first)) CHECK(choice.second == found.at(choice.first));
  }
  CHECK(program.said.warnings.empty());
}

TEST_CASE("a kernel that an earlier start ended with is named in the log and not used") {
  const TemporaryFolder cache;
  const std::string folder = text_of(cache.path());
  GpuLike program;
  pumice_device_options options = {sizeof options};
  options.cache_folder = folder.c_str();
  const auto blocked = [](const DeviceHandle& device) {
    return pumice::stored_blocklist(*device->context.pipelines).contains("matmul subgroup");
  };
  {
    const DeviceHandle device = program.device(options);
    pumice::Trials trials(device->context, {});
    const auto lose = [] { return pumice::Status(pumice::Error{pumice::Code::device_lost, "lost"}); };
    CHECK_FALSE(trials.run({"matmul q8_0 1 x 64 x 32", "subgroup"}, lose).ok());
    CHECK_FALSE(blocked(device));
  }
  for (int start = 0; start < 2; ++start) { // it is told of once
    const DeviceHandle device = program.device(options);
    CHECK(Said::count(program.said.warnings, {"'matmul subgroup' is not used", "the device was lost"}) == 1);
    CHECK(blocked(device));
    const ModelHandle model = load(device.get(), stories, -1);
    for (const auto& [shape_class, variant] : chosen(model)) CHECK(variant != "subgroup");
  }
}

TEST_CASE("results are shipped in a file, and what is of no use in it is told to the log") {
  const TemporaryFolder folder;
  const std::string path = text_of(folder.path() / "tuning.bin");
  GpuLike program;
  pumice_error error;
  std::map<std::string, std::string> classes;
  Capabilities here;
  {
    const DeviceHandle device = program.device();
    const ModelHandle model = load(device.get(), stories, 0);
    classes = chosen(model);
    here = capabilities(device);
    device->context.pipelines->add_tuning_results(all_portable(classes));
    require_ok(pumice_device_save_tuning(device.get(), path.c_str(), &error), error);
  }
  // Of another device, too.
  Capabilities other = here;
  other.device_id += 1;
  REQUIRE(pumice::add_to_tuning_file(path, other, {{"choice x", "tiled"}}).ok());
  pumice_device_options options = {sizeof options};
  options.tuning_file = path.c_str();
  {
    const DeviceHandle device = program.device(options);
    CHECK(known(device).size() == classes.size());
    const ModelHandle model = load(device.get(), stories, 0);
    for (const auto& [shape_class, variant] : chosen(model)) CHECK(variant == "portable");
    // Only the session compiles kernels for the steps of its size.
    const SessionHandle session = small_session(model);
    for (const pumice::Plan& plan : plans_of(model)) {
      for (const pumice::PlannedDispatch& planned : plan.dispatches) {
        CHECK(device->context.pipelines->compiled(planned.dispatch.kernel, planned.dispatch.constants));
      }
    }
    require_ok(pumice_device_save_tuning(device.get(), path.c_str(), &error), error);
    CHECK(TuningFile::read(path)->devices() == 2);
    CHECK(TuningFile::read(path)->find(other) == TuningResults{{"choice x", "tiled"}});

    // The same through memory.
    std::string bytes;
    const pumice_write_function append = [](void* user, const void* more, size_t count) {
      static_cast<std::string*>(user)->append(static_cast<const char*>(more), count);
      return true;
    };
    require_ok(pumice_device_write_tuning(device.get(), append, &bytes, &error), error);
    pumice_device_options memory = {sizeof memory};
    memory.tuning = bytes.data();
    memory.tuning_bytes = bytes.size();
    CHECK(known(program.device(memory)) == known(device));
    memory.tuning_file = path.c_str();
    memory.log = Said::hear;
    memory.log_user = &program.said;
    pumice_device* both = nullptr;
    CHECK(pumice_device_create(&memory, &both, &error) == PUMICE_INVALID_ARGUMENT);
  }
  CHECK(program.said.warnings.empty());

  Capabilities newer = here;
  newer.driver_build += 1;
  TuningFile foreign;
  foreign.set(newer, all_portable(classes));
  const auto bytes = foreign.bytes();
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  CHECK(known(program.device(options)).empty());
  CHECK(Said::count(program.said.infos, {"tuning.bin", "none of its tuning results"}) == 1);
  CHECK(program.said.warnings.empty());

  std::filesystem::resize_file(path, bytes.size() / 2);
  CHECK(known(program.device(options)).empty());
  CHECK(Said::count(program.said.warnings, {"tuning.bin", "damaged"}) == 1);
  std::filesystem::remove(path);
  CHECK(known(program.device(options)).empty());
  CHECK(Said::count(program.said.warnings, {"tuning.bin"}) == 2);
}

TEST_CASE("wrong use of measuring is refused, and names what is wrong") {
  GpuLike program;
  const DeviceHandle device = program.device();
  const ModelHandle model = load(device.get(), stories, 0);
  pumice_error error;
  pumice_tune* tune = nullptr;
  const auto refused = [&](const char* part) {
    CAPTURE(error.message);
    CHECK(error.status == PUMICE_INVALID_ARGUMENT);
    CHECK(std::string(error.message).find(part) != std::string::npos);
    CHECK(tune == nullptr);
  };
  for (const float seconds : {-1.0f, std::nanf(""), INFINITY}) {
    pumice_tune_options options = small_sessions(false);
    options.seconds = seconds;
    (void)pumice_tune_start(model.get(), &options, &tune, &error);
    refused("options.seconds");
  }
  pumice_tune_options options = small_sessions(false);
  options.cache = static_cast<pumice_cache_type>(30);
  (void)pumice_tune_start(model.get(), &options, &tune, &error);
  refused("options.cache");
  (void)pumice_tune_start(nullptr, nullptr, &tune, &error);
  refused("model");
  (void)pumice_device_save_tuning(device.get(), nullptr, &error);
  refused("path");
  (void)pumice_device_write_tuning(device.get(), nullptr, nullptr, &error);
  refused("write");
  const pumice_write_function full = [](void*, const void*, size_t) { return false; };
  CHECK(pumice_device_write_tuning(device.get(), full, nullptr, &error) == PUMICE_IO);
  options = small_sessions(false);
  options.seconds = 0.01f;
  const TuneHandle own = start(model.get(), options);
  (void)pumice_work_advance(pumice_tune_work(own.get()), 500, nullptr, nullptr, &error);
  refused("in_slices");
  pumice_load_options load_options = {sizeof load_options};
  load_options.tune_seconds = std::nanf("");
  pumice_source source = {sizeof source};
  source.path = stories.c_str();
  pumice_model* none = nullptr;
  (void)pumice_model_load(device.get(), &source, &load_options, &none, &error);
  refused("tune_seconds");
  CHECK(pumice_tune_poll(nullptr, nullptr, nullptr));
  pumice_work_cancel(pumice_tune_work(nullptr));
  pumice_tune_destroy(nullptr);
}
