#include "tuning/graph_run.h"

#include <algorithm>
#include <cstring>

#include "gpu/commands.h"
#include "plan/upload.h"
#include "recording/prepared_plan.h"
#include "shaders/common/step.h"

namespace pumice {

namespace {

constexpr uint32_t nan_bits = 0xffffffff;

} // namespace

Result<std::unique_ptr<GraphRun>> GraphRun::create(const DeviceContext& context, const Graph& graph,
                                                   const Kept& kept, uint32_t rows, size_t threads) {
  std::unique_ptr<GraphRun> run(new GraphRun(context, graph, threads));
  const Capabilities& device = context.device->capabilities();
  run->store_ = std::make_unique<WeightStore>(context.profile, device);
  PlanContext& plan = run->plan_context_;
  plan.device = device;
  plan.weights = run->store_.get();
  plan.context = kept.caches.empty() ? rows : kept.caches[0].capacity;
  plan.step_layout.capacity = rows;
  plan.step = {Space::step, 0, 0, plan.step_layout.bytes()};
  PUMICE_TRY(run->step_, Buffer::create(context.device, plan.step_layout.bytes_with_counters(),
                                        MemoryUse::shared, "step"));
  PUMICE_CHECK(run->make_kept(kept));
  return run;
}

Status GraphRun::make_kept(const Kept& kept) {
  if (kept.caches.empty() && kept.states.empty()) return {};
  PUMICE_TRY(Commands commands, Commands::create(context_.device));
  PUMICE_CHECK(commands.begin());
  const auto make = [&](uint64_t bytes) -> Result<BufferRef> {
    PUMICE_TRY(Buffer buffer, Buffer::create(context_.device, bytes, MemoryUse::device, "cache"));
    commands.fill(buffer, 0, bytes, nan_bits);
    kept_.push_back(std::move(buffer));
    return BufferRef{Space::cache, static_cast<uint32_t>(kept_.size() - 1), 0, bytes};
  };
  for (const CacheLayout& layout : kept.caches) {
    PUMICE_TRY(const BufferRef keys, make(layout.key_bytes()));
    BufferRef values = keys;
    if (!layout.values_are_keys) {
      PUMICE_TRY(values, make(layout.value_bytes()));
    }
    plan_context_.caches.push_back({layout, keys, values});
  }
  for (const StateLayout& layout : kept.states) {
    PUMICE_TRY(const BufferRef states, make(layout.bytes()));
    plan_context_.states.push_back({layout, states});
  }
  commands.barrier();
  PUMICE_CHECK(commands.end());
  return commands.run_and_wait();
}

Result<Plan> GraphRun::plan(const DeviceProfile& profile, uint32_t rows) {
  plan_context_.profile = profile;
  return make_plan(graph_, plan_context_, {rows, rows});
}

Result<std::vector<float>> GraphRun::run(const Plan& plan, std::span<const float> input, uint32_t position) {
  PUMICE_CHECK(make_room(plan));
  write_step(plan.bucket.tokens, position);
  write_input(plan, input);
  PUMICE_CHECK(submit(plan));
  return read(plan);
}

Status GraphRun::make_room(const Plan& plan) {
  if (weights_.empty() && store_->bytes() > 0) {
    PUMICE_TRY(weights_, upload_weights(context_.device, *store_, {}, threads_));
  }
  const auto grow = [&](Buffer& buffer, uint64_t bytes, MemoryUse use, const char* name) -> Status {
    bytes = std::max<uint64_t>(bytes, 16);
    if (buffer && buffer.size() >= bytes) return {};
    PUMICE_TRY(buffer, Buffer::create(context_.device, bytes, use, name));
    return {};
  };
  PUMICE_CHECK(grow(scratch_, plan.scratch_bytes, MemoryUse::device, "scratch"));
  PUMICE_CHECK(grow(inputs_, plan.input->where.buffer.bytes, MemoryUse::shared, "inputs"));
  return grow(outputs_, plan.output_bytes, MemoryUse::readback, "outputs");
}

void GraphRun::write_step(uint32_t rows, uint32_t position) {
  std::memset(step_.mapped().data(), 0, step_.size());
  auto* words = reinterpret_cast<uint32_t*>(step_.mapped().data());
  words[0] = rows;
  const uint32_t details = plan_context_.step_layout.details();
  for (uint32_t row = 0; row < rows; ++row) {
    words[(STEP_HEADER_QUADS + row) * 4 + 1] = position + row;
    words[(details + row) * 4 + 3] = position + rows; // the end of an encoder's input
  }
}

void GraphRun::write_input(const Plan& plan, std::span<const float> input) {
  const ActivationRef& where = plan.input->where;
  auto* values = reinterpret_cast<float*>(inputs_.mapped().data());
  std::fill_n(values, inputs_.size() / sizeof(float), 0.0f);
  for (size_t row = 0; row < where.rows; ++row) {
    std::copy_n(input.data() + row * where.columns, where.columns, values + row * where.stride);
  }
}

Status GraphRun::submit(const Plan& plan) {
  PUMICE_TRY(const PreparedPlan launches,
             PreparedPlan::create(context_, plan,
                                  [this](const BufferRef& ref) -> const Buffer& { return buffer(ref); }));
  PUMICE_TRY(Commands commands, Commands::create(context_.device));
  PUMICE_CHECK(commands.begin());
  commands.fill(scratch_, 0, scratch_.size() / 4 * 4, nan_bits);
  commands.fill(outputs_, 0, outputs_.size() / 4 * 4, nan_bits);
  commands.barrier();
  for (size_t i = 0; i < launches.size(); ++i) launches.record(commands, i);
  commands.host_barrier();
  PUMICE_CHECK(commands.end());
  return commands.run_and_wait();
}

std::vector<float> GraphRun::read(const Plan& plan) const {
  const ActivationRef& where = plan.readable[0].where;
  const auto* values = reinterpret_cast<const float*>(outputs_.mapped().data() + where.buffer.offset);
  std::vector<float> result;
  result.reserve(size_t{where.rows} * where.columns);
  for (size_t row = 0; row < where.rows; ++row) {
    result.insert(result.end(), values + row * where.stride, values + row * where.stride + where.columns);
  }
  return result;
}

const Buffer& GraphRun::buffer(const BufferRef& ref) const {
  switch (ref.space) {
  case Space::step:
    return step_;
  case Space::inputs:
    return inputs_;
  case Space::outputs:
    return outputs_;
  case Space::cache:
    return kept_[ref.allocation];
  case Space::weights:
    return weights_[ref.allocation];
  default:
    return scratch_;
  }
}

} // namespace pumice
