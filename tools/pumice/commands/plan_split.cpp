#include <array>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "generate/encoder_decoder.h"
#include "loading/open_device.h"
#include "options/option_values.h"
#include "options/subcommand.h"
#include "output/json_output.h"
#include "process/split_device.h"
#include "step/batch_groups.h"
#include "terminal/counted.h"

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

constexpr double local_latency = 50e-6; // of a hop between two devices of a process, beside the copy

SplitGoal goal_of(const PlanSplitOptions& options) {
  if (options.prefer == "prefill") return SplitGoal::prefill;
  if (options.prefer == "memory") return SplitGoal::memory;
  return options.sequences > 1 ? SplitGoal::sequences : SplitGoal::decode;
}

double per_second(double tokens, double seconds) {
  return seconds > 0 ? tokens / seconds : 0;
}

// The runners of the sessions that other commands make for so many sequences.
Result<std::vector<SessionRunners>> sessions_of(const Model& model, const StageUse& use) {
  const SessionSize& size = use.size;
  if (model.shape().encoder) {
    EncoderDecoderOptions options;
    options.inputs = size.sequences;
    const EncoderShape& encoder = *model.shape().encoder;
    const uint32_t longest =
        encoder.any_length ? std::max(encoder.context, default_batch_tokens) : encoder.context;
    options.input_tokens = static_cast<uint32_t>(std::max<uint64_t>(
        longest, std::min<uint64_t>(default_batch_tokens, uint64_t{size.sequences} * longest)));
    options.output_tokens = size.context;
    options.cache = size.cache;
    PUMICE_TRY(SessionRunners runners, EncoderDecoder::runner_options(model, options));
    return std::vector<SessionRunners>{std::move(runners)};
  }
  std::vector<SessionRunners> sessions;
  for (uint32_t group = 0; group < use.groups; ++group) {
    SessionSize group_size = size;
    group_size.sequences = group_sequences(size.sequences, use.groups, group);
    PUMICE_TRY(SessionRunners runners, usual_runners(model, group_size));
    sessions.push_back(std::move(runners));
  }
  return sessions;
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

// The device as one that a stage can be on. Both arguments must outlive it.
std::unique_ptr<SplitDevice> split_device(const PlanSplitOptions& options, const ModelShape& shape,
                                          const OpenedDevice& device) {
  const auto use = [&options, shape](uint32_t stages) { return use_of(options, shape, stages); };
  return local_split_device(device, path_of(options.model), use);
}

// What is printed of one way to run the model.
struct Outlook {
  std::string name;
  SplitPlan plan;
  double round = 0;  // seconds of a token of each sequence
  double prompt = 0; // seconds of the prompt; of an input, where inputs follow each other
  bool fits = true;
};

// All ways, and what they have in common.
struct Outlooks {
  std::vector<Outlook> ways; // the cuts first, then each device alone
  size_t fastest = 0;
  uint32_t sequences = 1;
  uint32_t prompt = 0; // tokens of the prompt or the input
  bool encoder = false;
};

Json to_json(const Outlook& outlook, const Outlooks& all) {
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

std::string to_text(const Outlook& outlook, const Outlooks& all) {
  std::vector<std::string> memory;
  for (const DeviceCosts::Part& part : outlook.plan.stages)
    memory.push_back(fmt::format("{:.1f}", static_cast<double>(part.bytes) / (1 << 20)));
  return fmt::format("{:<40} {:>14} {:>10.1f} {:>10.1f} {:>10.1f} {:>16}{}\n", outlook.name,
                     fmt::format("{}", fmt::join(outlook.plan.layers, ",")),
                     per_second(1, outlook.plan.sequence.decode), per_second(all.sequences, outlook.round),
                     per_second(all.prompt, outlook.prompt), fmt::format("{}", fmt::join(memory, ", ")),
                     outlook.fits ? "" : "  does not fit");
}

std::string to_text(const Outlooks& all, const DeviceOptions& device) {
  const std::string devices =
      device.devices.empty() ? "" : fmt::format("--devices {} ", fmt::join(device.devices, ","));
  std::string text =
      fmt::format("{:<40} {:>14} {:>10} {:>10} {:>10} {:>16}\n", "", "layers", "decode t/s",
                  fmt::format("{} at once", all.sequences), all.encoder ? "input t/s" : "prompt t/s", "MiB");
  for (const Outlook& each : all.ways) text += to_text(each, all);
  return text + (all.fastest == 0
                     ? fmt::format("{}--split {}\n", devices, fmt::join(all.ways[0].plan.layers, ","))
                     : fmt::format("{} is faster: stages are only for a model that does not fit it\n",
                                   all.ways[all.fastest].name));
}

void find_fastest(Outlooks& all, SplitGoal goal) {
  const auto seconds = [&](const Outlook& outlook) {
    return goal == SplitGoal::prefill ? outlook.prompt
           : all.sequences > 1        ? outlook.round
                                      : outlook.plan.sequence.decode;
  };
  for (size_t i = 1; i < all.ways.size(); ++i) {
    const Outlook& fastest = all.ways[all.fastest];
    if (all.ways[i].fits && (!fastest.fits || seconds(all.ways[i]) < seconds(fastest))) all.fastest = i;
  }
}

class Planning {
public:
  Planning(const PlanSplitOptions& options, const ModelShape& shape,
           std::vector<std::unique_ptr<SplitDevice>> devices, std::optional<MeasuredLink> link)
      : options_(options), shape_(shape), devices_(std::move(devices)), link_(link) {
    counts_ = {shape.encoder_layers(), static_cast<uint32_t>(shape.layers.size()), shape.last_cut};
  }

  Status measure() {
    ProgressBar bar("measuring stages");
    for (const auto& device : devices_) PUMICE_CHECK(device->begin_measuring(count()));
    // Its own device last: the others measure meanwhile.
    costs_.resize(count());
    for (size_t n = count(); n-- > 0;) {
      if (!bar.update(count() - 1 - n, count())) return interruption();
      PUMICE_TRY(costs_[n], devices_[n]->costs());
    }
    bar.erase();
    return {};
  }

  Result<Outlooks> outlooks() const {
    Outlooks all;
    all.sequences = options_.sequences;
    all.prompt = shape_.encoder ? costs_[0].prefill_tokens : use(1).prompt;
    all.encoder = shape_.encoder.has_value();
    PUMICE_TRY(SplitPlan best, cuts());
    PUMICE_CHECK(stages_of(options_.model, shape_, best.layers));
    PUMICE_TRY(Outlook together, outlook("all of them", std::move(best), 0));
    all.ways.push_back(std::move(together));
    for (size_t i = 0; i < devices_.size(); ++i) {
      SplitPlan plan = expected_of(std::span(costs_).subspan(i, 1), std::array{counts_.all()}, counts_, {});
      PUMICE_TRY(Outlook alone, outlook(devices_[i]->name() + " alone", std::move(plan), i));
      all.ways.push_back(std::move(alone));
    }
    find_fastest(all, goal_of(options_));
    return all;
  }

private:
  uint32_t count() const { return static_cast<uint32_t>(devices_.size()); }
  StageUse use(uint32_t stages) const { return use_of(options_, shape_, stages); }

  HopCosts hop(const StageUse& use) const {
    if (options_.link.empty() && link_)
      return hop_costs(link_->latency, link_->bytes_per_second, costs_[0], use);
    if (options_.link.empty()) return {local_latency};
    return hop_costs(options_.link[0] / 1e3, options_.link[1] * 1e6 / 8, costs_[0], use);
  }

  Result<SplitPlan> cuts() const {
    const HopCosts costs = hop(use(count()));
    const std::vector<uint32_t>& split = options_.device.split;
    if (split.empty()) return pumice::plan_split(costs_, counts_, costs, goal_of(options_));
    if (split.size() != devices_.size()) {
      return Error{Code::invalid_argument,
                   fmt::format("--split has {}, and there are {}: give as many numbers",
                               counted(split.size(), "number"), counted(devices_.size(), "device"))};
    }
    PUMICE_CHECK(stages_of(options_.model, shape_, split));
    return expected_of(costs_, split, counts_, costs);
  }

  // With the memory that its stages take, the first of them on the device `first`.
  Result<Outlook> outlook(std::string name, SplitPlan plan, size_t first) const {
    const auto stages = static_cast<uint32_t>(plan.layers.size());
    const StageUse use = this->use(stages);
    Outlook result{std::move(name), std::move(plan)};
    result.round = result.plan.round_seconds(use.groups);
    result.prompt = shape_.encoder
                        ? result.plan.slowest.prefill
                        : result.plan.prompt_seconds(double{1} * use.prompt / costs_[0].prefill_tokens);
    uint32_t begin = 0;
    for (size_t i = 0; i < result.plan.layers.size(); ++i) {
      const uint32_t end = begin + result.plan.layers[i];
      PUMICE_TRY(result.plan.stages[i].bytes, devices_[first + i]->bytes(stages, {begin, end}));
      result.fits = result.fits && result.plan.stages[i].bytes <= costs_[first + i].available;
      begin = end;
    }
    return result;
  }

  const PlanSplitOptions& options_;
  const ModelShape shape_;
  const std::vector<std::unique_ptr<SplitDevice>> devices_;
  const std::optional<MeasuredLink> link_; // between processes
  LayerCounts counts_;
  std::vector<DeviceCosts> costs_; // of each device
};

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
  std::vector<std::unique_ptr<SplitDevice>> devices;
  std::optional<MeasuredLink> link;
  if (others()) {
    PUMICE_TRY(RemoteSplitDevices remote, remote_split_devices());
    devices = std::move(remote.devices);
    link = remote.link;
  }
  for (const OpenedDevice& device : last.before) devices.push_back(split_device(options, shape, device));
  devices.push_back(split_device(options, shape, last));
  Planning planning(options, shape, std::move(devices), link);
  PUMICE_CHECK(planning.measure());
  PUMICE_TRY(const Outlooks all, planning.outlooks());
  if (options.json) {
    Json json;
    for (const Outlook& each : all.ways) json["ways"].push_back(to_json(each, all));
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
  PUMICE_CHECK(serve_split([&]() -> Result<std::unique_ptr<SplitDevice>> {
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
