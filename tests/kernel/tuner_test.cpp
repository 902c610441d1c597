// The tuner with a family of planted variants: slow ones, a fast one and wrong ones.
#include "tuning/tuner.h"

#include <array>

#include <doctest/doctest.h>

#include "kernel/elementwise/elementwise.h"
#include "kernel/rows.h"
#include "kernel/variant.h"
#include "plan/weight_store.h"
#include "shaders/common/step.h"
#include "support/gpu.h"

using namespace pumice;

namespace {

constexpr uint32_t rows = 40, columns = 512;

template <class T>
T require(Result<T> result) {
  if (!result.ok()) FAIL(result.error().text());
  return *std::move(result);
}

// Twice x, launched so many times over, or not quite.
Status emit(Lowering& lowering, ElementwiseArgs args, int times, float amount, uint32_t fewer_groups) {
  args.amount = amount;
  for (int i = 0; i < times; ++i) {
    Dispatch dispatch = elementwise(lowering.profile(), args);
    const size_t axis = dispatch.groups[0] > 1 ? 0 : 1;
    dispatch.groups[axis] -= fewer_groups;
    lowering.emit(std::move(dispatch));
  }
  return {};
}

bool always(const DeviceProfile&, const ElementwiseArgs&) {
  return true;
}
bool never(const DeviceProfile&, const ElementwiseArgs&) {
  return false;
}

using Variant = KernelVariant<ElementwiseArgs>;
const Variant wrong = {"wrong", "", always, [](Lowering& lowering, const ElementwiseArgs& args) {
                         return emit(lowering, args, 1, 2.1f, 0);
                       }};
const Variant partial = {"partial", "", always, [](Lowering& lowering, const ElementwiseArgs& args) {
                           return emit(lowering, args, 1, 2, 1);
                         }};
const Variant absent = {"absent", "", never, [](Lowering& lowering, const ElementwiseArgs& args) {
                          return emit(lowering, args, 1, 2, 0);
                        }};
const Variant slow = {"slow", "", always, [](Lowering& lowering, const ElementwiseArgs& args) {
                        return emit(lowering, args, 60, 2, 0);
                      }};
const Variant fast = {"fast", "", always, [](Lowering& lowering, const ElementwiseArgs& args) {
                        return emit(lowering, args, 1, 2, 0);
                      }};
const Variant plain = {"plain", "", always, [](Lowering& lowering, const ElementwiseArgs& args) {
                         return emit(lowering, args, 30, 2, 0);
                       }};
constexpr std::array family = {&wrong, &partial, &absent, &slow, &fast, &plain};
constexpr std::array slow_family = {&slow, &plain};

struct Doubled : Operation {
  std::span<const Variant* const> variants = family;
  const char* shape_class = "planted 40 x 512";

  std::string_view name() const override { return "doubled"; }
  Status lower(Lowering& lowering, const Node& node) const override {
    ElementwiseArgs args;
    args.kind = ElementwiseKind::scale;
    args.a = lowering.tensor(node.inputs[0]);
    args.result = lowering.tensor(node.output);
    args.step = lowering.step();
    return lower_variant(lowering, variants, args, shape_class);
  }
};

// Doubles an input twice and keeps the result.
struct Bench {
  Graph graph;
  DeviceContext context = TestGpu::get().context();
  WeightStore weights{context.profile, context.device->capabilities()};
  Buffer step, input, output;

  explicit Bench(const Doubled& operation) {
    TensorId x = graph.input("x", RowKind::tokens, columns);
    for (const char* name : {"twice", "four_times"}) {
      x = graph.add(operation, {x}, {}, {name, RowKind::tokens, columns});
    }
    graph.make_readable(x, "four_times");
    step = shared(16 * (STEP_HEADER_QUADS + 2 * rows));
    input = shared(uint64_t{rows} * columns * 4);
    output = shared(uint64_t{rows} * columns * 4);
    auto* header = reinterpret_cast<uint32_t*>(step.mapped().data());
    std::fill_n(header, step.size() / 4, 0);
    header[0] = rows;
    auto* values = reinterpret_cast<float*>(input.mapped().data());
    std::ranges::copy(random_values(size_t{rows} * columns, 3), values);
  }

