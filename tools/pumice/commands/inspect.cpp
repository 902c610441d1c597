#include <algorithm>
#include <filesystem>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "commands/inspection.h"
#include "generate/session.h"
#include "io/formats/ctranslate2.h"
#include "io/no_weights.h"
#include "kernel/probe/probe.h"
#include "loading/fitting_size.h"
#include "loading/open_device.h"
#include "options/option_values.h"
#include "options/options.h"
#include "options/subcommand.h"
#include "task/model_kind.h"
#include "terminal/terminal.h"

namespace pumice::command {

namespace {

struct InspectOptions {
  std::string model;
  bool graph = false;
  bool plan = false;
  bool measure = false;
  bool json = false;
  std::string chip;
  uint32_t depth = 0;
  uint32_t prompt = 1;         // tokens of the step
  std::vector<uint32_t> texts; // that go on together; empty: one
  DeviceOptions device;
  SizeOptions size;
};

// Steps on a chip that need not be here.
Status forecast_on(const Chip& chip, const InspectOptions& options, const Model& model,
                   const SessionSize& size, Inspection& inspection) {
  inspection.curve.clear();
  for (const uint32_t texts : options.texts) {
    PUMICE_TRY(ModelForecast step, forecast_texts(model, size, chip, options.depth, texts));
    inspection.curve.push_back(std::move(step));
  }
  inspection.plan = curve_text(inspection.curve);
  if (!options.texts.empty()) return {};
  PUMICE_TRY(inspection.forecast, options.prompt == 1
                                      ? forecast_decoding(model, size, chip, options.depth)
                                      : forecast_prompt(model, size, chip, options.depth, options.prompt));
  inspection.plan = inspection.forecast->text();
  return {};
}

// The same step on the device that is here, some times over. Tokens are timed by eights: steps run ahead of
// the host, so that single ones may seem to take no time.
Result<MeasuredStep> measure_step(const InspectOptions& options, std::shared_ptr<const Model> model,
                                  const SessionSize& size) {
  const uint32_t vocabulary = model->shape().vocabulary, together = options.prompt > 1 ? 1 : 8;
  std::vector<uint32_t> tokens(uint64_t{std::max(options.depth, 1u)} + options.prompt);
  for (uint32_t i = 0; i < tokens.size(); ++i) tokens[i] = 7919 * i % vocabulary;
  const std::span before = std::span(tokens).first(std::max(options.depth, 1u)),
                  prompt = std::span(tokens).subspan(before.size());
  SessionOptions session_options;
  session_options.size = size;
  PUMICE_TRY(const auto session, Session::create(std::move(model), std::move(session_options)));
  const Progress waits = [](uint64_t, uint64_t) { return !interrupted(); };
  std::vector<double> seconds;
  constexpr int repetitions = 6; // and one that does not count
  for (int i = 0; i <= repetitions; ++i) {
    PUMICE_CHECK(session->set_prompt(before, {}, waits));
    if (options.prompt == 1) PUMICE_CHECK(session->next()); // which the prompt has computed
    const Stopwatch watch;
    if (options.prompt > 1) {
      PUMICE_CHECK(session->prefill(prompt, {}, waits));
    } else {
      for (uint32_t n = 0; n < together; ++n) PUMICE_CHECK(session->next());
    }
    if (i > 0) seconds.push_back(watch.seconds() / together);
  }
  std::ranges::sort(seconds);
  return MeasuredStep{seconds[seconds.size() / 2], seconds.front()};
}

std::string measured_text(const MeasuredStep& measured, const StepForecast& step) {
  const double median = step.rows / measured.median_seconds, most = step.rows / measured.least_seconds;
  return fmt::format(
      "measured here: {:.1f} tokens/s, the median; {:.1f} at best: the forecast is {:+.0f} % and "
      "{:+.0f} % from them\n",
      median, most, 100 * (step.tokens_per_second() / median - 1),
      100 * (step.tokens_per_second() / most - 1));
}

Status forecast(const InspectOptions& options, ModelFile file, const SessionSize& size,
                Inspection& inspection) {
  if (const Chip* chip = find_chip(options.chip)) {
    if (options.measure) {
      return Error{Code::invalid_argument,
                   fmt::format("--measure: the chip {} need not be here: --chip {} is the device that is",
                               options.chip, this_chip)};
    }
    PUMICE_TRY(const std::shared_ptr<const Model> planned,
               Model::plan(std::move(file), context_of(*chip), options.size.load));
    return forecast_on(*chip, options, *planned, size, inspection);
  }
  DeviceOptions own = options.device;
  own.measures = options.measure;
  PUMICE_TRY(const OpenedDevice device, open_device(own));
  std::shared_ptr<const Model> model;
  if (options.measure) {
    PUMICE_TRY(model, load_model(std::move(file), device, options.size.load, &options.size));
  } else {
    PUMICE_TRY(model, Model::plan(std::move(file), device.context, options.size.load));
  }
  const auto forecast_here = [&]() -> Status {
    PUMICE_TRY(const Ceilings ceilings, known_ceilings(device.context.device, device.context.pipelines));
    const Chip chip = chip_of(device.capabilities(), device.context.profile, ceilings);
    return forecast_on(chip, options, *model, size, inspection);
  };
  PUMICE_CHECK(forecast_here());
  std::optional<MeasuredStep>& measured = inspection.measured;
  if (options.measure) { // measuring may choose other kernels
    PUMICE_TRY(measured, measure_step(options, model, size));
    PUMICE_CHECK(forecast_here());
  }
  PUMICE_CHECK(device.save_pipelines());
  if (measured) inspection.plan += measured_text(*measured, inspection.forecast->step);
  return {};
}

// Without weights, the memory is estimated. Without a device, it is left out, unless --plan needs the device.
Status inspect_memory(const InspectOptions& options, const ModelDefinition& definition, ModelFile& file,
                      Inspection& inspection) {
  const SessionSize size = session_size(options.size, definition.shape());
  DeviceOptions own = options.device;
  own.measures = options.measure;
  if (!options.chip.empty()) {
    PUMICE_CHECK(forecast(options, std::move(file), size, inspection));
    inspection.memory = estimate_memory(definition, size);
    return {};
  }
  if (!file.has_weights()) {
    inspection.memory = estimate_memory(definition, size);
    return {};
  }
  Result<OpenedDevice> device = open_device(own);
  if (!device.ok()) {
    if (options.plan) return device.error();
    inspection.no_memory = device.error().text();
    return {};
  }
  PUMICE_TRY(const std::shared_ptr<const Model> planned,
             Model::plan(std::move(file), device->context, options.size.load));
  PUMICE_TRY(inspection.memory, planned_memory(*planned, size, size_wish(options.size, definition.shape())));
  if (options.measure) {
    PUMICE_TRY(ModelFile again, ModelFile::open(path_of(options.model)));
    PUMICE_TRY(const std::shared_ptr<const Model> model,
               load_model(std::move(again), *device, options.size.load, &options.size));
    PUMICE_TRY(inspection.plan, measured_plans(model, size));
  } else if (options.plan) {
    PUMICE_TRY(const Ceilings ceilings, known_ceilings(device->context.device, device->context.pipelines));
    PUMICE_TRY(inspection.plan, planned_steps(*planned, size, ceilings));
  }
  return device->save_pipelines();
}

Status inspect(const InspectOptions& options) {
  PUMICE_TRY(ModelFile file, ModelFile::open(path_of(options.model)));
  PUMICE_TRY(std::unique_ptr<ModelDefinition> definition, open_model_definition(file));
  std::optional<Error> missing;
  if (!file.has_weights()) missing = no_weights(file);
  if (missing && (options.graph || options.plan)) return *missing;
  const ModelShape shape = definition->shape();
  const uint32_t longest = shape.has_decoder() ? shape.context : shape.encoder->context;
  if (options.size.context > longest) {
    return Error{Code::invalid_argument,
                 fmt::format("{}: --context {} is too long: the model's longest context is {} tokens",
                             file.path(), options.size.context, longest)};
  }
  Inspection inspection;
  inspection.model = file.path();
  inspection.format = file.format() == ModelFile::Format::gguf        ? "GGUF"
                      : file.folder().in_gguf()                       ? "GGUF of Pumice's own"
                      : file.ranked_tokens()                          ? "ggml (whisper.cpp)"
                      : is_ctranslate2_folder(path_of(options.model)) ? "CTranslate2"
                                                                      : "Hugging Face";
  inspection.architecture = file.architecture();
  inspection.facts = read_model_facts(file);
  inspection.commands = subcommands_for(file, *definition);
  inspection.hyperparameters = definition->hyperparameters();
  inspection.components = count_components(*definition);
  inspection.types = count_types(file);
  inspection.unread = unread_tensors(*definition, file);
  if (options.graph) {
    const GraphRequest request{true, {}, shape.context, 0};
    if (shape.encoder) {
      PUMICE_TRY(const Graph graph, build_encoder_graph(*definition, file, request, options.size.load));
      inspection.graph = "encoder\n" + graph.text();
    }
    if (shape.has_decoder()) {
      PUMICE_TRY(const Graph graph, build_graph(*definition, file, request, options.size.load));
      inspection.graph += (shape.encoder ? "\ndecoder\n" : "") + graph.text();
    }
  }
  // --graph alone needs no device.
  if (!options.graph || options.plan || options.json) {
    PUMICE_CHECK(inspect_memory(options, *definition, file, inspection));
  }
  print_inspection(inspection, options.json);
  // A config.json by itself is asked about as it is; a folder should have weights.
  if (missing && std::filesystem::is_directory(path_of(options.model))) print_part_error(missing->text());
  return {};
}

} // namespace

Subcommand add_inspect(CLI::App& app) {
  CLI::App* sub = app.add_subcommand("inspect", "Show what a model is, can do, and needs in memory.");
  auto options = std::make_shared<InspectOptions>();
  sub->add_option("MODEL", options->model,
                  "A GGUF file, a Hugging Face folder, or only a config.json. A folder without weights is an "
                  "error, after what is known of it")
      ->required()
      ->type_name("");
  sub->add_flag("--graph", options->graph, "Print the operations of the model instead of the summary")
      ->group("Details");
  CLI::Option* plan = sub->add_flag("--plan", options->plan,
                                    "Print the kernel launches of a step on this device instead of the "
                                    "summary. Each has the shortest time that the device's speed allows")
                          ->group("Details");
  sub->add_flag("--measure", options->measure,
                "Run the launches of --plan, and print their measured times; with --chip this, whole steps")
      ->needs(plan)
      ->group("Details");
  CLI::Option* chip =
      sub->add_option(
             "--chip", options->chip,
             "With --plan: how long a step of one token would take on this chip, which need not be here, "
             "beside what its memory allows: " +
                 fmt::format("{}", fmt::join(chip_names(), ", ")) + " (the device, as it was measured)")
          ->type_name("NAME")
          ->transform(one_of(chip_names()))
          ->needs(plan)
          ->group("Details");
  sub->add_option("--depth", options->depth, "With --chip: the tokens before those of the step (default: 0)")
      ->type_name("N")
      ->check(within(0u, UINT32_MAX - 1))
      ->needs(chip)
      ->group("Details");
  sub->add_option("--prompt", options->prompt,
                  "With --chip: a step that reads this many tokens of a prompt at once (default: 1)")
      ->type_name("N")
      ->check(within(1u, UINT32_MAX / 2))
      ->needs(chip)
      ->group("Details");
  add_sizes(*sub, "--batch", options->texts,
            "With --chip: how fast so many texts are that go on together, a token of each in a step", 1)
      ->needs(chip)
      ->excludes("--prompt", "--measure")
      ->group("Details");
  sub->add_flag("--json", options->json, "Print one JSON object")->group("Details");
  add_size_options(*sub, options->size, "f16");
  add_device_options(*sub, options->device);
  sub->footer(example("pumice inspect model.gguf --context 2048"));
  return {sub, [options] { return inspect(*options); }};
}

} // namespace pumice::command
