#include "stage/split.h"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <limits>
#include <thread>

#ifdef __linux__
#include <sched.h>
#endif

#include <fmt/format.h>

#include "step/encoder.h"

namespace pumice {

namespace {

constexpr double measured_seconds = 0.2; // for each kind of step
constexpr int least_steps = 5;
constexpr StepSeconds no_seconds;

using Part = DeviceCosts::Part;
using Side = DeviceCosts::Side;

template <class Function>
StepSeconds each(const StepSeconds& a, const StepSeconds& b, const Function& function) {
  return {function(a.decode, b.decode), function(a.group, b.group), function(a.together, b.together),
          function(a.prefill, b.prefill)};
}

StepSeconds sum(const StepSeconds& a, const StepSeconds& b) {
  return each(a, b, [](double x, double y) { return x + y; });
}

StepSeconds larger(const StepSeconds& a, const StepSeconds& b) {
  return each(a, b, [](double x, double y) { return std::max(x, y); });
}

Part operator+(const Part& a, const Part& b) {
  return {sum(a.seconds, b.seconds), a.bytes + b.bytes, sum(a.processors, b.processors)};
}

// Times below 0 stay: a last stage takes less than another one of as many layers, because after the attention
// of its last layer a prompt has one row left, that of its last token.
Part operator-(const Part& a, const Part& b) {
  const auto less = [](double x, double y) { return x - y; };
  return {each(a.seconds, b.seconds, less), a.bytes - std::min(a.bytes, b.bytes),
          each(a.processors, b.processors, less)};
}

Part operator*(const Part& part, uint32_t count) {
  const auto times = [&](double x, double) { return x * count; };
  return {each(part.seconds, no_seconds, times), part.bytes * count,
          each(part.processors, no_seconds, times)};
}

// What was measured is never quite the same twice.
Part not_below_zero(Part part) {
  part.seconds = larger(part.seconds, no_seconds);
  part.processors = larger(part.processors, no_seconds);
  return part;
}

struct StepCost {
  double seconds = 0;
  double processors = 0; // see DeviceCosts::Part
};

double usable_processors() {
#ifdef __linux__
  cpu_set_t usable; // taskset and batch systems give a process some of them
  if (sched_getaffinity(0, sizeof usable, &usable) == 0) return std::max(CPU_COUNT(&usable), 1);
#endif
  return std::max(std::thread::hardware_concurrency(), 1u);
}

// Of this process, on all processors together.
double processor_seconds() {
  return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
}

// The least of some steps of these rows: other programs only make them longer.
Result<StepCost> step_cost(Runner& runner, const std::vector<StepToken>& rows) {
  const auto tokens = static_cast<uint32_t>(rows.size());
  const auto outputs = static_cast<uint32_t>(std::ranges::count(rows, true, &StepToken::output));
  const std::vector<std::byte> nothing(runner.received_bytes(tokens));
  constexpr double never = std::numeric_limits<double>::infinity();
  StepCost least{never, never};
  double all = 0;
  for (int steps = 0; steps < least_steps || all < measured_seconds; ++steps) {
    const double before = processor_seconds();
    const auto start = std::chrono::steady_clock::now();
    PUMICE_CHECK(runner.write_step(rows));
    PUMICE_CHECK(runner.write_received({tokens, {tokens, outputs}}, {nothing}));
    PUMICE_TRY(const Completion done, runner.submit(tokens));
    PUMICE_CHECK(done.wait());
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    least.seconds = std::min(least.seconds, seconds);
    least.processors = std::min(least.processors, processor_seconds() - before);
    if (steps > 0) all += seconds; // the first step compiles kernels
  }
  const bool on_processors = runner.model().context().device->capabilities().is_cpu();
  least.processors = on_processors ? least.processors / usable_processors() : 0;
  return least;
}

// A token of each of so many sequences.
std::vector<StepToken> token_rows(uint32_t count, uint32_t position) {
  std::vector<StepToken> rows(count);
  for (uint32_t i = 0; i < count; ++i) {
    rows[i].position = position;
    rows[i].sequence = i;
    rows[i].output = true;
  }
  return rows;
}

// A chunk of a prompt from `position` on.
std::vector<StepToken> prompt_rows(uint32_t count, uint32_t position) {
  std::vector<StepToken> rows(count);
  for (uint32_t i = 0; i < count; ++i) rows[i].position = position + i;
  rows.back().output = true;
  return rows;
}

// One input as long as a chunk, or as long as it has to be.
std::vector<StepToken> encoder_rows(const EncoderShape& shape, uint32_t chunk) {
  uint32_t count = shape.of_one_length() ? shape.context : chunk;
  if (shape.kind == InputKind::samples) count = shape.frames(shape.input_values());
  std::vector<StepToken> rows(count);
  for (uint32_t i = 0; i < count; ++i) {
    rows[i].position = i;
    rows[i].end = count;
  }
  rows[0].output = true;
  if (shape.kind == InputKind::samples) rows[0].target = shape.input_values();
  return rows;
}

Result<uint64_t> planned_bytes(const Model& model, const StageUse& use) {
  PUMICE_TRY(std::vector<SessionRunners> sessions, use.sessions(model));
  uint64_t others = 0;
  for (size_t i = 1; i < sessions.size(); ++i) {
    PUMICE_TRY(const MemoryNeeds needs, memory_needs(model, stage_runners(model, std::move(sessions[i]))));
    others += needs.session();
  }
  PUMICE_TRY(const MemoryNeeds needs,
             memory_needs(model, stage_runners(model, std::move(sessions.at(0))), others));
  return needs.peak();
}

class StageMeasurement {
public:
  StageMeasurement(std::shared_ptr<const Model> model, const StageUse& use)
      : model_(std::move(model)), use_(use) {}

