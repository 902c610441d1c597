#include "model/session_memory.h"

#include <algorithm>
#include <bit>
#include <set>

#include "base/align.h"
#include "gpu/memory.h"
#include "kernel/sampling/sampling.h"
#include "kernel/search/search.h"
#include "shaders/common/step.h"

namespace pumice {

namespace {

// Positions that a ring has beside the window and a chunk. Steps that ran ahead and are discarded, and
// conversations that go back a little, then overwrite nothing that is still needed.
constexpr uint32_t ring_slack = 32;

// Checkpoints of a sequence: no more than these, in no more than these bytes unless one needs more.
constexpr uint64_t most_checkpoints = 32;
constexpr uint64_t checkpoint_bytes = uint64_t{256} << 20;

} // namespace

CacheLayout cache_layout(const LayerCache& layer, const SessionSize& size) {
  CacheLayout layout;
  layout.type =
      layer.values_are_keys ? cache_type_of(key_type(size.cache), key_type(size.cache)) : size.cache;
  layout.sequences = size.sequences;
  const uint64_t all = align(size.context, 32);
  // The first token of a chunk still sees its window when the chunk's last one has been written.
  const uint64_t ring = align(uint64_t{layer.window} + size.chunk + ring_slack - 1, 32);
  const bool forgets = layer.window > 0 && ring < all;
  layout.capacity = static_cast<uint32_t>(forgets ? ring : all);
  layout.window = forgets ? layer.window : 0;
  layout.values_are_keys = layer.values_are_keys;
  layout.kv_heads = layer.kv_heads;
  layout.head_dim = layer.head_dim;
  if (size.pages > 0 && !forgets) {
    layout.capacity = static_cast<uint32_t>(align(size.context, cache_page_positions));
    layout.pages = size.pages;
  }
  return layout;
}

CacheLayout divided_layout(const LayerCache& layer, const SessionSize& size, uint64_t range) {
  const CacheLayout layout = cache_layout(layer, size).divided(range, size.beams);
  if (layout.window == 0 || layout.part(0).longer_bytes() <= range) return layout;
  LayerCache unbounded = layer;
  unbounded.window = 0;
  return cache_layout(unbounded, size).divided(range, size.beams);
}

CacheLayout input_cache_layout(const LayerCache& layer, const SessionSize& size) {
  CacheLayout layout;
  layout.type = size.cache;
  layout.capacity = static_cast<uint32_t>(align(size.input_positions, 128));
  layout.kv_heads = layer.kv_heads;
  layout.head_dim = layer.head_dim;
  return layout;
}

std::vector<StateLayout> state_layouts(const ModelShape& shape, const SessionSize& size, uint64_t range) {
  uint64_t sum = 0, largest = 0;
  for (uint32_t floats : shape.states) {
    sum += uint64_t{floats} * 4;
    largest = std::max(largest, uint64_t{floats} * 4 * size.sequences);
  }
  if (sum == 0) return {};
  const uint64_t latest = StateLayout{.drafts = size.drafts}.latest();
  const uint64_t bound = std::max<uint64_t>(range / largest, latest + 1) - latest;
  const uint64_t checkpoints = std::clamp<uint64_t>(checkpoint_bytes / sum, 1, most_checkpoints);
  std::vector<StateLayout> layouts;
  for (uint32_t floats : shape.states) {
    layouts.push_back(
        {floats, size.sequences, static_cast<uint32_t>(std::min(checkpoints, bound)), size.drafts});
  }
  return layouts;
}

SessionMemory lay_out_memory(const ModelShape& shape, const DeviceContext& context, SessionSize size,
                             const StageMemory* stage) {
  const Capabilities& device = context.capabilities();
  const uint64_t alignment = std::max<uint64_t>(256, device.storage_offset_alignment);
  SessionMemory memory;
  memory.size = size;
  memory.size.context = context_for(size.context, shape);
  if (shape.encoder && memory.size.input_positions == 0) memory.size.input_positions = shape.encoder->context;
  if (shape.pictures &&
      shape.pictures->bidirectional) // a picture is in one step, beside a row of each other text
    memory.size.chunk = std::max(memory.size.chunk, shape.pictures->rows + memory.size.sequences - 1);
  const uint64_t all_positions = std::max<uint64_t>(uint64_t{memory.size.context} * memory.size.sequences, 1);
  memory.size.chunk = static_cast<uint32_t>(std::clamp<uint64_t>(memory.size.chunk, 1, all_positions));

  // No fewer than one sequence can fill, so that each gets its turn.
  const uint32_t pages = pages_for(memory.size.context);
  const uint64_t all_pages = std::min<uint64_t>(uint64_t{pages} * memory.size.sequences, UINT32_MAX);
  const bool possible = !size.beams && !stage && size.sequences > 1;
  memory.size.pages = size.pages == 0 || !possible
                          ? 0
                          : static_cast<uint32_t>(std::clamp<uint64_t>(size.pages, pages, all_pages));

  const auto place = [&](uint64_t bytes) {
    const uint64_t allocation_limit =
        std::min(device.max_allocation_bytes - 4096, std::max(preferred_allocation_bytes, bytes));
    std::vector<uint64_t>& allocations = memory.cache_allocation_bytes;
    if (allocations.empty() || allocations.back() + bytes > allocation_limit) allocations.push_back(0);
    const BufferRef ref{Space::cache, static_cast<uint32_t>(allocations.size() - 1), allocations.back(),
                        bytes};
    allocations.back() = align(allocations.back() + bytes, alignment);
    return ref;
  };
  const auto add = [&](const CacheLayout& layout) {
    const bool used = !stage || stage->caches.contains(static_cast<uint32_t>(memory.caches.size()));
    std::vector<CachePlace> places;
    for (uint32_t i = 0; i < layout.parts(); ++i) {
      const CacheLayout part = layout.part(i);
      const BufferRef keys = place(used ? part.key_bytes() : 0);
      places.push_back({keys, layout.values_are_keys ? keys : place(used ? part.value_bytes() : 0)});
    }
    memory.caches.push_back({layout, places[0].keys, places[0].values, {places.begin() + 1, places.end()}});
  };
  for (const LayerCache& layer : shape.decoder_caches())
    add(divided_layout(layer, memory.size, device.max_storage_range_bytes));
  for (const StateLayout& layout : state_layouts(shape, memory.size, device.max_storage_range_bytes)) {
    const uint32_t index = static_cast<uint32_t>(memory.states.size());
    memory.states.push_back({layout, place(!stage || stage->states.contains(index) ? layout.bytes() : 0)});
  }
  if (shape.encoder) {
    for (const LayerCache& layer : shape.encoder->caches) add(input_cache_layout(layer, memory.size));
  }
  const uint32_t positions = memory.size.beams ? static_cast<uint32_t>(align(memory.size.context, 4)) : 0;
  memory.step_layout = {memory.size.chunk, memory.size.sequences, positions};
  if (memory.size.pages > 0) memory.step_layout.pages = static_cast<uint32_t>(align(pages, 4));
  memory.step = {Space::step, 0, 0, memory.step_layout.bytes()};
  // Whether sampling or a search uses it is decided later.
  const uint64_t tables = size.beams ? 0 : SamplingState::table_bytes(shape.vocabulary, size.sequences);
  const auto drafts = std::min<uint64_t>(uint64_t{size.sequences} * size.drafts, memory.size.chunk);
  memory.draft_mask_bytes = SamplingState::draft_mask_bytes(shape.vocabulary, static_cast<uint32_t>(drafts));
  memory.sampling = {Space::results, 0, 0,
                     std::max(SamplingState::bytes(size.sequences) + tables + memory.draft_mask_bytes,
                              SearchState::bytes(size.sequences))};
  return memory;
}

SessionMemory SessionMemory::with_steps(uint32_t tokens, uint32_t inputs) const {
  SessionMemory memory = *this;
  memory.size.chunk = tokens;
  memory.size.sequences = inputs;
  memory.step_layout = {tokens, inputs, 0};
  memory.step = {Space::step, 0, 0, memory.step_layout.bytes()};
  memory.sampling = {Space::results, 0, 0, SamplingState::bytes(1)}; // an encoder's step does not use it
  return memory;
}

std::vector<Bucket> encoder_buckets(const EncoderShape& shape, const SessionSize& size) {
  const uint32_t smallest = shape.of_one_length() ? shape.context : std::max(small_chunk, shape.picture_rows);
  std::set<uint32_t> sizes = {size.chunk};
  for (uint64_t tokens = smallest; tokens < size.chunk; tokens *= 2) {
    sizes.insert(static_cast<uint32_t>(tokens));
  }
  std::vector<Bucket> buckets;
  for (uint32_t tokens : sizes) buckets.push_back({tokens, std::min(tokens, size.sequences)});
  return buckets;
}

std::vector<Bucket> step_buckets(const SessionSize& size, bool all_outputs) {
  std::set<uint32_t> sizes = {1, std::min(small_chunk, size.chunk), size.chunk};
  const auto outputs =
      static_cast<uint32_t>(std::min<uint64_t>(uint64_t{size.sequences} * (size.drafts + 1), size.chunk));
  const auto insert = [&](uint64_t tokens) {
    sizes.insert(static_cast<uint32_t>(std::min<uint64_t>(tokens, size.chunk)));
  };
  // A fifth of a step's rows may be padding.
  for (uint64_t tokens = 2, before = 1; before < size.sequences;) {
    insert(tokens);
    before = tokens;
    tokens += std::max<uint64_t>(std::bit_floor(tokens) / 4, 1);
  }
  for (uint64_t tokens = 2; tokens / 2 < outputs && size.drafts > 0; tokens *= 2) insert(tokens);
  std::vector<Bucket> buckets;
  for (uint32_t tokens : sizes) buckets.push_back({tokens, all_outputs ? tokens : std::min(tokens, outputs)});
  return buckets;
}

PlanContext SessionMemory::plan_context(const DeviceContext& context, WeightStore& weights) const {
  PlanContext result;
  result.profile = context.profile;
  result.device = context.capabilities();
  if (context.pipelines) result.costs = ClassCosts::stored(*context.pipelines);
  result.weights = &weights;
  result.caches = caches;
  result.states = states;
  result.context = size.context;
  result.step_layout = step_layout;
  result.step = step;
  result.sampling = sampling;
  return result;
}

} // namespace pumice
