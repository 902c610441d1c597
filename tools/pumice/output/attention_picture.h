#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "model/model.h"
#include "step/encoder.h"
#include "text/tokenizer.h"

// The decoder's attention to the encoder's input (cross-attention), as a picture or as numbers in a file.
namespace pumice::command {

struct AttentionOptions {
  std::string path;              // a PNG, an SVG or a safetensors file; empty: not asked for
  std::optional<uint32_t> layer; // default: the decoder's last layer
  std::optional<uint32_t> head;  // default: the mean of all heads
  bool alignment = false;        // words are linked by the attention

  bool given() const { return !path.empty(); }
};
// Adds --attention, --attention-layer and --attention-head.
void add_attention_options(CLI::App& app, AttentionOptions& options);
void add_alignment_option(CLI::App& app, AttentionOptions& options);
// Checks that a model of this shape has the layer and the head, and that the file name is usable. Call it
// before the work, so that an error does not come after it.
Status check_attention(const AttentionOptions& options, const ModelShape& shape);

// A generated text and the input that it was generated from.
struct AttendedText {
  EncoderInput input;
  std::vector<uint32_t> prompt; // the decoder's prompt, which is not shown
  std::vector<uint32_t> output;
  std::vector<std::string> input_labels;  // one for each position of the input; may be empty
  std::vector<std::string> output_labels; // one for each token of the output
  std::string input_axis = "source";      // title of the input's axis
  size_t shown = 0; // positions of the input that a picture shows, from the first; 0: all
};

// Runs the model over the text once more and writes the file. A picture has a row for each token of the
// output. A safetensors file has the same weights as "attention" [output, input], the weights of each head as
// "cross_attentions.LAYER" [heads, output, input], "output_ids", and for text input "input_ids".
// Row i is the attention with which the decoder chose token i.
Status write_attention(const std::shared_ptr<const Model>& model, const AttentionOptions& options,
                       const AttendedText& text);

// Labels for tokens: spaces are shown as open boxes, special tokens by their names.
std::vector<std::string> token_labels(const Tokenizer& tokenizer, std::span<const uint32_t> ids);
// Labels for the patches of a picture: the first patch of each row has one, and the class token if there is
// one. None where square patches do not fill the picture.
std::vector<std::string> patch_labels(const EncoderShape& shape);

} // namespace pumice::command
