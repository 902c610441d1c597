// What goes on at the same time: an encoder's steps beside who takes their rows.
#include <doctest/doctest.h>

#include <atomic>

#include "support/files/fixtures.h"
#include "support/model.h"
#include "support/require.h"
#include "task/input_runner.h"

using namespace pumice;

namespace {

VulkanTable real;
std::atomic<uint64_t> submissions = 0;

VKAPI_ATTR VkResult VKAPI_CALL count_submission(VkQueue queue, uint32_t count, const VkSubmitInfo* infos,
                                                VkFence fence) {
  ++submissions;
  return real.vkQueueSubmit(queue, count, infos, fence);
}

// A device without the layers that the tests' own has.
DeviceContext counting_device() {
  const auto open = [](const InstanceOptions& options) {
    const auto instance = require(Instance::create(options));
    return require(open_device(instance, require(instance->choose("")), {}));
  };
  static const DeviceContext plain = open({});
  real = plain.device->table();
  InstanceOptions options;
  options.table.vkQueueSubmit = count_submission;
  return open(options);
}

// Of three inputs, each in a step of its own.
std::unique_ptr<InputRunner> runner_of(const std::filesystem::path& path, const DeviceContext& context) {
  ModelFile file = require(ModelFile::open(path));
  TaskModel source = require(TaskModel::of_texts(file, nullptr, true));
  source.output = "sentence_embedding_mean";
  auto model = require(Model::load(std::move(file), context, {}, source.load({})));
  RunOptions options;
  options.inputs = 1;
  return require(InputRunner::create(std::move(model), std::move(source), options));
}

const std::vector<EncoderInput> three = {
    {{1, 7, 9, 30, 2}, {}, {}}, {{1, 4, 2}, {}, {}}, {{1, 8, 8, 2}, {}, {}}};

} // namespace

FIXTURE_TEST_CASE("an encoder has its next step while the rows of one are taken") {
  const auto runner = runner_of(fixtures().model("bert"), counting_device());
  std::vector<std::vector<float>> rows;
  std::vector<uint64_t> submitted; // when a row comes
  const auto take = [&](size_t i, std::vector<float> row) -> Status {
    CHECK(i == rows.size());
    rows.push_back(std::move(row));
    submitted.push_back(submissions);
    return {};
  };
  require(runner->run(three, take));
  REQUIRE(rows.size() == 3);
  CHECK(submitted[1] > submitted[0]);
  CHECK(submitted[2] == submitted[1]);
  for (size_t i = 0; i < three.size(); ++i)
    CHECK(require(runner->run(std::span(three).subspan(i, 1))).front() == rows[i]);

  // Who takes no more, or goes no further, has had what came before; and then all can be run again.
  const Status refused = runner->run(three, [](size_t i, const std::vector<float>&) -> Status {
    return i == 1 ? Status(Error{Code::io, "full"}) : Status();
  });
  CHECK(refused.error().code == Code::io);
  size_t taken = 0;
  const auto count = [&](size_t, const std::vector<float>&) -> Status {
    ++taken;
    return {};
  };
  const Status stopped = runner->run(three, count, [](uint64_t done, uint64_t) { return done < 2; });
  CHECK(stopped.error().code == Code::cancelled);
  CHECK(taken == 2);
  const Status cancelled = runner->run(three, [&](size_t, const std::vector<float>&) -> Status {
    runner->cancel();
    return {};
  });
  CHECK(cancelled.error().code == Code::cancelled);
  CHECK(require(runner->run(three)) == rows);
}
