#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "open_device.h"
#include "options.h"
#include "step/encoder.h"
#include "text/tokenizer.h"

namespace pumice::command {

// Texts from the command line; without any, the lines of standard input.
class LineSource {
public:
  explicit LineSource(std::vector<std::string> texts) : texts_(std::move(texts)), given_(!texts_.empty()) {}

  // The next lines, at most `most`; none at the end. Errors: io; invalid_argument if a line is not UTF-8.
  Result<std::vector<std::string>> next(size_t most);
  // The name of a line in messages. `line` counts from 0.
  std::string name(uint64_t line) const;

private:
  bool read(std::string& line);

  std::vector<std::string> texts_;
  bool given_;
  uint64_t count_ = 0; // lines returned so far
};

struct LineOptions {
  std::string model;
  uint32_t batch_tokens = 0;
  DeviceOptions device;
  LoadOptions load;
};
void add_line_options(CLI::App& app, LineOptions& options);

// An encoder of text, before its weights are on a device.
struct TextEncoder {
  ModelFile file;
  std::unique_ptr<ModelDefinition> definition;
  std::shared_ptr<const Tokenizer> tokenizer;
};
Result<TextEncoder> open_text_encoder(const std::string& path);

// Runs an encoder on lines of text: lines of similar length share a step. The results come in the order of
// the lines.
class LineEncoder {
public:
  // `kept` is the tensor to read. It has one row for each input.
  static Result<std::unique_ptr<LineEncoder>> create(TextEncoder model, const LineOptions& options,
                                                     std::string kept);

  // Turns a line into at most `limit` tokens.
  using Encode = std::function<Tokenizer::Encoding(const std::string& line, size_t limit)>;
  // Receives a line and its row of the tensor.
  using Take = std::function<void(const std::string& line, std::vector<float> values)>;
  Status run(LineSource& lines, const Encode& encode, const Take& take);

  uint32_t columns() const { return encoder_->columns(kept_); }
  // Prints the figures on standard error, and saves the compiled pipelines.
  Status finish() const;

private:
  LineEncoder() = default;
  Result<std::vector<EncoderInput>> tokenize(const LineSource& source, std::span<const std::string> lines,
                                             const Encode& encode);
  Result<std::vector<std::vector<float>>> encode(std::vector<EncoderInput> inputs);

  OpenedDevice device_;
  std::unique_ptr<Encoder> encoder_;
  std::string kept_;
  uint64_t lines_ = 0, tokens_ = 0, cut_ = 0;
  double seconds_ = 0;
};

} // namespace pumice::command
