#include <algorithm>

#include <fmt/format.h>

#include "doctor/kernel_check.h"
#include "doctor/memory_check.h"
#include "doctor/no_device.h"
#include "doctor/part_process.h"
#include "doctor/rates.h"
#include "gpu/known_drivers.h"
#include "options/subcommand.h"
#include "terminal/version.h"
#include "terminal/wrapping.h"
#include "tuning/check_record.h"
#include "tuning/short_check.h"

namespace pumice::command {

namespace {

using State = Verdict::State;

// Looks at everything in turn, and prints each verdict as it comes.
class Doctor {
public:
  explicit Doctor(DoctorOptions options) : options_(std::move(options)) {
    given_patience_ = options_.patience > 0;
    if (!given_patience_) options_.patience = usual_patience;
  }

  Status run() {
    PUMICE_TRY(const bool opens, try_to_open());
    if (opens) PUMICE_CHECK(look());
    finish();
    return {};
  }

private:
  Status look() {
    PUMICE_TRY(device_, open_device(options_.device));
    if (!given_patience_ && device_.capabilities().is_cpu()) options_.patience = cpu_patience;
    if (!options_.json) print_result(fmt::format("{} ({})\n", device_.name(), device_.driver()));
    check_driver();
    tell(check_memory(*device_.context.device));
    KernelFindings kernels;
    const Status tried = check_all_kernels(
        options_, device_, [this](Verdict verdict) { tell(std::move(verdict)); }, kernels);
    {
      const SavedWork saved; // what was found until Ctrl-C counts
      PUMICE_CHECK(keep(kernels, tried.ok()));
    }
    PUMICE_CHECK(tried);
    if (is_wanted(options_, "weights beyond")) PUMICE_CHECK(check_large());
    if (is_wanted(options_, "text")) PUMICE_CHECK(check_text());
    return is_wanted(options_, "speed") ? check_speed() : Status();
  }

  void tell(Verdict verdict) {
    if (!options_.json) print_result(line_of(verdict));
    verdicts_.push_back(std::move(verdict));
    if (options_.json) set_last_words([so_far = json(true)] { return json_text(so_far, 2); });
  }

  // A driver that crashes must not take this process with it.
  Result<bool> try_to_open() {
    PUMICE_TRY(const PartOutcome outcome, run_part(options_, "open"));
    if (outcome.trying.empty()) return true;
    if (outcome.refused) {
      std::optional<Verdict> none = no_device(options_.device);
      no_device_ = none.has_value();
      if (none) tell(*std::move(none));
      return !none; // opening it here says what else it is
    }
    tell({State::bad,
          "driver",
          "opening the device " + outcome.failure,
          {"Install another version of the driver, or choose another device with --device."}});
    return false;
  }

  void check_driver() {
    const std::vector<KnownDriver> faults = known_faults(device_.capabilities());
    if (faults.empty()) tell({State::good, "driver", "no known fault of this version"});
    for (const KnownDriver& each : faults) {
      Verdict verdict{
          each.update ? State::bad : State::noticed, "driver", each.text(), {}, {{"source", each.source}}};
      if (each.update) verdict.advice.push_back(fmt::format("Update the driver: {}.", each.update));
      tell(std::move(verdict));
    }
  }

  // Adds the findings to the blocklist of the device's file. What was put there before and is right now is
  // taken away, where all of it was tried.
  Status keep(const KernelFindings& kernels, bool complete) {
    std::set<std::string> allowed;
    Pipelines& before = *device_.context.pipelines;
    const bool thorough = complete && !options_.quick && options_.only.empty();
    for (const auto& [key, blocked] : stored_blocklist(before)) {
      const bool is_ours =
          blocked.reason.starts_with(doctor_reason) || blocked.reason.starts_with(short_check_reason);
      if (thorough && is_ours && kernels.good.contains(key)) allowed.insert(key);
    }
    if (thorough) forget_checks(before); // the next program that loads a model makes them again
    if (kernels.blocklist.empty() && allowed.empty()) return thorough ? device_.save_pipelines() : Status();
    store_choices(before, {}, kernels.blocklist, allowed);
    blocklist_ = kernels.blocklist;
    if (device_.cache.empty()) {
      advice_.push_back("Without a cache folder, programs do not learn which kernels are wrong: run 'pumice "
                        "doctor' without --no-cache.");
    }
    return device_.save_pipelines();
  }

  Status check_large() {
    if (options_.quick) {
      tell({State::skipped, "weights beyond 2 GiB", "--quick leaves them out"});
      return {};
    }
    PUMICE_TRY(const PartOutcome outcome, run_part(options_, "large"));
    for (const Json& end : outcome.ends) {
      if (end["end"] == "opening the device") continue;
      const std::string what = "weights " + end["end"].get<std::string>(), wrong = wrong_in(end);
      if (!end.value("runs", false)) {
        tell({State::skipped, what, "the device has too little free memory"});
      } else {
        tell({wrong.empty() ? State::good : State::bad, what,
              wrong.empty() ? "right" : fmt::format("{} ({})", wrong, end["kernel"].get<std::string>())});
      }
    }
    if (!outcome.trying.empty()) tell({State::bad, "weights " + outcome.trying, "it " + outcome.failure});
    return {};
  }

