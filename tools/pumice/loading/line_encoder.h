#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "input/waiting_lines.h"
#include "loading/open_device.h"
#include "options/options.h"
#include "step/encoder.h"
#include "text/tokenizer.h"

namespace pumice::command {

struct LineOptions {
  std::string model;
  uint32_t batch_tokens = 0;
  uint32_t max_tokens = 0; // of a line; 0: as the model's settings say
  DeviceOptions device;
  LoadOptions load;
};
void add_line_options(CLI::App& app, LineOptions& options);

// An encoder of text, or a decoder that reads whole texts, before its weights are on a device.
struct TextEncoder {
  ModelFile file;
  std::unique_ptr<ModelDefinition> definition;
  std::shared_ptr<const Tokenizer> tokenizer;
};
Result<TextEncoder> open_text_encoder(const std::string& path);

// Fills a text up to the length that the model needs.
void pad(const EncoderShape& shape, std::vector<uint32_t>& tokens);

// Runs an encoder on lines of text, as many in a step as fit. The results come in the order of the lines,
// after each step.
class LineEncoder {
public:
  // `kept` is the tensor to read. It has one row for each input. A line has at most as many tokens as the
  // options, the model's context and `line_limit` (0: no other limit) allow.
  static Result<std::unique_ptr<LineEncoder>> create(TextEncoder model, const LineOptions& options,
                                                     std::string kept, uint32_t line_limit = 0);

  // Turns a line into at most `limit` tokens.
  using Encode = std::function<Tokenizer::Encoding(const std::string& line, size_t limit)>;
  // Receives a line and its row of the tensor.
  using Take = std::function<Status(const Line& line, std::vector<float> values)>;
  Status run(WaitingLines& lines, const Encode& encode, const Take& take);

  OpenedDevice& device() { return device_; }
  uint64_t model_identity() { return encoder_->runner().model().identity(); }
  uint32_t columns() const { return encoder_->columns(kept_); }
  // Prints the figures on standard error, and saves the compiled pipelines.
  Status finish() const;

private:
  LineEncoder() = default;
  Result<EncoderInput> tokenize(const std::string& name, const std::string& text, const Encode& encode);
  Status run(std::span<const Line> lines, std::span<const EncoderInput> inputs, const Take& take);

  OpenedDevice device_;
  std::unique_ptr<Encoder> encoder_;
  std::string kept_;
  uint32_t limit_ = 0; // tokens of a line
  uint64_t lines_ = 0, tokens_ = 0, cut_ = 0;
  double seconds_ = 0;
};

} // namespace pumice::command
