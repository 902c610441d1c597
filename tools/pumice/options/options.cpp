#include "options/options.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <random>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/number_from_chars.h"
#include "io/quantize.h"
#include "kernel/choices.h"
#include "kernel/sampling/filter_order.h"
#include "loading/open_device.h"
#include "options/option_text.h"
#include "options/option_values.h"
#include "options/prompt.h"
#include "shaders/sampling/sampling.params.h"
#include "task/generated_text.h"
#include "terminal/terminal.h"

namespace pumice::command {

namespace {

// "ID=BIAS", or as llama.cpp has it "ID+BIAS" and "ID-BIAS"; the bias may be inf or -inf.
std::optional<LogitBias> parse_bias(const std::string& text) {
  LogitBias result;
  const char *at = text.data(), *end = at + text.size();
  auto [rest, error] = std::from_chars(at, end, result.token);
  if (error != std::errc() || rest == end || (*rest != '=' && *rest != '+' && *rest != '-'))
    return std::nullopt;
  if (*rest == '=') ++rest;
  const auto [last, bad] = number_from_chars(rest + (rest != end && *rest == '+' ? 1 : 0), end, result.bias);
  if (bad != std::errc() || last != end || std::isnan(result.bias)) return std::nullopt;
  return result;
}

void add_bias_option(CLI::App& app, SamplingParams& params) {
  const auto parse = [&params](const std::vector<std::string>& values) {
    for (const std::string& value : values) {
      const std::optional<LogitBias> bias = parse_bias(value);
      if (!bias) {
        throw CLI::ValidationError(
            "--logit-bias",
            fmt::format("'{}' is not a token's id and a number, such as 42=-1.5 or 42=-inf", value));
      }
      params.logit_biases.push_back(*bias);
    }
    if (const Status status = check_sampling(params); !status.ok()) {
      throw CLI::ValidationError("--logit-bias", status.error().message);
    }
  };
  app.add_option_function<std::vector<std::string>>(
         "--logit-bias", parse,
         "Add BIAS to the score of token ID; -inf forbids it. Can be given more than once")
      ->type_name("ID=BIAS")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->group(more_of("Sampling"));
}

void add_samplers_option(CLI::App& app, SamplingParams& params) {
  const auto parse = [&params](const std::string& list) {
    const Result<uint32_t> order = filter_order(list);
    if (!order.ok()) throw CLI::ValidationError("--samplers", order.error().message);
    params.order = *order;
  };
  std::string usual(usual_samplers);
  for (size_t at = 0; (at = usual.find(';', at)) != usual.npos; ++at) usual.replace(at, 1, "; ");
  app.add_option_function<std::string>(
         "--samplers", parse,
         fmt::format(
             "The samplers that choose a token, in their order, with ; between them (default: {}). One "
             "that is left out does nothing; penalties and dry come first, if at all",
             usual))
      ->type_name("LIST")
      ->group(more_of("Sampling"));
}

} // namespace

std::string kernel_variant_list() {
  std::string lines;
  for (const VariantSummary& variant : kernel_variants()) {
    lines += fmt::format("\n{} [{}] {}", variant.name, variant.family, variant.summary);
  }
  return lines;
}

void add_loader_options(CLI::App& app, DeviceOptions& options) {
  app.add_option("--vulkan-loader", options.loader,
                 "Path of the Vulkan loader library (default: the system's)")
      ->type_name("FILE")
      ->group(more_of(device_group));
  app.add_flag("--validate", options.validate,
               "Check how Vulkan is used, with its validation layers. The exit status is 1 if they report "
               "anything")
      ->group(more_of(device_group));
}

void add_verbosity_options(CLI::App& app) {
  const auto flag = [&](const char* name, Verbosity verbosity, const char* help) {
    return app
        .add_flag_callback(
            name, [verbosity] { set_verbosity(verbosity); }, help)
        ->group(more_of("Messages"));
  };
  CLI::Option* quiet = flag("--quiet", Verbosity::quiet, "Write only errors to standard error");
  flag("--verbose", Verbosity::verbose,
       "Also write what is opened and loaded, and how long it takes, to standard error")
      ->excludes(quiet);
}

void add_open_options(CLI::App& app, DeviceOptions& options) {
  const auto index_in = [](std::string& name) { // "Vulkan0", as llama.cpp has it
    const std::string number = CLI::detail::to_lower(name).starts_with("vulkan") ? name.substr(6) : "";
    if (parse_number<uint32_t>(number)) name = number;
    return std::string();
  };
  app.add_option("--device", options.device,
                 "Vulkan device: index or part of name (default: the best). A UUID works too; 'pumice "
                 "devices' lists them")
      ->type_name("DEVICE")
      ->transform(CLI::Validator(index_in, ""))
      ->group(device_group);
  CLI::Option* cache =
      app.add_option("--cache", options.cache,
                     fmt::format("Folder for the compiled kernels and the measurements of each device "
                                 "(default: {})",
                                 default_cache_text))
          ->type_name("DIR")
          ->group(more_of(device_group));
  app.add_flag("--no-cache", options.no_cache, "Do not read or write compiled kernels and measurements")
      ->group(more_of(device_group))
      ->excludes(cache);
  app.add_option("--memory-limit", options.memory_limit,
                 "Most device memory that is used at a time, such as 800M or 4G. What needs more fails with "
                 "a message")
      ->type_name("SIZE")
      ->transform(CLI::AsSizeValue(false))
      ->group(more_of(device_group));
  add_loader_options(app, options);
}

void add_device_options(CLI::App& app, DeviceOptions& options) {
  add_open_options(app, options);
  CLI::Option* no_tune =
      app.add_flag(
             "--no-tune", options.no_tune,
             "Do not measure or check kernel variants, and ignore earlier measurements. Of each kind of "
             "kernel, the first variant that the device can run is used")
          ->group(more_of(device_group));
  app.add_option("--kernel-variant", options.kernel_variant,
                 "Use this kernel variant wherever the device can run it, even if another one is faster. "
                 "'pumice tune --help-all' describes them")
      ->type_name("NAME")
      ->transform(one_of(variant_names()))
      ->excludes(no_tune)
      ->group(more_of(device_group));
}

void add_stage_options(CLI::App& app, DeviceOptions& options) {
  app.add_option("--devices", options.devices,
                 "Cut the model by layers and run each part on a device of its own: their indices or parts "
                 "of their names, with commas between them. Only models with a decoder")
      ->type_name("DEVICE,...")
      ->delimiter(',')
      ->excludes(app.get_option("--device"))
      ->group(more_of(device_group));
  app.add_option(
         "--split", options.split,
         "Layers of each of --devices, or of each of mpirun's processes, such as 20,12 (default: as many "
         "of each). An encoder's layers come before its decoder's. The last part runs in process 0")
      ->type_name("N,...")
      ->delimiter(',')
      ->group(more_of(device_group));
  add_timeout_option(app, options);
}

void add_timeout_option(CLI::App& app, DeviceOptions& options) {
  app.add_option("--timeout", options.timeout,
                 "With mpirun: seconds without a sign of life after which another process counts as gone "
                 "(default: 5)")
      ->type_name("SECONDS")
      ->check(CLI::Range(0.1, 3600.0))
      ->group(more_of(device_group));
}

void add_replica_option(CLI::App& app, DeviceOptions& options) {
  app.add_option(
         "--replicas", options.replicas,
         "With mpirun: run so many copies of the model, which divide the lines. Each copy has as many "
         "of the processes, one after the other; the results come in the order of the lines")
      ->type_name("N")
      ->check(within(1u, 1u << 16))
      ->group(more_of(device_group));
}

void add_weights_option(CLI::App& app, LoadOptions& options) {
  app.add_option_function<std::string>(
         "--weights", [&options](const std::string& name) { options.weights = find_type_named(name)->type; },
         "Quantise the weights to this type while loading. They need less memory then. It is one of " +
             quantizable_type_names() + ". Weights that are quantised already stay as they are")
      ->type_name("TYPE")
      ->transform(weight_type(names_in(quantizable_type_names())))
      ->group(device_group);
  app.add_option_function<std::string>(
         "--experts",
         [&options](const std::string& name) {
           options.experts = name == "host"     ? ExpertPlacement::host
                             : name == "device" ? ExpertPlacement::device
                                                : ExpertPlacement::automatic;
         },
         "Whose memory the experts of a mixture take: auto, device, host (default: auto, which is host where "
         "a "
         "GPU has too little). A GPU reads them from the host's memory over its bus")
      ->type_name("WHERE")
      ->transform(one_of({"auto", "device", "host"}))
      ->group(more_of(device_group));
}

void add_layers_option(CLI::App& app, LoadOptions& options) {
  app.add_option(
         "--gpu-layers", options.device_layers,
         "Keep the matrices of the last N layers in the device's memory, and those of the layers before "
         "in the host's, where a GPU reads them over its bus at each step (default: all)")
      ->type_name("N")
      ->transform(layer_count())
      ->group(more_of(device_group));
}

void add_batch_option(CLI::App& app, uint32_t& tokens, const std::string& group) {
  app.add_option(
         "--batch-tokens", tokens,
         fmt::format("Maximum number of tokens that the encoder reads in one step (default: {}, or the "
                     "longest possible input if that is longer). Several inputs share a step if they "
                     "fit",
                     default_batch_tokens))
      ->type_name("N")
      ->check(within(1u, 1u << 20))
      ->group(more_of(group));
}

void add_size_options(CLI::App& app, SizeOptions& options, const std::string& kv_default) {
  options.kv = kv_default;
  app.add_option(
         "--context", options.context,
         fmt::format("Size of the context in tokens (default: the model's). The prompt and the generated "
                     "text together have to fit. The default is at most {}",
                     default_context))
      ->type_name("N")
      ->check(within(1u, 1u << 24))
      ->group(device_group);
  app.add_option("--chunk", options.chunk,
                 "Maximum number of prompt tokens that are read in one step. Without it, 'run' and 'chat' "
                 "take 512 on a "
                 "graphics card that has room for it")
      ->type_name("N")
      ->check(within(1u, 65536u))
      ->each([&options](const std::string&) { options.chunk_given = true; })
      ->capture_default_str()
      ->group(more_of(device_group));
  app.add_option("--kv", options.kv, "Type of keys and values: f32, f16, q8_0, q4_0, or of each: q8_0,q4_0")
      ->type_name("TYPE")
      ->transform(kv_type())
      ->each([&options](const std::string&) { options.kv_given = true; })
      ->capture_default_str()
      ->group(kv_default == "f16" ? device_group : more_of(device_group)); // exact results matter elsewhere
  add_weights_option(app, options.load);
  add_layers_option(app, options.load);
}

void add_settings_options(CLI::App& app, LoadOptions& options) {
  const std::string group = more_of("Settings of the model");
  app.add_option_function<std::vector<std::string>>(
         "--override-kv",
         [&options](const std::vector<std::string>& values) {
           for (const std::string& each : values) {
             const Result<ChangedSetting> change = parse_change(each);
             if (!change.ok()) throw CLI::ValidationError("--override-kv", change.error().message);
             options.settings.values.push_back(each);
           }
         },
         "Take this setting in place of the one in the model's file. TYPE is int, float, bool or str; in a "
         "config.json, dots lead into objects, as in rope_scaling.factor. Can be given more than once")
      ->type_name("KEY=TYPE:VALUE")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->group(group);
  RotaryChange& rotary = options.settings.rotary;
  const auto number = [&](const char* name, std::optional<float>& value, float low, float high,
                          const char* help) {
    return app.add_option(name, value, help)->type_name("X")->check(within(low, high))->group(group);
  };
  number("--rope-freq-base", rotary.base, 1, 1e12f, "Base of the frequencies of rotary positions");
  app.add_option("--rope-scaling", rotary.scaling, "How they are scaled: none, linear or yarn")
      ->type_name("HOW")
      ->transform(one_of({"none", "linear", "yarn"}))
      ->group(group);
  CLI::Option* scale = number("--rope-scale", rotary.factor, 1e-3f, 1e6f,
                              "Factor by which the context becomes longer. Without --rope-scaling it is "
                              "linear, unless the model's is another");
  app.add_option_function<float>(
         "--rope-freq-scale", [&rotary](float scaled) { rotary.factor = 1 / scaled; },
         "The same as --rope-scale, of the frequencies: 0.25 is --rope-scale 4")
      ->type_name("X")
      ->check(within(1e-6f, 1e3f))
      ->excludes(scale)
      ->group(group);
  app.add_option("--yarn-orig-ctx", rotary.original_context,
                 "Context that the model was trained for (default: the model's)")
      ->type_name("N")
      ->check(within(1u, 1u << 24))
      ->group(group);
  number("--yarn-beta-fast", rotary.beta_fast, 1e-3f, 1e6f,
         "Turns above which yarn leaves a frequency alone");
  number("--yarn-beta-slow", rotary.beta_slow, 1e-3f, 1e6f, "Turns below which yarn scales it as a whole");
  number("--yarn-attn-factor", rotary.attention_factor, 1e-3f, 1e6f,
         "Yarn's factor of the attention's scores");
}

void add_drafts_option(CLI::App& app, SizeOptions& options) {
  app.add_option("--drafts", options.drafts,
                 "Guess at up to N tokens by what the text has said before, and check them in one step where "
                 "that is faster. The text stays the same")
      ->type_name("N")
      ->check(within(0u, most_drafts))
      ->capture_default_str()
      ->group(more_of(device_group));
  app.add_option(
         "--draft-model", options.draft_model,
         "A smaller model of the same vocabulary that guesses too, at up to 8 tokens without --drafts; or "
         "'own': the model's layer that was trained to predict further tokens")
      ->type_name("MODEL")
      ->group(more_of(device_group));
}

void add_max_stall_option(CLI::App& app, SizeOptions& options) {
  app.add_option(
         "--max-stall-ms", options.max_stall_ms,
         "While texts are generated, read the prompts of others in pieces, so that nobody waits longer "
         "than MS milliseconds for a token, or for the time of a step with one token of each. 0: no "
         "limit")
      ->type_name("MS")
      ->check(within(0.0, 1e9))
      ->capture_default_str()
      ->group(more_of(device_group));
}

void add_cache_tokens_option(CLI::App& app, SizeOptions& options) {
  app.add_option(
         "--cache-tokens", options.cache_tokens,
         "Keep keys and values of N tokens of all texts together, and of at least one whole context "
         "(default: a context for each text that is generated at a time). What texts begin with alike "
         "counts once. A text waits until there is room for all that it may become")
      ->type_name("N")
      ->check(within(1u, 1u << 30))
      ->group(more_of(device_group));
}

uint32_t cache_pages(const SizeOptions& options) {
  return options.cache_tokens ? pages_for(options.cache_tokens) : all_pages;
}

void add_fit_option(CLI::App& app, SizeOptions& options) {
  app.add_flag(
         "--fit", options.fit,
         "Choose what fits the device's free memory. First shorter chunks, then keys and values of fewer "
         "bits, then a shorter context. What is asked for with --chunk, --kv or --context stays")
      ->group(device_group);
}

SessionSize session_size(const SizeOptions& options, const ModelShape& shape) {
  SessionSize size;
  size.context = context_for(options.context, shape);
  size.chunk = options.chunk;
  constexpr uint32_t usual_drafts = 8; // of a model
  size.drafts = options.drafts || options.draft_model.empty() ? options.drafts : usual_drafts;
  size.cache = find_cache_type(options.kv).value_or(size.cache);
  return size;
}

Status check_biases(const SamplingOptions& options, uint32_t vocabulary) {
  std::vector<uint32_t> tokens;
  for (const LogitBias& bias : options.params.logit_biases) tokens.push_back(bias.token);
  return check_ids_below(tokens, vocabulary, "--logit-bias");
}

void add_sampling_options(CLI::App& app, SamplingOptions& options, const SamplingParams& defaults) {
  SamplingParams& params = options.params = defaults;
  // Where nothing is drawn by default, only the option that changes that is in the short help.
  const bool draws = defaults.temperature > 0;
  const auto group_of = [draws](const std::string& name) {
    static const std::set<std::string> often = {"--temp", "--top-k", "--top-p", "--seed"};
    return name == "--temp" || (draws && often.contains(name)) ? "Sampling" : more_of("Sampling");
  };
  const auto option = [&](const char* name, auto& value, const char* help, auto low, auto high,
                          const char* unit) {
    app.add_option(name, value, help)
        ->type_name(unit)
        ->check(within(low, high))
        ->capture_default_str()
        ->group(group_of(name));
  };
#define OPTION(field, type, standard, least, most, slot_field, slot_value, name, unit, help)                 \
  option(name, params.field, help, type{least}, type{most}, unit);
#include "kernel/sampling_options.def"
  app.get_option("--mirostat")
      ->check(CLI::Validator(
          [](std::string& value) { return value == "1" ? "1 is not supported: 2 is" : std::string(); }, ""));
  app.get_option("--dry-penalty-last-n")
      ->transform(CLI::Validator(
          [](std::string& value) {
            if (value == "-1") value = std::to_string(SAMPLING_RING); // llama.cpp's "all"
            return std::string();
          },
          ""));
  app.add_option(
         "--dry-sequence-breaker", options.dry_breakers,
         "No repetition goes across a token with this string (default: a line end, :, \" and *). \\n is a "
         "line end. Can be given more than once")
      ->type_name("STRING")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->group(more_of("Sampling"));
  add_samplers_option(app, params);
  add_bias_option(app, params);
  app.add_option("--seed", options.seed,
                 "Seed: repeats a text (default: a random seed). -1 is a random one, too")
      ->type_name("N")
      ->transform(seed_value())
      ->group(group_of("--seed"));
}

Status read_sampling_fields(const Fields& fields, SamplingParams& params) {
  const auto read = [&](const char* field, auto least, auto most, auto& value) -> Status {
    if constexpr (std::is_same_v<decltype(least), float>) {
      PUMICE_TRY(value, fields.f32_or(field, least, most, value));
    } else {
      PUMICE_TRY(value, fields.u32_or(field, least, most, value));
    }
    return {};
  };
#define OPTION(field, type, standard, least, most, ...)                                                      \
  PUMICE_CHECK(read(#field, type{least}, type{most}, params.field));
#include "kernel/sampling_options.def"
  if (!fields.has("samplers")) return {};
  PUMICE_TRY(const std::vector<std::string> samplers, fields.string_array("samplers"));
  const Result<uint32_t> order = samplers.size() == 1 ? filter_order(samplers[0]) : filter_order(samplers);
  if (!order.ok()) return fields.error("samplers", order.error().message);
  params.order = *order;
  return {};
}

SamplingParams SamplingOptions::resolved() const {
  SamplingParams result = params;
  result.seed = seed ? *seed : std::random_device()();
  return result;
}

Result<SamplingParams> SamplingOptions::resolved(const Tokenizer& tokenizer) const {
  SamplingParams result = resolved();
  std::vector<std::string> breakers;
  for (const std::string& each : dry_breakers) breakers.push_back(without_escapes(each));
  if (breakers == std::vector<std::string>{"none"}) return result; // as llama.cpp has it
  PUMICE_CHECK(set_dry_breakers(result, breakers, &tokenizer));
  return result;
}

} // namespace pumice::command