  Status check_text() {
    PUMICE_TRY(const PartOutcome outcome, run_part(options_, "model"));
    const Json *text = outcome.find("text"), *plain = outcome.find("text with the plain kernels");
    if (text && wrong_in(*text).empty()) {
      tell({State::good, "text", "a small model generates what it should"});
    } else if (text) {
      Verdict verdict{State::bad, "text", "a small model goes wrong: " + wrong_in(*text)};
      if (plain && wrong_in(*plain).empty())
        verdict.advice.push_back("With --kernel-variant portable it is right: use that until the driver is "
                                 "updated.");
      tell(std::move(verdict));
    }
    if (!outcome.trying.empty())
      tell({State::bad, "text", fmt::format("{}: it {}", outcome.trying, outcome.failure)});
    return {};
  }

  Status check_speed() {
    PUMICE_TRY(const PartOutcome outcome, run_part(options_, "speed"));
    if (const Json* speed = outcome.find("speed")) {
      tell(judge_rates(device_.capabilities().type, (*speed)["copy_bytes_per_second"],
                       (*speed)["flops_per_second"]));
    } else {
      tell({State::bad, "speed", "measuring it " + outcome.failure});
    }
    return {};
  }

  bool healthy() const {
    return std::ranges::none_of(verdicts_, [](const Verdict& each) { return each.state == State::bad; });
  }

  void finish() {
    for (const Verdict& each : verdicts_)
      advice_.insert(advice_.end(), each.advice.begin(), each.advice.end());
    if (!healthy() && !no_device_) {
      advice_.push_back("Update the graphics driver, and run 'pumice doctor' again.");
      advice_.push_back("If it is the newest one, report what 'pumice doctor --json' prints.");
    }
    if (!healthy()) set_exit_status(1);
    set_last_words({});
    if (options_.json) return print_json(json(false), 2);
    std::string text = healthy() ? "\nNothing is wrong.\n" : "\nSomething is wrong.\n";
    if (!advice_.empty()) text += healthy() ? "What could be better:\n" : "What to do:\n";
    for (const std::string& each : advice_) text += listed("- ", each);
    print_result(text);
  }

  Json json(bool partial) const {
    Json json;
    if (device_.context.device) {
      add_device(json, device_);
      const Capabilities& device = device_.capabilities();
      json["type"] = device.type_name();
      json["uuid"] = device.uuid_text();
      json["driver_id"] = static_cast<int>(device.driver_id);
      json["driver_build"] = device.driver_build;
      json["tiers"] = device.tiers();
      json["matrix_sizes"] = Json::array();
      for (const MatrixShape& matrix : device.matrix_sizes)
        json["matrix_sizes"].push_back({matrix.m, matrix.n, matrix.k});
    }
    json["version"] = version_number();
    json["quick"] = options_.quick;
    json["partial"] = partial;
    json["healthy"] = healthy();
    json["verdicts"] = Json::array();
    for (const Verdict& each : verdicts_) json["verdicts"].push_back(json_of(each));
    json["blocked"] = Json::object();
    for (const auto& [key, blocked] : blocklist_) json["blocked"][key] = blocked.reason;
    json["advice"] = advice_;
    return json;
  }

  DoctorOptions options_;
  bool given_patience_ = false;
  bool no_device_ = false; // Vulkan shows none that can be used
  OpenedDevice device_;
  std::vector<Verdict> verdicts_;
  Blocklist blocklist_; // what was added to it
  std::vector<std::string> advice_;
};

} // namespace

Subcommand add_doctor(CLI::App& app) {
  CLI::App* sub = app.add_subcommand("doctor", "Find out what is wrong with a device or its driver.");
  auto options = std::make_shared<DoctorOptions>();
  sub->add_flag("--quick", options->quick,
                "Try fewer shapes, and no weights beyond 2 GiB. Without it, every kernel is tried with each "
                "number of rows from 1 to 16")
      ->group("Check");
  sub->add_option("--only", options->only,
                  "Look only at what has TEXT in its name, such as 'matmul tiled', 'Q4_0' or 'text'")
      ->type_name("TEXT")
      ->group(more_of("Check"));
  sub->add_option(
         "--patience", options->patience,
         fmt::format("Give a kernel up after S seconds (default: {:.0f}, and {:.0f} on processors). It is "
                     "compiled in that time, too",
                     usual_patience, cpu_patience))
      ->type_name("S")
      ->check(within(1.0, 86400.0))
      ->group(more_of("Check"));
  sub->add_flag("--json", options->json, "Print one JSON object, to paste into a report")->group("Output");
  add_open_options(*sub, options->device);
  sub->footer("It tries each kernel variant that the device would use, in a process of its own, compares the "
              "results with the processor's, lets a small model generate a text, and measures the speed. "
              "Kernels that are wrong, crash or hang are not used by any program from then on. The exit "
              "status is 1 if something is wrong.\n\n" +
              example("pumice doctor --quick"));
  return {sub, [options] { return Doctor(*options).run(); }};
}

} // namespace pumice::command
