// The short check of kernels at the first use of a driver: by the library, by the command, and by itself.
#include <doctest/doctest.h>

#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <set>
#include <thread>

#include <nlohmann/json.hpp>

#include "api/handles.h"
#include "gpu/kernel_table.h"
#include "kernel/probe/open_device.h"
#include "step/runner_layout.h"
#include "support/command/command.h"
#include "support/command/messages.h"
#include "support/embedding.h"
#include "support/files/fixtures.h"
#include "support/model.h"
#include "support/require.h"
#include "support/vulkan/spirv_faults.h"
#include "tuning/check_record.h"
#include "tuning/graph_run.h"
#include "tuning/short_check.h"
#include "tuning/small_cases.h"

using namespace pumice;
using nlohmann::json;

namespace {

constexpr const char* start_of_story = "Once upon a time";

// A driver whose compiler is wrong with some kernel, as the loader of support/vulkan/crashing_vulkan.c shows
// it: with the kernels of CPU drivers. By environment variables, which this process and the command read.
class WrongDriver {
public:
  WrongDriver() { set("PUMICE_TEST_ADDRESSES", "1"); }
  ~WrongDriver() {
    for (const std::string& each : names_) ::unsetenv(each.c_str());
  }
  WrongDriver(const WrongDriver&) = delete;
  WrongDriver& operator=(const WrongDriver&) = delete;

  // The products of eight lanes read numbers with a sign as numbers without one.
  void break_products() {
    const auto code = find_kernel("matmul.cpu8.q8_0")->code();
    plant(code, spirv_faults::with_unsigned_codes(code));
  }
  // No pipeline can be made of them.
  void refuse_products() {
    set("PUMICE_TEST_SHADER", write("right", find_kernel("matmul.cpu8.q8_0")->code()));
  }
  // This kernel adds in 16 bits.
  void break_sums(const char* kernel) {
    const auto code = find_kernel(kernel)->code();
    plant(code, spirv_faults::with_half_sums(code));
  }
  void mend() { set("PUMICE_TEST_SHADER", "/dev/null"); }
  void set_version(const char* version) { set("PUMICE_TEST_DRIVER_VERSION", version); }

private:
  void set(const std::string& name, const std::string& value) {
    names_.push_back(name);
    ::setenv(name.c_str(), value.c_str(), 1);
  }
  void plant(std::span<const uint32_t> right, const spirv_faults::Code& wrong) {
    REQUIRE(!std::ranges::equal(right, wrong));
    set("PUMICE_TEST_SHADER", write("right", right));
    set("PUMICE_TEST_WRONG_SHADER", write("wrong", wrong));
  }
  std::string write(const char* name, std::span<const uint32_t> code) const {
    const auto bytes = std::as_bytes(code);
    return files_.write(name, std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()))
        .string();
  }

  std::vector<std::string> names_;
  TemporaryFolder files_;
};

// A family's kernels in a plan, as pipelines are made of them.
std::set<std::pair<std::string, std::vector<uint32_t>>> kernels_of(const Plan& plan,
                                                                   const std::string& family) {
  std::set<std::pair<std::string, std::vector<uint32_t>>> kernels;
  for (const PlannedDispatch& planned : plan.dispatches) {
    if (planned.dispatch.kernel.starts_with(family))
      kernels.emplace(planned.dispatch.kernel, planned.dispatch.constants);
  }
  return kernels;
}

pumice_get_instance_proc_addr loader() {
  static void* const library = ::dlopen(crashing_vulkan().c_str(), RTLD_NOW | RTLD_LOCAL);
  REQUIRE(library);
  return reinterpret_cast<pumice_get_instance_proc_addr>(::dlsym(library, "vkGetInstanceProcAddr"));
}

// A program with such a driver and a cache folder of its own, each start of it with a device of its own.
class Program {
public:
  explicit Program(std::string model = stories) : model_(std::move(model)) {}

  struct Start {
    std::vector<std::string> warnings, infos;
    DeviceHandle device;
    ModelHandle model;
    pumice_status status = PUMICE_OK; // of loading
    pumice_error error = {};

    const Pipelines& pipelines() const { return *device->context.pipelines; }
    Blocklist blocked() const { return stored_blocklist(pipelines()); }
    CheckRecords records() const {
      return stored_checks(pipelines(), device->context.device->capabilities());
    }
    size_t warnings_with(const char* part) const { return with(warnings, part); }
    size_t infos_with(const char* part) const { return with(infos, part); }

