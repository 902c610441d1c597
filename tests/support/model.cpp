#include "support/model.h"

#include <algorithm>

#include <doctest/doctest.h>

#include "support/require.h"
#include "support/vulkan/gpu.h"
#include "support/vulkan/row_bits.h"

using namespace pumice;

const DeviceContext& test_context() {
  return TestGpu::get().context();
}

std::shared_ptr<const Model> load_model(const std::filesystem::path& path, const LoadOptions& options) {
  return require(Model::load(path, test_context(), {}, options));
}

std::shared_ptr<const Model> load_one_kernel_model(const std::filesystem::path& path) {
  return require(Model::load(path, one_kernel_context(test_context())));
}

std::map<std::string, std::vector<float>> forward(const std::shared_ptr<const Model>& model,
                                                  const std::vector<uint32_t>& ids,
                                                  const ForwardOptions& options) {
  const uint32_t sequences = options.beside + 1;
  const uint32_t mine = options.beside / 2;
  RunnerOptions runner_options;
  runner_options.size.chunk = options.chunk * sequences;
  runner_options.size.sequences = sequences;
  runner_options.size.cache = options.cache;
  runner_options.size.context = static_cast<uint32_t>(ids.size());
  runner_options.sampling = false;
  runner_options.all_outputs = true;
  runner_options.readable = options.readable;
  auto runner = Runner::create(model, runner_options);
  if (!runner.ok()) FAIL(runner.error().text());
  std::map<std::string, std::vector<float>> results;
  const uint32_t chunk = std::min(options.chunk, (*runner)->size().chunk / sequences);
  for (uint32_t begin = 0; begin < ids.size(); begin += chunk) {
    const uint32_t end = std::min<uint32_t>(begin + chunk, static_cast<uint32_t>(ids.size()));
    std::vector<StepToken> rows;
    for (uint32_t sequence = 0; sequence < sequences; ++sequence) {
      for (uint32_t i = begin; i < end; ++i) {
        const uint32_t other = (ids[i] * 7 + sequence * 31 + 5) % model->shape().vocabulary;
        rows.push_back({sequence == mine ? ids[i] : other, i, sequence, 0, true});
      }
    }
    REQUIRE((*runner)->write_step(rows).ok());
    REQUIRE((*runner)->submit(static_cast<uint32_t>(rows.size())).ok());
    for (const std::string& name : options.readable) {
      auto part = (*runner)->read(name, static_cast<uint32_t>(rows.size()));
      REQUIRE(part.ok());
      const size_t size = size_t{end - begin} * (*runner)->columns(name);
      const auto first = part->begin() + static_cast<ptrdiff_t>(mine * size);
      results[name].insert(results[name].end(), first, first + static_cast<ptrdiff_t>(size));
    }
  }
  return results;
}

std::vector<float> forward(const std::shared_ptr<const Model>& model, const std::vector<uint32_t>& ids,
                           uint32_t chunk) {
  ForwardOptions options;
  options.chunk = chunk;
  return forward(model, ids, options)["logits"];
}

std::vector<uint32_t> continue_greedily(const std::shared_ptr<const Model>& model,
                                        const std::vector<uint32_t>& prompt, size_t count, uint32_t chunk) {
  SessionOptions options;
  options.size.chunk = chunk;
  options.size.cache = CacheType::f32;
  auto session = Session::create(model, options);
  if (!session.ok()) FAIL(session.error().text());
  const Status status = (*session)->prefill(prompt, {});
  if (!status.ok()) FAIL(status.error().text());
  std::vector<uint32_t> ids;
  while (ids.size() < count) {
    auto token = (*session)->next();
    if (!token.ok()) FAIL(token.error().text());
    ids.push_back(*token);
  }
  return ids;
}
