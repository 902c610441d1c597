#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

#include <fmt/format.h>

#include "bench/measure.h"
#include "bench/timed_cases.h"
#include "kernel/attention/attention.h"
#include "kernel/launcher.h"
#include "kernel/matmul/linear.h"
#include "plan/plan.h"
#include "plan/upload.h"
#include "shaders/common/step.h"
#include "terminal/terminal.h"
#include "tuning/random_weight.h"

namespace pumice::command {

namespace {

constexpr uint32_t most_copies = 32;
constexpr uint32_t many_rows = 64;
constexpr double shortest_sample = 5e-3; // seconds: long enough that the cost of the submission is negligible

// The number of copies of an operation. Each copy has weights or a cache of its own, so that these come from
// memory, as in the layers of a model, and not from the processor's cache. With many rows the arithmetic
// dominates, so one copy is enough.
uint32_t copies_of(uint64_t bytes, uint32_t rows, bool cpu_device) {
  if (rows >= many_rows) return 1;
  const uint64_t total = uint64_t{cpu_device ? 32u : 128u} << 20;
  return static_cast<uint32_t>(std::clamp<uint64_t>(total / std::max<uint64_t>(bytes, 1), 1, most_copies));
}

// The graph of an operation and its copies, with its weights or caches.
struct Operands {
  std::vector<std::byte> weight;
  std::vector<TensorView> weights; // one for each copy, all with the bytes of `weight`
  std::vector<CacheRef> caches;    // one for each copy; keys and values have separate buffers
  uint32_t rows = 1, position = 0;
  uint32_t copies = 1;
  uint32_t columns = 0; // of the input
  Graph graph;
};

void add_product(const timed_cases::Product& c, bool cpu_device, Operands& operands) {
  constexpr uint32_t random_rows = 64; // the other rows are copies of these
  operands.rows = c.rows;
  operands.columns = c.k;
  const std::vector<std::byte> some = random_weight(c.type, std::min(c.n, random_rows), c.k, 1);
  operands.weight.resize(c.n * row_bytes(c.type, c.k));
  for (size_t at = 0; at < operands.weight.size(); at += some.size()) {
    std::copy_n(some.begin(), std::min(some.size(), operands.weight.size() - at),
                operands.weight.begin() + static_cast<ptrdiff_t>(at));
  }
  operands.copies = copies_of(operands.weight.size(), c.rows, cpu_device);
  operands.weights.resize(operands.copies);
  const TensorId x = operands.graph.input("x", RowKind::tokens, c.k);
  for (TensorView& view : operands.weights) {
    view = {"weight", c.type, {c.n, c.k}, operands.weight};
    linear(operands.graph, "result", x, operands.graph.weight(WeightView::whole(view), "attention"));
  }
}

void add_attention(const timed_cases::Attention& c, bool cpu_device, Operands& operands) {
  operands.rows = c.rows;
  operands.position = c.position;
  operands.columns = c.heads * c.head_dim;
  CacheLayout layout;
  layout.type = c.type;
  layout.capacity = (c.position + c.rows + 31) / 32 * 32;
  layout.kv_heads = c.kv_heads;
  layout.head_dim = c.head_dim;
  const uint64_t bytes = layout.layer_bytes();
  operands.copies = copies_of(2 * bytes, c.rows, cpu_device);
  const TensorId q = operands.graph.input("q", RowKind::tokens, operands.columns);
  for (uint32_t i = 0; i < operands.copies; ++i) {
    operands.caches.push_back({layout, {Space::cache, 2 * i, 0, bytes}, {Space::cache, 2 * i + 1, 0, bytes}});
    Attention operation;
    operation.layer = i;
    operation.heads = c.heads;
    operation.scale = 1 / std::sqrt(static_cast<float>(c.head_dim));
    attention(operands.graph, "result", q, operation);
  }
}

// Records the dispatches of a plan, each after a barrier, and runs them.
class OperationRun {
public:
  static Result<std::unique_ptr<OperationRun>> create(const DeviceContext& context,
                                                      const Operands& operands) {
    std::unique_ptr<OperationRun> run(new OperationRun(context, operands.copies));
    WeightStore store(context.profile, context.device->capabilities());
    PlanContext plan_context;
    plan_context.profile = context.profile;
    plan_context.device = context.device->capabilities();
    plan_context.weights = &store;
    plan_context.caches = operands.caches;
    plan_context.context = operands.caches.empty() ? operands.rows : operands.caches[0].layout.capacity;
    plan_context.step_layout.capacity = operands.rows;
    plan_context.step = {Space::step, 0, 0, plan_context.step_layout.bytes()};
    PUMICE_TRY(run->plan_, make_plan(operands.graph, plan_context, {operands.rows, operands.rows}));
    PUMICE_TRY(run->weights_, upload_weights(context.device, store, {}));
    PUMICE_CHECK(run->allocate(operands, plan_context.step_layout));
    PUMICE_CHECK(run->record(1));
    PUMICE_TRY(double seconds, run->submit()); // compiles
    PUMICE_TRY(seconds, run->submit());
    PUMICE_CHECK(run->record(static_cast<uint32_t>(std::clamp(shortest_sample / seconds, 1.0, 100.0))));
    return run;
  }

  // Arithmetic operations and bytes of one copy of the operation.
  double flops() const { return plan_.flops() / copies_; }
  double bytes() const { return plan_.bytes() / copies_; }
  Result<BenchRun> sample() {
    PUMICE_TRY(const double seconds, submit());
    BenchRun run;
    run.seconds = seconds / rounds_ / copies_;
    return run;
  }

private:
  OperationRun(const DeviceContext& context, uint32_t copies) : context_(context), copies_(copies) {}