  private:
    static size_t with(const std::vector<std::string>& all, const char* part) {
      return static_cast<size_t>(std::ranges::count_if(
          all, [&](const std::string& message) { return message.find(part) != std::string::npos; }));
    }
  };

  std::unique_ptr<Start> start(float tune_seconds = 0, const char* folder = nullptr) const {
    auto made = std::make_unique<Start>();
    pumice_device_options options = {sizeof options};
    options.get_instance_proc_addr = loader();
    options.cache_folder = folder ? folder : cache_text_.c_str();
    options.log = hear;
    options.log_user = made.get();
    pumice_device* device = nullptr;
    require_ok(pumice_device_create(&options, &device, &made->error), made->error);
    made->device.reset(device);
    pumice_source source = {sizeof source};
    source.path = model_.c_str();
    pumice_load_options load_options = {sizeof load_options};
    load_options.tune_seconds = tune_seconds;
    pumice_model* model = nullptr;
    made->status = pumice_model_load(device, &source, &load_options, &model, &made->error);
    made->model.reset(model);
    return made;
  }

private:
  static void hear(void* user, pumice_log_level level, const char* message) {
    auto& start = *static_cast<Start*>(user);
    (level == PUMICE_LOG_WARNING ? start.warnings : start.infos).push_back(message);
  }

  std::string model_;
  TemporaryFolder cache_;
  std::string cache_text_ = cache_.path().string();
};

// The first start that names a wrong kernel: where compilers are slow, one start has no time for all kernels.
std::unique_ptr<Program::Start> first_finding(const Program& program) {
  auto start = program.start();
  for (int starts = 1; starts < 10 && start->warnings.empty(); ++starts) start = program.start();
  return start;
}

std::string story(const Program::Start& start) {
  require_ok(start.status, start.error);
  return tell(make_session(start.model.get()).get(), start_of_story, 8).text;
}

void wait_until(const std::function<bool()>& holds) {
  const auto start = std::chrono::steady_clock::now();
  while (!holds() && std::chrono::steady_clock::now() - start < std::chrono::minutes(2))
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
}

CommandResult run(const TemporaryFolder& cache, std::vector<std::string> more = {}) {
  std::vector<std::string> arguments = {"run",
                                        stories,
                                        start_of_story,
                                        "-n",
                                        "8",
                                        "--temp",
                                        "0",
                                        "--vulkan-loader",
                                        crashing_vulkan().string(),
                                        "--cache",
                                        cache.path().string()};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return pumice_command(arguments);
}

} // namespace

TEST_CASE("a wrong kernel is found when a model is first loaded, and nothing uses it from then on") {
  WrongDriver driver;
  const std::string right = story(*Program().start());
  driver.break_products();
  const Program program;
  {
    const auto first = first_finding(program);
    CHECK(story(*first) == right);
    CHECK(first->warnings.size() == 1);
    CHECK(first->warnings_with("'matmul cpu8' is not used: a short check of it: Q8_0, ") == 1);
    CHECK(first->warnings_with("pumice doctor") == 1);
    CHECK(first->blocked().size() == 1);
  }
  driver.mend(); // the second one does not find out
  {
    const auto second = program.start();
    CHECK(story(*second) == right);
    CHECK(second->warnings.empty());
    CHECK(second->infos_with("'matmul cpu8' is not used: a short check of it") == 1);
  }
  driver.set_version("17");
  {
    const auto updated = program.start();
    CHECK(story(*updated) == right);
    CHECK(updated->warnings.empty());
    CHECK(updated->blocked().empty());
    CHECK(updated->records().size() > 0);
  }
  driver.set_version("18");
  driver.break_products();
  CHECK(first_finding(program)->warnings_with("'matmul cpu8' is not used") == 1);
}

TEST_CASE("a wrong kernel that nothing replaces keeps models from being loaded, unless the program says no") {
  WrongDriver driver;
  driver.break_sums("norm");
  const Program program;
  for (int starts = 0; starts < 2; ++starts) {
    const auto start = program.start();
    const std::string message = start->error.message;
    CAPTURE(message);
    CHECK(start->status == PUMICE_UNSUPPORTED);
    for (const char* part : {"llvmpipe", "kernel norm: ", "rms norm, 3 rows", "tune_seconds below 0"})
      CHECK(message.find(part) != std::string::npos);
    driver.mend(); // the second one does not find out
  }
  CHECK(program.start(-1)->status == PUMICE_OK);
}

