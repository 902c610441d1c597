#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "graph/readable_tensors.h"
#include "io/model_file.h"

namespace pumice {

struct GgufModel; // whose header needs JSON's, which takes long to compile

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

enum class InputKind : uint32_t {
  tokens,
  pixels,   // of a picture [channels, height, width], normalised
  features, // of a sound [mels, frames]: the logarithm of its mel spectrum
};

// What an encoder reads. An input's positions are its tokens, its patches and class token, or every other
// frame.
struct EncoderShape {
  InputKind kind = InputKind::tokens;
  uint32_t vocabulary = 0;  // of tokens
  uint32_t token_types = 1; // of tokens
  uint32_t context = 0;     // most positions of one input; a picture or a sound has them all
  bool any_length = false;  // the context is what it was trained with, and longer inputs are possible
  std::vector<uint32_t> input_shape; // of a picture or a sound
  uint32_t hidden = 0;
  std::vector<std::string> labels; // what a classification's logits stand for
  // Caches of its inputs' positions, which come after the decoder's: one for the cross-attention of each
  // decoder layer, then one that all of its own layers use in turn.
  std::vector<LayerCache> caches;

  uint32_t input_values() const {
    uint32_t count = 1;
    for (uint32_t size : input_shape) count *= size;
    return count;
  }
};

// What the runtime has to know of a model beside its graphs.
struct ModelShape {
  uint32_t vocabulary = 0;        // of the decoder; 0: it has none
  uint32_t context = 0;           // positions the decoder was trained for
  std::vector<LayerCache> layers; // of the decoder
  std::optional<EncoderShape> encoder;

  bool has_decoder() const { return vocabulary > 0; }
};

// A decoder's graph, the tensor that sampling builds on and those that the host may want to read.
struct DecoderGraph {
  Graph graph;
  ReadableTensors readable; // see DecoderBuilder::take
  TensorId logits = 0;      // [outputs, vocabulary]
};

// An encoder's. It ends with the keys and values that the decoder's cross-attention needs, where there is
// one.
struct EncoderGraph {
  Graph graph;
  ReadableTensors readable; // see EncoderBuilder::take
};

// One model of an architecture: a config that has been read and checked.
class ModelDefinition {
public:
  virtual ~ModelDefinition() = default;
  virtual ModelShape shape() const = 0;
  virtual std::vector<Hyperparameter> hyperparameters() const = 0;
  // Every tensor the model needs. A tied head is not listed twice.
  virtual std::vector<WeightSpec> weights() const = 0;
  // Weights are found in the file, and their names and shapes checked. Of a model without a decoder, or
  // without an encoder, one of them is an error.
  virtual Result<DecoderGraph> graph(const ModelFile& file) const;
  virtual Result<EncoderGraph> encoder_graph(const ModelFile& file) const;
  // The same model as llama.cpp's GGUF has it. `file` is the one it was read from, a Hugging Face folder.
  virtual Result<GgufModel> gguf(const ModelFile& file) const;
};

// A family of models. To add one: a folder beside this file, and a line in registry.cpp.
struct Architecture {
  std::string_view name;                                  // as its folder
  std::vector<std::string_view> hugging_face_model_types; // config.json's model_type
  std::vector<std::string_view> gguf_architectures;       // general.architecture
  Result<std::unique_ptr<ModelDefinition>> (*open)(const ModelFile& file);
};

std::span<const Architecture> architectures();

// Reads the config of a file with the architecture that it names.
Result<std::unique_ptr<ModelDefinition>> open_model_definition(const ModelFile& file);

} // namespace pumice
