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

// Lines from the command line, or else from standard input.
class LineSource {
public:
  explicit LineSource(std::vector<std::string> texts) : texts_(std::move(texts)), given_(!texts_.empty()) {}

  // The next lines, at most so many; none at the end. Errors: io; invalid_argument for what is not UTF-8.
  Result<std::vector<std::string>> next(size_t most);
  // Of a line, as messages name it: the first is 0.
  std::string name(uint64_t line) const;

private:
  bool read(std::string& line);

  std::vector<std::string> texts_;
  bool given_;
  uint64_t count_ = 0; // that have been given
};

struct LineOptions {
  std::string model;
  uint32_t batch_tokens = 0;
  DeviceOptions device;
  LoadOptions load;
};
void add_line_options(CLI::App& app, LineOptions& options);

// A model that reads text and writes none, before its weights are on a device.
struct TextEncoder {
  ModelFile file;
  std::unique_ptr<ModelDefinition> definition;
  std::shared_ptr<const Tokenizer> tokenizer;
};
Result<TextEncoder> open_text_encoder(const std::string& path);

// Puts lines through an encoder, many of similar length in one step, and gives what it made of each in the
// order in which they came.
class LineEncoder {
public:
  // `kept` is a tensor with one row for each input.
  static Result<std::unique_ptr<LineEncoder>> create(TextEncoder model, const LineOptions& options,
                                                     std::string kept);

  // The tokens of a line, of which there may be at most `limit`.
  using Encode = std::function<Tokenizer::Encoding(const std::string& line, size_t limit)>;
  using Take = std::function<void(const std::string& line, std::vector<float> values)>;
  Status run(LineSource& lines, const Encode& encode, const Take& take);

  uint32_t columns() const { return encoder_->columns(kept_); }
  // What was done, on standard error, and keeps what was compiled.
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
