// Models from packed files, memory and callbacks; loads with few threads; loads that are cancelled.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <thread>

#include "base/guarded.h"
#include "gpu/kernel_table.h"
#include "model/session_memory.h"
#include "recording/pipeline_maker.h"
#include "support/command/messages.h"
#include "support/files/paths.h"
#include "support/files/temporary_folder.h"
#include "support/model.h"
#include "support/require.h"
#include "support/vulkan/failing_memory.h"

using namespace pumice;

namespace {

const std::filesystem::path shipped = stories_model();

std::vector<std::byte> bytes_of(const std::filesystem::path& path) {
  const MappedFile file = require(MappedFile::open(path));
  return {file.bytes().begin(), file.bytes().end()};
}

std::vector<uint32_t> text_of(const std::shared_ptr<const Model>& model) {
  return continue_greedily(model, {1, 300, 400}, 12, 16);
}

// A context whose pipelines have not been made.
DeviceContext new_pipelines() {
  DeviceContext context = test_context();
  context.pipelines = require(Pipelines::create(context.device, {}));
  return context;
}

#ifdef __linux__
size_t threads_now() {
  return static_cast<size_t>(std::distance(std::filesystem::directory_iterator("/proc/self/task"), {}));
}

// Of this process in bytes; not those that are mapped from a file.
uint64_t anonymous_bytes() {
  std::ifstream status("/proc/self/status");
  std::string line;
  while (std::getline(status, line)) {
    if (line.rfind("RssAnon:", 0) == 0) return std::stoull(line.substr(8)) * 1024;
  }
  return 0;
}
#endif

} // namespace

TEST_CASE("the same model from a file, a packed file, memory and a callback") {
  const auto plain = load_model(shipped);
  const auto expected = text_of(plain);
  const std::vector<std::byte> bytes = bytes_of(shipped);
  const auto check = [&](ModelFile file) {
    const auto model = require(Model::load(std::move(file), test_context()));
    CHECK(model->identity() == plain->identity());
    CHECK(text_of(model) == expected);
    return model;
  };

  const TemporaryFolder folder;
  std::vector<std::byte> packed(4099, std::byte{0x5a}); // neither a page nor anything else begins there
  packed.insert(packed.end(), bytes.begin(), bytes.end());
  packed.resize(packed.size() + 99);
  check(require(ModelFile::open(folder.write("assets.pak", packed), {4099, bytes.size()})));
  check(require(ModelFile::from_memory(bytes, "embedded")));

  uint64_t calls = 0;
  const ReadBytes source = [&](uint64_t at, std::span<std::byte> to) {
    ++calls;
    std::copy_n(bytes.begin() + static_cast<ptrdiff_t>(at), to.size(), to.begin());
    return true;
  };
  ModelFile file = require(ModelFile::read(source, bytes.size(), "pack:model"));
  const uint64_t read = calls;
  const auto model = check(std::move(file));
  CHECK(calls == read); // no more once it is loaded
  const auto* table = model->file().find("token_embd.weight");
  REQUIRE(table);
  CHECK(table->data[table->data.size() / 2] == std::byte{0}); // given back
  CHECK(require(Model::load(require(ModelFile::read(source, bytes.size(), "pack:model")), test_context()))
            ->identity() == plain->identity());
}

TEST_CASE("sessions that are saved with a model from a callback go on with one from a file") {
  const std::vector<std::byte> bytes = bytes_of(shipped);
  const ReadBytes source = [&](uint64_t at, std::span<std::byte> to) {
    std::copy_n(bytes.begin() + static_cast<ptrdiff_t>(at), to.size(), to.begin());
    return true;
  };
  const auto read =
      require(Model::load(require(ModelFile::read(source, bytes.size(), "pack:model")), test_context()));
  const TemporaryFolder folder;
  const auto first = require(Session::create(read, {}));
  REQUIRE(first->prefill(std::vector<uint32_t>{1, 300, 400, 500}, {}).ok());
  const uint32_t token = require(first->next());
  REQUIRE(first->save(folder.path() / "state").ok());
  const auto second = require(Session::create(load_model(shipped), {}));
  REQUIRE(second->restore(folder.path() / "state").ok());
  CHECK(second->tokens().back() == token);
  CHECK(require(second->next()) == require(first->next()));
}

