#include "step/encoder.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "kernel/attention/attention.h"
#include "model/upstream.h"
#include "step/patch_order.h"

namespace pumice {

uint32_t Encoder::position_block(const Model& model, CacheType cache) {
  SessionSize size;
  size.cache = cache;
  uint32_t block = std::max(8u, model.upstream() ? model.upstream()->position_block() : 0);
  for (const LayerCache& layer : model.shape().encoder->caches) {
    block = std::max(block, attention_block(model.context().profile, input_cache_layout(layer, size),
                                            model.shape().encoder->causal));
  }
  return block;
}

Result<std::unique_ptr<Encoder>> Encoder::create(std::shared_ptr<const Model> model, EncoderOptions options) {
  PUMICE_TRY(RunnerOptions runner_options, Encoder::runner_options(*model, std::move(options)));
  const uint32_t block = position_block(*model, runner_options.size.cache);
  const bool external_input = runner_options.input.buffer != VK_NULL_HANDLE;
  PUMICE_TRY(std::unique_ptr<Runner> runner, Runner::create(std::move(model), std::move(runner_options)));
  std::unique_ptr<Encoder> encoder(new Encoder(std::move(runner), block));
  encoder->external_input_ = external_input;
  return encoder;
}

Result<RunnerOptions> Encoder::runner_options(const Model& model, EncoderOptions options) {
  const ModelShape& shape = model.shape();
  if (!shape.encoder) {
    return Error{Code::unsupported, fmt::format("{}: a model of the architecture '{}' has no encoder",
                                                model.file().path(), model.file().architecture())};
  }
  if (options.inputs == 0) {
    return Error{Code::invalid_argument,
                 "an encoder for 0 inputs at a time cannot be made: it needs at least 1"};
  }
  RunnerOptions runner_options;
  runner_options.part = ModelPart::encoder;
  runner_options.sampling = false;
  runner_options.readable = std::move(options.readable);
  runner_options.caches = std::move(options.caches);
  runner_options.input = options.input;
  runner_options.output = options.output;
  SessionSize& size = runner_options.size;
  size.chunk = options.tokens ? options.tokens : shape.encoder->context;
  size.sequences = std::min(options.inputs, size.chunk);
  size.cache = runner_options.caches ? runner_options.caches->memory().size.cache : options.cache;
  size.input_positions = cache_positions(model, size.cache, size.chunk, size.sequences);
  return runner_options;
}

Encoder::Encoder(std::unique_ptr<Runner> runner, uint32_t block)
    : runner_(std::move(runner)), pool_(runner_->size().input_positions, block) {}

uint32_t Encoder::cache_positions(const Model& model, CacheType cache, uint32_t tokens, uint32_t inputs) {
  const uint64_t spare = uint64_t{position_block(model, cache) - 1} * inputs;
  return static_cast<uint32_t>(std::min<uint64_t>(tokens + spare, INT32_MAX));
}

uint32_t Encoder::longest() const {
  const SessionSize& size = runner_->size();
  const uint32_t room = std::min(size.chunk, size.input_positions);
  return shape().any_length ? room : std::min(room, shape().context);
}

uint32_t Encoder::positions(const EncoderInput& input) const {
  if (shape().kind == InputKind::tokens) return static_cast<uint32_t>(input.tokens.size());
  if (shape().kind == InputKind::patches)
    return static_cast<uint32_t>(std::min<uint64_t>(input.grid.count(), UINT32_MAX));
  if (shape().picture_rows > 0) {
    return shape().picture_rows +
           static_cast<uint32_t>(std::min<size_t>(input.tokens.size(), shape().context));
  }
  if (shape().kind != InputKind::samples) return shape().context;
  return shape().frames(static_cast<uint32_t>(input.values.size()));
}

// Whether a picture's patches fit a step, and are there.
Status Encoder::check_patches(const EncoderInput& input) const {
  const std::string& path = runner_->model().file().path();
  const PatchGrid& grid = input.grid;
  const uint32_t merge = shape().patch_groups->merge;
  if (grid.count() == 0 || grid.count() > longest() || grid.height % merge != 0 || grid.width % merge != 0) {
    return Error{
        Code::invalid_argument,
        fmt::format("{}: a picture has {} x {} patches, and the model reads multiples of {}, at most "
                    "{} patches in all",
                    path, grid.width, grid.height, merge, longest())};
  }
  if (input.values.size() == grid.count() * shape().input_values()) return {};
  return Error{Code::invalid_argument,
               fmt::format("{}: a picture of {} x {} patches has {} numbers, and the model reads {} of each",
                           path, grid.width, grid.height, input.values.size(), shape().input_values())};
}

Status Encoder::check(const EncoderInput& input) const {
  const std::string& path = runner_->model().file().path();
  if (shape().kind == InputKind::patches) return check_patches(input);
  if (shape().kind == InputKind::samples) {
    const uint32_t most = shape().input_values();
    if (input.values.size() <= most && positions(input) > 0) return {};
    return Error{Code::invalid_argument,
                 fmt::format("{}: a sound has {} samples, and the model reads at most {}, and no fewer than "
                             "its convolutions span",
                             path, input.values.size(), most)};
  }
  if (shape().picture_rows > 0 && positions(input) > longest()) {
    return Error{Code::invalid_argument,
                 fmt::format("{}: {} tokens of a text follow a picture of {} rows, and the model reads {} at "
                             "most together",
                             path, input.tokens.size(), shape().picture_rows, longest())};
  }
  if (shape().kind != InputKind::tokens) {
    if (external_input_ || input.values.size() == shape().input_values()) return {};
    return Error{Code::invalid_argument, fmt::format("{}: an input has {} numbers, and the model reads {}",
                                                     path, input.values.size(), shape().input_values())};
  }
  if (input.tokens.empty() || input.tokens.size() > longest()) {
    return Error{Code::invalid_argument,
                 fmt::format("{}: an input has {} tokens, and the model reads 1 to {}", path,
                             input.tokens.size(), longest())};
  }
  if (input.output_count() > runner_->size().sequences ||
      std::ranges::any_of(input.outputs, [&](uint32_t at) { return at >= input.tokens.size(); })) {
    return Error{Code::invalid_argument,
                 fmt::format("{}: an input asks for {} of its {} tokens, and a step has room for {}", path,
                             input.output_count(), input.tokens.size(), runner_->size().sequences)};
  }
  if (input.seen > input.tokens.size()) {
    return Error{Code::invalid_argument, fmt::format("{}: {} of an input's {} tokens are to be seen", path,
                                                     input.seen, input.tokens.size())};
  }
  if (!input.token_types.empty() && input.token_types.size() != input.tokens.size()) {
    return Error{Code::invalid_argument,
                 fmt::format("{}: an input has {} token types for {} tokens: give one for each", path,
                             input.token_types.size(), input.tokens.size())};
  }
  return {};
}

std::vector<InputRange> Encoder::take_fitting(std::span<const EncoderInput> inputs) {
  std::vector<InputRange> ranges;
  uint64_t rows = 0, outputs = 0;
  for (const EncoderInput& input : inputs) {
    rows += positions(input);
    outputs += input.output_count();
    if (rows > runner_->size().chunk || outputs > runner_->size().sequences) break;
    const std::optional<InputRange> range = pool_.take(positions(input));
    if (!range) break;
    ranges.push_back(*range);
  }
  return ranges;
}

void Encoder::release_all(std::span<const InputRange> ranges) {
  for (const InputRange& range : ranges) pool_.release(range);
}

Result<std::vector<InputRange>> Encoder::take(std::span<const EncoderInput> inputs) {
  std::vector<InputRange> ranges = take_fitting(inputs);
  if (ranges.size() == inputs.size()) return ranges;
  release_all(ranges);
  return Error{Code::invalid_argument,
               fmt::format("{} inputs do not fit one step, which has room for {} tokens, {} inputs and {} "
                           "positions in the caches: "
                           "give fewer at a time",
                           inputs.size(), runner_->size().chunk, runner_->size().sequences,
                           runner_->size().input_positions)};
}

size_t Encoder::fitting(std::span<const EncoderInput> inputs) {
  if (!runner_->model().shape().has_decoder()) pool_.clear(); // as the next encode() will
  const std::vector<InputRange> ranges = take_fitting(inputs);
  release_all(ranges);
  return ranges.size();
}

// Takes places for the inputs.
Status Encoder::begin(std::span<const EncoderInput> inputs) {
  for (const EncoderInput& input : inputs) PUMICE_CHECK(check(input));
  if (!runner_->model().shape().has_decoder())
    pool_.clear(); // without a decoder, nothing reads the positions of the last step
  PUMICE_TRY(ranges_, take(inputs));
  return {};
}

// Writes a step of the inputs, and starts it with `start_step`.
template <class Start>
Result<std::vector<InputRange>> Encoder::start(std::span<const EncoderInput> inputs,
                                               const Start& start_step) {
  PUMICE_CHECK(begin(inputs));
  if (ranges_.empty()) return ranges_;
  const Result<uint32_t> rows = write(inputs);
  Status status = rows.ok() ? start_step(*rows) : Status(rows.error());
  if (!status.ok()) {
    release_all(ranges_);
    ranges_.clear();
    return status.error();
  }
  ++steps_;
  return ranges_;
}

Result<std::vector<InputRange>> Encoder::encode(std::span<const EncoderInput> inputs) {
  return start(inputs, [this](uint32_t rows) {
    const Result<Completion> submitted = runner_->submit(rows);
    return submitted.ok() ? Status() : Status(submitted.error());
  });
}

Result<std::vector<InputRange>> Encoder::open(std::span<const EncoderInput> inputs) {
  return start(inputs, [this](uint32_t rows) { return runner_->open_step(rows); });
}

Result<uint32_t> Encoder::write_patches(std::span<const EncoderInput> inputs) {
  first_rows_.clear();
  std::vector<StepToken> rows;
  std::vector<std::span<const float>> values;
  const uint32_t each = shape().input_values();
  const bool windows = shape().patch_groups->window > 0;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const InputRange range = ranges_[i];
    first_rows_.push_back(static_cast<uint32_t>(rows.size()));
    for (const OrderedPatch& patch : ordered_patches(inputs[i].grid, *shape().patch_groups)) {
      StepToken row;
      row.position = range.first + static_cast<uint32_t>(rows.size()) - first_rows_.back();
      row.token = windows ? moved_window(patch.window, range.first) : grid_token(inputs[i].grid);
      row.first = range.first;
      row.end = range.end;
      row.output = row.position == range.first;
      row.down = patch.down;
      row.across = patch.across;
      rows.push_back(row);
      values.push_back(std::span(inputs[i].values).subspan(size_t{patch.index} * each, each));
    }
  }
  const auto count = static_cast<uint32_t>(rows.size());
  PUMICE_CHECK(runner_->write_step(rows));
  for (uint32_t row = 0; row < count; ++row) PUMICE_CHECK(runner_->write_input(count, row, values[row]));
  return count;
}

