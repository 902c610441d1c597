#pragma once

#include <memory>
#include <span>
#include <vector>

#include "kernel/device_context.h"
#include "kernel/launcher.h"
#include "plan/plan.h"

namespace pumice {

// A graph of a few operations with memory of its own, to be run by itself in different plans. It has one
// input and one readable tensor, both with a row for each token.
class GraphRun {
public:
  // What the graph's operations keep between steps. All of it begins as NaNs.
  struct Kept {
    std::span<const CacheLayout> caches; // of the layers
    std::span<const StateLayout> states;
  };

  // A step has at most `rows` rows. `threads`: that pack the weights, including the calling one; 0: as many
  // as the host has cores.
  static Result<std::unique_ptr<GraphRun>> create(const DeviceContext& context, const Graph& graph,
                                                  const Kept& kept, uint32_t rows, size_t threads = 0);

  // A plan for steps of so many rows. The weights are uploaded with the first run, so all plans that need
  // different ones must be made before.
  Result<Plan> plan(const DeviceProfile& profile, uint32_t rows);

  // Runs a step of one sequence whose first row is at `position`. `input`: its rows, one after the other.
  // Returns the rows of the readable tensor. What a kernel must write or must not use is NaN before.
  Result<std::vector<float>> run(const Plan& plan, std::span<const float> input, uint32_t position);

private:
  GraphRun(const DeviceContext& context, const Graph& graph, size_t threads)
      : context_(context), graph_(graph), threads_(threads) {}
  Status make_kept(const Kept& kept);
  Status make_room(const Plan& plan);
  void write_step(uint32_t rows, uint32_t position);
  void write_input(const Plan& plan, std::span<const float> input);
  Status submit(const Plan& plan);
  std::vector<float> read(const Plan& plan) const;
  const Buffer& buffer(const BufferRef& ref) const;

  DeviceContext context_;
  const Graph& graph_;
  size_t threads_;
  std::unique_ptr<WeightStore> store_;
  PlanContext plan_context_;
  std::vector<Buffer> weights_;
  std::vector<Buffer> kept_; // each layer's keys, then its values; then states
  Buffer step_, inputs_, scratch_, outputs_;
};

} // namespace pumice
