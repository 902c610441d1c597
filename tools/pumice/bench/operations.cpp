#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <random>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "bench/measure.h"
#include "bench/timed_cases.h"
#include "kernel/attention/attention.h"
#include "kernel/launcher.h"
#include "kernel/matmul/linear.h"
#include "kernel/norm/norm.h"
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
  std::vector<std::byte> weight;   // empty where they are only planned
  std::vector<TensorView> weights; // one for each copy, all with the bytes of `weight`
  std::vector<CacheRef> caches;    // one for each copy; keys and values have separate buffers
  uint32_t rows = 1, position = 0;
  uint32_t copies = 1;
  uint32_t columns = 0; // of the input
  Graph graph;
};

std::vector<std::byte> product_weight(const timed_cases::Product& c) {
  constexpr uint32_t random_rows = 64; // the other rows are copies of these
  const std::vector<std::byte> some = random_weight(c.type, std::min(c.n, random_rows), c.k, 1);
  std::vector<std::byte> weight(c.n * row_bytes(c.type, c.k));
  for (size_t at = 0; at < weight.size(); at += some.size()) {
    std::copy_n(some.begin(), std::min(some.size(), weight.size() - at),
                weight.begin() + static_cast<ptrdiff_t>(at));
  }
  return weight;
}

void add_product(const timed_cases::Product& c, bool cpu_device, bool planned, Operands& operands) {
  operands.rows = c.rows;
  operands.columns = c.k;
  if (!planned) operands.weight = product_weight(c);
  operands.copies = copies_of(c.n * row_bytes(c.type, c.k), c.rows, cpu_device);
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
  const uint64_t bytes = layout.key_bytes();
  operands.copies = copies_of(layout.key_and_value_bytes(), c.rows, cpu_device);
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

void add_norm(const timed_cases::Norm& c, bool cpu_device, Operands& operands) {
  operands.rows = c.rows;
  operands.columns = c.columns;
  operands.weight = random_weight(TensorType::f32, 1, c.columns, 1);
  operands.copies = copies_of(operands.weight.size(), c.rows, cpu_device);
  operands.weights.resize(operands.copies);
  const TensorId x = operands.graph.input("x", RowKind::tokens, c.columns);
  for (TensorView& view : operands.weights) {
    view = {"weight", TensorType::f32, {c.columns}, operands.weight};
    const WeightId weight = operands.graph.weight(WeightView::whole(view), "norms");
    if (c.kind == NormKind::rms) {
      rms_norm(operands.graph, "result", x, weight, 1e-5f);
    } else {
      layer_norm(operands.graph, "result", x, weight, weight, 1e-5f);
    }
  }
}

PlanContext plan_context(const DeviceContext& context, const Operands& operands, WeightStore& store) {
  PlanContext plan;
  plan.profile = context.profile;
  plan.device = context.device->capabilities();
  plan.weights = &store;
  plan.caches = operands.caches;
  plan.context = operands.caches.empty() ? operands.rows : operands.caches[0].layout.capacity;
  plan.step_layout.capacity = operands.rows;
  plan.step = {Space::step, 0, 0, plan.step_layout.bytes()};
  return plan;
}

// The kernels that an operation launches, each once.
Result<std::vector<std::string>> kernels_of(const DeviceContext& context, const Operands& operands) {
  WeightStore store(context.profile, context.device->capabilities());
  PUMICE_TRY(const Plan plan, make_plan(operands.graph, plan_context(context, operands, store),
                                        {operands.rows, operands.rows}));
  std::vector<std::string> kernels;
  for (const PlannedDispatch& each : plan.dispatches) {
    if (std::ranges::count(kernels, each.dispatch.kernel) == 0) kernels.push_back(each.dispatch.kernel);
  }
  return kernels;
}

// Records the dispatches of a plan, each after a barrier, and runs them.
class OperationRun {
public:
  static Result<std::unique_ptr<OperationRun>> create(const DeviceContext& context,
                                                      const Operands& operands) {
    std::unique_ptr<OperationRun> run(new OperationRun(context, operands.copies));
    WeightStore store(context.profile, context.device->capabilities());
    const PlanContext planned = plan_context(context, operands, store);
    PUMICE_TRY(run->plan_, make_plan(operands.graph, planned, {operands.rows, operands.rows}));
    PUMICE_TRY(run->weights_, upload_weights(context.device, store, {}));
    PUMICE_CHECK(run->allocate(operands, planned.step_layout));
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
    PUMICE_TRY(step_, Buffer::create(device, layout.bytes_with_counters(), MemoryUse::shared));
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

// Names with the same beginning up to their last dot as one: "matmul.cpu8.*".
std::vector<std::string> shortened(const std::set<std::string>& names) {
  std::map<std::string, std::vector<std::string>> groups;
  for (const std::string& name : names) groups[name.substr(0, name.rfind('.'))].push_back(name);
  std::vector<std::string> all;
  for (const auto& [beginning, members] : groups) {
    all.push_back(members.size() > 1 ? beginning + ".*" : members[0]);
  }
  return all;
}

// Measures those operations that were asked for, and remembers how all are called.
class Operations {
public:
  Operations(const BenchOptions& options, const DeviceContext& context, Sampler& sampler)
      : options_(options), context_(context), sampler_(sampler) {}

  // `fill` makes the operands; with `planned` true, those that a plan needs.
  Status measure(Measurement result, const std::function<void(bool planned, Operands&)>& fill) {
    if (interrupted()) return interruption();
    operations_.insert(result.test);
    result.kind = "operation";
    result.test = fmt::format("{} {} {}", result.test, result.type, result.shape);
    Operands planned;
    fill(true, planned);
    PUMICE_TRY(result.kernels, kernels_of(context_, planned));
    kernels_.insert(result.kernels.begin(), result.kernels.end());
    if (!is_wanted(result)) return {};
    found_ = true;
    Operands operands;
    fill(false, operands);
    PUMICE_TRY(const std::unique_ptr<OperationRun> run, OperationRun::create(context_, operands));
    result.flops = run->flops();
    result.bytes = run->bytes();
    return sampler_.add(std::move(result), [&] { return run->sample(); });
  }

  // Whether there was one.
  Status finish() const {
    if (found_) return {};
    return Error{
        Code::invalid_argument,
        fmt::format("--only: no operation that is measured on this device has '{}' in its name, such "
                    "as 'product F16 8 x 768 x 768'. They are: {}. Their kernels are: {}",
                    options_.only, fmt::join(operations_, ", "), fmt::join(shortened(kernels_), ", "))};
  }

private:
  bool is_wanted(const Measurement& result) const {
    const auto named = [this](const std::string& name) {
      return name.find(options_.only) != std::string::npos;
    };
    return named(result.test) || std::ranges::any_of(result.kernels, named);
  }

  const BenchOptions& options_;
  const DeviceContext& context_;
  Sampler& sampler_;
  std::set<std::string> operations_, kernels_;
  bool found_ = false;
};

} // namespace

Status measure_operations(const BenchOptions& options, const DeviceContext& context, Sampler& sampler) {
  const bool cpu = context.device->capabilities().is_cpu();
  Operations operations(options, context, sampler);
  for (const timed_cases::Product& c : timed_cases::products()) {
    Measurement result;
    result.test = "product";
    result.type = info(c.type).name;
    result.shape = fmt::format("{} x {} x {}", c.rows, c.n, c.k);
    PUMICE_CHECK(operations.measure(std::move(result),
                                    [&](bool planned, Operands& to) { add_product(c, cpu, planned, to); }));
  }
  for (const timed_cases::Attention& c : timed_cases::attentions()) {
    Measurement result;
    result.test = "attention";
    result.type = to_string(c.type);
    result.shape =
        fmt::format("{} rows at {}, {}/{} heads of {}", c.rows, c.position, c.heads, c.kv_heads, c.head_dim);
    PUMICE_CHECK(
        operations.measure(std::move(result), [&](bool, Operands& to) { add_attention(c, cpu, to); }));
  }
  for (const timed_cases::Norm& c : timed_cases::norms()) {
    Measurement result;
    result.test = "norm";
    result.type = "F32";
    result.shape = fmt::format("{}, {} x {}", c.kind == NormKind::rms ? "rms" : "layer", c.rows, c.columns);
    PUMICE_CHECK(operations.measure(std::move(result), [&](bool, Operands& to) { add_norm(c, cpu, to); }));
  }
  return operations.finish();
}

} // namespace pumice::command
