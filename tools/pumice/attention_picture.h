#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "model/model.h"
#include "step/encoder.h"
#include "text/tokenizer.h"

// Where a decoder looked while it wrote: its attention to the encoder's input, drawn or written down.
namespace pumice::command {

struct AttentionOptions {
  std::string path;              // of a PNG or a safetensors file; empty: not asked for
  std::optional<uint32_t> layer; // the decoder's last where none is given
  std::optional<uint32_t> head;  // their mean where none is given

  bool given() const { return !path.empty(); }
};
// --attention, --attention-layer and --attention-head.
void add_attention_options(CLI::App& app, AttentionOptions& options);
// That an encoder-decoder of this shape has the layer and the head, and that the file can be written as it is
// named: before the work is done, not after it.
Status check_attention(const AttentionOptions& options, const ModelShape& shape);

// A text that was written, and what it was written about.
struct AttendedText {
  EncoderInput input;
  std::vector<uint32_t> prompt; // what the decoder began with: not shown
  std::vector<uint32_t> output;
  std::vector<std::string> input_labels;  // one for each position of the input; empty ones are not shown
  std::vector<std::string> output_labels; // one for each token of the output
  std::string input_axis = "source";      // what the positions are
};

// Runs the model over the text once more and writes the file: a picture with a row for each token of the
// output, or the weights that it shows as "attention" [output, input], with those of each head as
// "cross_attentions.LAYER" [heads, output, input], "output_ids", and "input_ids" where the input is tokens.
// Row i is what the decoder looked at when it chose token i.
Status write_attention(const std::shared_ptr<const Model>& model, const AttentionOptions& options,
                       const AttendedText& text);

// Tokens for people to read: spaces at their ends as a middle dot, special ones by their names.
std::vector<std::string> token_labels(const Tokenizer& tokenizer, std::span<const uint32_t> ids);
// A label for the first position of each row of a picture's patches; the class token's, where there is one.
std::vector<std::string> patch_labels(const EncoderShape& shape);

} // namespace pumice::command
