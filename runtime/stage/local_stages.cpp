#include "stage/local_stages.h"

#include <algorithm>
#include <thread>

#include <fmt/format.h>

#include "base/guarded.h"
#include "stage/memory_hop.h"
#include "stage/stage_ring.h"
#include "stage/stage_server.h"
#include "step/encoder.h"

namespace pumice {

namespace {

std::string name_of(const Model& model) {
  const Stage& stage = model.stage();
  return fmt::format("{} on {}", layers_text(stage, model.shape()),
                     model.context().device->capabilities().name);
}

// Of memory that both devices can import, for the hop between them; 0: what one computes is copied.
uint64_t import_alignment(const DeviceContext& from, const DeviceContext& to) {
  if (!from.device->can_import() || !to.device->can_import()) return 0;
  return std::max(from.device->capabilities().host_memory_alignment,
                  to.device->capabilities().host_memory_alignment);
}

// hops[i + 1] is the one that the stage i sends to.
std::vector<std::string> names_of(std::span<const std::shared_ptr<const Model>> models,
                                  std::span<const std::unique_ptr<Hop>> hops) {
  std::vector<std::string> names;
  for (size_t i = 0; i < models.size(); ++i) {
    const bool imported = hops[i + 1]->import_alignment() > 0;
    names.push_back(fmt::format("{}, its results {}", name_of(*models[i]),
                                imported ? "in memory of the host that the next device imports"
                                         : "copied through the host's memory"));
  }
  return names;
}

uint32_t position_block_of(std::span<const std::shared_ptr<const Model>> models) {
  uint32_t block = 1;
  for (const std::shared_ptr<const Model>& model : models) {
    if (model->shape().encoder) block = std::max(block, Encoder::position_block(*model, CacheType::f32));
  }
  return block;
}

// The stages before the last one, each on a thread of this process. hops[i] is the one that the stage i
// receives from, and hops.back() the last stage's.
class LocalStages : public StageRing {
public:
  LocalStages(std::vector<std::shared_ptr<const Model>> models, std::vector<std::unique_ptr<Hop>> hops,
              bool many_threads)
      : StageRing(*hops.front(), *hops.back(), names_of(models, hops), position_block_of(models)),
        hops_(std::move(hops)) {
    if (many_threads) {
      let_sessions_take_own_steps();
      for (const std::shared_ptr<const Model>& model : models) devices_.push_back(model->context().device);
    }
    for (size_t i = 0; i < models.size(); ++i) {
      auto server = std::make_shared<StageServer>(models[i], name_of(*models[i]), *hops_[i], *hops_[i + 1]);
      servers_.push_back(server);
      threads_.emplace_back([server = std::move(server)] {
        (void)server->run(); // the last stage gets its error
      });
    }
  }
  ~LocalStages() override {
    (void)guarded([&] { quit(); });
    for (const std::unique_ptr<Hop>& hop : hops_) hop->close({Code::cancelled, "the stages have ended"});
    for (std::thread& thread : threads_) thread.join();
  }

  std::vector<std::shared_ptr<Device>> devices() const override { return devices_; }

private:
  std::optional<Runners> runners_of(uint32_t session) const override {
    Runners all;
    for (const std::shared_ptr<StageServer>& server : servers_) {
      std::optional<std::shared_ptr<Runner>> runner = server->runner(session);
      if (!runner) return {};
      all.push_back(*std::move(runner));
    }
    return all;
  }

  std::vector<std::unique_ptr<Hop>> hops_;
  std::vector<std::shared_ptr<StageServer>> servers_;
  std::vector<std::shared_ptr<Device>> devices_; // none unless each session waits for its end on the stages
  std::vector<std::thread> threads_;
};

} // namespace

Result<std::shared_ptr<const Model>> load_in_stages(const std::filesystem::path& path,
                                                    std::span<const DeviceContext> contexts,
                                                    std::span<const uint32_t> layers,
                                                    const LoadOptions& options, const Progress& progress,
                                                    const MakeHop& make_hop) {
  LocalStagesOptions local;
  local.make_hop = make_hop;
  return load_in_stages([&] { return ModelFile::open(path); }, contexts, layers, options, progress, local);
}

Result<std::shared_ptr<const Model>> load_in_stages(const OpenModelFile& open,
                                                    std::span<const DeviceContext> contexts,
                                                    std::span<const uint32_t> layers,
                                                    const LoadOptions& options, const Progress& progress,
                                                    const LocalStagesOptions& local) {
  PUMICE_TRY(ModelFile file, open());
  PUMICE_TRY(OpenedModel whole, OpenedModel::open(std::move(file), options.settings));
  PUMICE_TRY(const std::vector<Stage> stages,
             stages_of(whole.file.path(), whole.definition->shape(), layers));
  if (stages.empty() || stages.size() != contexts.size()) {
    return Error{Code::invalid_argument, fmt::format("{}: {} stages need as many devices: there are {}",
                                                     whole.file.path(), stages.size(), contexts.size())};
  }
  std::vector<std::shared_ptr<const Model>> before;
  LoadOptions stage_options = options;
  for (size_t i = 0; i + 1 < stages.size(); ++i) {
    stage_options.stage = stages[i];
    PUMICE_TRY(ModelFile of_stage, open());
    PUMICE_TRY(std::shared_ptr<const Model> model,
               Model::load(std::move(of_stage), contexts[i], progress, stage_options));
    before.push_back(std::move(model));
  }
  stage_options.stage = stages.back();
  if (!before.empty()) {
    std::vector<std::unique_ptr<Hop>> hops;
    for (uint32_t i = 0; i < stages.size(); ++i) {
      const uint32_t from = i == 0 ? static_cast<uint32_t>(stages.size()) - 1 : i - 1;
      // The last stage hands nothing but rows to the first one.
      const uint64_t alignment = i == 0 ? 0 : import_alignment(contexts[from], contexts[i]);
      hops.push_back(local.make_hop ? local.make_hop(from) : std::make_unique<MemoryHop>(alignment));
    }
    stage_options.upstream =
        std::make_shared<LocalStages>(std::move(before), std::move(hops), local.many_threads);
  }
  return Model::load(std::move(whole), contexts.back(), progress, stage_options);
}

} // namespace pumice
