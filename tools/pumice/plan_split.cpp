#include <fmt/format.h>
#include <fmt/ranges.h>

#include "counted.h"
#include "json_output.h"
#include "open_device.h"
#include "stage/split.h"
#include "subcommand.h"

namespace pumice::command {

namespace {

struct PlanSplitOptions {
  std::string model;
  std::string prefer = "decode";
  bool json = false;
  DeviceOptions device;
  SizeOptions size;
};

constexpr StepSeconds local_hop = {50e-6, 50e-6}; // between two devices of a process, beside the copy

SplitGoal goal_of(const std::string& name) {
  return name == "prefill" ? SplitGoal::prefill : name == "memory" ? SplitGoal::memory : SplitGoal::decode;
}

double per_second(double tokens, double seconds) {
  return seconds > 0 ? tokens / seconds : 0;
}

// What is printed of one way to run the model.
struct Outlook {
  std::string name;
  SplitPlan plan;
  bool fits = true;
};

Json to_json(const Outlook& outlook, uint32_t chunk) {
  Json json;
  json["devices"] = outlook.name;
  json["layers"] = outlook.plan.layers;
  json["fits"] = outlook.fits;
  json["decode_tokens_per_second"] = per_second(1, outlook.plan.sequence.decode);
  json["many_sequences_steps_per_second"] = per_second(1, outlook.plan.slowest.decode);
  json["prefill_tokens_per_second"] = per_second(chunk, outlook.plan.slowest.prefill);
  for (const DeviceCosts::Part& part : outlook.plan.stages) json["bytes"].push_back(part.bytes);
  return json;
}

std::string to_text(const Outlook& outlook, uint32_t chunk) {
  std::vector<std::string> memory;
  for (const DeviceCosts::Part& part : outlook.plan.stages)
    memory.push_back(fmt::format("{:.1f}", static_cast<double>(part.bytes) / (1 << 20)));
  return fmt::format("{:<40} {:>14} {:>10.1f} {:>10.1f} {:>16}{}\n", outlook.name,
                     fmt::format("{}", fmt::join(outlook.plan.layers, ",")),
                     per_second(1, outlook.plan.sequence.decode),
                     per_second(chunk, outlook.plan.slowest.prefill),
                     fmt::format("{}", fmt::join(memory, ", ")), outlook.fits ? "" : "  does not fit");
}

Status plan_split(const PlanSplitOptions& options) {
  if (options.device.devices.size() < 2) {
    return Error{Code::invalid_argument,
                 "there is nothing to divide: name at least two devices with --devices"};
  }
  PUMICE_TRY(const ModelFile file, ModelFile::open(path_of(options.model)));
  PUMICE_TRY(const std::unique_ptr<ModelDefinition> definition, open_model_definition(file));
  const ModelShape shape = definition->shape();
  PUMICE_CHECK(check_stages(file.path(), shape));
  const auto layers = static_cast<uint32_t>(shape.layers.size());
  const SessionSize size = session_size(options.size, shape);
  PUMICE_TRY(const OpenedDevice last, open_device(options.device));
  std::vector<const OpenedDevice*> devices;
  for (const OpenedDevice& device : last.before) devices.push_back(&device);
  devices.push_back(&last);
  std::vector<DeviceCosts> costs;
  ProgressBar bar("measuring stages");
  for (size_t i = 0; i < devices.size(); ++i) {
    if (!bar.update(i, devices.size())) return interruption();
    PUMICE_TRY(DeviceCosts each,
               measure_costs(path_of(options.model), devices[i]->context, size, options.size.load));
    costs.push_back(each);
  }
  bar.erase();
  std::vector<Outlook> all;
  const SplitGoal goal = goal_of(options.prefer);
  PUMICE_TRY(SplitPlan best, options.device.split.empty()
                                 ? pumice::plan_split(costs, layers, shape.last_cut, local_hop, goal)
                                 : Result<SplitPlan>(expected_of(costs, options.device.split, local_hop)));
  PUMICE_CHECK(stages_of(file.path(), shape, best.layers));
  all.push_back({"all of them", best, true});
  for (size_t i = 0; i < devices.size(); ++i) {
    Outlook alone{devices[i]->name() + " alone",
                  expected_of(std::span(costs).subspan(i, 1), std::array{layers}, {}), true};
    alone.fits = alone.plan.stages[0].bytes <= costs[i].available;
    all.push_back(std::move(alone));
  }
  const auto seconds = [&](const Outlook& outlook) {
    return goal == SplitGoal::prefill ? outlook.plan.slowest.prefill : outlook.plan.sequence.decode;
  };
  const Outlook* fastest = &all[0];
  for (const Outlook& each : all) {
    if (each.fits && seconds(each) < seconds(*fastest)) fastest = &each;
  }
  if (options.json) {
    Json json;
    for (const Outlook& each : all) json["ways"].push_back(to_json(each, size.chunk));
    json["fastest"] = fastest->name;
    print_json(json);
  } else {
    std::string text =
        fmt::format("{:<40} {:>14} {:>10} {:>10} {:>16}\n", "", "layers", "decode t/s", "prompt t/s", "MiB");
    for (const Outlook& each : all) text += to_text(each, size.chunk);
    text +=
        fastest == &all[0]
            ? fmt::format("--devices {} --split {}\n", fmt::join(options.device.devices, ","),
                          fmt::join(best.layers, ","))
            : fmt::format("{} is faster: stages are only for a model that does not fit it\n", fastest->name);
    print_result(text);
  }
  return last.save_pipelines();
}

} // namespace

Subcommand add_plan_split(CLI::App& app) {
  CLI::App* sub = app.add_subcommand("plan-split", "Find where to cut a model for several devices.");
  auto options = std::make_shared<PlanSplitOptions>();
  sub->add_option("MODEL", options->model, "A GGUF file or a Hugging Face folder")->required()->type_name("");
  sub->add_option("--prefer", options->prefer,
                  "What is to be best: decode (one sequence), prefill (prompts and many sequences) or memory")
      ->type_name("GOAL")
      ->transform(one_of({"decode", "prefill", "memory"}))
      ->capture_default_str()
      ->group("Measurement");
  sub->add_flag("--json", options->json, "Print one JSON object")->group("Measurement");
  add_size_options(*sub, options->size, "f16");
  add_device_options(*sub, options->device);
  add_stage_options(*sub, options->device);
  sub->footer(example("pumice plan-split model.gguf --devices 0,1 --prefer prefill"));
  return {sub, [options] { return plan_split(*options); }, {{"MODEL"}, {}}};
}

} // namespace pumice::command
