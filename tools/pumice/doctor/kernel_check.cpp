#include "doctor/kernel_check.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "doctor/part_process.h"
#include "terminal/counted.h"
#include "tuning/check_kernels.h"

namespace pumice::command {

namespace {

constexpr size_t most_crashes = 3; // of a variant, after which its other cases are not tried

struct Variant {
  std::string family, name; // no name: the family has one kernel alone
  bool plain = false;

  std::string text() const { return name.empty() ? family : family + " " + name; }
};

// Those that run at least one of the wanted cases, in the families' order.
Result<std::vector<Variant>> variants_of(const DeviceContext& context, const DoctorOptions& options,
                                         std::span<const KernelCaseName> cases) {
  std::set<std::pair<std::string, std::string>> running, plain;
  std::vector<VariantSummary> all = kernel_variants();
  all.push_back({"norm", "", ""});
  for (const KernelCaseName& each : cases) {
    const auto wanted = [&](const VariantSummary& variant) {
      return variant.family == each.family && is_wanted_case(options, each, std::string(variant.name));
    };
    if (std::ranges::none_of(all, wanted)) continue;
    if (interrupted()) return interruption();
    PUMICE_TRY(const std::vector<std::string> names, variants_for(context, each));
    for (const std::string& name : names) {
      if (is_wanted_case(options, each, name)) running.emplace(each.family, name);
    }
    if (!names.empty()) plain.emplace(each.family, names.back());
  }
  std::vector<Variant> variants;
  for (const VariantSummary& each : all) {
    const std::pair key(std::string(each.family), std::string(each.name));
    if (running.contains(key)) variants.push_back({key.first, key.second, plain.contains(key)});
  }
  return variants;
}

// All that was seen of a variant.
struct Seen {
  size_t cases = 0;
  std::vector<std::string> wrong; // "CASE: what is wrong"
  std::set<std::string> kernels;  // that were wrong
  bool crashed = false;

  void add(const Json& end) {
    if (!end.value("runs", false)) return;
    ++cases;
    const std::string text = wrong_in(end);
    if (text.empty()) return;
    wrong.push_back(fmt::format("{}: {}", end["end"].get<std::string>(), text));
    kernels.insert(end["kernel"].get<std::string>());
  }
};

// Goes on after a case in which the process crashed or hung. `seen`: also what was seen before an error.
// `progress`: is told how many of the variant's cases are done.
Status try_variant(const DoctorOptions& options, const Variant& variant,
                   std::span<const KernelCaseName> cases, Seen& seen, const Progress& progress) {
  const auto all = static_cast<uint64_t>(std::ranges::count_if(cases, [&](const KernelCaseName& each) {
    return each.family == variant.family && is_wanted_case(options, each, variant.name);
  }));
  uint64_t done = 0;
  const auto on_end = [&](const Json& end) {
    seen.add(end);
    (void)progress(std::min(++done, all), all);
  };
  size_t from = 0;
  for (size_t crashes = 0; crashes < most_crashes; ++crashes) {
    PUMICE_TRY(const PartOutcome outcome,
               run_part(options, fmt::format("kernels {} {}", variant.family, variant.name), from, on_end));
    if (outcome.trying.empty()) return {};
    seen.crashed = true;
    ++seen.cases;
    seen.wrong.push_back(fmt::format("{}: it {}", outcome.trying, outcome.failure));
    const auto at = std::ranges::find_if(cases, [&](const KernelCaseName& each) {
      return each.family == variant.family && each.name == outcome.trying;
    });
    if (at == cases.end()) return {};
    from = static_cast<size_t>(at - cases.begin()) + 1;
  }
  return {};
}

Verdict verdict_of(const Variant& variant, const Seen& seen) {
  Verdict verdict{Verdict::State::good, variant.text(), fmt::format("{} right", counted(seen.cases, "case"))};
  if (seen.wrong.empty()) return verdict;
  verdict.state = Verdict::State::bad;
  verdict.text =
      fmt::format("{} of {} wrong: {}", seen.wrong.size(), counted(seen.cases, "case"), seen.wrong[0]);
  if (!seen.kernels.empty())
    verdict.text +=
        fmt::format(" (kernel{} {})", seen.kernels.size() == 1 ? "" : "s", fmt::join(seen.kernels, ", "));
  verdict.details = {{"wrong", seen.wrong}, {"kernels", seen.kernels}};
  verdict.advice.push_back(
      variant.plain ? fmt::format("The kernel '{}' has no replacement: use another device (--device) or "
                                  "another driver.",
                                  variant.text())
                    : fmt::format("Programs use another {} kernel instead of '{}' from now on.",
                                  variant.family, variant.name));
  return verdict;
}

} // namespace

std::string wrong_in(const Json& end) {
  return end.value("wrong", std::string());
}

Status check_all_kernels(const DoctorOptions& options, const OpenedDevice& device,
                         const std::function<void(Verdict)>& tell, KernelFindings& findings) {
  const std::vector<KernelCaseName> cases = cases_of(options);
  PUMICE_TRY(const std::vector<Variant> variants, variants_of(device.context, options, cases));
  ProgressBar bar("trying kernels");
  for (size_t i = 0; i < variants.size(); ++i) {
    const Variant& variant = variants[i];
    if (!bar.update(i, variants.size())) return interruption();
    Seen seen;
    constexpr uint64_t parts = 1000; // of a variant
    const Status tried = try_variant(options, variant, cases, seen, [&](uint64_t done, uint64_t all) {
      return bar.update(i * parts + done * parts / std::max<uint64_t>(all, 1), variants.size() * parts);
    });
    const std::string key = blocklist_key(variant.family, variant.name);
    if (seen.wrong.empty() && tried.ok()) {
      findings.good.insert(key);
    } else if (!seen.wrong.empty() && !variant.plain) {
      findings.blocklist[key] = {doctor_reason + seen.wrong[0], seen.crashed};
    }
    bar.erase();
    if (!tried.ok() && !seen.wrong.empty()) tell(verdict_of(variant, seen));
    PUMICE_CHECK(tried);
    tell(verdict_of(variant, seen));
  }
  return {};
}

} // namespace pumice::command