  Result<Part> run(DeviceCosts& costs) {
    PUMICE_TRY(part_.bytes, planned_bytes(*model_, use_));
    if (model_->shape().encoder) PUMICE_CHECK(create_encoder());
    if (model_->decodes()) PUMICE_CHECK(measure_decoder(costs));
    if (model_->shape().encoder) PUMICE_CHECK(measure_encoder(costs));
    return part_;
  }

private:
  // Its options say how much room the caches have for its inputs.
  Status create_encoder() {
    EncoderOptions options;
    options.cache = use_.size.cache;
    PUMICE_TRY(encoder_options_, Encoder::runner_options(*model_, std::move(options)));
    return {};
  }

  Status measure_decoder(DeviceCosts& costs) {
    RunnerOptions options;
    options.size = use_.size;
    options.size.chunk = std::max(use_.size.chunk, use_.size.sequences);
    options.size.input_positions = encoder_options_.size.input_positions;
    options.sampling = model_->last_stage();
    PUMICE_TRY(decoder_, Runner::create(model_, options));
    const EncoderShape* const encoder = model_->shape().encoder ? &*model_->shape().encoder : nullptr;
    for (uint32_t sequence = 0; encoder && sequence < options.size.sequences; ++sequence) {
      const auto read = static_cast<uint32_t>(encoder_rows(*encoder, input_chunk()).size());
      PUMICE_CHECK(decoder_->set_input(sequence, {0, read}));
    }
    StepSeconds &seconds = part_.seconds, &processors = part_.processors;
    // With an encoder, what is generated begins at once.
    const uint32_t prompt = std::min(encoder ? 0 : use_.prompt, decoder_->size().context - 1);
    const auto measure = [&](double StepSeconds::*kind, const std::vector<StepToken>& rows) {
      return put(kind, step_cost(*decoder_, rows));
    };
    PUMICE_CHECK(measure(&StepSeconds::decode, token_rows(1, prompt)));
    seconds.group = seconds.together = seconds.decode;
    processors.group = processors.together = processors.decode;
    if (use_.group_rows() > 1) {
      PUMICE_CHECK(measure(&StepSeconds::group, token_rows(use_.group_rows(), prompt)));
      seconds.together = seconds.group;
      processors.together = processors.group;
    }
    if (use_.groups > 1 && use_.size.sequences > 1) {
      PUMICE_CHECK(measure(&StepSeconds::together, token_rows(use_.size.sequences, prompt)));
    }
    costs.row_bytes = std::max(costs.row_bytes, decoder_->sent_bytes(1));
    if (encoder) return {};
    // All chunks together take as long as so many in the middle: attention reads more in each.
    costs.prefill_tokens = std::clamp(prompt, 1u, use_.size.chunk);
    const uint32_t middle = (std::max(prompt, costs.prefill_tokens) - costs.prefill_tokens) / 2;
    return measure(&StepSeconds::prefill, prompt_rows(costs.prefill_tokens, middle));
  }