  Status allocate(const Operands& operands, const StepLayout& layout) {
    const std::shared_ptr<Device>& device = context_.device;
    PUMICE_TRY(scratch_,
               Buffer::create(device, std::max<uint64_t>(plan_.scratch_bytes, 16), MemoryUse::device));
    PUMICE_TRY(step_, Buffer::create(device, layout.bytes(), MemoryUse::shared));
    PUMICE_TRY(inputs_, Buffer::create(device, plan_.input->where.buffer.bytes, MemoryUse::shared));
    write_step(operands);
    write_input();
    PUMICE_TRY(Commands commands, Commands::create(device));
    PUMICE_CHECK(commands.begin());
    for (const CacheRef& cache : operands.caches) {
      for (int i = 0; i < 2; ++i) { // keys and values
        PUMICE_TRY(Buffer buffer, Buffer::create(device, cache.keys.bytes, MemoryUse::device));
        commands.fill(buffer, 0, cache.keys.bytes, 0x2c2d2b2c); // about 0.06 as half floats, also as scales
        caches_.push_back(std::move(buffer));
      }
    }
    commands.barrier();
    PUMICE_CHECK(commands.end());
    return commands.run_and_wait();
  }

  void write_step(const Operands& operands) {
    std::memset(step_.mapped().data(), 0, step_.mapped().size());
    auto* quads = reinterpret_cast<uint32_t*>(step_.mapped().data());
    quads[0] = operands.rows;
    for (uint32_t row = 0; row < operands.rows; ++row) {
      quads[(STEP_HEADER_QUADS + row) * 4 + 1] = operands.position + row;
    }
  }

  void write_input() {
    const ActivationRef& where = plan_.input->where;
    std::mt19937 random(1);
    auto* values = reinterpret_cast<float*>(inputs_.mapped().data());
    std::memset(values, 0, inputs_.mapped().size());
    for (uint32_t row = 0; row < where.rows; ++row) {
      for (uint32_t i = 0; i < where.columns; ++i) values[row * where.stride + i] = random_value(random);
    }
  }

  const Buffer& buffer(const BufferRef& ref) const {
    switch (ref.space) {
    case Space::step:
      return step_;
    case Space::inputs:
      return inputs_;
    case Space::cache:
      return caches_[ref.allocation];
    case Space::weights:
      return weights_[ref.allocation];
    default:
      return scratch_;
    }
  }

  Status record(uint32_t rounds) {
    rounds_ = rounds;
    launcher_ = std::make_unique<Launcher>(context_.device, context_.pipelines);
    PUMICE_TRY(commands_, Commands::create(context_.device));
    PUMICE_CHECK(commands_.begin());
    for (uint32_t round = 0; round < rounds; ++round) {
      for (const PlannedDispatch& each : plan_.dispatches) {
        const bool part = each.dispatch.first_group != std::array<uint32_t, 3>{}; // of the launch before it
        if (!part) commands_.barrier();
        PUMICE_CHECK(launcher_->record(
            commands_, each.dispatch, [this](const BufferRef& ref) -> const Buffer& { return buffer(ref); }));
      }
    }
    commands_.barrier();
    return commands_.end();
  }

  Result<double> submit() {
    const Stopwatch watch;
    PUMICE_CHECK(commands_.run_and_wait());
    return watch.seconds();
  }

  DeviceContext context_;
  uint32_t copies_;
  uint32_t rounds_ = 1;
  Plan plan_;
  std::vector<Buffer> weights_, caches_;
  Buffer scratch_, step_, inputs_;
  std::unique_ptr<Launcher> launcher_; // must live as long as the commands that it recorded
  Commands commands_;
};

Status measure_operation(const BenchOptions& options, const DeviceContext& context, Measurement result,
                         const std::function<void(Operands&)>& fill, Sampler& sampler) {
  result.kind = "operation";
  result.test = fmt::format("{} {} {}", result.test, result.type, result.shape);
  if (result.test.find(options.only) == std::string::npos) return {};
  if (interrupted()) return interruption();
  Operands operands;
  fill(operands);
  PUMICE_TRY(const std::unique_ptr<OperationRun> run, OperationRun::create(context, operands));
  result.flops = run->flops();
  result.bytes = run->bytes();
  return sampler.add(std::move(result), [&] { return run->sample(); });
}

} // namespace

Status measure_operations(const BenchOptions& options, const DeviceContext& context, Sampler& sampler) {
  const bool cpu = context.device->capabilities().is_cpu();
  for (const timed_cases::Product& c : timed_cases::products()) {
    Measurement result;
    result.test = "product";
    result.type = info(c.type).name;
    result.shape = fmt::format("{} x {} x {}", c.rows, c.n, c.k);
    PUMICE_CHECK(measure_operation(
        options, context, std::move(result), [&](Operands& to) { add_product(c, cpu, to); }, sampler));
  }
  for (const timed_cases::Attention& c : timed_cases::attentions()) {
    Measurement result;
    result.test = "attention";
    result.type = to_string(c.type);
    result.shape =
        fmt::format("{} rows at {}, {}/{} heads of {}", c.rows, c.position, c.heads, c.kv_heads, c.head_dim);
    PUMICE_CHECK(measure_operation(
        options, context, std::move(result), [&](Operands& to) { add_attention(c, cpu, to); }, sampler));
  }
  return {};
}

} // namespace pumice::command