TEST_CASE("without a cache folder kernels are checked too, and not where a program measures nothing") {
  WrongDriver driver;
  {
    const Program program;
    CHECK(program.start(0, "")->records().size() > 0);
  }
  driver.break_sums("norm");
  const Program program;
  for (const char* folder : {"", "/dev/null/folder"}) {
    CHECK(program.start(0, folder)->status == PUMICE_UNSUPPORTED);
    CHECK(program.start(1, folder)->status == PUMICE_UNSUPPORTED);
    const auto start = program.start(-1, folder);
    CHECK(start->status == PUMICE_OK);
    CHECK(start->records().empty());
  }
}

TEST_CASE("a kernel that the driver cannot compile is replaced while a model is loaded") {
  WrongDriver driver;
  const std::string right = story(*Program().start());
  driver.refuse_products();
  const Program program;
  for (const char* folder : {"", static_cast<const char*>(nullptr)}) {
    const auto start = program.start(0, folder);
    CHECK(story(*start) == right);
    CHECK(start->warnings_with("'matmul cpu8' is not used: matmul q8_0 ") == 1);
    CHECK(start->warnings_with("for kernel 'matmul.cpu8.q8_0'") == 1);
    CHECK(start->blocked().contains("matmul cpu8"));
  }
  CHECK(program.start()->warnings.empty()); // it is known by now
  const CommandResult command = run(TemporaryFolder());
  CAPTURE(command.err);
  CHECK(command.status == 0);
  CHECK(command.err.find("the kernel variant 'matmul cpu8' is not used: ") != std::string::npos);
  const CommandResult demanded = run(TemporaryFolder(), {"--kernel-variant", "cpu8"});
  CHECK(fails_saying(demanded, {"vkCreateComputePipelines", "for kernel 'matmul.cpu8.q8_0'"}) == "");
}

TEST_CASE("a short check keeps to its time, and does once what it can do") {
  WrongDriver driver;
  const Program program;
  const auto start = program.start(-1);
  require_ok(start->status, start->error);
  const Model& model = *start->model->model;
  Pipelines& pipelines = *start->device->context.pipelines;
  const Capabilities& device = start->device->context.device->capabilities();
  const auto check = [&](const ShortCheckOptions& options) { return require(short_check(model, options)); };

  ShortCheckOptions none;
  none.seconds = 0;
  CHECK(check(none).cases == 0);
  CHECK_FALSE(check(none).complete);
  ShortCheckOptions stopped;
  stopped.go_on = [] { return false; };
  CHECK(short_check(model, stopped).error().code == Code::cancelled);
  CHECK(start->records().empty());

  ShortCheckOptions all;
  all.seconds = 60;
  const auto timed_check = [&] {
    const std::clock_t begun = std::clock();
    const ShortCheck result = check(all);
    const double seconds = static_cast<double>(std::clock() - begun) / CLOCKS_PER_SEC;
    MESSAGE(result.cases << " kernels took " << seconds << " s of the processors' time");
    return result;
  };
  const ShortCheck whole = timed_check();
  CHECK(whole.complete);
  CHECK(whole.cases == start->records().size());
  CHECK(whole.warning == "");
  for (const char* part : {"matmul cpu8: Q8_0, 1 row, ", "attention cpu8", "norm: rms norm, "}) {
    CAPTURE(part);
    CHECK(std::ranges::any_of(start->records(),
                              [&](const auto& record) { return record.first.starts_with(part); }));
  }
  CHECK(check(all).cases == 0);

  // Records of another driver and damaged ones are none.
  const std::string key = start->records().begin()->first;
  for (const std::string& text :
       {std::string(), std::string("nonsense"), device.driver + " " + device.driver_version + "\n2026",
        std::string("another driver 1.0\n2026-01-01\n")}) {
    CAPTURE(text);
    pipelines.set_tuning_result("checked " + key, text);
    CHECK(start->records().size() == whole.cases - 1);
    CHECK(check(all).cases == 1);
  }
  forget_checks(pipelines);
  CHECK(timed_check().cases == whole.cases);

  // What takes the place of a wrong one is checked too.
  driver.break_products();
  const Program other;
  const auto wrong = other.start(-1);
  const auto found = short_check(*wrong->model->model, all);
  REQUIRE(found.ok());
  CHECK(found->warning.find("'matmul cpu8' is not used") != std::string::npos);
  const CheckRecords records = wrong->records();
  CHECK(std::ranges::any_of(
      records, [](const auto& each) { return each.first.starts_with("matmul portable: Q8_0, "); }));
}

