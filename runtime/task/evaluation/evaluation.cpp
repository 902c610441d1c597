#include "task/evaluation/evaluation.h"

#include <algorithm>

namespace pumice {

namespace {

// The number of columns that the attention weights of one head have room for.
uint32_t most_keys(const Runner& runner, bool of_input) {
  const SessionSize& size = runner.size();
  if (!of_input) return size.context;
  const EncoderShape& shape = *runner.model().shape().encoder;
  return shape.any_length ? size.input_positions : std::min(shape.context, size.input_positions);
}

} // namespace

ForcedInput EvalBatch::input(size_t row) const {
  ForcedInput input;
  if (encoder) input.input = encoder->inputs[row];
  if (decoder) input.tokens = prompts.empty() ? decoder->ids[row] : prompts[row].tokens;
  if (!prompts.empty()) input.embeddings = prompts[row].embeddings;
  return input;
}

bool EvalBatch::is_padding(size_t row) const {
  return (encoder ? encoder->places : decoder->places).rows[row].empty();
}

EvalOutput::EvalOutput(ForcedPass& pass, const EvalBatch& batch, std::string name)
    : name_(std::move(name)), width_(pass.columns(name_)) {
  constexpr std::string_view prefix = "encoder_";
  const bool both = batch.encoder && batch.decoder;
  const bool encodes = !batch.decoder || (both && name_.starts_with(prefix));
  const std::string runner_name = encodes && both ? name_.substr(prefix.size()) : name_;
  const bool crosses = runner_name.starts_with("cross_attentions.");
  shape_ = {batch.rows()};
  if (!encodes || !pass.encoder()->runner().per_output(runner_name)) {
    queries_ = encodes ? &batch.encoder->places : &batch.decoder->places;
  }
  if (crosses || runner_name.starts_with("attentions.")) {
    keys_ = encodes || crosses ? &batch.encoder->places : queries_;
    const Runner& runner = encodes ? pass.encoder()->runner() : *pass.decoder();
    shape_.push_back(width_ / most_keys(runner, encodes || crosses));
  }
  if (queries_) shape_.push_back(queries_->columns);
  shape_.push_back(keys_ ? keys_->columns : width_);
  uint64_t count = 1;
  for (uint64_t size : shape_) count *= size;
  values_.resize(count);
}

void EvalOutput::place(size_t row, std::span<const float> values) {
  float* const to = values_.data() + row * (values_.size() / shape_[0]);
  if (!queries_) {
    std::ranges::copy(values, to);
    return;
  }
  const std::vector<uint64_t>& columns = queries_->rows[row];
  for (size_t i = 0; i < columns.size(); ++i) {
    place_token(to + columns[i] * shape_.back(), row, values.subspan(i * width_, width_));
  }
}

// The keys of attention weights also go to the columns that they came from, so that padding stays zero.
void EvalOutput::place_token(float* to, size_t row, std::span<const float> values) const {
  if (!keys_) {
    std::ranges::copy(values, to);
    return;
  }
  const uint64_t heads = shape_[1], room = width_ / heads;
  const std::vector<uint64_t>& columns = keys_->rows[row];
  for (uint64_t head = 0; head < heads; ++head) {
    float* const of_head = to + head * queries_->columns * keys_->columns;
    for (size_t key = 0; key < columns.size(); ++key) of_head[columns[key]] = values[head * room + key];
  }
}

InputFeatures::InputFeatures(const EncoderBatch& batch, const EncoderShape& shape)
    : shape_{batch.inputs.size()} {
  shape_.insert(shape_.end(), shape.input_shape.begin(), shape.input_shape.end());
  for (const EncoderInput& input : batch.inputs) {
    values_.insert(values_.end(), input.values.begin(), input.values.end());
  }
}

SafetensorsFile::Entry EvalOutput::entry(uint64_t rows) const {
  if (rows >= shape_[0]) return {name_, "F32", shape_, std::as_bytes(std::span(values_))};
  std::vector<uint64_t> shape = shape_;
  shape[0] = rows;
  return {name_, "F32", std::move(shape),
          std::as_bytes(std::span(values_).first(values_.size() / shape_[0] * rows))};
}

} // namespace pumice
