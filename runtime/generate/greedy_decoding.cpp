#include <algorithm>
#include <limits>

#include "generate/decoding.h"

namespace pumice {

namespace {

class GreedyDecoding : public Decoding {
public:
  GreedyDecoding(Batch& batch, const DecodingTask& task) : batch_(batch), task_(task) {}

  Status begin() override;
  bool done() const override { return batch_.sequences() == 0; }
  Status step() override;
  Status fill(Slice& slice) override { return batch_.fill(slice); }
  Status collect() override;
  Status end() override { return batch_.stop_all(); }

private:
  void take(std::span<const BatchToken> tokens);

  Batch& batch_;
  DecodingTask task_;
  std::vector<uint32_t> ids_; // in the batch, of the inputs
  std::vector<float> sums_;   // of their tokens' log-probabilities
};

Status GreedyDecoding::begin() {
  const GenerationConfig& config = task_.options.config;
  SequenceRequest request;
  request.prompt = config.prompt;
  request.sampling = task_.options.sampling;
  for (uint32_t token : config.suppressed) {
    request.sampling.logit_biases.push_back({token, -std::numeric_limits<float>::infinity()});
  }
  const std::vector<uint32_t>& ends = config.ends;
  request.sampling.stop_tokens.insert(request.sampling.stop_tokens.end(), ends.begin(), ends.end());
  request.max_tokens = config.max_tokens;
  sums_.assign(task_.ranges.size(), 0);
  for (const InputRange& range : task_.ranges) {
    request.input = range;
    PUMICE_TRY(uint32_t id, batch_.add(request));
    ids_.push_back(id);
    task_.texts[ids_.size() - 1].resize(1);
  }
  return {};
}

Status GreedyDecoding::step() {
  PUMICE_TRY(const std::span<const BatchToken> tokens, batch_.step());
  take(tokens);
  return {};
}

Status GreedyDecoding::collect() {
  for (;;) {
    PUMICE_TRY(const auto tokens, batch_.collect());
    if (!tokens) return {};
    take(*tokens);
  }
}

void GreedyDecoding::take(std::span<const BatchToken> tokens) {
  for (const BatchToken& each : tokens) {
    const auto at = static_cast<size_t>(std::ranges::find(ids_, each.sequence) - ids_.begin());
    std::vector<Hypothesis>& text = task_.texts[at];
    text[0].tokens.push_back(each.token);
    text[0].finished = each.finish_reason != FinishReason::none;
    if (task_.options.sampling.log_probabilities > 0) {
      sums_[at] += each.log_probabilities.log_probability;
      text[0].score = score_of(sums_[at], text[0].tokens.size(), task_.options.config);
    }
    const size_t input = task_.first_input + at;
    if (task_.options.on_token) task_.options.on_token(input, each.token);
    if (task_.options.on_texts && text[0].finished) task_.options.on_texts(input, text);
  }
}

} // namespace

std::unique_ptr<Decoding> make_greedy_decoding(Batch& batch, const DecodingTask& task) {
  return std::make_unique<GreedyDecoding>(batch, task);
}

} // namespace pumice
