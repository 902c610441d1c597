#include "recording/failed_kernels.h"

#include <fmt/format.h>

namespace pumice {

bool leave_out(const FailedKernels& failed, const std::vector<Plan>& plans, DeviceContext& context) {
  const Blocklist before = context.profile.blocklist ? *context.profile.blocklist : Blocklist();
  Blocklist blocked;
  for (const Plan& plan : plans) {
    for (const PlannedDispatch& planned : plan.dispatches) {
      const auto found = failed.find(planned.dispatch.kernel);
      if (found == failed.end()) continue;
      const auto& [code, message, reasons] = found->second;
      const bool passes = code == Code::out_of_memory || code == Code::device_lost || code == Code::cancelled;
      if (passes || !planned.choice) return false;
      const VariantChoice& choice = plan.choices[*planned.choice];
      const std::string key = blocklist_key(choice.shape_class, choice.chosen);
      const bool needed = choice.chosen == choice.variants.back() || choice.chosen == context.profile.forced;
      if (needed || before.contains(key)) return false;
      blocked[key] = {fmt::format("{}: {}", choice.shape_class, message)};
    }
  }
  if (blocked.empty()) return false;
  store_choices(*context.pipelines, {}, blocked, {});
  blocked.insert(before.begin(), before.end());
  context.profile.blocklist = std::make_shared<const Blocklist>(std::move(blocked));
  return true;
}

} // namespace pumice
