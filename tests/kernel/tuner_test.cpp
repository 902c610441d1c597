// The tuner with a family of planted variants: slow ones, a fast one and wrong ones.
#include "support/require.h"
#include "tuning/tuner.h"

#include <array>
#include <csignal>
#include <cstdlib>

#include <doctest/doctest.h>

#include "kernel/elementwise/elementwise.h"
#include "kernel/probe/probe.h"
#include "kernel/products/rows.h"
#include "kernel/variant.h"
#include "plan/weight_store.h"
#include "shaders/common/step.h"
#include "support/files/temporary_folder.h"
#include "support/vulkan/gpu.h"

#ifndef _WIN32
#include <sys/wait.h>
#include <unistd.h>
#endif

using namespace pumice;

namespace {

constexpr uint32_t rows = 40, columns = 512;

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
const Variant matrices = {"cm", "", always, [](Lowering& lowering, const ElementwiseArgs& args) {
                            return emit(lowering, args, 2, 2, 0);
                          }};
constexpr std::array matrix_family = {&matrices, &slow, &fast, &plain};
const Variant fast_form = {"fast-form",
                           "",
                           always,
                           [](Lowering& lowering, const ElementwiseArgs& args) {
                             return emit(lowering, args, 1, 2, 0); },
                           false,
                           false,
                           "fast"};
constexpr std::array form_family = {&fast, &fast_form, &slow, &plain};
constexpr std::array slow_family = {&slow, &plain};

// Prepares the input in a temporary, as products by matrices round theirs, `amount` times too large.
Status emit_prepared(Lowering& lowering, ElementwiseArgs args, float amount, int times) {
  const ActivationRef result = args.result;
  args.result = args.a;
  args.result.buffer = lowering.temporary(args.a.buffer.bytes);
  args.amount = amount;
  lowering.emit(elementwise(lowering.profile(), args));
  args.a = args.result;
  args.result = result;
  return emit(lowering, args, times, 2 / amount, 0);
}
const Variant prepared = {"prepared", "", always, [](Lowering& lowering, const ElementwiseArgs& args) {
                            return emit_prepared(lowering, args, 1, 1);
                          }};
const Variant prepared_plain = {"plain", "", always, [](Lowering& lowering, const ElementwiseArgs& args) {
                                  return emit_prepared(lowering, args, 4, 30);
                                }};
constexpr std::array prepared_family = {&prepared, &prepared_plain};

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

// The device of these tests with pipelines and tuning results of its own.
DeviceContext context_with_cache(const std::filesystem::path& folder) {
  DeviceContext context = TestGpu::get().context();
  context.pipelines = require(Pipelines::create(context.device, folder));
  context.profile = with_tuning_results(context.profile, *context.pipelines);
  return context;
}

// Doubles an input twice and keeps the result. `beside` reads the input, too, before that.
struct Bench {
  Graph graph;
  DeviceContext context;
  WeightStore weights{context.profile, context.device->capabilities()};
  Buffer step, input, output;

  explicit Bench(const Doubled& operation, DeviceContext own = TestGpu::get().context(),
                 const Doubled* beside = nullptr)
      : context(std::move(own)) {
    context.profile.cpu = false; // a CPU driver has nothing to choose
    TensorId x = graph.input("x", RowKind::tokens, columns);
    if (beside) graph.add(*beside, {x}, {}, {"beside", RowKind::tokens, columns});
    for (const char* name : {"twice", "four_times"}) {
      x = graph.add(operation, {x}, {}, {name, RowKind::tokens, columns});
    }
    graph.make_readable(x, "four_times");
    step = shared(16 * (STEP_HEADER_QUADS + 2 * rows));
    const uint64_t bytes = uint64_t{ActivationRef{.rows = rows}.padded_rows()} * columns * 4;
    input = shared(bytes);
    output = shared(bytes);
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
  CHECK(result.blocklist.at("planted wrong").reason.find("planted 40 x 512: ") == 0);
  CHECK_FALSE(result.blocklist.at("planted wrong").dangerous);
  CHECK(result.blocklist.contains("planted partial"));

  // Plans follow.
  const Plan plan = require(bench.plan(tuner.profile()));
  CHECK(plan.choices[1].chosen == "fast");
  CHECK(plan.dispatches.size() == 2);
  CHECK(plan_text(plan, std::vector<double>(2, 1e-6), true).find("fast") != std::string::npos);
}

namespace {

// Notes the pieces of work, and submits them.
struct NotedWork : DirectWork {
  using DirectWork::DirectWork;

