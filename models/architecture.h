#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "io/model_file.h"
#include "models/gguf_model.h"

namespace pumice {

// A setting of a model, for a person to read.
struct Hyperparameter {
  std::string name;
  std::string value;
};

// A tensor that a model needs: its name in the file's format, its shape (outermost first), and the part of
// the model it belongs to: "embedding", "attention", "feed-forward", "norms" or "head".
struct WeightSpec {
  std::string name;
  std::vector<uint64_t> shape;
  std::string component;
};

// The keys and values that a layer keeps of each position.
struct LayerCache {
  uint32_t kv_heads = 0;
  uint32_t head_dim = 0;
  uint32_t window = 0; // positions that a token sees at most, its own included; 0: all
};

// What the runtime has to know of a decoder-only model beside its graph.
struct DecoderShape {
  uint32_t vocabulary = 0;
  uint32_t context = 0; // positions it was trained for
  std::vector<LayerCache> layers;
};

// A model's graph and the tensors in it that others build on or may want to read.
struct DecoderGraph {
  Graph graph;
  std::vector<TensorId>
      hidden_states; // the embedding's result, then each layer's; the last one after the final norm
  std::vector<TensorId> attentions; // each layer's attention, before its output projection
  TensorId logits = 0;              // [outputs, vocabulary]
};

// One model of an architecture: a config that has been read and checked.
class Definition {
public:
  virtual ~Definition() = default;
  virtual DecoderShape shape() const = 0;
  virtual std::vector<Hyperparameter> hyperparameters() const = 0;
  // Every tensor the model needs. A tied head is not listed twice.
  virtual std::vector<WeightSpec> weights() const = 0;
  // Weights are found in the file, and their names and shapes checked.
  virtual Result<DecoderGraph> graph(const ModelFile& file) const = 0;
  // The same model as llama.cpp's GGUF has it. `file` is the one it was read from, a Hugging Face folder.
  virtual Result<GgufModel> gguf(const ModelFile& file) const = 0;
};

// A family of models. To add one: a folder beside this file, and a line in registry.cpp.
struct Architecture {
  std::string_view name;                                  // as its folder
  std::vector<std::string_view> hugging_face_model_types; // config.json's model_type
  std::vector<std::string_view> gguf_architectures;       // general.architecture
  Result<std::unique_ptr<Definition>> (*open)(const ModelFile& file);
};

std::span<const Architecture> architectures();

// Reads the config of a file with the architecture that it names.
Result<std::unique_ptr<Definition>> open_definition(const ModelFile& file);

} // namespace pumice
