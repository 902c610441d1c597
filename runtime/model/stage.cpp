#include "model/stage.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "model/architecture.h"

namespace pumice {

Status check_stages(const std::string& name, const ModelShape& shape) {
  if (shape.has_decoder()) return {};
  return Error{Code::unsupported,
               fmt::format("{}: only models with a decoder can be cut into stages: use one device", name)};
}

std::string layers_text(const Stage& stage, const ModelShape& shape) {
  const auto text = [](const char* of, const Stage& part) {
    return part.empty() ? "" : fmt::format("{}layers {} to {}", of, part.first, part.end - 1);
  };
  const uint32_t encoder = shape.encoder_layers();
  const Stage decoder = stage.within(encoder, static_cast<uint32_t>(shape.layers.size()));
  if (encoder == 0) return text("", decoder);
  const std::string reads = text("encoder ", stage.within(0, encoder)), writes = text("decoder ", decoder);
  return reads + (reads.empty() || writes.empty() ? "" : ", ") + writes;
}

Result<std::vector<Stage>> stages_of(const std::string& name, const ModelShape& shape,
                                     std::span<const uint32_t> layers) {
  PUMICE_CHECK(check_stages(name, shape));
  const uint64_t sum = std::accumulate(layers.begin(), layers.end(), uint64_t{0});
  const uint32_t encoder = shape.encoder_layers();
  if (sum != shape.layers_to_cut() || std::ranges::count(layers, 0u) > 0) {
    const std::string sides =
        encoder ? fmt::format(" ({} of its encoder, {} of its decoder)", encoder, shape.layers.size()) : "";
    return Error{
        Code::invalid_argument,
        fmt::format("{}: stages of {} layers do not fit: the model has {} layers{}, and each stage needs "
                    "at least one",
                    name, fmt::join(layers, ", "), shape.layers_to_cut(), sides)};
  }
  std::vector<Stage> stages;
  uint32_t first = 0;
  for (uint32_t count : layers) {
    if (first > encoder && first - encoder > shape.last_cut) {
      return Error{
          Code::unsupported,
          fmt::format("{}: it cannot be cut before layer {}: layers from {} on use the keys and values "
                      "of layer {}, so they belong to one stage: cut it before layer {} or earlier",
                      name, first, first, encoder + shape.last_cut, encoder + shape.last_cut)};
    }
    stages.push_back({first, first + count});
    first += count;
  }
  return stages;
}

Result<std::vector<uint32_t>> even_split(const std::string& name, const ModelShape& shape, uint32_t stages) {
  PUMICE_CHECK(check_stages(name, shape));
  const uint32_t layers = shape.layers_to_cut();
  const uint64_t last_cut = uint64_t{shape.last_cut} + shape.encoder_layers();
  std::vector<uint32_t> counts;
  uint32_t first = 0;
  for (uint32_t stage = 0; stage < stages; ++stage) {
    uint32_t end = static_cast<uint32_t>(uint64_t{layers} * (stage + 1) / stages);
    // The stages before the last one divide what lies before the last cut.
    if (stage + 1 < stages) {
      const uint64_t most = std::min<uint64_t>(last_cut, layers) + 1;
      if (last_cut < layers) end = std::min(end, static_cast<uint32_t>(most - (stages - 1 - stage)));
    }
    counts.push_back(end > first ? end - first : 0);
    first = std::max(first, end);
  }
  PUMICE_CHECK(stages_of(name, shape, counts));
  return counts;
}

} // namespace pumice