TEST_CASE(
    "products of experts are checked, with the kernels that find a row's experts and add their results") {
  WrongDriver driver;
  const std::string mixture = fixtures().model("mixtral-moe").string();
  ShortCheckOptions all;
  all.seconds = 60;
  {
    const Program program(mixture);
    const auto start = program.start(-1);
    require_ok(start->status, start->error);
    CHECK(require(short_check(*start->model->model, all)).warning == "");
    const CheckRecords records = start->records();
    CHECK(std::ranges::any_of(records, [](const auto& record) {
      return record.first.starts_with("matmul cpu8: ") &&
             record.first.find("2 of 3 experts of ") != std::string::npos;
    }));
  }
  driver.break_sums("expert_combine");
  const Program program(mixture);
  const auto start = program.start(-1);
  require_ok(start->status, start->error);
  const auto found = short_check(*start->model->model, all);
  REQUIRE_FALSE(found.ok());
  CHECK(says(found, {"a kernel is wrong that nothing can replace", "2 of 3 experts of "}) == "");
}

TEST_CASE("recurrences are checked, and a wrong kernel of theirs is replaced") {
  struct Recurrent {
    const char *model, *family;
  };
  for (const Recurrent& each : {Recurrent{"mamba2", "selective_scan"}, {"qwen3-5", "delta_rule"}}) {
    CAPTURE(each.model);
    const std::string family = each.family;
    WrongDriver driver;
    driver.break_sums((family + ".cpu8").c_str());
    const Program program(fixtures().model(each.model).string());
    const auto start = program.start(-1);
    require_ok(start->status, start->error);
    ShortCheckOptions all;
    all.seconds = 60;
    const ShortCheck found = require(short_check(*start->model->model, all));
    const std::string variant = family + " cpu8";
    CHECK(found.warning.find("'" + variant + "' is not used: a short check of it: ") != std::string::npos);
    CHECK(start->blocked().contains(variant));
    const CheckRecords records = start->records();
    CHECK(std::ranges::any_of(records, [&](const auto& record) {
      return record.first.starts_with(family + " portable: ") && record.second.wrong.empty();
    }));
  }
}

TEST_CASE("the command goes on without a kernel that a first check found to be wrong") {
  WrongDriver driver;
  const CommandResult right = run(TemporaryFolder());
  CHECK(right.status == 0);
  CHECK(right.err.find("is not used") == std::string::npos);
  driver.break_products();
  const TemporaryFolder cache;
  CommandResult first = run(cache);
  for (int starts = 1; starts < 10 && first.err.find("is not used") == std::string::npos; ++starts)
    first = run(cache); // one start has no time for all kernels where compilers are slow
  CAPTURE(first.err);
  CHECK(first.status == 0);
  // A check beside the model finds it when it was used.
  if (first.err.find("what came of it may be wrong") == std::string::npos) CHECK(first.out == right.out);
  CHECK(first.err.find("the kernel variant 'matmul cpu8' is not used: a short check of it: ") !=
        std::string::npos);
  CHECK(first.err.find("'pumice doctor' tries all kernels") != std::string::npos);
  // Later ones say it in short, with the file, and why if they are asked.
  const std::string file = std::filesystem::directory_iterator(cache.path())->path().filename().string();
  const CommandResult later = run(cache), second = run(cache, {"--verbose"});
  CAPTURE(later.err);
  CHECK(later.err.find("not used, which may make it slow: the kernel variant 'matmul cpu8' (blocked by ") !=
        std::string::npos);
  CHECK(later.err.find(file) != std::string::npos);
  CHECK(later.err.find("a short check of it") == std::string::npos);
  CHECK(run(cache, {"--quiet"}).err == "");
  CAPTURE(second.err);
  CHECK(second.out == right.out);
  CHECK(second.err.find("'matmul cpu8' is not used: a short check of it") != std::string::npos);
}

