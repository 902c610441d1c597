#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/progress.h"
#include "gpu/buffer.h"
#include "io/model_file.h"
#include "kernel/device_context.h"
#include "model/architecture.h"
#include "model/session_memory.h"
#include "model/stage.h"
#include "plan/adapters.h"
#include "plan/plan.h"
#include "plan/upload.h"
#include "plan/weight_store.h"

namespace pumice {

class Model;
class Upstream;

struct LoadOptions {
  Tower tower = Tower::main;
  // Height and width of pictures, for models that can read several sizes; 0: the model's own.
  uint32_t picture_height = 0, picture_width = 0;
  // The type that matrices of 16- or 32-bit numbers are quantised to while they are loaded; see
  // can_quantize().
  std::optional<TensorType> weights;
  ExpertPlacement experts = ExpertPlacement::automatic;
  // Most layers of a model with a decoder whose matrices are in the device's memory: the last ones. Those of
  // the layers before them, and an embedding that only they read, are in the host's; with 0 all matrices.
  uint32_t device_layers = UINT32_MAX;
  SettingChanges settings; // made before they are read, see OpenedModel
  Stage stage;             // which layers are loaded
  // The stages before this one, if it is the last of several: its runners have a part there each.
  std::shared_ptr<Upstream> upstream;
  bool text_reader = false; // the model as open_text_reader() has it
  // Tensors of the encoder that sessions will read, where they need weights that nothing else does.
  std::vector<std::string> readable;
  // Threads that pack weights and compile kernels, including the calling one: with 1, it does all the work
  // alone. 0: as many as the host has cores.
  uint32_t threads = 0;
  UploadBudget budget; // of loading's progress
};

// A model's file, and what its architecture says of it.
struct OpenedModel {
  ModelFile file;
  std::unique_ptr<ModelDefinition> definition =
      nullptr; // as open_model_definition() has it; null: not read yet

  OpenedModel(ModelFile opened) : file(std::move(opened)) {}
  OpenedModel(ModelFile opened, std::unique_ptr<ModelDefinition> read)
      : file(std::move(opened)), definition(std::move(read)) {}
  // With these changes of its settings, which a model whose definition was not read gets while it is loaded.
  static Result<OpenedModel> open(ModelFile file, const SettingChanges& changes = {});
  static Result<OpenedModel> open(const std::filesystem::path& path, const SettingChanges& changes = {});
};

// What a graph is to contain.
struct GraphRequest {
  bool sampling = false;             // end the graph with sampling; decoder only
  std::vector<std::string> readable; // tensors that the host can read: see Model::graph and encoder_graph
  uint32_t context = 0;              // positions of a sequence
  uint32_t input_context = 0;        // most positions of an encoder's input
  bool readable_cuts = false;        // the host can read what a stage receives and sends
  std::shared_ptr<const AdapterRoom> adapters = {}; // that products can have; null: none; decoder only
  bool adapters_in_products = false; // the device's products do all of it, see add_adapters_to_products()
};

// A model on a device: its file, its definition and its uploaded weights. Immutable, shared by any number of
// sessions and threads.
class Model {
public:
  static Result<std::shared_ptr<const Model>> load(const std::filesystem::path& path, DeviceContext context,
                                                   const Progress& progress = {},
                                                   const LoadOptions& options = {});
  // From a file that is open already.
  static Result<std::shared_ptr<const Model>> load(OpenedModel model, DeviceContext context,
                                                   const Progress& progress = {},
                                                   const LoadOptions& options = {});

  // A model whose weights have places but are not on the device. Plans can be made with it as if it were
  // loaded, for example to estimate memory.
  static Result<std::shared_ptr<const Model>> plan(OpenedModel model, DeviceContext context,
                                                   const LoadOptions& options = {});
  // The same model with its weights on the device; the planned one is used up. `profile`: in place of its
  // own; it may come from measuring with it. Variants whose kernels the driver cannot compile are put on the
  // blocklist, where others can do their work.
  static Result<std::shared_ptr<const Model>> upload(std::shared_ptr<const Model> planned,
                                                     const Progress& progress = {},
                                                     std::optional<DeviceProfile> profile = {});

