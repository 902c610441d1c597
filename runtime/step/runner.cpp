#include "step/runner.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "base/guarded.h"
#include "recording/compile_kernels.h"
#include "recording/dispatch_times.h"
#include "shaders/common/step.h"
#include "step/check_tokens.h"
#include "step/prompt_embeddings.h"
#include "step/runner_layout.h"

namespace pumice {

Result<std::unique_ptr<Runner>> Runner::create(std::shared_ptr<const Model> model, RunnerOptions options) {
  const SessionMemory* shared = options.caches ? &options.caches->memory() : nullptr;
  PUMICE_TRY(RunnerLayout layout, lay_out_runner(*model, options, shared));
  std::unique_ptr<Runner> runner(new Runner(std::move(model), std::move(options)));
  PUMICE_CHECK(runner->allocate(layout));
  runner->memory_ = std::move(layout.memory);
  if (runner->memory_.step_layout.pages > 0) runner->pages_.resize(runner->memory_.size.sequences);
  runner->graph_ = std::move(layout.graph);
  for (Plan& step : layout.plans) {
    const uint32_t tokens = step.bucket.tokens;
    runner->buckets_.emplace(tokens, StepBucket{std::move(step), {}, {}});
  }
  PUMICE_CHECK(runner->begin_stages());
  return runner;
}

// Allocates exactly what runner_bytes() counts.
Status Runner::allocate(const RunnerLayout& layout) {
  const std::shared_ptr<Device>& device = model_->context().device;
  caches_ = options_.caches;
  if (!caches_) {
    PUMICE_TRY(caches_, Caches::create(device, layout.memory));
  }
  PUMICE_TRY(scratch_, Buffer::create(device, layout.scratch_bytes, MemoryUse::device, "scratch"));
  PUMICE_TRY(step_, Buffer::create(device, layout.memory.step_layout.bytes_with_counters(), MemoryUse::shared,
                                   "step block"));
  PUMICE_TRY(step_ring_, StepRing::create(device, layout.memory.step_layout, step_));
  PUMICE_TRY(sampling_, Buffer::create(device, layout.memory.sampling.bytes, MemoryUse::shared, "sampling"));
  if (layout.input_bytes) {
    PUMICE_TRY(inputs_, Buffer::create(device, layout.input_bytes, MemoryUse::shared, "inputs"));
  }
  if (options_.adapters) {
    PUMICE_TRY(adapters_, AdapterPlaces::create(device, options_.adapters, layout.adapters,
                                                layout.memory.size.sequences));
  }
  if (layout.output_bytes) {
    PUMICE_TRY(outputs_, PlanOutputs::create(device, layout.output_bytes, "outputs"));
  }
  std::memset(step_.mapped().data(), 0, step_.mapped().size());
  std::memset(sampling_.mapped().data(), 0, sampling_.mapped().size());
  return {};
}

uint64_t Runner::device_bytes() const {
  uint64_t sum = scratch_.memory_bytes() + step_.memory_bytes() + step_ring_.memory_bytes() +
                 sampling_.memory_bytes() + inputs_.memory_bytes() + outputs_.memory_bytes();
  if (adapters_) sum += adapters_->memory_bytes();
  if (!options_.caches) sum += caches_->memory_bytes(); // otherwise another runner counts them
  return sum;
}

uint32_t Runner::resume_point(uint32_t position, uint32_t written_end, const StateHistory& states) const {
  const auto possible = [&](uint32_t at) {
    return std::ranges::all_of(
               memory_.caches,
               [&](const CacheRef& cache) { return cache.layout.can_resume(at, written_end); }) &&
           std::ranges::all_of(memory_.states, [&](const StateRef& state) {
             return state.layout.holds(at, states, written_end);
           });
  };
  if (possible(position)) return position;
  if (memory_.states.empty()) return 0;
  uint32_t at = position / StateLayout::interval * StateLayout::interval;
  while (at > 0 && !possible(at)) at -= StateLayout::interval;
  return at;
}

const Buffer& Runner::buffer(const BufferRef& ref) const {
  switch (ref.space) {
  case Space::step:
    return step_;
  case Space::results:
    return sampling_;
  case Space::scratch:
    return scratch_;
  case Space::inputs:
    return inputs_;
  case Space::outputs:
    return outputs_.written();
  case Space::cache:
    return caches_->allocation(ref.allocation);
  case Space::weights:
    return model_->weight_allocation(ref.allocation);
  case Space::adapters:
    return adapters_->allocation(ref.allocation);
  }
  return scratch_;
}

Runner::StepBucket& Runner::bucket_for(uint32_t tokens) {
  return buckets_.lower_bound(tokens)->second;
}

Result<const Plan*> Runner::plan(uint32_t tokens) {
  if (tokens < 1 || tokens > memory_.size.chunk) {
    return Error{Code::invalid_argument, fmt::format("a step of {} tokens is not possible: it has 1 to {}",
                                                     tokens, memory_.size.chunk)};
  }
  return static_cast<const Plan*>(&bucket_for(tokens).plan);
}

Result<Plan> Runner::plan_in(const DeviceProfile& profile, Bucket bucket) const {
  PlanContext context = memory_.plan_context(model_->context(), model_->weights());
  context.profile = profile;
  return make_plan(graph_, context, bucket);
}

// Rows have no padding between them in the application's buffers.
PlanCopies Runner::copies(const Plan& plan) const {
  PlanCopies copies;
  copies.after = outputs_.copies(plan);
  const auto each_row = [](const ActivationRef& where, const ExternalBuffer& external, const auto& add) {
    const uint64_t bytes = uint64_t{where.columns} * 4;
    for (uint64_t row = 0; row < where.rows && (row + 1) * bytes <= external.bytes; ++row) {
      add(where.buffer.offset + row * where.stride * 4, external.offset + row * bytes, bytes);
    }
  };
  if (options_.input.buffer && plan.input) {
    each_row(plan.input->where, options_.input, [&](uint64_t internal, uint64_t external, uint64_t bytes) {
      copies.before.push_back({options_.input.buffer, inputs_.handle(), {external, internal, bytes}});
    });
  }
  if (options_.output.buffer && !plan.readable.empty()) {
    each_row(plan.readable[0].where, options_.output,
             [&](uint64_t internal, uint64_t external, uint64_t bytes) {
               copies.after.push_back(
                   {outputs_.written().handle(), options_.output.buffer, {internal, external, bytes}});
             });
  }
  return copies;
}

Status Runner::prepare(uint32_t tokens) {
  return prepare_in(tokens, {});
}

Status Runner::prepare_in(uint32_t tokens, const StepPlaces& places) {
  StepBucket& bucket = bucket_for(tokens);
  if (bucket.recordings.contains(places)) return {};
  const auto lookup = [&](const BufferRef& ref) -> const Buffer& { return buffer_in(ref, places); };
  if (model_->context().compiling && bucket.recordings.empty()) {
    PUMICE_CHECK(compile_kernels(model_->context(), std::array{&std::as_const(bucket.plan)}, lookup,
                                 model_->context().compiling_threads));
  }
  PUMICE_TRY(Recording recording,
             Recording::create(model_->context(), bucket.plan, lookup, copies(bucket.plan, places)));
  bucket.recordings.emplace(places, std::move(recording));
  if (bucket.costs) return {};
  std::vector<double> guesses;
  for (const PlannedDispatch& planned : bucket.plan.dispatches) {
    guesses.push_back(planned.seconds);
  }
  bucket.costs.emplace(guesses);
  return {};
}

Status Runner::prepare_all(size_t threads, const Progress& progress) {
  std::vector<const Plan*> plans;
  for (const auto& [tokens, bucket] : buckets_) plans.push_back(&bucket.plan);
  const auto lookup = [this](const BufferRef& ref) -> const Buffer& { return buffer(ref); };
  if (last_stage_) PUMICE_CHECK(last_stage_->prepare_all());
  threads = std::max(threads, model_->context().compiling_threads);
  PUMICE_CHECK(compile_kernels(model_->context(), plans, lookup, threads, progress));
  for (const auto& [tokens, bucket] : buckets_) {
    PUMICE_CHECK(prepare(tokens));
    for (uint32_t place = 0; place < HopBuffers::count && (received_.places || sent_.places); ++place) {
      StepPlaces places;
      if (received_.places) places.first = place;
      if (sent_.places) places.second = place;
      PUMICE_CHECK(prepare_in(tokens, places));
    }
  }
  return last_stage_ ? upstream().settle() : Status();
}

Runner::~Runner() {
  (void)guarded([&] { return last_submission_.wait(); });
  (void)guarded([&] { return submitted_here_.wait(); });
}

Status Runner::check_row(const StepToken& row) const {
  const ModelShape& shape = model_->shape();
  const bool encodes = options_.part == ModelPart::encoder;
  // For pictures and sounds, a token is the index of its input in the step, but of a text behind a picture.
  const uint32_t vocabulary =
      !encodes                                   ? shape.vocabulary
      : shape.encoder->kind == InputKind::tokens ? shape.encoder->vocabulary
      : shape.encoder->kind == InputKind::patches
          ? UINT32_MAX
          : std::max(shape.encoder->picture_rows > 0 ? shape.encoder->vocabulary : 0, memory_.size.sequences);
  const bool picture = !encodes && shape.pictures && is_prompt_row(row.token);
  // The target of a sound's first row is its number of samples.
  const bool samples = encodes && shape.encoder->kind == InputKind::samples;
  PUMICE_CHECK(
      check_tokens(*model_, std::array{picture ? 0 : row.token, samples ? 0 : row.target}, vocabulary));
  if (encodes && row.token_type >= shape.encoder->token_types) {
    return Error{Code::invalid_argument,
                 fmt::format("{}: token type {} is unknown: the model's are 0 to {}", model_->file().path(),
                             row.token_type, shape.encoder->token_types - 1)};
  }
  const uint32_t positions = encodes ? memory_.size.input_positions : memory_.size.context;
  if (row.position >= positions || row.end > positions || row.sequence >= memory_.size.sequences) {
    return Error{Code::invalid_argument,
                 fmt::format("position {} of sequence {} is outside the session's {} "
                             "positions of {} sequences",
                             row.position, row.sequence, positions, memory_.size.sequences)};
  }
  return {};
}

Status Runner::write_step(std::span<const StepToken> rows) {
  const uint32_t capacity = memory_.size.chunk;
  if (rows.empty() || rows.size() > capacity) {
    return Error{Code::invalid_argument,
                 fmt::format("a step of {} tokens is not possible: it has 1 to {}", rows.size(), capacity)};
  }
  for (const StepToken& row : rows) PUMICE_CHECK(check_row(row));
  const auto wanted = static_cast<uint64_t>(std::ranges::count_if(rows, &StepToken::output));
  if (const uint32_t most = bucket_for(static_cast<uint32_t>(rows.size())).plan.bucket.outputs;
      wanted > most) {
    return Error{Code::invalid_argument,
                 fmt::format("{1} outputs of a step of {0} tokens were asked for: it has at most {2}",
                             rows.size(), wanted, most)};
  }
  if (last_stage_) {
    composed_.resize(StepRing::place_bytes(memory_.step_layout) / 4);
  } else {
    PUMICE_CHECK(step_ring_.next_place().wait());
  }
  const std::span<uint32_t> block = last_stage_ ? std::span(composed_) : step_ring_.begin();
  uint32_t* quads = block.data();
  uint32_t* details = quads + memory_.step_layout.details() * 4;
  uint32_t outputs = 0;
  reach_ = 0;
  for (uint32_t i = 0; i < rows.size(); ++i) {
    const StepToken& row = rows[i];
    reach_ = std::max(reach_, row.position + 1);
    uint32_t* quad = quads + (STEP_HEADER_QUADS + i) * 4;
    quad[0] = row.token;
    quad[1] = row.position;
    quad[2] = row.sequence;
    quad[3] = row.first;
    // A model has token types or places, and ends or lags: the others are 0.
    details[i * 4 + 2] = row.token_type | row.down << 16 | row.across;
    details[i * 4 + 3] = row.end + row.position_offset;
    if (!row.output) continue;
    details[outputs * 4] = i;
    details[outputs * 4 + 1] = row.target + row.drafts; // with sampling there are no targets
    ++outputs;
  }
  quads[0] = static_cast<uint32_t>(rows.size());
  quads[1] = outputs;
  return {};
}

void Runner::record_rows(Commands& commands) {
  step_ring_.record(commands);
  step_ring_.submitted({});
}

Status Runner::set_input(uint32_t sequence, InputRange input) {
  if (sequence >= memory_.size.sequences || input.first > input.end ||
      input.end > memory_.size.input_positions) {
    return Error{Code::invalid_argument,
                 fmt::format("the input from {} to {} of sequence {} is outside the session's {} positions "
                             "for inputs of {} sequences",
                             input.first, input.end, sequence, memory_.size.input_positions,
                             memory_.size.sequences)};
  }
  return write_words((memory_.step_layout.sequence_quads() + sequence) * size_t{4},
                     std::array{input.first, input.end});
}

Status Runner::set_place_lag(uint32_t sequence, uint32_t lag) {
  if (sequence >= memory_.size.sequences) {
    return Error{Code::invalid_argument,
                 fmt::format("there is no sequence {} of {}", sequence, memory_.size.sequences)};
  }
  return write_words((memory_.step_layout.sequence_quads() + sequence) * size_t{4} + 2, std::array{lag});
}

Status Runner::set_adapter(uint32_t sequence, const AdapterChoice& choice) {
  if (!adapters_) {
    if (!choice.adapter) return {};
    return Error{Code::invalid_argument,
                 fmt::format("{}: the session was made without room for adapters", choice.adapter->path())};
  }
  PUMICE_CHECK(check_scale(choice.scale));
  PUMICE_CHECK(last_submission_.wait());
  std::array<uint32_t, 4> words = {};
  if (choice.adapter) {
    PUMICE_TRY(const uint32_t place, adapters_->place(sequence, choice.adapter));
    words = {place + 1, std::bit_cast<uint32_t>(choice.scale), choice.adapter->rank(), 0};
  } else {
    adapters_->leave(sequence);
  }
  return write_words((memory_.step_layout.adapters() + sequence) * size_t{4}, words);
}

Status Runner::write_words(size_t first, std::span<const uint32_t> words) {
  PUMICE_CHECK(last_submission_.wait());
  std::ranges::copy(words, reinterpret_cast<uint32_t*>(step_.mapped().data()) + first);
  if (last_stage_) keep_words(first, words);
  return {};
}

Status Runner::set_cache_indirection(uint32_t sequence, std::span<const uint32_t> cache_indirection) {
  const StepLayout& layout = memory_.step_layout;
  if (sequence >= memory_.size.sequences || cache_indirection.size() > layout.positions) {
    return Error{
        Code::invalid_argument,
        fmt::format("a cache indirection of {} positions for sequence {} is not possible: the session "
                    "has {} positions of {} sequences",
                    cache_indirection.size(), sequence, layout.positions, memory_.size.sequences)};
  }
  return write_words(layout.cache_indirection() * size_t{4} + size_t{sequence} * layout.positions,
                     cache_indirection);
}

Status Runner::set_pages(uint32_t sequence, std::span<const uint32_t> pages) {
  const StepLayout& layout = memory_.step_layout;
  if (sequence >= pages_.size() || pages.size() > layout.pages) {
    return Error{Code::internal, fmt::format("sequence {} cannot have {} pages: {} sequences have {} each",
                                             sequence, pages.size(), pages_.size(), layout.pages)};
  }
  pages_[sequence].assign(pages.begin(), pages.end());
  std::vector<uint32_t> words(pages.begin(), pages.end());
  words.resize(layout.pages, UINT32_MAX);
  return write_words(layout.cache_indirection() * size_t{4} + size_t{sequence} * layout.pages, words);
}

Status Runner::write_input(uint32_t tokens, uint32_t row, std::span<const float> values) {
  if (last_stage_ && options_.part == ModelPart::encoder) return keep_values(row, values);
  const Plan& plan = bucket_for(std::clamp(tokens, 1u, memory_.size.chunk)).plan;
  if (!plan.input || row >= plan.input->where.rows || values.size() != plan.input->where.columns) {
    return Error{Code::invalid_argument,
                 fmt::format("{}: input {} has {} numbers: a step reads {} inputs of {}",
                             model_->file().path(), row, values.size(),
                             plan.input ? plan.input->where.rows : 0,
                             plan.input ? plan.input->where.columns : 0)};
  }
  PUMICE_CHECK(last_submission_.wait());
  const ActivationRef& where = plan.input->where;
  std::byte* to = inputs_.mapped().data() + where.buffer.offset + size_t{row} * where.stride * 4;
  std::memcpy(to, values.data(), values.size_bytes());
  // A product may read the row, and its columns to the next multiple of 32 then have to be zeros.
  std::memset(to + values.size_bytes(), 0, where.padded_columns() * size_t{4} - values.size_bytes());
  return {};
}

Result<Completion> Runner::submit(uint32_t tokens, uint32_t steps,
                                  const std::function<Status()>& before_sampling) {
  if (!last_stage_) return submit_here(tokens, steps, before_sampling);
  if (before_sampling) PUMICE_CHECK(before_sampling());
  return submit_in_stages(tokens, steps);
}

Result<Completion> Runner::submit_here(uint32_t tokens, uint32_t steps,
                                       const std::function<Status()>& before_sampling) {
  PUMICE_CHECK(prepare_in(tokens, places()));
  last_tokens_ = tokens;
  const Recording& recording = bucket_for(tokens).recordings.at(places());
  PUMICE_TRY(const TimelinePoint point,
             recording.submit(steps, step_ring_.pending(), interrupt_, before_sampling));
  last_submission_ = submitted_here_ = Completion(*model_->context().device, point);
  step_ring_.submitted(last_submission_);
  return last_submission_;
}

Status Runner::open_step(uint32_t tokens) {
  return last_stage_ ? open_in_stages(tokens) : open_here(tokens);
}

Status Runner::open_here(uint32_t tokens) {
  PUMICE_CHECK(prepare(tokens));
  sent_.place.reset(); // the results of slices are in the runner's own memory
  last_tokens_ = tokens;
  open_ = &bucket_for(tokens);
  if (step_ring_.pending().empty()) ++reach_; // otherwise write_step() has set it
  costs_ = open_->costs->reaching(reach_);
  next_dispatch_ = 0;
  return {};
}

Result<std::optional<Completion>> Runner::fill(Slice& slice) {
  if (staged_step_) {
    PUMICE_TRY(const bool arrived, staged_step_->fill(slice));
    if (!arrived) return std::optional<Completion>();
    PUMICE_CHECK(open_arrived());
  }
  PUMICE_TRY(const TimeSlicer::Slice* const here, slice.enter(slice.last_stage()));
  return here ? fill_here(*here) : Result<std::optional<Completion>>(std::optional<Completion>());
}

Result<std::optional<Completion>> Runner::fill_here(const TimeSlicer::Slice& slice) {
  const PreparedPlan& plan = open_->recordings.at({}).plan();
  for (; next_dispatch_ < plan.size(); ++next_dispatch_) {
    if (!slice.fits(*costs_, next_dispatch_)) return std::optional<Completion>();
    slice.add(costs_, next_dispatch_);
    last_submission_ = submitted_here_ = Completion(slice.slicer(), slice.number());
    if (next_dispatch_ == 0) {
      slice.commands().barrier(); // against the step before
      step_ring_.record(slice.commands());
      step_ring_.submitted(last_submission_);
    }
    plan.record(slice.commands(), next_dispatch_);
  }
  open_ = nullptr;
  return std::optional(last_submission_);
}

void Runner::close_step() {
  if (staged_step_) staged_step_->close();
  staged_step_.reset();
  open_ = nullptr;
}

Result<double> Runner::guessed_step_seconds(uint32_t tokens) {
  PUMICE_TRY(const Plan* step, plan(tokens));
  double seconds = 0;
  for (const PlannedDispatch& planned : step->dispatches) {
    seconds += planned.seconds;
  }
  if (!last_stage_) return seconds;
  PUMICE_TRY(const auto stages, upstream().runners());
  for (const std::shared_ptr<Runner>& each : stages) {
    PUMICE_TRY(const double more, each ? each->guessed_step_seconds(tokens) : Result<double>(0));
    seconds += more;
  }
  return seconds;
}

double Runner::largest_dispatch(const Slicer& slicer) const {
  if (staged_step_) return staged_step_->largest_dispatch(slicer);
  return largest_here(slicer.at(slicer.last_stage()));
}

double Runner::largest_here(const TimeSlicer& slicer) const {
  return costs_ ? slicer.predictor().dispatch(costs_->largest()) : 0;
}

Result<std::vector<double>> Runner::time_dispatches(uint32_t tokens) {
  if (const auto rows = step_ring_.pending(); !rows.empty()) {
    PUMICE_TRY(const TimelinePoint point, model_->context().device->submit(rows));
    last_submission_ = Completion(*model_->context().device, point);
    step_ring_.submitted(last_submission_);
  }
  return pumice::time_dispatches(model_->context(), bucket_for(tokens).plan,
                                 [this](const BufferRef& ref) -> const Buffer& { return buffer(ref); });
}

const HostTensor* Runner::find_readable(const Plan& plan, const std::string& name) const {
  for (const std::vector<HostTensor>* all : {&plan.readable, &plan.received}) {
    const auto found = std::ranges::find(*all, name, &HostTensor::name);
    if (found != all->end()) return &*found;
  }
  return nullptr;
}

uint32_t Runner::columns(const std::string& name) const {
  const HostTensor* tensor = find_readable(buckets_.begin()->second.plan, name);
  return tensor ? tensor->where.columns : 0;
}

bool Runner::per_output(const std::string& name) const {
  const HostTensor* tensor = find_readable(buckets_.begin()->second.plan, name);
  return tensor && tensor->where.rows_kind == ROWS_OUTPUTS;
}

Result<std::vector<float>> Runner::read(const std::string& name, uint32_t rows, uint32_t first) const {
  // The last step's bucket decides where the tensor lies.
  const Plan& plan = buckets_.lower_bound(last_tokens_)->second.plan;
  PUMICE_CHECK(last_submission_.wait());
  const HostTensor* tensor = find_readable(plan, name);
  if (!tensor) {
    return Error{Code::invalid_argument,
                 fmt::format("the tensor '{}' cannot be read: name it when the session is made", name)};
  }
  const ActivationRef& where = tensor->where;
  const std::span<const std::byte> bytes = host_bytes(where.buffer.space);
  std::vector<float> values(size_t{rows} * where.columns);
  for (uint32_t row = 0; row < rows; ++row) {
    std::memcpy(values.data() + size_t{row} * where.columns,
                bytes.data() + where.buffer.offset + size_t{first + row} * where.stride * 4,
                size_t{where.columns} * 4);
  }
  return values;
}

} // namespace pumice
