#include "kernel/sampling/sampling.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <map>

#include <fmt/format.h>

#include "kernel/lowering.h"
#include "kernel/sampling/filter_order.h"
#include "shaders/common/step.h"

namespace pumice {

namespace {

uint32_t round_up(uint32_t n, uint32_t unit) {
  return (n + unit - 1) / unit * unit;
}

// One workgroup chooses a row's token; 128 invocations are the most that every device has.
uint32_t pick_workgroup(const DeviceProfile& profile) {
  return profile.cpu ? 8 : 128;
}

SampleParams sample_params(const DeviceProfile& profile, const ActivationRef& logits) {
  SampleParams params = {};
  params.vocabulary = logits.columns;
  params.stride = logits.stride;
  params.blocks = (logits.columns + SAMPLING_BLOCK - 1) / SAMPLING_BLOCK;
  params.padded = round_up(params.blocks, pick_workgroup(profile));
  return params;
}

float number_or(float value, float otherwise) {
  return std::isnan(value) ? otherwise : value;
}

uint32_t number_or(uint32_t value, uint32_t) {
  return value;
}

// A bias for each token that has one.
std::map<uint32_t, float> merge(std::span<const LogitBias> biases) {
  std::map<uint32_t, float> merged;
  for (const LogitBias& each : biases) {
    if (!std::isnan(each.bias)) merged[each.token] += each.bias;
  }
  // Of biases with infinities of both signs, the one that forbids the token wins.
  for (auto& [token, bias] : merged) bias = number_or(bias, -std::numeric_limits<float>::infinity());
  std::erase_if(merged, [](const auto& each) { return each.second == 0.0f; });
  return merged;
}

// Whether a filter changes anything.
bool filters(const SamplingSlot& slot, uint32_t filter) {
  switch (filter) {
  case SAMPLING_SIGMA:
    return slot.top_n_sigma > 0.0f;
  case SAMPLING_TOP_K:
    return slot.top_k > 0;
  case SAMPLING_TYPICAL_P:
    return slot.typical_p < 1.0f;
  case SAMPLING_TOP_P:
    return slot.top_p < 1.0f;
  case SAMPLING_MIN_P:
    return slot.log_min_p > -1e30f;
  case SAMPLING_XTC:
    return slot.xtc_probability > 0.0f;
  default:
    return filter == SAMPLING_TEMPERATURE;
  }
}

// Writes the filters that change anything, in their order. What is not in the order does nothing.
void set_order(SamplingSlot& slot, uint32_t given) {
  if (given == 0 || !is_filter_order(given)) given = order_given | usual_filter_order;
  const uint32_t order = given & order_filters;
  const auto is_in = [](uint32_t some, uint32_t filter) {
    while (some != 0 && (some & 15) != filter) some >>= 4;
    return some != 0;
  };
  if (given & order_without_penalties) slot.repeat_window = 0;
  if (given & order_without_dry) slot.dry_multiplier = 0.0f;
  if (!is_in(order, SAMPLING_TOP_K)) slot.top_k = 0;
  if (!is_in(order, SAMPLING_TEMPERATURE)) {
    slot.dynatemp_range = 0.0f;
    slot.temperature = slot.temperature > 0.0f ? 1.0f : 0.0f;
  }
  const bool has_k = slot.top_k > 0; // before typical sampling sets one
  slot.order = 0;
  uint32_t places = 0;
  const auto add = [&](uint32_t filter) { slot.order |= filter << (4 * places++); };
  for (uint32_t rest = order; rest != 0; rest >>= 4) {
    const uint32_t filter = rest & 15;
    if (!filters(slot, filter) || (filter == SAMPLING_TOP_K && !has_k)) continue;
    const bool k_later = has_k && is_in(rest, SAMPLING_TOP_K);
    if (filter == SAMPLING_TYPICAL_P && !k_later) {
      if (slot.top_k == 0) add(SAMPLING_TOP_K);
      slot.top_k = std::min(slot.top_k ? slot.top_k : SAMPLING_TYPICAL, SAMPLING_TYPICAL);
    }
    add(filter);
  }
  add(SAMPLING_END);
}

// Writes the options, and what follows from them, in the form that the kernels read.
void set_options(SamplingSlot& slot, const SamplingParams& params) {
#define OPTION(field, type, standard, least, most, slot_field, slot_value, ...)                              \
  {                                                                                                          \
    const type value = number_or(params.field, standard);                                                    \
    slot.slot_field = slot_value;                                                                            \
  }
#include "kernel/sampling_options.def"
  if (params.xtc_threshold > 0.5f) slot.xtc_probability = 0.0f; // no two tokens have so much
  slot.mirostat_mu = 2.0f * slot.mirostat_tau;
  if (slot.dry_window == 0) slot.dry_multiplier = 0.0f;
  slot.inverse_repeat_penalty = 1.0f / slot.repeat_penalty;
  if (slot.repeat_penalty == 1.0f && slot.frequency_penalty == 0.0f && slot.presence_penalty == 0.0f)
    slot.repeat_window = 0;
  set_order(slot, params.order);
  slot.inverse_temperature = slot.temperature > 0.0f ? 1.0f / slot.temperature : 1.0f;
}

bool breaks_repetition(const SamplingSlot& slot, uint32_t token) {
  return slot.dry_multiplier > 0.0f && token < SAMPLING_BREAKERS &&
         (slot.dry_breakers[token / 32] >> token % 32 & 1u);
}

} // namespace

Status check_sampling(const SamplingParams& params) {
  if (params.mirostat == 1)
    return Error{Code::invalid_argument, "mirostat 1 is not supported: 2 is, and does the same"};
  const auto at_most = [](const char* what, size_t found, uint32_t most) -> Status {
    if (found <= most) return {};
    return Error{Code::invalid_argument,
                 fmt::format("there are {} {}: at most {} are possible", found, what, most)};
  };
  PUMICE_CHECK(at_most("tokens with a logit bias", merge(params.logit_biases).size(), SAMPLING_BIASES));
  PUMICE_CHECK(at_most("stop tokens", params.stop_tokens.size(), SAMPLING_STOPS));
  return at_most("log-probabilities for each token", params.log_probabilities, SAMPLING_TOP);
}

uint64_t SamplingState::table_bytes(uint32_t vocabulary, uint32_t sequences) {
  if (vocabulary == 0 || vocabulary > SAMPLING_MASK * SAMPLING_BLOCK) return 0;
  constexpr uint64_t rows = 64 << 10, texts = 4;
  const uint64_t blocks = (vocabulary + SAMPLING_BLOCK - 1) / SAMPLING_BLOCK;
  return (blocks * (4 * SAMPLING_FORM_PAGE + 2) + rows) / 4 * 4 * std::min<uint64_t>(sequences, texts);
}

SamplingState::SamplingState(std::span<std::byte> memory)
    : slots_(reinterpret_cast<SamplingSlot*>(memory.data()), memory.size() / sizeof(SamplingSlot)) {}

uint64_t SamplingState::draft_mask_bytes(uint32_t vocabulary, uint32_t masks) {
  if (vocabulary > SAMPLING_MASK * SAMPLING_BLOCK) return 0;
  return uint64_t{(vocabulary + SAMPLING_BLOCK - 1) / SAMPLING_BLOCK} * 4 * masks;
}

SamplingState::SamplingState(std::span<std::byte> memory, uint32_t sequences, uint64_t draft_mask_bytes)
    : slots_(reinterpret_cast<SamplingSlot*>(memory.data()), sequences) {
  const std::span<std::byte> rest = memory.subspan(std::min<size_t>(bytes(sequences), memory.size()));
  const std::span<uint32_t> words(reinterpret_cast<uint32_t*>(rest.data()), rest.size() / sizeof(uint32_t));
  draft_masks_ = words.last(std::min<size_t>(draft_mask_bytes / sizeof(uint32_t), words.size()));
  tables_ = words.first(words.size() - draft_masks_.size());
}

void SamplingState::set_params(uint32_t sequence, const SamplingParams& params) {
  SamplingSlot& slot = slots_[sequence];
  set_options(slot, params);
  slot.seed_low = static_cast<uint32_t>(params.seed);
  slot.seed_high = static_cast<uint32_t>(params.seed >> 32);
  slot.log_probabilities = std::min(params.log_probabilities, SAMPLING_TOP);
  slot.masked = 0;
  slot.form = 0;

  const std::map<uint32_t, float> biases = merge(params.logit_biases);
  slot.bias_count = 0;
  for (const auto& [token, bias] : biases) {
    if (slot.bias_count == SAMPLING_BIASES) break;
    slot.bias_tokens[slot.bias_count] = token;
    slot.biases[slot.bias_count++] = bias;
  }
  slot.stop_count = static_cast<uint32_t>(std::min<size_t>(params.stop_tokens.size(), SAMPLING_STOPS));
  std::copy_n(params.stop_tokens.begin(), slot.stop_count, slot.stops);
  if (slot.dry_multiplier <= 0.0f) return;
  std::ranges::fill(slot.dry_breakers, 0u);
  for (uint32_t token : params.dry_breakers) {
    if (token < SAMPLING_BREAKERS) slot.dry_breakers[token / 32] |= 1u << token % 32;
  }
}

std::span<uint32_t> SamplingState::set_mask(uint32_t sequence) {
  slots_[sequence].masked = 1;
  return slots_[sequence].mask;
}

void SamplingState::set_form(uint32_t sequence, uint32_t table, uint32_t place) {
  SamplingSlot& slot = slots_[sequence];
  slot.form = table + 1;
  slot.places[slot.count % SAMPLING_PLACES] = place;
}

void SamplingState::set_tokens(uint32_t sequence, std::span<const uint32_t> tokens) {
  SamplingSlot& slot = slots_[sequence];
  const size_t kept = std::min<size_t>(tokens.size(), SAMPLING_RING);
  for (size_t n = tokens.size() - kept; n < tokens.size(); ++n) slot.tokens[n % SAMPLING_RING] = tokens[n];
  slot.count = static_cast<uint32_t>(tokens.size());
  slot.finished_at = SAMPLING_UNFINISHED;
  slot.dry_first = slot.count - static_cast<uint32_t>(kept);
  for (size_t n = tokens.size() - kept; n < tokens.size(); ++n) {
    if (breaks_repetition(slot, tokens[n])) slot.dry_first = static_cast<uint32_t>(n + 1);
  }
}

void SamplingState::append(uint32_t sequence, uint32_t token) {
  SamplingSlot& slot = slots_[sequence];
  slot.tokens[slot.count++ % SAMPLING_RING] = token;
  if (breaks_repetition(slot, token)) slot.dry_first = slot.count;
}

void SamplingState::set_drafts(uint32_t sequence, std::span<const uint32_t> drafts) {
  SamplingSlot& slot = slots_[sequence];
  for (size_t i = 0; i < drafts.size(); ++i) slot.tokens[(slot.count + i) % SAMPLING_RING] = drafts[i];
}

void SamplingState::set_draft_places(uint32_t sequence, std::span<const uint32_t> places) {
  SamplingSlot& slot = slots_[sequence];
  for (size_t i = 0; i < places.size(); ++i) slot.places[(slot.count + 1 + i) % SAMPLING_PLACES] = places[i];
}

void SamplingState::set_draft_masks(uint32_t sequence, size_t begin) {
  slots_[sequence].draft_masks = static_cast<uint32_t>(tables_.size() + begin);
}

void SamplingState::set_count(uint32_t sequence, uint32_t count) {
  SamplingSlot& slot = slots_[sequence];
  slot.count = count;
  if (slot.finished_at >= count) slot.finished_at = SAMPLING_UNFINISHED;
}

std::optional<uint32_t> SamplingState::finished_at(uint32_t sequence) const {
  const uint32_t n = slots_[sequence].finished_at;
  return n == SAMPLING_UNFINISHED ? std::nullopt : std::optional(n);
}

TokenLogProbabilities SamplingState::log_probabilities(uint32_t sequence, uint32_t n) const {
  const SamplingReport& report = slots_[sequence].reports[n % SAMPLING_REPORTS];
  TokenLogProbabilities result{{token(sequence, n), report.log_probability}, {}};
  for (uint32_t i = 0; i < std::min(report.count, SAMPLING_TOP); ++i) {
    result.top.push_back({report.tokens[i], report.log_probabilities[i]});
  }
  return result;
}

uint64_t sample_scratch_bytes(const DeviceProfile& profile, const ActivationRef& logits) {
  const SampleParams params = sample_params(profile, logits);
  return 4 * uint64_t{logits.rows} * (SAMPLING_ROW_QUAD + params.padded * SAMPLING_WORDS_PER_BLOCK);
}

std::array<Dispatch, 2> sample(const DeviceProfile& profile, const SampleArgs& args) {
  assert(args.logits.rows_kind == ROWS_OUTPUTS);
  SampleParams params = sample_params(profile, args.logits);
  params.sequences = static_cast<uint32_t>(args.state.bytes / sizeof(SamplingSlot));
  params.capacity = args.step_capacity;

  // Slices are large enough to be worth a workgroup, and few enough that starting them takes no time that
  // shows.
  const uint32_t scan_workgroup = profile.workgroup;
  const uint32_t wanted = std::clamp(profile.busy_groups, 16u, 256u);
  const uint32_t slice = round_up((params.blocks + wanted - 1) / wanted, scan_workgroup);

  std::array<Dispatch, 2> dispatches;
  auto& [scan, pick] = dispatches;
  scan.kernel = "sample_scan";
  scan.constants = {scan_workgroup, slice};
  scan.bind(SAMPLING_STATE, args.state, Access::read);
  scan.bind(SAMPLING_STEP, args.step, Access::read);
  scan.bind(SAMPLING_LOGITS, args.logits.buffer, Access::read_write);
  scan.bind(SAMPLING_SCRATCH, args.scratch, Access::write);
  const BufferRef tables = args.tables.bytes ? args.tables : args.state; // no slot has a form then
  scan.bind(SAMPLING_FORMS, tables, Access::read);
  scan.groups = {(params.blocks + slice - 1) / slice, args.logits.rows, 1};
  scan.bytes = 4.0 * args.logits.rows * args.logits.columns;

  pick.kernel = "sample_pick";
  pick.constants = {pick_workgroup(profile)};
  pick.bind(SAMPLING_STATE, args.state, Access::read_write);
  pick.bind(SAMPLING_STEP, args.step, Access::read_write);
  pick.bind(SAMPLING_LOGITS, args.logits.buffer, Access::read);
  pick.bind(SAMPLING_SCRATCH, args.scratch, Access::read_write);
  pick.bind(SAMPLING_FORMS, tables, Access::read);
  pick.groups = {args.logits.rows, 1, 1};
  pick.bytes = 8.0 * args.logits.rows * params.blocks;

  scan.set_params(params);
  pick.set_params(params);
  return dispatches;
}

bool begins_sampling(const Dispatch& dispatch) {
  return dispatch.kernel == "sample_scan";
}

Status Sample::lower(Lowering& lowering, const Node& node) const {
  SampleArgs args;
  args.logits = lowering.tensor(node.inputs[0]);
  const BufferRef all = lowering.sampling();
  const uint64_t slots = std::min(SamplingState::bytes(lowering.step_layout().sequences), all.bytes);
  args.state = all.at(0, slots);
  args.tables = all.at(slots, all.bytes - slots);
  args.step = lowering.step();
  args.step_capacity = lowering.step_capacity();
  args.scratch = lowering.temporary(sample_scratch_bytes(lowering.profile(), args.logits));
  for (Dispatch& dispatch : sample(lowering.profile(), args)) lowering.emit(std::move(dispatch));
  return {};
}

TensorId sample(Graph& graph, std::string name, TensorId logits) {
  return graph.add(Sample{}, {logits}, {}, {std::move(name), graph.tensor(logits).rows, 1});
}

} // namespace pumice
