#include "plan/plan.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "base/align.h"
#include "graph/liveness.h"
#include "kernel/lowering.h"
#include "plan/division.h"
#include "plan/hazards.h"
#include "shaders/common/step.h"

namespace pumice {

namespace {

class Planner : public Lowering {
public:
  Planner(const Graph& graph, const PlanContext& context, Bucket bucket)
      : graph_(graph), context_(context),
        alignment_(std::max<uint64_t>(256, context.device.storage_offset_alignment)) {
    plan_.bucket = bucket;
    plan_.fused_operations = graph.fused_operations();
  }

  Result<Plan> run() {
    place_tensors();
    for (uint32_t i = 0; i < graph_.nodes().size(); ++i) {
      node_ = i;
      const Operation& operation = *graph_.nodes()[i].operation;
      const std::string details = operation.describe();
      plan_.operations.push_back(std::string(operation.name()) + (details.empty() ? "" : " ") + details);
      temporary_offset_ = tensor_bytes_;
      PUMICE_CHECK(operation.lower(*this, graph_.nodes()[i]));
      PUMICE_CHECK(status_);
    }
    plan_.tensor_bytes = tensor_bytes_;
    plan_.scratch_bytes = tensor_bytes_ + temporary_bytes_;
    return std::move(plan_);
  }

  const DeviceProfile& profile() const override { return context_.profile; }
  const Graph& graph() const override { return graph_; }

  ActivationRef tensor(TensorId id) const override {
    const Tensor& tensor = graph_.tensor(id);
    if (!tensor.view) return refs_[id];
    ActivationRef ref = refs_[tensor.view->base];
    const uint64_t skipped = uint64_t{tensor.view->first_column} * 4;
    ref.buffer = ref.buffer.at(skipped, ref.buffer.bytes - skipped);
    ref.columns = tensor.columns;
    return ref;
  }

  Result<PackedWeight> matrix(std::span<const WeightId> weights, bool alternating) override {
    return context_.weights->matrix(sources(weights), alternating);
  }
  Result<PackedWeight> expert_matrix(std::span<const WeightId> weights, bool alternating) override {
    return context_.weights->matrix(sources(weights), alternating, WeightRole::expert);
  }
  Result<BufferRef> vector(std::span<const WeightId> weights, bool alternating) override {
    return context_.weights->vector(sources(weights), alternating);
  }
  Result<BufferRef> constants(const std::string& key, std::span<const float> values) override {
    return context_.weights->constants(key, values);
  }
  CacheRef cache(uint32_t layer) override {
    plan_.caches.insert(layer);
    return context_.caches[layer];
  }
  StateRef state(uint32_t index) override {
    plan_.states.insert(index);
    return context_.states[index];
  }
  uint32_t context() const override { return context_.context; }
  BufferRef step() const override { return context_.step; }
  const StepLayout& step_layout() const override { return context_.step_layout; }
  BufferRef counters() override {
    return context_.step.at(context_.step_layout.counters_begin(), StepLayout::counters * sizeof(uint32_t));
  }
  BufferRef sampling() const override { return context_.sampling; }

  BufferRef temporary(uint64_t bytes) override {
    const BufferRef ref{Space::scratch, 0, temporary_offset_, bytes};
    temporary_offset_ = align(temporary_offset_ + bytes, alignment_);
    temporary_bytes_ = std::max(temporary_bytes_, temporary_offset_ - tensor_bytes_);
    return ref;
  }

