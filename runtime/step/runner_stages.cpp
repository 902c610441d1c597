// What a runner does where its model is one of several stages.
#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "step/runner.h"
#include "step/step_rows.h"

namespace pumice {

namespace {

// Words of a piece of the step block, and of all pieces of a message.
constexpr size_t most_piece_words = 4096, most_pieces_words = 8192;

uint64_t bytes_of(const std::vector<HostTensor>& tensors, uint32_t tokens) {
  uint64_t sum = 0;
  for (const HostTensor& tensor : tensors) sum += uint64_t{tokens} * tensor.where.stride * 4;
  return sum;
}

Error wrong_length(const Model& model, uint32_t tokens, uint64_t expected, uint64_t found) {
  return Error{Code::internal, fmt::format("{}: a step of {} rows between stages has {} bytes: expected {}",
                                           model.file().path(), tokens, found, expected)};
}

} // namespace

Status Runner::begin_stages() {
  if (!model_->upstream()) return {};
  const bool encodes = options_.part == ModelPart::encoder;
  if (options_.input.buffer || options_.output.buffer) {
    return Error{Code::unsupported,
                 fmt::format("{}: a model in stages has no inputs or outputs of the application: use one "
                             "device",
                             model_->file().path())};
  }
  const auto compute = [this](const StepRows& rows, bool composed,
                              const StageResults& results) -> Result<Completion> {
    if (composed) PUMICE_CHECK(write_packed(rows));
    PUMICE_CHECK(write_received(rows, results));
    // Later steps may have been begun, which the last submission is about.
    const Completion last = last_submission_;
    const uint32_t last_tokens = last_tokens_;
    Result<Completion> done = submit_here(rows.tokens, 1);
    last_submission_ = last;
    last_tokens_ = last_tokens;
    return done;
  };
  StageSteps steps;
  steps.size = memory_.size;
  steps.encodes = encodes;
  steps.caches = caches_->id();
  steps.all_outputs = options_.all_outputs;
  steps.readable = options_.readable;
  if (encodes && model_->shape().encoder->kind != InputKind::tokens)
    steps.value_bytes = uint64_t{memory_.size.sequences} * model_->shape().encoder->input_values() * 4;
  steps.received_bytes = received_bytes(memory_.size.chunk);
  PUMICE_TRY(last_stage_, LastStage::create(static_cast<StepUpstream&>(*model_->upstream()), steps, compute));
  accept_buffers(last_stage_->upstream().places());
  return {};
}

bool Runner::holds(size_t layer) const {
  if (layer < memory_.caches.size()) return memory_.caches[layer].keys.bytes > 0;
  return memory_.states[layer - memory_.caches.size()].buffer.bytes > 0;
}

uint32_t Runner::steps_in_stages() const {
  return last_stage_ ? model_->upstream()->stages() + 2 : StepRing::places;
}

uint64_t Runner::received_bytes(uint32_t tokens) {
  const Plan& plan = bucket_for(tokens).plan;
  const HostTensor* values = encoder_values(plan);
  const uint64_t input_bytes = values ? uint64_t{values->where.rows} * values->where.columns * 4 : 0;
  return input_bytes + bytes_of(plan.received, tokens);
}

// What the host writes of pictures and sounds, if the plan begins with it.
const HostTensor* Runner::encoder_values(const Plan& plan) const {
  return plan.input && options_.part == ModelPart::encoder ? &*plan.input : nullptr;
}

Status Runner::keep_values(uint32_t row, std::span<const float> values) {
  const size_t columns = model_->shape().encoder->input_values();
  if (row >= memory_.size.sequences || values.size() != columns) {
    return Error{Code::invalid_argument,
                 fmt::format("{}: input {} has {} numbers: a step reads {} inputs of {}",
                             model_->file().path(), row, values.size(), memory_.size.sequences, columns)};
  }
  values_.resize(std::max(values_.size(), (row + size_t{1}) * columns));
  std::ranges::copy(values, values_.begin() + static_cast<ptrdiff_t>(row * columns));
  return {};
}

// They go to the other stages with the next step.
void Runner::keep_words(size_t first, std::span<const uint32_t> words) {
  while (!words.empty()) {
    const std::span<const uint32_t> piece = words.first(std::min(words.size(), most_piece_words));
    if (pieces_.empty() || pieces_.back().size() + piece.size() + 2 > most_pieces_words)
      pieces_.emplace_back();
    std::vector<uint32_t>& message = pieces_.back();
    message.push_back(static_cast<uint32_t>(first));
    message.push_back(static_cast<uint32_t>(piece.size()));
    message.insert(message.end(), piece.begin(), piece.end());
    words = words.subspan(piece.size());
    first += piece.size();
  }
}

Status Runner::write_block(std::span<const uint32_t> pieces) {
  PUMICE_CHECK(submitted_here_.wait());
  const size_t words = step_.mapped().size() / 4;
  while (!pieces.empty()) {
    const size_t first = pieces[0], count = pieces.size() > 1 ? pieces[1] : words;
    if (pieces.size() < 2 || first > words || count > words - first || count > pieces.size() - 2) {
      return Error{
          Code::internal,
          fmt::format("{}: a piece of the step block between stages is damaged: {} words from {} of {}",
                      model_->file().path(), count, first, words)};
    }
    std::memcpy(step_.mapped().data() + first * 4, pieces.data() + 2, count * 4);
    pieces = pieces.subspan(2 + count);
  }
  return {};
}

uint64_t Runner::sent_bytes(uint32_t tokens) {
  return bytes_of(bucket_for(tokens).plan.sent, tokens);
}

// The rows of the next step. Those that the device has written itself are known once the step before is done.
Result<StepRows> Runner::next_rows(uint32_t tokens) {
  StepRows rows{tokens, {}, std::exchange(values_, {})};
  if (composed_.empty()) {
    PUMICE_CHECK(last_submission_.wait());
    const std::span<const std::byte> block = step_.mapped();
    rows.words = pack_rows({reinterpret_cast<const uint32_t*>(block.data()), block.size() / 4},
                           memory_.step_layout, tokens);
  } else {
    rows.words = pack_rows(composed_, memory_.step_layout, tokens);
  }
  composed_.clear();
  return rows;
}

Result<Completion> Runner::submit_in_stages(uint32_t tokens, uint32_t steps) {
  for (uint32_t step = 0; step < steps; ++step) {
    if (interrupted()) return Error{Code::cancelled, "a step was cancelled"};
    const bool composed = !composed_.empty();
    PUMICE_TRY(StepRows rows, next_rows(tokens));
    for (const std::vector<uint32_t>& message : std::exchange(pieces_, {})) {
      PUMICE_CHECK(last_stage_->write_block(message));
    }
    PUMICE_TRY(last_submission_, last_stage_->begin(std::move(rows), composed));
    last_tokens_ = tokens;
  }
  return last_submission_;
}

Status Runner::open_in_stages(uint32_t tokens) {
  const bool composed = !composed_.empty();
  PUMICE_TRY(std::vector<std::shared_ptr<Runner>> stages, upstream().runners());
  PUMICE_TRY(StepRows rows, next_rows(tokens));
  for (const std::vector<uint32_t>& message : std::exchange(pieces_, {})) {
    for (const std::shared_ptr<Runner>& each : stages) {
      if (each) PUMICE_CHECK(each->write_block(message));
    }
  }
  staged_step_.emplace(std::move(stages), std::move(rows), composed);
  last_tokens_ = tokens;
  return {};
}

// The open step has been through the stages before this one.
Status Runner::open_arrived() {
  const StagedStep step = *std::exchange(staged_step_, std::nullopt);
  if (step.composed()) PUMICE_CHECK(write_packed(step.rows()));
  PUMICE_CHECK(write_received(step.rows(), {step.received(), {}}));
  return open_here(step.rows().tokens);
}

Status Runner::write_packed(const StepRows& rows) {
  if (rows.tokens < 1 || rows.tokens > memory_.size.chunk ||
      rows.words.size() != packed_row_words(rows.tokens) || rows.words[0] != rows.tokens) {
    return Error{Code::internal, fmt::format("{}: a step of {} rows between stages is damaged",
                                             model_->file().path(), rows.tokens)};
  }
  PUMICE_CHECK(step_ring_.next_place().wait());
  unpack_rows(rows.words, memory_.step_layout, rows.tokens, step_ring_.begin());
  reach_ = 0;
  for (uint32_t row = 0; row < rows.tokens; ++row) {
    reach_ = std::max(reach_, rows.words[(STEP_HEADER_QUADS + row) * size_t{4} + 1] + 1);
  }
  return {};
}

// The step before has read what lies there once it is done.
Status Runner::write_received(const StepRows& rows, const StageResults& results) {
  PUMICE_CHECK(submitted_here_.wait());
  if (received_.place) received_.places->release(*received_.place);
  received_.place = results.place;
  if (results.place) {
    if (received_.places && *results.place < HopBuffers::count) return {};
    received_.place.reset();
    return Error{Code::internal, fmt::format("{}: a step between stages is in no place: {}",
                                             model_->file().path(), *results.place)};
  }
  std::span<const std::byte> bytes = results.bytes;
  const Plan& plan = bucket_for(rows.tokens).plan;
  const HostTensor* values = encoder_values(plan);
  const uint32_t inputs = values ? std::min(rows.words[1], values->where.rows) : 0;
  const size_t input_bytes = values ? size_t{values->where.columns} * 4 : 0;
  const uint64_t expected = inputs * input_bytes + bytes_of(plan.received, rows.tokens);
  if (bytes.size() != expected) return wrong_length(*model_, rows.tokens, expected, bytes.size());
  for (uint32_t input = 0; input < inputs; ++input) {
    const ActivationRef& where = values->where;
    std::memcpy(inputs_.mapped().data() + where.buffer.offset + size_t{input} * where.stride * 4,
                bytes.data(), input_bytes);
    bytes = bytes.subspan(input_bytes);
  }
  for (const HostTensor& tensor : plan.received) {
    const size_t size = size_t{rows.tokens} * tensor.where.stride * 4;
    std::memcpy(inputs_.mapped().data() + tensor.where.buffer.offset, bytes.data(), size);
    bytes = bytes.subspan(size);
  }
  return {};
}

Status Runner::read_sent(uint32_t tokens, std::span<std::byte> bytes) const {
  PUMICE_CHECK(submitted_here_.wait());
  for (const HostTensor& tensor : buckets_.lower_bound(tokens)->second.plan.sent) {
    const BufferRef& from = tensor.where.buffer;
    const std::span<const std::byte> memory = host_bytes(from.space);
    const size_t size = size_t{tokens} * tensor.where.stride * 4;
    if (bytes.size() < size) return wrong_length(*model_, tokens, size, bytes.size());
    std::memcpy(bytes.data(), memory.data() + from.offset, size);
    bytes = bytes.subspan(size);
  }
  return {};
}

// What the host can read of a step's inputs or outputs.
std::span<const std::byte> Runner::host_bytes(Space space) const {
  const HopEnd& end = space == Space::inputs ? received_ : sent_;
  if (end.place) return end.places->bytes(*end.place);
  return space == Space::inputs ? inputs_.mapped() : outputs_.bytes();
}

// Where the tensors are in each bucket, and how long their rows; empty if one of them is elsewhere.
std::vector<uint64_t> Runner::layout(const std::vector<HostTensor> Plan::*tensors, Space space) const {
  std::vector<uint64_t> numbers;
  for (const auto& [tokens, bucket] : buckets_) {
    numbers.push_back(tokens);
    for (const HostTensor& tensor : bucket.plan.*tensors) {
      if (tensor.where.buffer.space != space) return {};
      numbers.push_back(tensor.where.buffer.offset);
      numbers.push_back(tensor.where.stride);
    }
  }
  return numbers;
}

bool Runner::join(HopEnd& end, std::shared_ptr<HopBuffers> places) const {
  const std::shared_ptr<Device>& device = model_->context().device;
  if (!device->can_import()) return false;
  Result<std::vector<Buffer>> buffers = places->import(device);
  if (!buffers.ok()) return false; // the driver refuses it, so results are copied
  end.buffers = *std::move(buffers);
  end.places = std::move(places);
  return true;
}

std::shared_ptr<HopBuffers> Runner::offer_buffers(uint64_t alignment) {
  std::vector<uint64_t> sent = layout(&Plan::sent, Space::outputs);
  uint64_t bytes = 0;
  for (const auto& [tokens, bucket] : buckets_) bytes = std::max(bytes, bucket.plan.output_bytes);
  if (alignment == 0 || sent.empty()) return nullptr;
  Result<std::shared_ptr<HopBuffers>> places = HopBuffers::create(bytes, alignment, std::move(sent));
  if (!places.ok() || !join(sent_, *places)) return nullptr;
  return *places;
}

void Runner::accept_buffers(std::shared_ptr<HopBuffers> places) {
  uint64_t bytes = 0;
  for (const auto& [tokens, bucket] : buckets_) bytes = std::max(bytes, bucket.plan.input_bytes);
  if (!places || places->layout() != layout(&Plan::received, Space::inputs) || bytes > places->buffer_bytes())
    return;
  if (join(received_, places)) places->accept();
}

std::optional<uint32_t> Runner::take_place() {
  sent_.place = sent_.places ? sent_.places->take() : std::nullopt;
  return sent_.place;
}

const Buffer& Runner::buffer_in(const BufferRef& ref, const StepPlaces& places) const {
  const bool unified = model_->context().device->capabilities().unified_memory;
  if (unified && ref.space == Space::inputs && places.first) return received_.buffers[*places.first];
  if (unified && ref.space == Space::outputs && places.second) return sent_.buffers[*places.second];
  return buffer(ref);
}

// A device with memory of its own reads and writes a place once, by a copy: kernels would do it through the
// bus, and more often.
PlanCopies Runner::copies(const Plan& plan, const StepPlaces& places) const {
  PlanCopies all = copies(plan);
  if (model_->context().device->capabilities().unified_memory) return all;
  if (places.first && plan.input_bytes > 0) {
    all.before.push_back(
        {received_.buffers[*places.first].handle(), inputs_.handle(), {0, 0, plan.input_bytes}});
  }
  if (places.second && plan.output_bytes > 0) {
    all.after = {
        {outputs_.written().handle(), sent_.buffers[*places.second].handle(), {0, 0, plan.output_bytes}}};
  }
  return all;
}

} // namespace pumice
