#include "stage/split.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <numeric>

#include <fmt/format.h>

#include "step/memory_needs.h"

namespace pumice {

namespace {

constexpr uint32_t least_layers = 4;
constexpr double measured_seconds = 0.2; // for each kind of step
constexpr int least_steps = 5;

using Part = DeviceCosts::Part;

Part operator+(const Part& a, const Part& b) {
  return {{a.seconds.decode + b.seconds.decode, a.seconds.prefill + b.seconds.prefill}, a.bytes + b.bytes};
}

Part operator-(const Part& a, const Part& b) {
  return {{std::max(a.seconds.decode - b.seconds.decode, 0.0),
           std::max(a.seconds.prefill - b.seconds.prefill, 0.0)},
          a.bytes - std::min(a.bytes, b.bytes)};
}

Part operator*(const Part& part, uint32_t count) {
  return {{part.seconds.decode * count, part.seconds.prefill * count}, part.bytes * count};
}

// The median of some steps of the first `tokens` positions.
Result<double> step_seconds(Runner& runner, uint32_t tokens) {
  std::vector<StepToken> rows(tokens);
  for (uint32_t i = 0; i < tokens; ++i) rows[i].position = i;
  rows.back().output = true;
  const std::vector<std::byte> nothing(runner.received_bytes(tokens));
  std::vector<double> seconds;
  double sum = 0;
  while (static_cast<int>(seconds.size()) < least_steps + 1 || sum < measured_seconds) {
    const auto start = std::chrono::steady_clock::now();
    PUMICE_CHECK(runner.write_step(rows));
    PUMICE_CHECK(runner.write_received({tokens, {}}, nothing));
    PUMICE_TRY(const Completion done, runner.submit(tokens));
    PUMICE_CHECK(done.wait());
    seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    if (seconds.size() > 1) sum += seconds.back(); // the first step compiles kernels
  }
  seconds.erase(seconds.begin());
  std::ranges::nth_element(seconds, seconds.begin() + static_cast<ptrdiff_t>(seconds.size() / 2));
  return seconds[seconds.size() / 2];
}

Result<Part> measure_stage(const std::filesystem::path& path, const DeviceContext& context,
                           const SessionSize& size, LoadOptions options, const Stage& stage) {
  options.stage = stage;
  PUMICE_TRY(const std::shared_ptr<const Model> model, Model::load(path, context, {}, options));
  RunnerOptions runner_options;
  runner_options.size = size;
  runner_options.sampling = model->last_stage();
  PUMICE_TRY(const MemoryNeeds needs, memory_needs(*model, {runner_options}));
  PUMICE_TRY(const std::unique_ptr<Runner> runner, Runner::create(model, runner_options));
  Part part;
  part.bytes = needs.peak();
  PUMICE_TRY(part.seconds.decode, step_seconds(*runner, 1));
  PUMICE_TRY(part.seconds.prefill, step_seconds(*runner, runner->size().chunk));
  return part;
}

// What is to be small.
double cost(const Part& part, const DeviceCosts& device, SplitGoal goal) {
  if (part.bytes > device.available) return std::numeric_limits<double>::infinity();
  switch (goal) {
  case SplitGoal::decode:
    return part.seconds.decode;
  case SplitGoal::prefill:
    return part.seconds.prefill;
  case SplitGoal::memory:
    break;
  }
  return static_cast<double>(part.bytes) / static_cast<double>(device.available);
}

} // namespace

Part DeviceCosts::of(const Stage& cut, uint32_t layers) const {
  const uint32_t end = std::min(cut.end, layers);
  const Part& beside = cut.whole(layers) ? whole : cut.begins() ? first : cut.ends(layers) ? last : stage;
  return beside + layer * (end - cut.first);
}

Result<DeviceCosts> measure_costs(const std::filesystem::path& path, const DeviceContext& context,
                                  const SessionSize& size, const LoadOptions& options) {
  PUMICE_TRY(const ModelFile file, ModelFile::open(path));
  PUMICE_TRY(const std::unique_ptr<ModelDefinition> definition, open_model_definition(file));
  PUMICE_CHECK(check_stages(file.path(), definition->shape()));
  if (definition->shape().encoder) {
    return Error{
        Code::unsupported,
        fmt::format("{}: only stages of a decoder alone are measured, because the layers of an "
                    "encoder and a decoder differ: say how many layers each device gets with --split",
                    file.path())};
  }
  const auto layers = static_cast<uint32_t>(definition->shape().layers.size());
  if (layers < least_layers) {
    return Error{Code::unsupported,
                 fmt::format("{}: its {} layers are too few to measure stages: it needs {}", file.path(),
                             layers, least_layers)};
  }
  DeviceCosts costs;
  costs.available = context.device->memory().available;
  const auto measure = [&](uint32_t from, uint32_t end) {
    return measure_stage(path, context, size, options, {from, end});
  };
  PUMICE_TRY(const Part one, measure(1, 2));
  PUMICE_TRY(const Part two, measure(1, 3));
  PUMICE_TRY(const Part first, measure(0, 1));
  PUMICE_TRY(const Part last, measure(layers - 1, layers));
  costs.layer = two - one;
  costs.stage = one - costs.layer;
  costs.first = first - costs.layer;
  costs.last = last - costs.layer;
  costs.whole = costs.first + costs.last - costs.stage;
  return costs;
}

SplitPlan expected_of(std::span<const DeviceCosts> devices, std::span<const uint32_t> layers,
                      const StepSeconds& hop) {
  SplitPlan plan;
  plan.layers.assign(layers.begin(), layers.end());
  const uint32_t all = std::accumulate(layers.begin(), layers.end(), 0u);
  uint32_t first = 0;
  for (size_t i = 0; i < layers.size(); ++i) {
    const Part part = devices[i].of({first, first + layers[i]}, all);
    first += layers[i];
    plan.stages.push_back(part);
    const double way = layers.size() > 1 ? 1 : 0; // one hop for each stage, the tokens' way back among them
    plan.sequence.decode += part.seconds.decode + way * hop.decode;
    plan.sequence.prefill += part.seconds.prefill + way * hop.prefill;
    plan.slowest.decode = std::max(plan.slowest.decode, part.seconds.decode + way * hop.decode);
    plan.slowest.prefill = std::max(plan.slowest.prefill, part.seconds.prefill + way * hop.prefill);
  }
  return plan;
}

// best[n]: the least cost of the first n layers on the devices so far, and where the last of them begins.
Result<SplitPlan> plan_split(std::span<const DeviceCosts> devices, uint32_t layers, uint32_t last_cut,
                             const StepSeconds& hop, SplitGoal goal) {
  constexpr double never = std::numeric_limits<double>::infinity();
  std::vector<double> best(layers + 1, never);
  best[0] = 0;
  std::vector<std::vector<uint32_t>> begins;
  for (const DeviceCosts& device : devices) {
    std::vector<double> next(layers + 1, never);
    std::vector<uint32_t> begin(layers + 1);
    for (uint32_t first = 0; first < layers && first <= last_cut; ++first) {
      for (uint32_t end = first + 1; end <= layers && best[first] < never; ++end) {
        const double own = cost(device.of({first, end}, layers), device, goal);
        const double sum = goal == SplitGoal::decode ? best[first] + own : std::max(best[first], own);
        if (sum >= next[end]) continue;
        next[end] = sum;
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
  std::vector<uint32_t> counts(devices.size());
  uint32_t end = layers;
  for (size_t i = devices.size(); i-- > 0;) {
    counts[i] = end - begins[i][end];
    end = begins[i][end];
  }
  return expected_of(devices, counts, hop);
}

} // namespace pumice