  Status measure_encoder(DeviceCosts& costs) {
    if (decoder_) encoder_options_.caches = decoder_->shared_caches();
    PUMICE_TRY(const std::unique_ptr<Runner> runner, Runner::create(model_, encoder_options_));
    const std::vector<StepToken> rows = encoder_rows(*model_->shape().encoder, input_chunk());
    costs.prefill_tokens = static_cast<uint32_t>(rows.size());
    return put(&StepSeconds::prefill, step_cost(*runner, rows));
  }

  Status put(double StepSeconds::*kind, const Result<StepCost>& cost) {
    if (!cost.ok()) return cost.error();
    part_.seconds.*kind = cost->seconds;
    part_.processors.*kind = cost->processors;
    return {};
  }

  uint32_t input_chunk() const { return std::min(use_.size.chunk, encoder_options_.size.chunk); }

  const std::shared_ptr<const Model> model_;
  const StageUse& use_;
  RunnerOptions encoder_options_;
  std::unique_ptr<Runner> decoder_;
  Part part_;
};

// Measures stages of layers from `from` on, which are `count`.
Result<Side> measure_side(uint32_t from, uint32_t count,
                          const std::function<Result<Part>(Stage)>& measure_stage) {
  const auto measure = [&](uint32_t begin, uint32_t end) {
    return measure_stage({from + begin, from + end});
  };
  Side side;
  if (count == 0) return side;
  PUMICE_TRY(const Part first, measure(0, 1));
  if (count == 1) {
    side.layer = first;
    return side;
  }
  PUMICE_TRY(const Part last, measure(count - 1, count));
  if (count == 2) { // all ways to cut them
    PUMICE_TRY(const Part both, measure(0, 2));
    side.layer = both - last;
    side.whole = both - side.layer * 2;
    side.first = first - side.layer;
    side.last = last - side.layer;
    return side;
  }
  PUMICE_TRY(const Part one, measure(1, 2));
  // Without the embedding where that is possible.
  PUMICE_TRY(const Part two, count > 3 ? measure(1, 3) : measure(0, 2));
  side.layer = not_below_zero(two - (count > 3 ? one : first));
  side.stage = one - side.layer;
  side.first = first - side.layer;
  side.last = last - side.layer;
  side.whole = side.first + side.last - side.stage;
  return side;
}

// What is to be small.
double cost(const Part& part, const DeviceCosts& device, SplitGoal goal) {
  if (part.bytes > device.available) return std::numeric_limits<double>::infinity();
  switch (goal) {
  case SplitGoal::decode:
    return part.seconds.decode;
  case SplitGoal::sequences:
    return part.seconds.group;
  case SplitGoal::prefill:
    return part.seconds.prefill;
  case SplitGoal::memory:
    break;
  }
  return static_cast<double>(part.bytes) / static_cast<double>(device.available);
}

} // namespace

Part Side::of(const Stage& layers, uint32_t count) const {
  if (layers.empty()) return {};
  const Part& beside = layers.whole(count)  ? whole
                       : layers.begins()    ? first
                       : layers.ends(count) ? last
                                            : stage;
  const Part layer_costs = layer * (std::min(layers.end, count) - layers.first);
  Part part = beside + layer_costs;
  // The embedding and the head together take no less than one of them, whatever a busy machine has made of
  // what was measured.
  if (layers.whole(count)) {
    part.seconds = larger(part.seconds, larger((first + layer_costs).seconds, (last + layer_costs).seconds));
  }
  return not_below_zero(part);
}

Part DeviceCosts::of(const Stage& cut, const LayerCounts& layers) const {
  return encoder.of(cut.within(0, layers.encoder), layers.encoder) +
         decoder.of(cut.within(layers.encoder, layers.decoder), layers.decoder);
}

Result<DeviceCosts> measure_costs(const std::filesystem::path& path, const DeviceContext& context,
                                  const StageUse& use) {
  PUMICE_TRY(const ModelFile file, ModelFile::open(path));
  PUMICE_TRY(const std::unique_ptr<ModelDefinition> definition, open_model_definition(file));
  const ModelShape shape = definition->shape();
  PUMICE_CHECK(check_stages(file.path(), shape));
  DeviceCosts costs;
  costs.available = context.device->memory().available;
  const auto measure = [&](Stage stage) -> Result<Part> {
    LoadOptions options = use.load;
    options.stage = stage;
    PUMICE_TRY(std::shared_ptr<const Model> model, Model::load(path, context, {}, options));
    return StageMeasurement(std::move(model), use).run(costs);
  };
  PUMICE_TRY(costs.encoder, measure_side(0, shape.encoder_layers(), measure));
  PUMICE_TRY(costs.decoder,
             measure_side(shape.encoder_layers(), static_cast<uint32_t>(shape.layers.size()), measure));
  return costs;
}

Result<uint64_t> stage_bytes(const std::filesystem::path& path, const DeviceContext& context,
                             const StageUse& use, const Stage& stage) {
  PUMICE_TRY(ModelFile file, ModelFile::open(path));
  LoadOptions options = use.load;
  options.stage = stage;
  PUMICE_TRY(const std::shared_ptr<const Model> model, Model::plan(std::move(file), context, options));
  return planned_bytes(*model, use);
}

HopCosts hop_costs(double latency, double bytes_per_second, const DeviceCosts& device, const StageUse& use) {
  HopCosts hop{latency};
  hop.one_machine = false;
  if (bytes_per_second <= 0) return hop;
  const double row = static_cast<double>(device.row_bytes) / bytes_per_second;
  hop.busy = {row, row * use.group_rows(), row * use.size.sequences, row * device.prefill_tokens};
  return hop;
}

double SplitPlan::round_seconds(uint32_t groups) const {
  if (stages.size() == 1) return sequence.together;
  return std::max(sequence.group, groups * slowest.group);
}

double SplitPlan::prompt_seconds(double chunks) const {
  if (stages.size() == 1) return chunks * sequence.prefill;
  return sequence.prefill + std::max(chunks - 1, 0.0) * slowest.prefill;
}

// The last stage hands the tokens back to the first one, which is one more message without rows.
SplitPlan expected_of(std::span<const DeviceCosts> devices, std::span<const uint32_t> layers,
                      const LayerCounts& counts, const HopCosts& hop) {
  SplitPlan plan;
  plan.layers.assign(layers.begin(), layers.end());
  const bool alone = layers.size() == 1;
  const StepSeconds latency = {hop.latency, hop.latency, hop.latency, hop.latency};
  uint32_t first = 0;
  StepSeconds shared; // by all stages, which take the processors from each other
  for (size_t i = 0; i < layers.size(); ++i) {
    const Part part = devices[i].of({first, first + layers[i]}, counts);
    first += layers[i];
    plan.stages.push_back(part);
    plan.sequence = sum(plan.sequence, part.seconds);
    plan.slowest = larger(plan.slowest, part.seconds);
    if (hop.one_machine) shared = sum(shared, part.processors);
    if (alone) return plan;
    plan.sequence = sum(plan.sequence, latency);
    if (i + 1 < layers.size()) plan.sequence = sum(plan.sequence, hop.busy);
  }
  plan.slowest = larger(larger(plan.slowest, hop.busy), shared);
  return plan;
}

// best[n]: the least cost of the first n layers on the devices so far, and where the last of them begins.
Result<SplitPlan> plan_split(std::span<const DeviceCosts> devices, const LayerCounts& counts,
                             const HopCosts& hop, SplitGoal goal) {
  constexpr double never = std::numeric_limits<double>::infinity();
  const uint32_t layers = counts.all();
  std::vector<double> best(layers + 1, never);
  best[0] = 0;
  std::vector<std::vector<uint32_t>> begins;
  for (const DeviceCosts& device : devices) {
    std::vector<double> next(layers + 1, never);
    std::vector<uint32_t> begin(layers + 1);
    for (uint32_t first = 0; first < layers && counts.can_cut(first); ++first) {
      for (uint32_t end = first + 1; end <= layers && best[first] < never; ++end) {
        const double stage_cost = cost(device.of({first, end}, counts), device, goal);
        const double all =
            goal == SplitGoal::decode ? best[first] + stage_cost : std::max(best[first], stage_cost);
        if (all >= next[end]) continue;
        next[end] = all;
        begin[end] = first;
      }
    }
    best = std::move(next);
    begins.push_back(std::move(begin));
  }
  if (best[layers] == never) {
    return Error{
        Code::out_of_memory,
        fmt::format("{} layers fit {} devices' memory nowhere: use more devices, a shorter --context or "
                    "--weights",
                    layers, devices.size())};
  }
  std::vector<uint32_t> split(devices.size());
  uint32_t end = layers;
  for (size_t i = devices.size(); i-- > 0;) {
    split[i] = end - begins[i][end];
    end = begins[i][end];
  }
  return expected_of(devices, split, counts, hop);
}

} // namespace pumice
