#include "kernel/audio/log_mel.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numbers>

#include <fmt/format.h>

#include "kernel/lowering.h"
#include "shaders/audio/log_mel_features.params.h"
#include "shaders/audio/log_mel_frames.params.h"

namespace pumice {

namespace {

constexpr double lowest_hertz = 0, highest_hertz = 8000;
constexpr uint32_t longest_frame = 1024; // what a workgroup's shared memory has room for on any device

// Slaney's scale is linear up to 1000 Hz, which are 15 mel, and logarithmic from there.
constexpr double linear_hertz = 1000, linear_mel = 15;
const double mel_per_log = 27 / std::log(6.4);

double to_mel(double hertz) {
  if (hertz < linear_hertz) return hertz * linear_mel / linear_hertz;
  return linear_mel + std::log(hertz / linear_hertz) * mel_per_log;
}

double to_hertz(double mel) {
  if (mel < linear_mel) return mel * linear_hertz / linear_mel;
  return linear_hertz * std::exp((mel - linear_mel) / mel_per_log);
}

// Terms of the transform's first stage: the largest divisor that is no more than the root, which makes the
// two stages alike.
uint32_t first_stage(uint32_t size) {
  uint32_t parts = static_cast<uint32_t>(std::sqrt(static_cast<double>(size)));
  while (size % parts != 0) --parts;
  return parts;
}

std::vector<float> twiddles(uint32_t size) {
  std::vector<float> table;
  for (uint32_t i = 0; i < size; ++i) {
    const double angle = -2 * std::numbers::pi * i / size;
    table.push_back(static_cast<float>(std::cos(angle)));
    table.push_back(static_cast<float>(std::sin(angle)));
  }
  return table;
}

std::vector<float> hann_window(uint32_t size) {
  std::vector<float> table(size);
  for (uint32_t i = 0; i < size; ++i) {
    table[i] = static_cast<float>(0.5 - 0.5 * std::cos(2 * std::numbers::pi * i / size));
  }
  return table;
}

// The first frequency of each band and the one after its last, whose bits are in floats.
std::vector<float> bands(const std::vector<double>& filters, size_t bins) {
  std::vector<float> table;
  for (auto filter = filters.begin(); filter != filters.end(); filter += static_cast<ptrdiff_t>(bins)) {
    const auto end = filter + static_cast<ptrdiff_t>(bins);
    const auto weighs = [](double weight) { return weight > 0; };
    const auto first = std::find_if(filter, end, weighs);
    const auto last = std::find_if(std::reverse_iterator(end), std::reverse_iterator(first), weighs).base();
    for (const auto at : {first, last}) {
      table.push_back(std::bit_cast<float>(static_cast<uint32_t>(at - filter)));
    }
  }
  return table;
}

struct LogMelTables {
  BufferRef twiddles, window, bands, filters;
};

Result<LogMelTables> place_tables(Lowering& lowering, const LogMelShape& shape) {
  const std::vector<double> filters = mel_filters(shape);
  const std::string key = fmt::format("{} mels of {} at {}", shape.mels, shape.n_fft, shape.sample_rate);
  LogMelTables tables;
  PUMICE_TRY(tables.twiddles,
             lowering.constants(fmt::format("twiddles {}", shape.n_fft), twiddles(shape.n_fft)));
  PUMICE_TRY(tables.window,
             lowering.constants(fmt::format("Hann window {}", shape.n_fft), hann_window(shape.n_fft)));
  PUMICE_TRY(tables.bands, lowering.constants("bands of " + key, bands(filters, shape.bins())));
  PUMICE_TRY(tables.filters,
             lowering.constants("filters of " + key, std::vector<float>(filters.begin(), filters.end())));
  return tables;
}

} // namespace

Status check(const LogMelShape& shape) {
  if (shape.n_fft < 2 || shape.n_fft > longest_frame || shape.n_fft % 2 != 0) {
    return Error{Code::unsupported, fmt::format("n_fft is {}: it must be an even number from 2 to {}",
                                                shape.n_fft, longest_frame)};
  }
  if (shape.hop == 0 || shape.mels == 0 || shape.sample_rate < 2) {
    return Error{
        Code::invalid_argument,
        fmt::format("hop_length is {}, feature_size {} and sampling_rate {}: the first two must be at least "
                    "1, the last at least 2",
                    shape.hop, shape.mels, shape.sample_rate)};
  }
  // Both ends are reflected, and a frame must not reach past the reflection.
  const uint32_t least = std::max(shape.hop, shape.n_fft / 2 + 1), most = UINT32_MAX / 4;
  if (shape.samples < least || shape.samples > most) {
    return Error{
        Code::invalid_argument,
        fmt::format(
            "a window has {} samples: it must have {} to {} with an n_fft of {} and a hop_length of {}",
            shape.samples, least, most, shape.n_fft, shape.hop)};
  }
  if (uint64_t{shape.frames()} * shape.mels <= UINT32_MAX) return {};
  return Error{Code::unsupported,
               fmt::format("{} frames of {} mels are too many: their product must be below 2^32",
                           shape.frames(), shape.mels)};
}

std::vector<double> mel_filters(const LogMelShape& shape) {
  const double low = to_mel(lowest_hertz), high = to_mel(highest_hertz);
  std::vector<double> corners(shape.mels + size_t{2});
  for (size_t i = 0; i < corners.size(); ++i) {
    corners[i] = to_hertz(low + (high - low) * static_cast<double>(i) / (shape.mels + 1.0));
  }
  const double nyquist = shape.sample_rate / 2; // whole, as the reference has it
  const uint32_t bins = shape.bins();
  std::vector<double> filters(size_t{shape.mels} * bins);
  for (uint32_t mel = 0; mel < shape.mels; ++mel) {
    const double left = corners[mel], middle = corners[mel + 1], right = corners[mel + 2];
    for (uint32_t bin = 0; bin < bins; ++bin) {
      const double hertz = nyquist * bin / (bins - 1);
      const double height = std::min((hertz - left) / (middle - left), (right - hertz) / (right - middle));
      filters[size_t{mel} * bins + bin] = std::max(height, 0.0) * 2 / (right - left);
    }
  }
  return filters;
}

std::string LogMelFrames::describe() const {
  return fmt::format("{} samples at {} Hz, {} a frame, {} to the next", shape.samples, shape.sample_rate,
                     shape.n_fft, shape.hop);
}

Status LogMelFrames::lower(Lowering& lowering, const Node& node) const {
  PUMICE_CHECK(check(shape));
  const ActivationRef samples = lowering.tensor(node.inputs[0]), result = lowering.tensor(node.output);
  PUMICE_TRY(const LogMelTables tables, place_tables(lowering, shape));
  const uint32_t parts = first_stage(shape.n_fft), each = shape.n_fft / parts;
  Dispatch dispatch;
  dispatch.kernel = "log_mel_frames";
  dispatch.constants = {lowering.profile().workgroup, shape.n_fft, parts};
  LogMelFramesParams params = {};
  params.samples = shape.samples;
  params.samples_stride = samples.stride;
  params.out_stride = result.stride;
  params.frames = shape.frames();
  params.hop = shape.hop;
  params.mels = shape.mels;
  dispatch.set_params(params);
  dispatch.bind(LOG_MEL_FRAMES_STEP, lowering.step(), Access::read);
  dispatch.bind(LOG_MEL_FRAMES_SAMPLES, samples.buffer, Access::read);
  dispatch.bind(LOG_MEL_FRAMES_TWIDDLES, tables.twiddles, Access::read);
  dispatch.bind(LOG_MEL_FRAMES_WINDOW, tables.window, Access::read);
  dispatch.bind(LOG_MEL_FRAMES_BANDS, tables.bands, Access::read);
  dispatch.bind(LOG_MEL_FRAMES_FILTERS, tables.filters, Access::read);
  dispatch.bind(LOG_MEL_FRAMES_RESULT, result.buffer, Access::write);
  dispatch.groups = {result.rows, 1, 1};
  dispatch.flops = double{1} * result.rows * (2.0 * shape.n_fft * (parts + 1) + 8.0 * shape.bins() * each);
  dispatch.bytes = 4.0 * (double{1} * samples.rows * samples.columns + double{1} * result.rows * shape.mels);
  lowering.emit(std::move(dispatch));
  return {};
}

Status LogMelFeatures::lower(Lowering& lowering, const Node& node) const {
  const ActivationRef logs = lowering.tensor(node.inputs[0]), result = lowering.tensor(node.output);
  const DeviceProfile& profile = lowering.profile();
  LogMelFeaturesParams params = {};
  params.logs_stride = logs.stride;
  params.out_stride = result.stride;
  params.frames = shape.frames();
  params.mels = shape.mels;
  Dispatch dispatch;
  dispatch.kernel = "log_mel_maxima";
  dispatch.constants = {profile.workgroup};
  dispatch.set_params(params);
  const BufferRef maxima = lowering.temporary(uint64_t{result.rows} * LOG_MEL_MAXIMA * 4);
  dispatch.bind(LOG_MEL_FEATURES_STEP, lowering.step(), Access::read);
  dispatch.bind(LOG_MEL_FEATURES_LOGS, logs.buffer, Access::read);
  dispatch.bind(LOG_MEL_FEATURES_MAXIMA, maxima, Access::write);
  dispatch.groups = {result.rows, (LOG_MEL_MAXIMA + profile.workgroup - 1) / profile.workgroup, 1};
  dispatch.bytes = 4.0 * logs.rows * logs.columns;
  lowering.emit(dispatch);

  dispatch.kernel = "log_mel_features";
  dispatch.bindings.back().access = Access::read;
  dispatch.bind(LOG_MEL_FEATURES_RESULT, result.buffer, Access::write);
  const uint32_t quads = result.padded_columns() / 4;
  dispatch.groups = {result.rows, std::clamp(quads / (profile.workgroup * 4), 1u, profile.busy_groups), 1};
  dispatch.bytes = 8.0 * result.rows * result.columns;
  lowering.emit(std::move(dispatch));
  return {};
}

TensorId log_mel(Graph& graph, std::string name, TensorId samples, const LogMelShape& shape) {
  LogMelFrames frames;
  frames.shape = shape;
  const TensorId logs = graph.add(frames, {samples}, {}, {name + ".frames", RowKind::tokens, shape.mels});
  LogMelFeatures features;
  features.shape = shape;
  return graph.add(features, {logs}, {}, {std::move(name), RowKind::outputs, shape.mels * shape.frames()});
}

Graph log_mel_graph(const LogMelShape& shape) {
  Graph graph;
  const TensorId samples = graph.input("samples", RowKind::outputs, shape.samples);
  graph.make_readable(log_mel(graph, "features", samples, shape), "input_features");
  return graph;
}

} // namespace pumice
