#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include <doctest/doctest.h>

#include "stage/local_stages.h"
#include "support/model.h"

using Layers = std::vector<uint32_t>; // of each stage

// A model in stages, all on the tests' device. A failure fails the test.
inline std::shared_ptr<const pumice::Model>
load_stages(const std::filesystem::path& path, const Layers& layers, const pumice::MakeHop& make_hop = {}) {
  const std::vector<pumice::DeviceContext> contexts(layers.size(), test_context());
  auto model = pumice::load_in_stages(path, contexts, layers, {}, {}, make_hop);
  if (!model.ok()) FAIL(model.error().text());
  return *model;
}
