#include "task/attention_reader.h"

#include <algorithm>

#include "base/align.h"

namespace pumice {

std::vector<float> AttentionMap::of(std::optional<uint32_t> head) const {
  const size_t size = queries * keys;
  if (head) {
    const auto first = by_head.begin() + static_cast<ptrdiff_t>(*head * size);
    return {first, first + static_cast<ptrdiff_t>(size)};
  }
  std::vector<float> mean(size);
  for (size_t at = 0; at < by_head.size(); ++at) mean[at % size] += by_head[at] / static_cast<float>(heads);
  return mean;
}

AttentionReader::AttentionReader(std::shared_ptr<const Model> model, uint32_t layer)
    : model_(std::move(model)), name_(cross_attention_name(layer)),
      heads_(cross_attention_heads(model_->shape(), layer)) {}

// Most texts are shorter than the longest, so the room grows with them.
Status AttentionReader::make_room(size_t input_tokens, size_t tokens) {
  if (pass_ && input_tokens <= input_tokens_ && tokens <= tokens_) return {};
  constexpr size_t step = 64;
  const ModelShape& shape = model_->shape();
  const auto room = [](size_t needed, size_t before, uint32_t most) {
    return std::max(needed, std::min<size_t>(align(std::max(needed, before), step), most));
  };
  if (input_tokens > 0) input_tokens_ = room(input_tokens, input_tokens_, shape.encoder->context);
  tokens_ = room(tokens, tokens_, shape.context);
  ForcedPassOptions options;
  options.readable = {name_};
  options.input_tokens = static_cast<uint32_t>(input_tokens_);
  options.tokens = static_cast<uint32_t>(tokens_);
  options.logits = false;
  if (chunk_) options.chunk = chunk_;
  pass_.reset(); // its memory is wanted for the next one
  PUMICE_TRY(pass_, ForcedPass::create(model_, options));
  return {};
}

Status AttentionReader::prepare(const Making& making) {
  chunk_ = making.chunk;
  const bool reads_tokens = model_->shape().encoder->kind == InputKind::tokens;
  PUMICE_CHECK(make_room(reads_tokens ? 1 : 0, 1));
  return pass_->prepare(making);
}

Result<AttentionMap> AttentionReader::read(const EncoderInput& input, std::span<const uint32_t> prompt,
                                           std::span<const uint32_t> output) {
  ForcedInput forced{input, {prompt.begin(), prompt.end()}};
  // Nothing is shown for the token after the last one.
  forced.tokens.insert(forced.tokens.end(), output.begin(), output.end() - 1);
  const EncoderShape& shape = *model_->shape().encoder;
  const size_t positions = input.tokens.empty() ? 0 : shape.picture_rows + input.tokens.size();
  PUMICE_CHECK(make_room(positions, forced.tokens.size()));
  PUMICE_CHECK(pass_->run(std::span(&forced, 1)));
  PUMICE_TRY(const std::vector<float> rows, pass_->read(name_, 0)); // [positions, heads, width]

  AttentionMap weights;
  weights.heads = heads_;
  weights.queries = output.size();
  weights.keys = positions > 0 ? positions : shape.context;
  const size_t columns = pass_->columns(name_), width = columns / weights.heads;
  for (uint32_t head = 0; head < weights.heads; ++head) {
    for (size_t query = 0; query < weights.queries; ++query) {
      const auto first =
          rows.begin() + static_cast<ptrdiff_t>((prompt.size() - 1 + query) * columns + head * width);
      weights.by_head.insert(weights.by_head.end(), first, first + static_cast<ptrdiff_t>(weights.keys));
    }
  }
  return weights;
}

} // namespace pumice
