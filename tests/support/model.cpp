#include "support/model.h"

#include <algorithm>

#include <doctest/doctest.h>

#include "support/gpu.h"

using namespace pumice;

const DeviceContext& test_context() {
  return TestGpu::get().context();
}

std::shared_ptr<const Model> load_model(const std::filesystem::path& path, const LoadOptions& options) {
  auto model = Model::load(path, test_context(), {}, options);
  if (!model.ok()) FAIL(model.error().text());
  return *model;
}

std::vector<float> forward(const std::shared_ptr<const Model>& model, const std::vector<uint32_t>& ids,
                           uint32_t chunk) {
  RunnerOptions options;
  options.size.chunk = chunk;
  options.size.cache = CacheType::f32;
  options.sampling = false;
  options.all_outputs = true;
  options.kept = {"logits"};
  auto runner = Runner::create(model, options);
  if (!runner.ok()) FAIL(runner.error().text());
  std::vector<float> logits;
  for (uint32_t begin = 0; begin < ids.size(); begin += chunk) {
    const uint32_t end = std::min<uint32_t>(begin + chunk, static_cast<uint32_t>(ids.size()));
    std::vector<StepToken> rows;
    for (uint32_t i = begin; i < end; ++i) rows.push_back({ids[i], i, 0, 0, true});
    REQUIRE((*runner)->write_step(rows).ok());
    REQUIRE((*runner)->submit(end - begin).ok());
    auto part = (*runner)->read("logits", end - begin);
    REQUIRE(part.ok());
    logits.insert(logits.end(), part->begin(), part->end());
  }
  return logits;
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
