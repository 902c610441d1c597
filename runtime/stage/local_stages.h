#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "model/model.h"
#include "stage/hop.h"

namespace pumice {

// Makes the hop that stage `from` sends to, counted from 0; the last stage sends to the first one.
using MakeHop = std::function<std::unique_ptr<Hop>(uint32_t from)>;

// Loads a model in stages: stage i has layers[i] layers, on the device of contexts[i]. All but the last stage
// run on threads of their own. Returns the model of the last one, whose runners, sessions and batches use all
// of them. `options`: of all stages. Progress counts each stage's bytes by itself. Without `make_hop`,
// stages hand on their results in the host's memory.
Result<std::shared_ptr<const Model>>
load_in_stages(const std::filesystem::path& path, std::span<const DeviceContext> contexts,
               std::span<const uint32_t> layers, const LoadOptions& options = {},
               const Progress& progress = {}, const MakeHop& make_hop = {});

using OpenModelFile = std::function<Result<ModelFile>()>;

struct LocalStagesOptions {
  MakeHop make_hop;
  // The model's sessions are used by several threads at a time, each session by one of them, and their steps
  // can go through the stages in slices. Otherwise a thread also takes steps of the others', which keeps the
  // last device busy.
  bool many_threads = false;
};

// The same, of a file that is opened for each stage.
Result<std::shared_ptr<const Model>> load_in_stages(const OpenModelFile& open,
                                                    std::span<const DeviceContext> contexts,
                                                    std::span<const uint32_t> layers,
                                                    const LoadOptions& options, const Progress& progress,
                                                    const LocalStagesOptions& local);

} // namespace pumice