  void emit(Dispatch dispatch) override {
    for (int axis = 0; axis < 3; ++axis) {
      if (dispatch.groups[axis] <= context_.device.max_workgroups[axis]) continue;
      status_ = Error{
          Code::unsupported,
          fmt::format("{}: {} needs {} workgroups along one axis, and this device allows {}: try a smaller "
                      "chunk or batch",
                      graph_.tensor(graph_.nodes()[node_].output).name, dispatch.kernel,
                      dispatch.groups[axis], context_.device.max_workgroups[axis])};
    }
    for (const Dispatch::Binding& binding : dispatch.bindings) {
      if (binding.buffer.bytes <= context_.device.max_storage_range_bytes) continue;
      status_ = Error{
          Code::unsupported,
          fmt::format("{}: {} needs {} bytes in one binding, and this device allows {}: try a smaller chunk, "
                      "batch or context",
                      graph_.tensor(graph_.nodes()[node_].output).name, dispatch.kernel, binding.buffer.bytes,
                      context_.device.max_storage_range_bytes)};
    }
    if (is_done(dispatch)) return;
    dispatch.label = graph_.tensor(graph_.nodes()[node_].output).name;
    bool barrier = hazards_.add(dispatch);
    const DeviceSpeed speed = speed_of(dispatch);
    for (Dispatch& part : divide(dispatch, speed)) {
      const double seconds = speed.seconds(part);
      plan_.dispatches.push_back({std::move(part), barrier, node_, choice_, seconds});
      barrier = false;
    }
  }

  void begin_choice(VariantChoice choice) override {
    choice_ = static_cast<uint32_t>(plan_.choices.size());
    plan_.choices.push_back(std::move(choice));
  }
  void end_choice() override { choice_.reset(); }

private:
  uint32_t rows(const Tensor& tensor) const {
    return tensor.rows == RowKind::tokens ? plan_.bucket.tokens : plan_.bucket.outputs;
  }

  // The device's speed, slowed down to what was measured of the class of shapes that the launch is of.
  DeviceSpeed speed_of(const Dispatch& dispatch) const {
    DeviceSpeed speed = profile().speed;
    const double usual = speed.seconds(dispatch);
    if (!choice_ || !(usual > 0)) return speed;
    const double measured = context_.costs.seconds(plan_.choices[*choice_].shape_class, dispatch).value_or(0);
    const double slower = std::max(1.0, measured / usual);
    speed.flops_per_second /= slower;
    speed.bytes_per_second /= slower;
    return speed;
  }

  // Whether the same launch was made before, and what it read and wrote is still as it left it: products of
  // one input round it alike, and their nodes' temporaries begin at the same place.
  bool is_done(const Dispatch& dispatch) {
    if (profile().repeats) return false;
    if (std::ranges::any_of(done_, [&](const Dispatch& each) { return same_launch(each, dispatch); }))
      return true;
    std::erase_if(done_, [&](const Dispatch& each) { return overwrites(dispatch, each); });
    const bool for_its_node = std::ranges::all_of(dispatch.bindings, [&](const Dispatch::Binding& binding) {
      const bool temporary = binding.buffer.space == Space::scratch && binding.buffer.offset >= tensor_bytes_;
      return binding.access == Access::read ? !temporary : binding.access == Access::write && temporary;
    });
    if (for_its_node && dispatch.addresses.empty()) done_.push_back(dispatch);
    return false;
  }

  void place_tensors() {
    const std::span<const Tensor> tensors = graph_.tensors();
    std::vector<uint64_t> bytes(tensors.size());
    refs_.resize(tensors.size());
    for (size_t i = 0; i < tensors.size(); ++i) {
      ActivationRef& ref = refs_[i];
      ref.rows = rows(tensors[i]);
      ref.rows_kind = tensors[i].rows == RowKind::tokens ? ROWS_TOKENS : ROWS_OUTPUTS;
      ref.columns = tensors[i].columns;
      ref.stride = ref.padded_columns();
      const uint64_t row_count = context_.profile.cpu8 ? ref.padded_rows() : ref.rows;
      bytes[i] = align(row_count * ref.stride * 4, alignment_);
    }
    const MemoryLayout layout = assign_memory(graph_, bytes, alignment_);
    tensor_bytes_ = layout.bytes;
    for (size_t i = 0; i < tensors.size(); ++i) {
      if (tensors[i].input) {
        refs_[i].buffer = {Space::inputs, 0, plan_.input_bytes, bytes[i]};
        plan_.input_bytes += bytes[i];
        plan_.input = {tensors[i].name, refs_[i]};
      } else if (tensors[i].received) {
        refs_[i].buffer = {Space::inputs, 0, plan_.input_bytes, bytes[i]};
        plan_.input_bytes += bytes[i];
        plan_.received.push_back({tensors[i].name, refs_[i]});
      } else if (tensors[i].readable && !tensors[i].view) {
        refs_[i].buffer = {Space::outputs, 0, plan_.output_bytes, bytes[i]};
        plan_.output_bytes += bytes[i];
        plan_.readable.push_back({tensors[i].name, refs_[i]});
      } else if (layout.offsets[i] != MemoryLayout::nowhere) {
        refs_[i].buffer = {Space::scratch, 0, layout.offsets[i], bytes[i]};
      }
      if (tensors[i].sent) plan_.sent.push_back({tensors[i].name, refs_[i]});
    }
  }

