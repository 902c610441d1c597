#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/progress.h"
#include "gpu/buffer.h"
#include "io/model_file.h"
#include "kernel/device_context.h"
#include "model/architecture.h"
#include "plan/plan.h"
#include "plan/upload.h"
#include "plan/weight_store.h"

namespace pumice {

class Model;

struct LoadOptions {
  // What matrices of plain numbers are quantised to while they are loaded; can_quantize() says to which
  // types.
  std::optional<TensorType> weights;
  // That pack weights and compile kernels, the calling one among them: with 1 it does all of it alone. 0: as
  // many as the host can run at a time.
  uint32_t threads = 0;
  // Asked once the weights are on the device: the profile that the model's sessions are to have, such as
  // tuning/tune_model.h finds. Without, the device's own.
  std::function<Result<DeviceProfile>(const std::shared_ptr<const Model>&)> tune;
};

// What a plan is to be made of.
struct GraphRequest {
  bool sampling = false;         // at its end; of a decoder
  std::vector<std::string> kept; // tensors that the host can read: see Model::graph and encoder_graph
  uint32_t context = 0;          // positions of a sequence
  uint32_t input_context = 0;    // most positions of an encoder's input
};

// A model on a device: its file, its definition and its uploaded weights. Immutable, shared by any number of
// sessions and threads.
class Model {
public:
  static Result<std::shared_ptr<const Model>> load(const std::filesystem::path& path, DeviceContext context,
                                                   const Progress& progress = {},
                                                   const LoadOptions& options = {});
  // From a file that is open already.
  static Result<std::shared_ptr<const Model>>
  load(ModelFile file, DeviceContext context, const Progress& progress = {}, const LoadOptions& options = {});

  // A model whose weights have their places and are not on the device: to plan with, as if it were loaded.
  static Result<std::shared_ptr<const Model>> plan(ModelFile file, DeviceContext context,
                                                   const LoadOptions& options = {});

  const ModelFile& file() const { return file_; }
  const LoadOptions& options() const { return options_; }
  const ModelDefinition& definition() const { return *definition_; }
  const ModelShape& shape() const { return shape_; }
  const DeviceContext& context() const { return context_; }
  // Places of the weights. Plans ask it for weights; after loading it only finds what it has placed before.
  WeightStore& weights() const { return *weights_; }
  const Buffer& weight_allocation(uint32_t index) const { return allocations_[index]; }
  bool loaded() const { return !allocations_.empty(); }
  uint64_t weight_bytes() const { return bytes_.weights; }  // on the device, or that will be
  uint64_t loading_bytes() const { return bytes_.staging; } // that loading takes for a while; 0 after it
  // The settings, the tensors and a sample of their bytes, in a number: keys and values are of no use to a
  // model with another one.
  uint64_t identity() const { return identity_; }

  // The decoder's graph as plans are made from it: fused. What may be kept: DecoderBuilder::take.
  Result<Graph> graph(const GraphRequest& request) const;
  // The encoder's. What may be kept: EncoderBuilder::take.
  Result<Graph> encoder_graph(const GraphRequest& request) const;

private:
  Model(ModelFile file, DeviceContext context, const LoadOptions& options)
      : file_(std::move(file)), context_(std::move(context)), options_(options) {}
  // All that comes before the upload.
  static Result<std::shared_ptr<Model>> prepare(ModelFile file, DeviceContext context,
                                                const LoadOptions& options, std::vector<Plan>& plans);
  Result<std::vector<Plan>> place_weights();

  ModelFile file_;
  DeviceContext context_;
  LoadOptions options_;
  std::unique_ptr<ModelDefinition> definition_;
  ModelShape shape_;
  std::unique_ptr<WeightStore> weights_;
  std::vector<Buffer> allocations_;
  UploadBytes bytes_;
  uint64_t identity_ = 0;
};

// The graphs as above, from a definition and its file alone.
Result<Graph> build_graph(const ModelDefinition& definition, const ModelFile& file,
                          const GraphRequest& request, const LoadOptions& options = {});
Result<Graph> build_encoder_graph(const ModelDefinition& definition, const ModelFile& file,
                                  const GraphRequest& request, const LoadOptions& options = {});

} // namespace pumice