TEST_CASE("bench names the kernels that are blocked, and the file that says so") {
  WrongDriver driver;
  driver.break_products();
  const TemporaryFolder cache;
  const auto bench = [&](const char* format) {
    return pumice_command({"bench", stories, "-p", "8", "-n", "0", "-r", "1", "-w", "0", "-o", format,
                           "--vulkan-loader", crashing_vulkan().string(), "--cache", cache.path().string()});
  };
  json report = json::parse(bench("json").out);
  for (int starts = 1; starts < 10 && report["blocked"].empty(); ++starts)
    report = json::parse(bench("json").out); // one start has no time for all kernels where compilers are slow
  const std::string file = std::filesystem::directory_iterator(cache.path())->path().string();
  CHECK(report["blocked"]["matmul cpu8"].get<std::string>().starts_with("a short check of it"));
  CHECK(report["blocked_file"] == file);
  for (const char* format : {"md", "html"}) {
    const std::string text = bench(format).out;
    CHECK(text.find("matmul cpu8") != std::string::npos);
    CHECK(text.find(file) != std::string::npos);
  }
}

TEST_CASE("the command ends where a wrong kernel has no other, unless it is told to go on") {
  WrongDriver driver;
  driver.break_sums("norm");
  const TemporaryFolder cache;
  for (int starts = 0; starts < 2; ++starts)
    CHECK(fails_saying(run(cache), {"llvmpipe", "kernel norm: ", "--no-tune goes on nevertheless"}) == "");
  CHECK(run(cache, {"--no-tune"}).status == 0);
}

// Drivers take seconds to compile them, and the model's own are compiled anyway.
TEST_CASE("an encoder's products and attention are checked by kernels that it runs itself") {
  const auto model = load_model(fixtures().model("bert"));
  RunnerOptions options;
  options.part = ModelPart::encoder;
  options.sampling = false;
  options.size.chunk = 64;
  options.size.cache = CacheType::f32;
  const RunnerLayout layout = require(lay_out_runner(*model, options, nullptr));
  size_t found = 0;
  for (const SmallCase& each : small_cases(layout.plans)) {
    for (const KernelCaseName& name : each.cases) {
      if (name.family != "attention" && name.family != "matmul") continue;
      CAPTURE(name.name);
      if (name.family == "attention") CHECK(name.name.find("both ways") != std::string::npos);
      const std::unique_ptr<KernelCase> made = name.make();
      const auto run = require(
          GraphRun::create(model->context(), made->graph, {made->caches, made->states}, made->rows, 1));
      const Plan plan = require(run->plan(model->context().profile, made->rows));
      for (const auto& kernel : kernels_of(plan, name.family)) {
        CHECK(kernels_of(layout.plans.back(), name.family).contains(kernel));
        ++found;
      }
    }
  }
  CHECK(found == 2);
}

TEST_CASE("kernels are checked beside a model that is used, on a device of their own") {
  const TemporaryFolder folder;
  const auto open = [&] {
    const std::shared_ptr<Instance> instance = require(Instance::create({}));
    return require(open_device(instance, require(instance->choose()), folder.path()));
  };
  const DeviceContext device = open(), beside = open();
  const auto records = [](const DeviceContext& context) {
    return stored_checks(*context.pipelines, context.device->capabilities());
  };
  const std::shared_ptr<const Model> model = require(Model::load(stories, device));
  BackgroundCheck check(model, [&]() -> Result<DeviceContext> { return beside; });
  wait_until([&] { return !records(beside).empty(); });
  const ShortCheck found = require(check.finish({}));
  CHECK(found.warning.empty());
  CHECK(found.cases > 0);
  for (const DeviceContext& each : {device, beside, open()}) CHECK(records(each).size() == found.cases);
  CHECK(require(check.finish({})).cases == 0); // it has ended
}

TEST_CASE("a check beside a model that Ctrl-C ends tells what it has found") {
  WrongDriver driver;
  driver.break_products();
  const Program program;
  const auto start = program.start(-1), beside = program.start(-1);
  require_ok(start->status, start->error);
  std::atomic<bool> interrupt = false;
  DeviceContext device = beside->device->context;
  device.interrupt = &interrupt;
  BackgroundCheck check(start->model->model, [&]() -> Result<DeviceContext> { return device; });
  wait_until([&] { return !beside->blocked().empty(); });
  interrupt = true;
  CHECK(require(check.finish({})).warning.find("'matmul cpu8' is not used") != std::string::npos);
  CHECK(start->blocked().contains("matmul cpu8"));
}