  std::vector<WeightView> sources(std::span<const WeightId> weights) const {
    std::vector<WeightView> result;
    for (WeightId id : weights) result.push_back(graph_.weight(id).view);
    return result;
  }

  const Graph& graph_;
  const PlanContext& context_;
  const uint64_t alignment_;
  Plan plan_;
  std::vector<ActivationRef> refs_;
  HazardTracker hazards_;
  std::vector<Dispatch> done_; // see is_done()
  Status status_;
  uint32_t node_ = 0;
  std::optional<uint32_t> choice_;
  uint64_t tensor_bytes_ = 0;
  uint64_t temporary_offset_ = 0;
  uint64_t temporary_bytes_ = 0;
};

} // namespace

Result<Plan> make_plan(const Graph& graph, const PlanContext& context, Bucket bucket) {
  return Planner(graph, context, bucket).run();
}

double Plan::flops() const {
  double sum = 0;
  for (const PlannedDispatch& planned : dispatches) sum += planned.dispatch.flops;
  return sum;
}

double Plan::bytes() const {
  double sum = 0;
  for (const PlannedDispatch& planned : dispatches) sum += planned.dispatch.bytes;
  return sum;
}

std::vector<double> estimate_seconds(const Plan& plan, const Ceilings& ceilings) {
  std::vector<double> seconds;
  for (const PlannedDispatch& planned : plan.dispatches) {
    seconds.push_back(std::max(planned.dispatch.flops / ceilings.flops_per_second,
                               planned.dispatch.bytes / ceilings.copy_bytes_per_second));
  }
  return seconds;
}

std::string plan_text(const Plan& plan, std::span<const double> seconds, bool measured) {
  std::string text = fmt::format(
      "{} dispatches for {} tokens, {} outputs: {:.3f} GFLOP, {:.3f} MB moved, scratch {:.2f} MB; {} "
      "operations, {} more of the model's fused into them; {} {:.3f} ms{}\n",
      plan.dispatches.size(), plan.bucket.tokens, plan.bucket.outputs, plan.flops() / 1e9, plan.bytes() / 1e6,
      static_cast<double>(plan.scratch_bytes) / 1e6, plan.operations.size(), plan.fused_operations,
      measured ? "measured" : "at best", std::accumulate(seconds.begin(), seconds.end(), 0.0) * 1e3,
      measured ? ", each dispatch waited for" : "");
  for (size_t i = 0; i < plan.dispatches.size(); ++i) {
    const PlannedDispatch& planned = plan.dispatches[i];
    const Dispatch& dispatch = planned.dispatch;
    text += fmt::format(
        "{:4} {} {:<24} {:<28} {:>5}x{:<5}x{:<3} {:10.3f} MFLOP {:9.3f} MB {:10.1f} µs  {:<9} {}\n", i,
        planned.barrier ? "|" : " ", dispatch.kernel, dispatch.label, dispatch.groups[0], dispatch.groups[1],
        dispatch.groups[2], dispatch.flops / 1e6, dispatch.bytes / 1e6, seconds[i] * 1e6,
        planned.choice ? plan.choices[*planned.choice].chosen : "-", plan.operations[planned.node]);
  }
  return text;
}

} // namespace pumice
