#include "tuning/check_kernels.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "tuning/graph_run.h"
#include "tuning/variant_bench.h"

namespace pumice {

namespace {

const VariantChoice* choice_of(const Plan& plan, const std::string& family) {
  const auto at = std::ranges::find_if(plan.choices, [&](const VariantChoice& choice) {
    return choice.shape_class.starts_with(family + " ");
  });
  return at == plan.choices.end() ? nullptr : &*at;
}

// A case on the device.
class CaseRun {
public:
  static Result<std::unique_ptr<CaseRun>> create(const DeviceContext& context, const KernelCaseName& name,
                                                 size_t threads, std::function<bool()> go_on = {}) {
    std::unique_ptr<CaseRun> run(new CaseRun(context, name.family, name.make()));
    run->go_on_ = std::move(go_on);
    const uint32_t most = std::max(run->case_->past, run->case_->rows);
    PUMICE_TRY(run->graph_run_, GraphRun::create(context, run->case_->graph,
                                                 {run->case_->caches, run->case_->states}, most, threads));
    return run;
  }

  // The plans of a variant, of the step before and of the step itself.
  struct Plans {
    std::optional<Plan> past;
    Plan step;
  };
  Result<Plans> plans(const std::string& variant) {
    DeviceProfile profile = context_.profile;
    if (!variant.empty()) profile.forced = variant;
    Plans plans;
    if (case_->past > 0) {
      PUMICE_TRY(plans.past, graph_run_->plan(profile, case_->past));
    }
    PUMICE_TRY(plans.step, graph_run_->plan(profile, case_->rows));
    return plans;
  }
  const VariantChoice* choice(const Plans& plans) const { return choice_of(plans.step, family_); }

  // Whether the family has no variants to choose from.
  bool is_alone() const {
    const std::vector<VariantSummary> all = kernel_variants();
    return std::ranges::find(all, family_, &VariantSummary::family) == all.end();
  }

  // The kernel that finishes the family's part.
  std::string kernel(const Plans& plans) const {
    std::string name;
    if (is_alone()) return plans.step.dispatches.back().dispatch.kernel;
    for (const PlannedDispatch& planned : plans.step.dispatches) {
      if (planned.choice && plans.step.choices[*planned.choice].shape_class.starts_with(family_ + " "))
        name = planned.dispatch.kernel;
    }
    return name;
  }

  // What is wrong with the results; empty if they are right.
  Result<std::string> check(const Plans& plans, uint32_t repeats) {
    PUMICE_TRY(const std::vector<float> first, results(plans));
    const bool rounded = std::ranges::any_of(plans.step.dispatches, [](const PlannedDispatch& planned) {
      return rounds(planned.dispatch.kernel);
    });
    const double allowed = rounded ? case_->allowed_rounded : case_->allowed;
    std::string wrong = difference(case_->expected(), first, allowed, "the processor's");
    for (uint32_t i = 1; i < repeats && wrong.empty(); ++i) {
      PUMICE_TRY(const std::vector<float> again, results(plans));
      size_t others = 0;
      for (size_t at = 0; at < first.size(); ++at)
        others += std::memcmp(&first[at], &again[at], sizeof(float)) != 0;
      if (others > 0)
        wrong = fmt::format("{} of its {} results are others when it runs again", others, first.size());
    }
    return wrong;
  }

private:
  CaseRun(const DeviceContext& context, std::string family, std::unique_ptr<KernelCase> made)
      : context_(context), family_(std::move(family)), case_(std::move(made)) {}

  Result<std::vector<float>> results(const Plans& plans) {
    const std::span<const float> input(case_->input);
    const size_t columns = input.size() / (case_->past + case_->rows), before = case_->past * columns;
    if (plans.past) PUMICE_CHECK(run(*plans.past, input.first(before), 0));
    return run(plans.step, input.subspan(before), case_->past);
  }

  Result<std::vector<float>> run(const Plan& plan, std::span<const float> input, uint32_t position) {
    if (go_on_ && !go_on_()) return Error{Code::cancelled, "checking kernels was cancelled"};
    return graph_run_->run(plan, input, position);
  }

  DeviceContext context_;
  std::string family_;
  std::unique_ptr<KernelCase> case_;
  std::unique_ptr<GraphRun> graph_run_;
  std::function<bool()> go_on_;
};

// A kernel that cannot be made is a finding; other errors are none of the kernel's.
bool is_finding(const Error& error) {
  return error.code != Code::device_lost && error.code != Code::out_of_memory &&
         error.code != Code::cancelled;
}

} // namespace

Result<std::vector<std::string>> variants_for(const DeviceContext& context, const KernelCaseName& name) {
  PUMICE_TRY(const std::unique_ptr<CaseRun> run, CaseRun::create(context, name, 0));
  if (run->is_alone()) return std::vector<std::string>{""};
  PUMICE_TRY(const CaseRun::Plans plans, run->plans(""));
  const VariantChoice* choice = run->choice(plans);
  return choice ? choice->variants : std::vector<std::string>();
}

Result<std::optional<CaseResult>> check_kernels(const DeviceContext& context, const KernelCaseName& name,
                                                const std::string& variant, uint32_t repeats, size_t threads,
                                                const std::function<bool()>& go_on) {
  PUMICE_TRY(const std::unique_ptr<CaseRun> run, CaseRun::create(context, name, threads, go_on));
  PUMICE_TRY(const CaseRun::Plans plans, run->plans(variant));
  const VariantChoice* choice = run->choice(plans);
  const bool runs = choice ? variant.empty() || choice->chosen == variant : run->is_alone();
  if (!runs) return std::optional<CaseResult>();
  const std::string plain_variant = choice ? choice->variants.back() : variant;
  PUMICE_TRY(const CaseRun::Plans plain, run->plans(plain_variant));
  CaseResult result{run->kernel(plans), {}, false};
  const Result<std::string> wrong = run->check(plans, repeats);
  if (!wrong.ok() && !is_finding(wrong.error())) return wrong.error();
  result.failed = !wrong.ok();
  result.wrong = result.failed ? wrong.error().message : *wrong;
  if (result.wrong.empty() || !choice || choice->chosen == plain_variant) return std::optional(result);
  const Result<std::string> plain_wrong = run->check(plain, 1);
  if (!plain_wrong.ok() && plain_wrong.error().code == Code::cancelled) return plain_wrong.error();
  if (plain_wrong.ok())
    result.wrong += plain_wrong->empty() ? "; those of the plain kernel are right"
                                         : "; those of the plain kernel are wrong too";
  return std::optional(result);
}

} // namespace pumice
