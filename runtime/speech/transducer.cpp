#include "speech/transducer.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/dot.h"

namespace pumice {

namespace {

constexpr uint32_t widest_transducer = 1 << 16;

float sigmoid_of(float x) {
  return 1 / (1 + std::exp(-x));
}

uint32_t likeliest_of(std::span<const float> scores) {
  return static_cast<uint32_t>(std::ranges::max_element(scores) - scores.begin());
}

} // namespace

void Transducer::Matrix::add_product(std::span<const float> x, std::span<float> to) const {
  for (size_t row = 0; row < to.size(); ++row)
    to[row] += dot(&values[row * columns], x.data(), columns) + bias[row];
}

Result<Transducer::Matrix> Transducer::matrix(const ModelFile& file, const std::string& weight,
                                              const std::string& bias, uint64_t rows) const {
  Matrix result;
  result.columns = columns_;
  const uint64_t shape[] = {rows, columns_}, length[] = {rows};
  PUMICE_TRY(const TensorView* values, file.require(weight, shape));
  result.values = decode_vector(WeightView::whole(*values));
  if (bias.empty()) return result;
  PUMICE_TRY(const TensorView* added, file.require(bias, length));
  result.bias = decode_vector(WeightView::whole(*added));
  return result;
}

Status Transducer::read_settings(const ModelFile& file) {
  const Fields fields = file.fields();
  PUMICE_TRY(vocabulary_, fields.u32_or("vocab_size", 2, 1 << 24, 8193));
  PUMICE_TRY(blank_, fields.u32_or("blank_token_id", 0, vocabulary_ - 1, std::min(vocabulary_ - 1, 8192u)));
  PUMICE_TRY(columns_, fields.u32_or("decoder_hidden_size", 1, widest_transducer, 640));
  PUMICE_TRY(layer_count_, fields.u32_or("num_decoder_layers", 1, 64, 2));
  PUMICE_TRY(most_symbols_, fields.u32_or("max_symbols_per_step", 1, 1 << 16, 10));
  PUMICE_TRY(const std::string activation, fields.string_or("hidden_act", "relu"));
  if (activation != "relu")
    return fields.error("hidden_act", fmt::format("expected relu; found '{}'", activation));
  if (file.architecture() != "parakeet_tdt") return {};
  PUMICE_TRY(durations_, fields.u32_array_or_empty("durations", 0, 1 << 16));
  if (durations_.empty()) durations_ = {0, 1, 2, 3, 4};
  return {};
}

Result<std::shared_ptr<const Transducer>> Transducer::read(const ModelFile& file) {
  const std::string type = file.architecture();
  if (type != "parakeet_tdt" && type != "parakeet_rnnt") return std::shared_ptr<const Transducer>();
  auto made = std::make_shared<Transducer>();
  PUMICE_CHECK(made->read_settings(file));
  const uint64_t columns = made->columns_;
  PUMICE_TRY(made->embedding_, made->matrix(file, "decoder.embedding.weight", "", made->vocabulary_));
  for (uint32_t i = 0; i < made->layer_count_; ++i) {
    const auto part = [&](const char* which) {
      return made->matrix(file, fmt::format("decoder.lstm.weight_{}_l{}", which, i),
                          fmt::format("decoder.lstm.bias_{}_l{}", which, i), 4 * columns);
    };
    Layer layer;
    PUMICE_TRY(layer.input, part("ih"));
    PUMICE_TRY(layer.state, part("hh"));
    made->layers_.push_back(std::move(layer));
  }
  PUMICE_TRY(made->projection_, made->matrix(file, "decoder.decoder_projector.weight",
                                             "decoder.decoder_projector.bias", columns));
  const uint64_t rows = made->vocabulary_ + made->durations_.size();
  PUMICE_TRY(made->head_, made->matrix(file, "joint.head.weight", "joint.head.bias", rows));
  return std::shared_ptr<const Transducer>(std::move(made));
}

TransducerDecoding::TransducerDecoding(std::shared_ptr<const Transducer> transducer,
                                       std::vector<float> frames)
    : transducer_(std::move(transducer)), frames_(std::move(frames)) {
  outputs_.assign(transducer_->layers_.size(), std::vector<float>(transducer_->columns_));
  cells_ = outputs_;
  read_token(transducer_->blank_); // before the first token
}

// A step of the recurrent network (Hochreiter and Schmidhuber, LSTM, 1997).
void TransducerDecoding::read_token(uint32_t token) {
  const size_t columns = transducer_->columns_;
  std::span<const float> x = std::span(transducer_->embedding_.values).subspan(token * columns, columns);
  std::vector<float> gates;
  for (size_t i = 0; i < transducer_->layers_.size(); ++i) {
    const Transducer::Layer& layer = transducer_->layers_[i];
    gates.assign(4 * columns, 0.0f);
    layer.input.add_product(x, gates);
    layer.state.add_product(outputs_[i], gates);
    for (size_t j = 0; j < columns; ++j) {
      float& cell = cells_[i][j];
      cell = sigmoid_of(gates[columns + j]) * cell + sigmoid_of(gates[j]) * std::tanh(gates[2 * columns + j]);
      outputs_[i][j] = sigmoid_of(gates[3 * columns + j]) * std::tanh(cell);
    }
    x = outputs_[i];
  }
  text_.assign(columns, 0.0f);
  transducer_->projection_.add_product(x, text_);
}

void TransducerDecoding::step() {
  const size_t columns = transducer_->columns_;
  std::vector<float> joint(columns), scores(transducer_->vocabulary_ + transducer_->durations_.size());
  for (size_t i = 0; i < columns; ++i) joint[i] = std::max(frames_[at_ * columns + i] + text_[i], 0.0f);
  transducer_->head_.add_product(joint, scores);
  const uint32_t token = likeliest_of(std::span(scores).first(transducer_->vocabulary_));
  const bool blank = token == transducer_->blank_;
  uint32_t further = blank ? 1 : 0;
  if (!transducer_->durations_.empty()) {
    const uint32_t duration =
        transducer_->durations_[likeliest_of(std::span(scores).subspan(transducer_->vocabulary_))];
    further = std::max(duration, further);
  }
  if (!blank) {
    heard_.push_back({token, at_, at_ + std::max(further, 1u)});
    read_token(token);
    if (further == 0 && ++symbols_ >= transducer_->most_symbols_) further = 1;
  }
  if (further > 0) symbols_ = 0;
  at_ += further;
}

} // namespace pumice
