#include <fmt/format.h>

#include "gpu/cache_folder/tuning_file.h"
#include "options/subcommand.h"
#include "output/json_output.h"
#include "process/measuring_child.h"
#include "terminal/terminal.h"
#include "terminal/wrapping.h"

namespace pumice::command {

namespace {

struct TuneCommandOptions {
  std::string model;
  double seconds = 120;
  std::string output = "text";
  std::string exported; // empty: none
  LoadOptions load;
  DeviceOptions device;
};

Json to_json(const Tuning& tuning, const OpenedDevice& device) {
  Json json;
  add_device(json, device);
  json["uniform_loads"] = device.context.profile.uniform_loads;
  json["texel_loads"] = device.context.profile.texel_loads;
  json["half_loads"] = device.context.profile.half_loads;
  json["complete"] = tuning.complete;
  json["classes"] = Json::array();
  for (const TunedClass& tuned : tuning.classes) {
    Json variants = Json::array();
    for (const VariantResult& each : tuned.variants) {
      Json variant{{"variant", each.variant}};
      if (each.blocked.empty()) {
        variant["seconds"] = each.seconds;
        variant["flops"] = each.flops;
        variant["bytes"] = each.bytes;
        if (!each.not_taken.empty()) variant["not_taken"] = each.not_taken;
      } else {
        variant["blocked"] = each.blocked;
      }
      variants.push_back(std::move(variant));
    }
    json["classes"].push_back(
        {{"class", tuned.shape_class}, {"variants", std::move(variants)}, {"winner", tuned.winner}});
  }
  json["blocked"] = Json::object();
  for (const auto& [variant, blocked] : tuning.blocklist) json["blocked"][variant] = blocked.reason;
  return json;
}

std::string to_text(const Tuning& tuning, const OpenedDevice& device) {
  const bool narrow = stdout_columns() > 0 && stdout_columns() < 80; // a class has a line of its own then
  const auto head = [narrow](const std::string& name, const std::string& variant) {
    if (!narrow) return fmt::format("{:<40} {:<9} ", name, variant);
    return fmt::format("{}{}  {:<9} ", name, name.empty() ? "" : "\n", variant);
  };
  std::string text = listed("", fmt::format("{} ({})", device.name(), device.driver())) + "\n" +
                     head("class", "variant") + fmt::format("{:>9} {:>8} {:>7}\n", "µs", "GFLOP/s", "GB/s");
  for (const TunedClass& tuned : tuning.classes) {
    std::string name = tuned.shape_class;
    for (const VariantResult& each : tuned.variants) {
      text += head(name, each.variant);
      if (!each.blocked.empty()) {
        text += fmt::format("blocked: {}\n", each.blocked);
      } else {
        text +=
            fmt::format("{:8.1f} {:8.2f} {:7.2f}{}{}\n", each.seconds * 1e6, each.flops / each.seconds / 1e9,
                        each.bytes / each.seconds / 1e9, each.variant == tuned.winner ? "  *" : "",
                        each.not_taken.empty() ? "" : "  not taken: " + each.not_taken);
      }
      name.clear();
    }
  }
  for (const auto& [variant, blocked] : tuning.blocklist) {
    if (blocked.dangerous) text += fmt::format("{} is not used: {}\n", variant, blocked.reason);
  }
  if (tuning.classes.empty())
    text += "nothing to measure: every kernel has only one variant on this device\n";
  if (!tuning.complete)
    text += interrupted() ? "not everything was measured: stopped\n"
                          : "not everything was measured: the time was up (see --seconds)\n";
  return text;
}

// Where there is no child process, a crash of the driver is the command's own.
Result<Tuning> measure_here(const TuneCommandOptions& options, const OpenedDevice& device, TuneOptions how) {
  PUMICE_TRY(ModelFile file, ModelFile::open(path_of(options.model)));
  PUMICE_TRY(std::shared_ptr<const Model> model, load_model(std::move(file), device, options.load));
  ProgressBar bar("measuring the device");
  how.progress = bar.callback();
  return tune_model(model, how);
}

Status tune(const TuneCommandOptions& options) {
  if (!options.exported.empty()) PUMICE_CHECK(TuningFile::read_before_writing(path_of(options.exported)));
  PUMICE_CHECK(ModelFile::open(path_of(options.model)));
  PUMICE_TRY(OpenedDevice device, open_device(options.device));
  device.tunes = false;
  TuneOptions how;
  how.make_thorough();
  how.seconds = options.seconds;
  how.keep_cancelled = true;
  Result<Tuning> measured = measure_in_child(device, {options.model, options.load, how, true});
  if (!measured.ok() && measured.error().code == Code::unsupported) {
    measured = measure_here(options, device, how);
  }
  PUMICE_TRY(const Tuning tuning, std::move(measured));
  apply_tuning(tuning, device);
  if (options.output == "json") {
    print_json(to_json(tuning, device), 2);
  } else {
    print_result(to_text(tuning, device));
  }
  PUMICE_CHECK(device.save_pipelines());
  if (!options.exported.empty()) {
    PUMICE_CHECK(add_to_tuning_file(path_of(options.exported), device.capabilities(),
                                    device.context.pipelines->tuning_results()));
  }
  return interrupted() ? Status(interruption()) : Status();
}

} // namespace

Subcommand add_tune(CLI::App& app) {
  CLI::App* sub = app.add_subcommand("tune", "Find the fastest kernels for a model on this device.");
  auto options = std::make_shared<TuneCommandOptions>();
  sub->add_option("MODEL", options->model, "A GGUF file or a Hugging Face folder")->required()->type_name("");
  sub->add_option("--seconds", options->seconds,
                  "Start no further measurements after S seconds, and end one that is stuck")
      ->type_name("S")
      ->check(within(0.0, 86400.0))
      ->capture_default_str()
      ->group("Measurement");
  sub->add_option("-o,--output", options->output, "Format of the output: text or json")
      ->type_name("FORMAT")
      ->transform(one_of({"text", "json"}))
      ->capture_default_str()
      ->group("Measurement");
  sub->add_flag_callback(
         "--json", [options] { options->output = "json"; }, "The same as -o json")
      ->group("Measurement");
  sub->add_option("--export", options->exported,
                  "Also write the results to FILE, for programs that ship it; results of other devices that "
                  "are in it stay there")
      ->type_name("FILE")
      ->group("Measurement");
  add_weights_option(*sub, options->load);
  add_device_options(*sub, options->device);
  CLI::Option* variant = sub->get_option("--kernel-variant");
  variant->description(
      "Use this kernel variant wherever the device can run it, even if another one is faster. "
      "The variants, with their kernels:" +
      kernel_variant_list());
  sub->footer("A kernel is a program that computes one operation on the device. Some kernels have several "
              "variants, and the fastest one depends on the device and the model. The results are "
              "kept, and the other commands use them.\n\n" +
              example("pumice tune models/pretrained/stories-2m.gguf"));
  return {sub, [options] { return tune(*options); }, {{"MODEL"}, {"--export"}}};
}

} // namespace pumice::command