  Buffer shared(uint64_t bytes) { return require(Buffer::create(context.device, bytes, MemoryUse::shared)); }

  Result<Plan> plan(const DeviceProfile& profile) {
    PlanContext planned;
    planned.profile = profile;
    planned.device = context.device->capabilities();
    planned.weights = &weights;
    planned.step_layout = {rows, 1, 0};
    planned.step = {Space::step, 0, 0, step.size()};
    return make_plan(graph, planned, Bucket{rows, 1});
  }

  void measure(Tuner& tuner) {
    const Status status =
        tuner.measure([&](const DeviceProfile& profile) { return plan(profile); },
                      [&](const BufferRef& ref) -> const Buffer& {
                        return ref.space == Space::step ? step : ref.space == Space::inputs ? input : output;
                      });
    if (!status.ok()) FAIL(status.error().text());
  }
};

} // namespace

TEST_CASE("the tuner chooses what is fast, and refuses and names what is wrong") {
  Bench bench{Doubled()};
  TuneOptions options;
  options.everything = true;
  options.seconds = 60;
  Tuner tuner(bench.context, options);
  bench.measure(tuner);
  const Tuning& result = tuner.result();
  CHECK(result.complete);
  REQUIRE(result.classes.size() == 1); // both nodes are of one class
  const TunedClass& tuned = result.classes[0];
  CHECK(tuned.winner == "fast");
  REQUIRE(tuned.variants.size() == 5); // one does not run here
  CHECK(tuned.variants[0].blocked.find("off by") != std::string::npos);
  CHECK(tuned.variants[1].blocked != "");
  for (size_t i : {2, 3, 4}) {
    CHECK(tuned.variants[i].blocked == "");
    CHECK(tuned.variants[i].seconds > 0);
    CHECK(tuned.variants[i].bytes > 0);
  }
  CHECK(result.choices == Choices{{"planted 40 x 512", "fast"}});
  CHECK(result.blocklist.size() == 2);
  CHECK(result.blocklist.at("planted wrong").find("planted 40 x 512: ") == 0);
  CHECK(result.blocklist.contains("planted partial"));

  // Plans follow.
  const Plan plan = require(bench.plan(tuner.profile()));
  CHECK(plan.choices[1].chosen == "fast");
  CHECK(plan.dispatches.size() == 2);
  CHECK(plan_text(plan, std::vector<double>(2, 1e-6), true).find("fast") != std::string::npos);
}

TEST_CASE("what is blocked is not used for other shapes either, and what is known is not measured again") {
  Bench bench{Doubled()};
  Tuner first(bench.context, {});
  bench.measure(first);
  REQUIRE(first.result().classes.size() == 1);
  CHECK(first.result().classes[0].variants.size() == 4); // without the plain one
  CHECK(first.result().classes[0].winner == "fast");

  Doubled other;
  other.shape_class = "planted 7 x 512";
  Bench second{other};
  const Plan plan = require(second.plan(first.profile()));
  CHECK(plan.choices[0].chosen == "slow"); // the first that runs and was not blocked

  bench.context.profile = first.profile();
  Tuner again(bench.context, {});
  bench.measure(again);
  CHECK(again.result().classes.empty());
  CHECK(again.result().choices == first.result().choices);
  CHECK(again.result().blocklist == first.result().blocklist);
}

TEST_CASE("without a choice nothing is measured, and when time is up nothing is begun") {
  Doubled operation;
  operation.variants = slow_family;
  Bench bench{operation};
  Tuner tuner(bench.context, {});
  bench.measure(tuner);
  CHECK(tuner.result().classes.empty()); // the plain variant is not a rival

  Bench many{Doubled()};
  TuneOptions no_time;
  no_time.seconds = 0;
  Tuner late(many.context, no_time);
  many.measure(late);
  CHECK(late.result().classes.empty());
  CHECK_FALSE(late.result().complete);
}