  // The same model, which shares its weights, for sessions with another profile of its device.
  std::shared_ptr<const Model> with_profile(DeviceProfile profile) const;
  // What reads tiles, see ModelDefinition::tiles(). It shares the weights. null: this model.
  std::shared_ptr<const Model> for_tiles() const;

  const ModelFile& file() const { return parts_->file; }
  const LoadOptions& options() const { return options_; }
  const ModelDefinition& definition() const {
    return reads_tiles_ ? *parts_->definition->tiles() : *parts_->definition;
  }
  const ModelShape& shape() const { return reads_tiles_ ? parts_->tile_shape : parts_->shape; }
  const DeviceContext& context() const { return context_; }
  // The places of the weights. After loading, plans can only ask for weights that have a place already.
  WeightStore& weights() const { return *parts_->weights; }
  const Buffer& weight_allocation(uint32_t index) const { return parts_->allocations[index]; }
  const Stage& stage() const { return options_.stage; }
  bool last_stage() const { return stage().ends(shape().layers_to_cut()); }
  // Whether the stage has layers of a decoder.
  bool decodes() const {
    const auto layers = static_cast<uint32_t>(shape().layers.size());
    return shape().has_decoder() && !stage().within(shape().encoder_layers(), layers).empty();
  }
  const std::shared_ptr<Upstream>& upstream() const { return options_.upstream; } // null: there is none
  // Where a session's memory lies; only this stage's caches and states have any.
  SessionMemory lay_out_memory(const SessionSize& size) const;
  bool loaded() const { return !parts_->allocations.empty(); }
  uint64_t weight_bytes() const { return parts_->bytes.weights; } // on the device, or for plan(): once loaded
  uint64_t host_weight_bytes() const { return parts_->bytes.host; } // of those in the host's memory
  uint64_t loading_bytes() const { return parts_->bytes.staging; }  // taken during loading only; 0 after it
  // A checksum of the settings, the tensors and a sample of their bytes. Saved keys and values fit only a
  // model with the same number.
  uint64_t identity() const { return parts_->identity; }

  // The decoder's graph, fused, as plans are made from it. DecoderBuilder::take lists the tensors that can be
  // readable.
  Result<Graph> graph(const GraphRequest& request) const;
  // The encoder's graph. EncoderBuilder::take lists the tensors that can be readable.
  Result<Graph> encoder_graph(const GraphRequest& request) const;

private:
  // What models with different profiles share. Constant once the model is loaded.
  struct Parts {
    explicit Parts(ModelFile opened) : file(std::move(opened)) {}

    ModelFile file;
    std::unique_ptr<ModelDefinition> definition;
    ModelShape shape, tile_shape;
    std::unique_ptr<WeightStore> weights;
    std::vector<Plan> plans; // until the upload: those whose kernels it compiles meanwhile
    std::vector<Buffer> allocations;
    UploadBytes bytes;
    uint64_t identity = 0;
    StageMemory memory;
  };

  Model(std::shared_ptr<Parts> parts, DeviceContext context, const LoadOptions& options)
      : parts_(std::move(parts)), context_(std::move(context)), options_(options) {}
  Result<std::set<std::string>> tensors_of(const Stage& stage) const;
  Result<std::set<std::string>> host_tensors() const;
  Status choose_places();
  Status place_weights();

  std::shared_ptr<Parts> parts_;
  DeviceContext context_;
  LoadOptions options_;
  bool reads_tiles_ = false;
};

// The same graphs, made from a definition and its file without a device.
Result<Graph> build_graph(const ModelDefinition& definition, const ModelFile& file,
                          const GraphRequest& request, const LoadOptions& options = {});
Result<Graph> build_encoder_graph(const ModelDefinition& definition, const ModelFile& file,
                                  const GraphRequest& request, const LoadOptions& options = {});

} // namespace pumice
