#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <vector>

#include "base/progress.h"
#include "gpu/buffer.h"
#include "io/model_file.h"
#include "kernel/device_context.h"
#include "models/architecture.h"
#include "plan/weight_store.h"

namespace pumice {

struct LoadOptions {
  // What matrices of plain numbers are quantised to while they are loaded; can_quantize() says to which
  // types.
  std::optional<TensorType> weights;
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

  const ModelFile& file() const { return file_; }
  const LoadOptions& options() const { return options_; }
  const Definition& definition() const { return *definition_; }
  const ModelShape& shape() const { return shape_; }
  const DeviceContext& context() const { return context_; }
  // Places of the weights. Plans ask it for weights; after loading it only finds what it has placed before.
  WeightStore& weights() const { return *weights_; }
  const Buffer& weight_part(uint32_t part) const { return parts_[part]; }
  uint64_t weight_bytes() const; // on the device

  // A model's graph as plans are made from it: fused, with sampling at its end or without, and with the
  // tensors named in `kept` readable by the host: "logits", "log_likelihoods", "hidden_states.N", or
  // "attentions.N", a layer's attention weights [tokens, heads * context].
  Result<Graph> graph(bool sampling, std::span<const std::string> kept, uint32_t context) const;

private:
  Model(ModelFile file, DeviceContext context, const LoadOptions& options)
      : file_(std::move(file)), context_(std::move(context)), options_(options) {}
  Status place_weights();

  ModelFile file_;
  DeviceContext context_;
  LoadOptions options_;
  std::unique_ptr<Definition> definition_;
  ModelShape shape_;
  std::unique_ptr<WeightStore> weights_;
  std::vector<Buffer> parts_;
};

// The graph as above, from a definition and its file alone.
Result<Graph> build_graph(const Definition& definition, const ModelFile& file, bool sampling,
                          std::span<const std::string> kept, uint32_t context,
                          const LoadOptions& options = {});

} // namespace pumice