  Result<double> run(std::span<const WorkPiece> given) override {
    pieces.push_back(given.size());
    for (const WorkPiece& piece : given) unknown += piece.seconds == 0;
    return DirectWork::run(given);
  }

  std::vector<size_t> pieces; // of each run
  size_t unknown = 0;         // pieces of which nothing is expected
};

} // namespace

TEST_CASE("variants that may take long on a slow device are first run a launch at a time") {
  Bench bench{Doubled()};
  bench.context.profile.speed = {200e3, 200e3};
  const Plan plan = require(bench.plan(bench.context.profile));
  const size_t parts = plan.dispatches.size() / 2; // of each choice
  REQUIRE(parts > 3);
  TuneOptions options;
  options.everything = true;
  options.seconds = 60;
  const auto work = std::make_shared<NotedWork>(bench.context.device);
  options.work = work;
  Tuner tuner(bench.context, options);
  bench.measure(tuner);
  REQUIRE(tuner.result().classes.size() == 1);
  CHECK(tuner.result().classes[0].winner == "fast");
  CHECK(work->unknown == 0);
  CHECK(std::ranges::count(work->pieces, parts) >= 1);
  CHECK(std::ranges::count(work->pieces, 1u) >= 1); // once it is known that they do not
}

// In a plan the second node takes what the first has prepared. Measured alone, it has to prepare it itself.
TEST_CASE("a variant is measured with what it prepares, also where another node has prepared the same") {
  Doubled operation, other;
  operation.variants = other.variants = prepared_family;
  other.shape_class = "planted 41 x 512";
  Bench bench{operation, TestGpu::get().context(), &other};
  DeviceProfile profile = bench.context.profile;
  profile.forced = "prepared";
  CHECK(require(bench.plan(profile)).dispatches.size() == 5); // of three nodes with two launches each
  profile.repeats = true;
  CHECK(require(bench.plan(profile)).dispatches.size() == 6);
  TuneOptions options;
  options.everything = true;
  options.seconds = 60;
  Tuner tuner(bench.context, options);
  bench.measure(tuner);
  CHECK(tuner.result().blocklist.empty());
  REQUIRE(tuner.result().classes.size() == 2);
  for (const TunedClass& tuned : tuner.result().classes) CHECK(tuned.winner == "prepared");
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

TEST_CASE("variants with matrices are tried last, and what was measured before can be saved then") {
  Doubled operation;
  operation.variants = matrix_family;
  Bench bench{operation};
  TuneOptions options;
  options.everything = true;
  options.seconds = 60;
  std::vector<std::string> tried;
  int open = 0, saved = 0;
  options.trying = [&](const Trial* trial) {
    open += trial ? 1 : -1;
    CHECK(open <= 1);
    if (trial) tried.push_back(trial->variant);
    if (trial) CHECK(trial->shape_class == "planted 40 x 512");
  };
  options.before_matrices = [&](const Tuning&) {
    CHECK(tried.empty());
    ++saved;
  };
  Tuner tuner(bench.context, options);
  bench.measure(tuner);
  CHECK(open == 0);
  CHECK(saved == 1);
  // The plain one gives what the others are compared with; then each is timed.
  REQUIRE(tried.size() == 9);
  CHECK(std::vector(tried.begin(), tried.begin() + 5) ==
        std::vector<std::string>{"plain", "slow", "fast", "plain", "cm"});
  REQUIRE(tuner.result().classes.size() == 1);
  CHECK(tuner.result().classes[0].variants[0].variant == "cm"); // in the family's order all the same
}

TEST_CASE("what is dangerous, and a form of it, is never tried, even where everything is") {
  Doubled operation;
  operation.variants = form_family;
  Bench bench{operation};
  bench.context.profile.blocklist =
      std::make_shared<const Blocklist>(Blocklist{{"planted fast", {"it crashed", true}}});
  TuneOptions options;
  options.everything = true;
  options.seconds = 60;
  options.trying = [](const Trial* trial) { CHECK((!trial || !trial->variant.starts_with("fast"))); };
  Tuner tuner(bench.context, options);
  bench.measure(tuner);
  REQUIRE(tuner.result().classes.size() == 1);
  CHECK(!tuner.result().classes[0].winner.starts_with("fast"));
  CHECK(tuner.result().blocklist.at("planted fast") == Blocked{"it crashed", true});
}

TEST_CASE("a variant that loses the device is blocked when the device is opened again") {
  const TemporaryFolder folder;
  const DeviceContext context = context_with_cache(folder.path());
  {
    Trials trials(context, {});
    const auto lose = [] { return Status(Error{Code::device_lost, "lost"}); };
    CHECK_FALSE(trials.run({"planted 40 x 512", "plain", true}, lose).ok());
    CHECK_FALSE(trials.run({"planted 40 x 512", "fast"}, lose).ok());
    CHECK(trials.run({"planted 40 x 512", "slow"}, [] { return Status(); }).ok());
  }
  const DeviceContext again = context_with_cache(folder.path());
  REQUIRE(again.profile.blocklist->size() == 1);
  CHECK(again.profile.blocklist->at("planted fast") ==
        Blocked{"planted 40 x 512: the device was lost while this kernel was tried", true});
}

#ifndef _WIN32
namespace {

constexpr const char* folder_variable = "PUMICE_TEST_CRASH_FOLDER";

// Runs one test case of this program in a process of its own. Returns the signal that ended it; 0: none.
int run_case(const char* name, const std::string& folder) {
  ::setenv(folder_variable, folder.c_str(), 1);
  const std::string filter = std::string("--test-case=") + name;
  const pid_t child = ::fork();
  if (child == 0) {
    ::execl("/proc/self/exe", "test", filter.c_str(), "--no-skip", "--no-breaks", nullptr);
    ::_exit(127);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

} // namespace

TEST_CASE("(child) a driver crashes with a variant" * doctest::skip()) {
  const char* folder = std::getenv(folder_variable);
  if (!folder) return;
  std::signal(SIGSEGV, SIG_DFL); // not doctest's handler
  Bench bench{Doubled(), context_with_cache(folder)};
  TuneOptions options;
  options.trying = [](const Trial* trial) {
    if (trial && trial->variant == "fast") std::raise(SIGSEGV);
  };
  Tuner tuner(bench.context, options);
  bench.measure(tuner);
}

TEST_CASE(
    "where the driver crashed with a variant, the next start goes on without it, and so does each after it") {
  const TemporaryFolder folder;
  CHECK(run_case("(child) a driver crashes with a variant", folder.path().string()) == SIGSEGV);
  {
    // Two processes may find the note.
    const DeviceContext context = context_with_cache(folder.path());
    CHECK(newly_blocked(*context_with_cache(folder.path()).pipelines).size() == 1);
    REQUIRE(context.profile.blocklist->size() == 1);
    CHECK(context.profile.blocklist->at("planted fast") ==
          Blocked{"planted 40 x 512: the process ended while this kernel was tried", true});
    const std::vector<std::string> said = newly_blocked(*context.pipelines);
    REQUIRE(said.size() == 1);
    CHECK(said[0].find("'planted fast' is not used: planted 40 x 512: the process ended") !=
          std::string::npos);
    Bench bench{Doubled(), context};
    Tuner tuner(bench.context, {});
    bench.measure(tuner);
    REQUIRE(tuner.result().classes.size() == 1);
    CHECK(tuner.result().classes[0].winner == "slow");
    REQUIRE(context.pipelines->save().ok());
  }
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 1); // no note is left
  const DeviceContext third = context_with_cache(folder.path());
  CHECK(third.profile.blocklist->contains("planted fast"));
  CHECK(newly_blocked(*third.pipelines).empty());
}
#endif

TEST_CASE("what another process has found meanwhile is not lost when this one saves") {
  const TemporaryFolder folder;
  const DeviceContext mine = context_with_cache(folder.path()), other = context_with_cache(folder.path());
  store_choices(*other.pipelines, {{"a", "fast"}}, {{"matmul cm", {"it crashed", true}}}, {});
  REQUIRE(other.pipelines->save().ok());
  store_choices(*mine.pipelines, {{"b", "slow"}}, {}, {});
  REQUIRE(mine.pipelines->save().ok());
  store_choices(*mine.pipelines, {}, {}, {"matmul cm"}); // what is taken away stays away
  REQUIRE(mine.pipelines->save().ok());
  const DeviceContext third = context_with_cache(folder.path());
  CHECK(*third.profile.choices == Choices{{"a", "fast"}, {"b", "slow"}});
  CHECK(third.profile.blocklist->empty());
}