Result<uint32_t> Encoder::write(std::span<const EncoderInput> inputs) {
  outputs_.clear();
  for (const EncoderInput& input : inputs) outputs_.push_back(input.output_count());
  if (shape().kind == InputKind::patches) return write_patches(inputs);
  first_rows_.clear();
  std::vector<StepToken> rows;
  const uint32_t text = shape().first_token();
  for (size_t i = 0; i < inputs.size(); ++i) {
    const InputRange range = ranges_[i];
    first_rows_.push_back(static_cast<uint32_t>(rows.size()));
    for (uint32_t at = 0; at < range.end - range.first; ++at) {
      StepToken row;
      row.token = at >= text ? inputs[i].tokens[at - text] : static_cast<uint32_t>(i);
      row.position = range.first + at;
      row.first = range.first;
      row.end = inputs[i].seen ? range.first + inputs[i].seen : range.end;
      if (shape().causal_from > 0) row.end = range.first + std::max(shape().causal_from, at + 1);
      row.output = inputs[i].outputs.empty() ? at == 0 : std::ranges::binary_search(inputs[i].outputs, at);
      if (at == 0 && shape().kind == InputKind::samples)
        row.target = static_cast<uint32_t>(inputs[i].values.size());
      row.token_type = inputs[i].token_types.empty() ? 0 : inputs[i].token_types[at];
      rows.push_back(row);
    }
  }
  const uint32_t count = static_cast<uint32_t>(rows.size());
  PUMICE_CHECK(runner_->write_step(rows));
  if (external_input_ || shape().kind == InputKind::tokens) return count;
  for (size_t i = 0; i < inputs.size(); ++i) {
    std::span<const float> values = inputs[i].values;
    std::vector<float> padded;
    if (values.size() < shape().input_values()) {
      padded.assign(values.begin(), values.end());
      padded.resize(shape().input_values());
      values = padded;
    }
    PUMICE_CHECK(runner_->write_input(count, static_cast<uint32_t>(i), values));
  }
  return count;
}

Result<std::vector<float>> Encoder::read(const std::string& name, size_t input) const {
  if (input >= ranges_.size()) {
    return Error{Code::invalid_argument,
                 fmt::format("there is no input {}: the last step had {}", input, ranges_.size())};
  }
  if (runner_->per_output(name)) {
    const auto before = outputs_.begin() + static_cast<ptrdiff_t>(input);
    return runner_->read(name, *before, std::accumulate(outputs_.begin(), before, 0u));
  }
  return runner_->read(name, ranges_[input].end - ranges_[input].first, first_rows_[input]);
}

} // namespace pumice
