#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "loading/open_device.h"
#include "options/option_values.h"
#include "options/subcommand.h"
#include "output/json_output.h"
#include "process/processes.h"
#include "task/split/split_outlook.h"

namespace pumice::command {

namespace {

struct PlanSplitOptions {
  std::string model;
  std::string prefer = "decode";
  uint32_t sequences = 1;
  uint32_t prompt = 128;
  std::vector<double> link; // milliseconds until a message arrives, and Mbit/s
  bool json = false;
  DeviceOptions device;
  SizeOptions size;
};

SplitGoal goal_of(const PlanSplitOptions& options) {
  if (options.prefer == "prefill") return SplitGoal::prefill;
  if (options.prefer == "memory") return SplitGoal::memory;
  return options.sequences > 1 ? SplitGoal::sequences : SplitGoal::decode;
}

double per_second(double tokens, double seconds) {
  return seconds > 0 ? tokens / seconds : 0;
}

// Batches of an encoder-decoder have one group.
StageUse use_of(const PlanSplitOptions& options, const ModelShape& shape, uint32_t stages) {
  StageUse use;
  SizeOptions size = options.size;
  if (shape.encoder && !size.kv_given) size.kv = "f32"; // as the commands that write from inputs
  use.size = session_size(size, shape);
  use.size.sequences = options.sequences;
  use.groups = shape.encoder ? 1 : std::min(options.sequences, stages);
  use.prompt = std::clamp(options.prompt, 1u, std::max(use.size.context, 2u) - 1);
  use.load = options.size.load;
  use.sessions = [use](const Model& model) { return sessions_of(model, use); };
  return use;
}

// The device as one that a stage can be on. The options must outlive it.
std::unique_ptr<SplitDevice> split_device(const PlanSplitOptions& options, const ModelShape& shape,
                                          const OpenedDevice& device) {
  const auto use = [&options, shape](uint32_t stages) { return use_of(options, shape, stages); };
  return local_split_device(device.name(), device.context, path_of(options.model), use);
}

Json to_json(const SplitOutlook& outlook, const SplitOutlooks& all) {
  Json json;
  json["devices"] = outlook.name;
  json["layers"] = outlook.plan.layers;
  json["fits"] = outlook.fits;
  json["decode_tokens_per_second"] = per_second(1, outlook.plan.sequence.decode);
  json["sequences"] = all.sequences;
  json["sequences_tokens_per_second"] = per_second(all.sequences, outlook.round);
  json["prefill_tokens_per_second"] = per_second(all.prompt, outlook.prompt);
  for (const DeviceCosts::Part& part : outlook.plan.stages) json["bytes"].push_back(part.bytes);
  return json;
}

std::string to_text(const SplitOutlook& outlook, const SplitOutlooks& all) {
  std::vector<std::string> memory;
  for (const DeviceCosts::Part& part : outlook.plan.stages)
    memory.push_back(fmt::format("{:.1f}", static_cast<double>(part.bytes) / (1 << 20)));
  return fmt::format("{:<40} {:>14} {:>10.1f} {:>10.1f} {:>10.1f} {:>16}{}\n", outlook.name,
                     fmt::format("{}", fmt::join(outlook.plan.layers, ",")),
                     per_second(1, outlook.plan.sequence.decode), per_second(all.sequences, outlook.round),
                     per_second(all.prompt, outlook.prompt), fmt::format("{}", fmt::join(memory, ", ")),
                     outlook.fits ? "" : "  does not fit");
}

std::string to_text(const SplitOutlooks& all, const DeviceOptions& device) {
  const std::string devices =
      device.devices.empty() ? "" : fmt::format("--devices {} ", fmt::join(device.devices, ","));
  std::string text =
      fmt::format("{:<40} {:>14} {:>10} {:>10} {:>10} {:>16}\n", "", "layers", "decode t/s",
                  fmt::format("{} at once", all.sequences), all.encoder ? "input t/s" : "prompt t/s", "MiB");
  for (const SplitOutlook& each : all.ways) text += to_text(each, all);
  return text + (all.fastest == 0
                     ? fmt::format("{}--split {}\n", devices, fmt::join(all.ways[0].plan.layers, ","))
                     : fmt::format("{} is faster: stages are only for a model that does not fit it\n",
                                   all.ways[all.fastest].name));
}

Result<ModelShape> shape_of(const PlanSplitOptions& options) {
  PUMICE_TRY(const ModelFile file, ModelFile::open(path_of(options.model)));
  PUMICE_TRY(const std::unique_ptr<ModelDefinition> definition, open_model_definition(file));
  PUMICE_CHECK(check_stages(file.path(), definition->shape()));
  return definition->shape();
}

Status plan_split(const PlanSplitOptions& options) {
  if (options.device.devices.size() < 2 && !others()) {
    return Error{Code::invalid_argument,
                 "there is nothing to divide: name at least two devices with --devices, or start the command "
                 "with mpirun"};
  }
  if (!options.link.empty() && options.link.size() != 2) {
    return Error{Code::invalid_argument,
                 "--link takes two numbers: milliseconds and Mbit/s, such as 0.1,1000"};
  }
  PUMICE_TRY(const ModelShape shape, shape_of(options));
  PUMICE_TRY(const OpenedDevice last, open_device(options.device));
  SplitWish wish{options.model, shape, goal_of(options), options.sequences, options.device.split, {}, {}};
  wish.use = [&](uint32_t stages) { return use_of(options, shape, stages); };
  std::vector<std::unique_ptr<SplitDevice>> devices;
  if (others()) {
    PUMICE_TRY(RemoteSplitDevices remote, remote_split_devices(*others()));
    devices = std::move(remote.devices);
    wish.link = remote.link;
  }
  if (!options.link.empty()) wish.link = {options.link[0] / 1e3, options.link[1] * 1e6 / 8};
  for (const OpenedDevice& device : last.before) devices.push_back(split_device(options, shape, device));
  devices.push_back(split_device(options, shape, last));
  ProgressBar bar("measuring stages");
  PUMICE_TRY(const SplitOutlooks all, split_outlooks(devices, wish, bar.callback()));
  bar.erase();
  if (options.json) {
    Json json;
    for (const SplitOutlook& each : all.ways) json["ways"].push_back(to_json(each, all));
    json["fastest"] = all.ways[all.fastest].name;
    print_json(json);
  } else {
    print_result(to_text(all, options.device));
  }
  return last.save_pipelines();
}

// In the other processes that mpirun has started.
Status measure_for_others(const PlanSplitOptions& options) {
  std::optional<OpenedDevice> device;
  PUMICE_CHECK(serve_split_device(*others(), [&]() -> Result<std::unique_ptr<SplitDevice>> {
    PUMICE_TRY(const ModelShape shape, shape_of(options));
    PUMICE_TRY(device, open_device(options.device));
    return split_device(options, shape, *device);
  }));
  return device ? device->save_pipelines() : Status();
}

} // namespace

Subcommand add_plan_split(CLI::App& app) {
  CLI::App* sub = app.add_subcommand("plan-split", "Find where to cut a model for several devices.");
  auto options = std::make_shared<PlanSplitOptions>();
  sub->add_option("MODEL", options->model, "A GGUF file or a Hugging Face folder")->required()->type_name("");
  sub->add_option("--prefer", options->prefer,
                  "What is to be best: decode (the tokens of --sequences), prefill (prompts) or memory")
      ->type_name("GOAL")
      ->transform(one_of({"decode", "prefill", "memory"}))
      ->capture_default_str()
      ->group("Measurement");
  sub->add_option("--sequences", options->sequences, "Texts that are generated at the same time")
      ->type_name("N")
      ->check(within(1u, 4096u))
      ->capture_default_str()
      ->group("Measurement");
  sub->add_option("-p,--prompt", options->prompt, "Tokens of a prompt, after which texts are generated")
      ->type_name("N")
      ->check(within(1u, 1u << 24))
      ->capture_default_str()
      ->group("Measurement");
  sub->add_option("--link", options->link,
                  "What links the stages: milliseconds until a message arrives, and Mbit/s, such as 0.1,1000 "
                  "(default: the memory of this machine; with mpirun, what is measured)")
      ->type_name("MS,MBIT")
      ->delimiter(',')
      ->check(CLI::Range(0.0, 1e9))
      ->group("Measurement");
  sub->add_flag("--json", options->json, "Print one JSON object")->group("Measurement");
  add_size_options(*sub, options->size, "f16");
  add_device_options(*sub, options->device);
  add_stage_options(*sub, options->device);
  sub->footer(example("pumice plan-split model.gguf --devices 0,1 --prefer prefill"));
  return {sub,
          [options] { return plan_split(*options); },
          {{"MODEL"}, {}},
          [options] { return measure_for_others(*options); },
          &options->device.timeout};
}

} // namespace pumice::command
