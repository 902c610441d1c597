// Decoders that read whole texts (open_text_reader): the answers that they give as decoders, and the same
// bits alone as beside others.
#include <doctest/doctest.h>

#include "model/architecture.h"
#include "step/encoder.h"
#include "support/command/answers.h"
#include "support/files/fixtures.h"
#include "support/in_turn.h"
#include "support/model.h"
#include "support/vulkan/gpu.h"

using namespace pumice;

namespace {

std::unique_ptr<Encoder> open(const std::filesystem::path& path, const std::vector<std::string>& readable) {
  LoadOptions options;
  options.text_reader = true;
  options.readable = readable;
  auto model = Model::load(path, test_context(), {}, options);
  if (!model.ok()) FAIL(model.error().text());
  EncoderOptions encoder;
  encoder.tokens = 256;
  encoder.inputs = 4;
  encoder.readable = readable;
  auto made = Encoder::create(*model, encoder);
  if (!made.ok()) FAIL(made.error().text());
  return *std::move(made);
}

std::vector<float> read(const Encoder& encoder, const std::string& name, size_t input) {
  auto values = encoder.read(name, input);
  if (!values.ok()) FAIL(values.error().text());
  return *std::move(values);
}

std::span<const float> last_row(std::span<const float> rows, size_t columns) {
  return rows.last(columns);
}

} // namespace

// Every third of them; a long run has all.
FIXTURE_TEST_CASE("decoders read whole texts") {
  const std::string names[] = {"llama-gqa", "qwen3",       "qwen2",  "mistral-swa", "gemma3",
                               "gpt2",      "deepseek-v3", "llama4", "gemma4",      "bloom"};
  for (const std::string& name : turns_of(names, 3)) {
    CAPTURE(name);
    const std::filesystem::path path = fixtures().model(name);
    const Answers answers(path / "expected.safetensors");
    const std::vector<std::string> tensors = {"logits", "last_hidden_state", "pooled_last", "pooled_mean"};
    const auto encoder = open(path, tensors);
    std::vector<EncoderInput> inputs;
    for (const ForcedInput& each : answers.sequences()) inputs.push_back({each.tokens, {}, {}});
    inputs.push_back({{inputs[0].tokens.begin(), inputs[0].tokens.begin() + 5}, {}, {}});
    REQUIRE(encoder->encode(inputs).ok());
    const size_t vocabulary = encoder->columns("logits"), hidden = encoder->columns("pooled_last");
    std::vector<std::vector<float>> together;
    for (size_t i = 0; i < inputs.size(); ++i) {
      CAPTURE(i);
      for (const std::string& tensor : tensors) together.push_back(read(*encoder, tensor, i));
      const std::vector<float> rows = read(*encoder, "last_hidden_state", i);
      CHECK(std::ranges::equal(read(*encoder, "pooled_last", i), last_row(rows, hidden)));
      if (i >= answers.sequences().size()) continue;
      const std::span<const float> expected = answers.row("logits", i);
      CHECK(relative_rms(read(*encoder, "logits", i), last_row(expected, vocabulary)) <= 1e-4);
    }
    for (size_t i = 0; i < inputs.size(); ++i) {
      REQUIRE(encoder->encode(std::span(&inputs[i], 1)).ok());
      for (size_t tensor = 0; tensor < tensors.size(); ++tensor) {
        CAPTURE(tensors[tensor]);
        CHECK(read(*encoder, tensors[tensor], 0) == together[i * tensors.size() + tensor]);
      }
    }
  }
}

TEST_CASE("what cannot read whole texts says so") {
  for (const auto& [name, reason] : {std::pair{"mamba2", "keep states"}, {"t5", "cannot turn texts into"}}) {
    const auto file = ModelFile::open(fixtures().model(name));
    REQUIRE(file.ok());
    const auto opened = open_text_reader(*file);
    REQUIRE(!opened.ok());
    CHECK(opened.error().text().find(reason) != std::string::npos);
  }
}