#ifdef __linux__
TEST_CASE("the host's memory for a callback's weights is given back after the load") {
  const std::vector<std::byte> bytes = bytes_of(shipped);
  REQUIRE(bytes.size() > 1u << 20);
  const ReadBytes source = [&](uint64_t at, std::span<std::byte> to) {
    std::copy_n(bytes.begin() + static_cast<ptrdiff_t>(at), to.size(), to.begin());
    return true;
  };
  ModelFile file = require(ModelFile::read(source, bytes.size(), "pack:model"));
  const uint64_t before = anonymous_bytes();
  file.forget_weights({});
  CHECK(anonymous_bytes() + bytes.size() * 3 / 4 < before);
}

TEST_CASE("a load of one thread starts none") {
  LoadOptions alone, many;
  alone.threads = 1;
  many.threads = 0;
  // Whatever the driver starts at first use it has started.
  (void)require(Model::load(shipped, new_pipelines(), {}, alone));
  const auto most_threads = [](const LoadOptions& options) {
    size_t most = 0;
    const auto count = [&](uint64_t, uint64_t) {
      most = std::max(most, threads_now());
      return true;
    };
    (void)require(Model::load(shipped, new_pipelines(), count, options));
    return most;
  };
  const size_t before = threads_now();
  CHECK(most_threads(alone) == before);
  if (std::thread::hardware_concurrency() > 1) CHECK(most_threads(many) > before);
  LoadOptions two;
  two.threads = 2;
  CHECK(most_threads(two) <= before + 1);
}
#endif

TEST_CASE("pipelines are made by as many threads as were given, and with none by the caller") {
  const auto model = load_model(shipped);
  const auto graph = require(model->graph({true, {}, 64, 0}));
  SessionSize size;
  size.context = 64;
  const SessionMemory memory = lay_out_memory(model->shape(), test_context(), size);
  std::vector<Plan> plans;
  plans.push_back(require(make_plan(graph, memory.plan_context(test_context(), model->weights()), {1, 1})));

  const auto pipelines = new_pipelines().pipelines;
  PipelineMaker alone(pipelines, plans, 0);
  CHECK(alone.threads() == 0);
  CHECK(pipelines->count() == 0);
  int asked = 0;
  CHECK(alone.finish([&] { return ++asked > 0; }).ok());
  CHECK(pipelines->count() > 3);
  CHECK(asked == static_cast<int>(pipelines->count()));

  const auto others = new_pipelines().pipelines;
  PipelineMaker stopped(others, plans, 0);
  asked = 0;
  CHECK(stopped.finish([&] { return ++asked < 3; }).error().code == Code::cancelled);
  CHECK(others->count() == 2);
  CHECK(PipelineMaker(new_pipelines().pipelines, plans, 1).threads() == 1);
}

TEST_CASE("a pipeline that failed for lack of memory is made at the next request") {
  const auto pipelines = new_pipelines().pipelines;
  const std::string kernel(kernel_binaries().front().name);
  bool failed = true;
  for (size_t allocation = 0; failed; ++allocation) {
    CAPTURE(allocation);
    std::optional<Result<VkPipeline>> pipeline;
    {
      const FailingMemory memory(FailingMemory::this_thread, allocation, true);
      pipeline = guarded([&] { return pipelines->get(kernel, {64}); });
      failed = memory.failed();
    }
    CHECK(failed != pipeline->ok());
    if (failed) CHECK(pipeline->error().code == Code::out_of_memory);
    CHECK(pipelines->count() == (failed ? 0 : 1)); // nothing to wait for
    if (allocation == 0) CHECK(failed);
  }
}

TEST_CASE("a load can be cancelled at every call of its progress function, and leaks nothing") {
  const uint64_t before = test_context().device->allocated_bytes();
  for (uint32_t threads : {1u, 0u}) {
    LoadOptions options;
    options.threads = threads;
    int calls = 0, all = 0, at_the_end = 0;
    const auto load = [&](int last) {
      calls = 0;
      return Model::load(
          shipped, new_pipelines(),
          [&](uint64_t done, uint64_t total) {
            CHECK(done <= total);
            at_the_end += done == total;
            return ++calls != last;
          },
          options);
    };
    CHECK(load(0).ok());
    all = calls;
    if (threads == 1) CHECK(at_the_end > 3); // between pipelines too
    for (int last = 1; last <= std::min(all, 6); ++last) {
      CAPTURE(last);
      const auto cancelled = load(last);
      if (threads == 1) REQUIRE(!cancelled.ok()); // else other threads may have left nothing to ask about
      if (!cancelled.ok()) CHECK(cancelled.error().code == Code::cancelled);
      CHECK(calls <= last);
      if (cancelled.ok()) continue;
      CHECK(test_context().device->allocated_bytes() == before);
    }
  }
  CHECK(test_context().device->allocated_bytes() == before);
}
