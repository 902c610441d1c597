#pragma once

#include "step/encoder.h"
#include "step/prompt_embeddings.h"
#include "step/work/making.h"

namespace pumice {

// What goes into one pass: an encoder's input, a decoder's tokens, or both, as the model has them.
struct ForcedInput {
  EncoderInput input;
  std::vector<uint32_t> tokens;
  SharedEmbeddings embeddings = {}; // of those tokens that are rows of pictures
};

struct ForcedPassOptions {
  // Tensors to read: the decoder's (see Model::graph), and the encoder's (see Model::encoder_graph), whose
  // names begin with "encoder_" where there is a decoder too.
  std::vector<std::string> readable;
  uint32_t inputs = 1;       // most inputs that run together
  uint32_t input_tokens = 0; // most positions of those inputs together; 0: the most that one has
  uint32_t tokens = 0;       // most decoder tokens of one input; 0: the decoder's context
  uint32_t chunk = 128;      // most of a decoder's tokens in one step
  CacheType cache = CacheType::f32;
  bool logits = true; // of every token; they are most of the work where the vocabulary is large
};

// The decoder's attention to the encoder's input, in one layer: a readable tensor of [tokens, heads,
// positions].
std::string cross_attention_name(uint32_t layer);
uint32_t cross_attention_heads(const ModelShape& shape, uint32_t layer);

// Runs a model over given tokens (teacher forcing) and returns its tensors for each of them: for comparisons
// with references and for inspection. Used by one thread at a time.
class ForcedPass {
public:
  static Result<std::unique_ptr<ForcedPass>> create(std::shared_ptr<const Model> model,
                                                    ForcedPassOptions options);

  // Compiles the kernels of all steps.
  Status prepare(const Making& making);

  // How many of these inputs, from the first on, can run together.
  size_t fitting(std::span<const ForcedInput> inputs);
  Status run(std::span<const ForcedInput> inputs);
  // A tensor for one input of the last run: rows of columns(name) values, one for each of its tokens or
  // positions, or one for the input.
  Result<std::vector<float>> read(const std::string& name, size_t input) const;
  uint32_t columns(const std::string& name) const;

  Encoder* encoder() { return encoder_.get(); } // null where the model has none
  Runner* decoder() { return decoder_.get(); }  // the same

private:
  ForcedPass() = default;
  bool of_encoder(const std::string& name) const;
  std::string encoder_name(const std::string& name) const; // as the encoder knows it, of one of its own
  // The decoder's rows of an input.
  Result<std::vector<StepToken>> rows_of(const ForcedInput& input, uint32_t sequence);
  Status run_decoder(std::span<const ForcedInput> inputs);
  Status run_step(std::span<const ForcedInput> inputs, std::span<const StepToken> rows);

  ForcedPassOptions options_;
  ModelShape shape_;
  std::unique_ptr<Runner> decoder_;
  std::unique_ptr<Encoder> encoder_;
  std::map<std::string, std::vector<float>> tensors_; // the decoder's, of all inputs of the run
  std::vector<size_t> first_rows_;                    // of each input in those, and the end
};

} // namespace pumice
