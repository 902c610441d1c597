#include <algorithm>
#include <filesystem>
#include <functional>
#include <numeric>

#include <fmt/format.h>

#include "bench/ab.h"
#include "bench/compare.h"
#include "bench/measure.h"
#include "bench/profile.h"
#include "bench/report.h"
#include "generate/session.h"
#include "kernel/probe/probe.h"
#include "loading/open_device.h"
#include "options/option_text.h"
#include "options/option_values.h"
#include "options/subcommand.h"
#include "process/processes.h"
#include "process/this_process.h"
#include "task/model_kind.h"
#include "terminal/terminal.h"

namespace pumice::command {

namespace {

uint64_t count_parameters(const ModelDefinition& definition) {
  uint64_t sum = 0;
  for (const WeightSpec& spec : definition.weights()) {
    sum += std::accumulate(spec.shape.begin(), spec.shape.end(), uint64_t{1}, std::multiplies<>());
  }
  return sum;
}

MeasuredModel describe(const Model& model, const BenchOptions& options) {
  MeasuredModel result;
  result.path = model.file().path();
  result.name = path_text(path_of(result.path).filename());
  if (result.name.empty()) result.name = result.path;
  result.hash = model_hash(model.file());
  result.bytes = model.file().file_bytes();
  result.parameters = count_parameters(model.definition());
  if (options.size.load.weights) result.weights = info(*options.size.load.weights).name;
  result.kv = options.kvs.empty() ? options.size.kv : fmt::format("{}", fmt::join(options.kvs, ","));
  return result;
}

Result<std::vector<StepProfile>> profile(const BenchOptions& options,
                                         const std::shared_ptr<const Model>& model) {
  if (model->shape().encoder) return profile_encoder(options, model);
  SessionOptions session_options;
  session_options.size = session_size(options.size, model->shape());
  PUMICE_TRY(const std::unique_ptr<Session> session, Session::create(model, session_options));
  return profile_session(*session);
}

// Error if every test is switched off, and there is no profile to print either.
Status check_tests(const BenchOptions& options, const ModelShape& shape) {
  const auto none = [](const std::vector<uint32_t>& sizes) {
    return std::ranges::all_of(sizes, [](uint32_t size) { return size == 0; });
  };
  const bool reads = !none(options.prompts), writes = !none(options.counts);
  const bool joins = options.newcomer > 0 && std::ranges::max(options.batches) > 1;
  const bool tests = !shape.encoder ? reads || writes || joins || !options.pairs.empty() || options.profile
                     : shape.has_decoder() ? writes && (reads || shape.encoder->kind != InputKind::tokens)
                                           : reads || shape.encoder->kind != InputKind::tokens;
  if (tests) return {};
  return Error{Code::invalid_argument, fmt::format("there is nothing to measure: with {} no test is left",
                                                   !shape.encoder        ? "-p 0 and -n 0"
                                                   : shape.has_decoder() ? "-p 0 or -n 0"
                                                                         : "-p 0")};
}

// Adds what is known of the device after the tests. A ceiling is at least what the fastest test reached.
void finish(const OpenedDevice& device, BenchReport& report) {
  Pipelines& pipelines = *device.context.pipelines;
  report.blocked = stored_blocklist(pipelines);
  report.blocked_file = path_text(pipelines.file());
  report.ceilings = raise_ceilings(pipelines, {});
  for (const Measurement& result : report.results) {
    const double seconds = result.median_seconds();
    report.ceilings = raise_ceilings(pipelines, {result.bytes / seconds, result.flops / seconds});
  }
}

Status print_measured(const BenchOptions& options, const OpenedDevice& device, BenchReport& report) {
  set_last_words({});
  if (report.results.empty() && report.profiles.empty()) return {};
  PUMICE_TRY(report.ceilings, recent_ceilings(device.context.device, device.context.pipelines));
  finish(device, report);
  print_report(report, options.format);
  return {};
}

// Keeps the report so far for Ctrl-C and errors. `model` is null if operations are measured.
Sampler::Keep keep_report(const BenchOptions& options, const OpenedDevice& device,
                          std::shared_ptr<const Model> model) {
  return [&options, &device, model = std::move(model)](BenchReport so_far) {
    if (so_far.results.empty() && options.format != "json") return;
    if (so_far.results.empty()) so_far.cold_start.reset(); // without a test there is no first result
    finish(device, so_far);
    set_last_words([&options, model, report = std::move(so_far)]() mutable {
      if (report.results.empty() && !interrupted()) return std::string();
      if (model) report.model = describe(*model, options);
      return report_text(report, options.format);
    });
  };
}

// The options with each chunk and each type of keys and values by itself, with names where there are several.
std::vector<BenchOptions> each_size(const BenchOptions& options) {
  std::vector<BenchOptions> all = {options};
  const auto multiply = [&all](const auto& values, const auto& set) {
    std::vector<BenchOptions> more;
    for (const BenchOptions& each : all) {
      for (const auto& value : values) set(more.emplace_back(each), value, values.size() > 1);
    }
    if (!values.empty()) all = std::move(more);
  };
  multiply(options.chunks, [](BenchOptions& one, uint32_t chunk, bool several) {
    one.size.chunk = chunk;
    if (several) one.variant += fmt::format(" chunk {}", chunk);
  });
  multiply(options.kvs, [](BenchOptions& one, const std::string& kv, bool several) {
    one.size.kv = kv;
    if (several) one.variant += fmt::format(" kv {}", kv);
  });
  return all;
}

Status measure_model(const BenchOptions& options, const OpenedDevice& device, OpenedModel opened,
                     BenchReport& report) {
  const std::vector<BenchOptions> sizes = each_size(options);
  report.cold_start.emplace();
  report.cold_start->device = process_age();
  PUMICE_TRY(const std::shared_ptr<const Model> model,
             load_model(std::move(opened), device, options.size.load, &sizes[0].size));
  report.cold_start->loaded = process_age();
  const ModelShape& shape = model->shape();
  for (const BenchOptions& one : sizes) {
    Sampler sampler(one, report, device.capabilities().is_cpu(), keep_report(options, device, model));
    PUMICE_CHECK(!shape.encoder        ? measure_decoder(one, model, sampler)
                 : shape.has_decoder() ? measure_encoder_decoder(one, model, sampler)
                                       : measure_encoder(one, model, sampler));
  }
  report.model = describe(*model, options);
  if (options.profile) {
    PUMICE_TRY(report.profiles, profile(sizes[0], model));
  }
  return print_measured(options, device, report);
}

Status bench(const BenchOptions& options) {
  if (options.profile && (options.format == "csv" || options.format == "jsonl"))
    return Error{
        Code::invalid_argument,
        fmt::format("--profile is no test, and -o {} has tests alone: use md, json or html", options.format)};
  if (options.operations == !options.model.empty()) {
    return Error{Code::invalid_argument, options.operations
                                             ? "--ops measures the device: leave MODEL out"
                                             : "there is nothing to measure: give a MODEL, or --ops"};
  }
  for (const auto& [name, tokens] :
       {std::pair("--newcomer joins", options.newcomer), {"--shared-prefix is of", options.shared_prefix}}) {
    if (tokens == 0 || std::ranges::max(options.batches) > 1) continue;
    return Error{Code::invalid_argument,
                 fmt::format("{} texts that go on together: say how many with --batch, at least 2", name)};
  }
  BenchReport report;
  if (options.operations) {
    PUMICE_TRY(const OpenedDevice device, open_device(options.device));
    report.environment = read_environment(device);
    Sampler sampler(options, report, device.capabilities().is_cpu(), keep_report(options, device, nullptr));
    PUMICE_CHECK(measure_operations(options, device.context, sampler));
    PUMICE_CHECK(print_measured(options, device, report));
    return device.save_pipelines();
  }
  PUMICE_TRY(OpenedModel opened, OpenedModel::open(path_of(options.model), options.size.load.settings));
  PUMICE_CHECK(check_tests(options, opened.definition->shape()));
  PUMICE_TRY(const OpenedDevice device, open_device(options.device));
  report.environment = read_environment(device);
  PUMICE_CHECK(measure_model(options, device, std::move(opened), report));
  return device.save_pipelines();
}

void add_pair_option(CLI::App& sub, std::vector<std::pair<uint32_t, uint32_t>>& pairs) {
  const auto read = [&pairs](const std::vector<std::string>& words) {
    pairs.clear();
    for (const std::string& word : words) {
      const size_t comma = word.find(',');
      const std::vector<uint32_t> prompt = sizes_in(word.substr(0, comma), 1, 1u << 20);
      const std::vector<uint32_t> count =
          comma == std::string::npos ? prompt : sizes_in(word.substr(comma + 1), 1, 1u << 20);
      if (comma == std::string::npos || prompt.size() != 1 || count.size() != 1) {
        throw CLI::ValidationError("--pg",
                                   fmt::format("'{}' is not two whole numbers, such as 512,128", word));
      }
      if (std::ranges::count(pairs, std::pair(prompt[0], count[0])) == 0)
        pairs.emplace_back(prompt[0], count[0]);
    }
  };
  sub.add_option_function<std::vector<std::string>>(
         "--pg", read,
         "Read P tokens and then generate G, as one test. It is for decoders. Can be given more than once")
      ->type_name("P,G")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->group("Measurement");
}

// --chunk and --kv take several values, each of which is measured.
void add_size_lists(CLI::App& sub, BenchOptions& options) {
  sub.remove_option(sub.get_option("--chunk"));
  sub.remove_option(sub.get_option("--kv"));
  add_sizes(sub, "--chunk", options.chunks, "Maximum numbers of prompt tokens that are read in one step", 1,
            65536)
      ->default_str(std::to_string(options.size.chunk))
      ->group(more_of(device_group));
  sub.add_option("--kv", options.kvs,
                 "Types of keys and values: f32, f16, q8_0, q4_0, or one of each: q8_0/f16")
      ->delimiter(',')
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->type_name("TYPE,...")
      ->transform(kv_type())
      ->default_str(options.size.kv)
      ->group(device_group);
}

void add_measurement_options(CLI::App& sub, BenchOptions& options) {
  const auto list = [&](const char* name, std::vector<uint32_t>& values, const char* help, uint32_t low) {
    add_sizes(sub, name, values, help, low)->default_str(fmt::format("{}", fmt::join(values, ",")));
  };
  list("-p,--prompt", options.prompts,
       "Numbers of tokens to read. They are a decoder's prompt or an encoder's input. 0 skips this test", 0);
  list("-n,--count", options.counts, "Numbers of tokens to generate. 0 skips this test", 0);
  add_pair_option(sub, options.pairs);
  list("-d,--depth", options.depths, "Tokens in the context before each test. It is for decoders", 0);
  list("--batch", options.batches,
       "Sequences that are generated, or inputs that an encoder reads, at the same time", 1);
  const auto number = [&](const char* name, uint32_t& value, const char* help, uint32_t low) {
    sub.add_option(name, value, help)
        ->type_name("N")
        ->check(within(low, 1u << 20))
        ->capture_default_str()
        ->group("Measurement");
  };
  sub.add_option("--shared-prefix", options.shared_prefix,
                 "The texts of --batch begin with the same N tokens, which are computed once and are in "
                 "memory once")
      ->type_name("N")
      ->check(within(0u, 1u << 20))
      ->capture_default_str()
      ->group(more_of("Measurement"));
  sub.add_option("--newcomer", options.newcomer,
                 "Read a text of N tokens while those of --batch go on: 'token ms' then tells how long these "
                 "wait. 0 skips this test")
      ->type_name("N")
      ->check(within(0u, 1u << 20))
      ->capture_default_str()
      ->group(more_of("Measurement"));
  number("-r,--repetitions", options.repetitions, "Number of measured runs of each test", 1);
  number("-w,--warm-up", options.warm_up,
         "Maximum runs before the measured ones. The warm-up ends when the times are stable", 0);
  CLI::Option* operations =
      sub.add_flag("--ops", options.operations, "Measure operations of the device instead of a model")
          ->group("Measurement");
  sub.add_option("--only", options.only,
                 "Only the operations whose name, or whose kernel's name, contains TEXT, such as matmul")
      ->type_name("TEXT")
      ->needs(operations)
      ->group(more_of("Measurement"));
  sub.add_option("-o,--output", options.format,
                 "Format: md, csv, json, jsonl or html. md is a table, json has every sample, jsonl has a "
                 "line for each test, html has charts")
      ->type_name("FORMAT")
      ->transform(one_of({"md", "csv", "json", "jsonl", "html"}))
      ->capture_default_str()
      ->group("Measurement");
  sub.add_flag_callback(
         "--json", [&options] { options.format = "json"; }, "The same as -o json")
      ->group("Measurement");
  sub.add_flag("--profile", options.profile,
               "Afterwards, print the time of each kernel in a step, by the device's clock")
      ->excludes(operations)
      ->group(more_of("Measurement"));
}

// What 'ab' and 'compare' have in common.
void add_verdict_options(CLI::App& sub, double& margin, bool& fail_if_slower, bool& json) {
  sub.add_option("--margin", margin,
                 "A and B are the same if the interval lies within P percent of equal speed")
      ->type_name("P")
      ->check(within(0.0, 1000.0))
      ->capture_default_str()
      ->group("Comparison");
  sub.add_flag("--fail-if-slower", fail_if_slower, "Exit status 2 if B is slower in a test")
      ->group("Comparison");
  sub.add_flag("--json", json, "Print one JSON object")->group("Comparison");
}

CLI::App* add_compare(CLI::App& bench_app, const std::shared_ptr<CompareOptions>& options) {
  CLI::App* sub = bench_app.add_subcommand("compare", "Tell whether run B was faster or slower than run A.");
  sub->add_option("A", options->a, "A file with the output of 'pumice bench -o json'")
      ->required()
      ->type_name("");
  sub->add_option("B", options->b, "The same for another run")->required()->type_name("");
  add_verdict_options(*sub, options->margin, options->fail_if_slower, options->json);
  sub->add_flag("--force", options->force, "Compare even if the models or the devices differ")
      ->group("Comparison");
  sub->footer(
      "A file can hold the output of several processes, one after another. Only such files show how much "
      "processes differ, which a verdict needs. 'pumice bench ab' measures A and B in turn.\n\n" +
      example("pumice bench compare before.json after.json"));
  return sub;
}

CLI::App* add_ab(CLI::App& bench_app, const std::shared_ptr<AbOptions>& options) {
  CLI::App* sub = bench_app.add_subcommand("ab", "Compare A and B by fresh processes that take turns.");
  CLI::Option* seconds = sub->add_option("--seconds", options->seconds, "Take at most about S seconds")
                             ->type_name("S")
                             ->check(within(1.0, 1e6))
                             ->capture_default_str()
                             ->group("Comparison");
  sub->add_option("--rounds", options->rounds,
                  "Most rounds of a process of each (default: as many as fit into the time; fewer if all "
                  "verdicts are clear earlier)")
      ->type_name("N")
      ->check(within(1u, 1u << 20))
      ->group("Comparison");
  sub->add_flag_callback(
         "--apart", [options] { options->order = AbOrder::apart; },
         "End one process before the other starts, where the two do not fit the memory "
         "together; such rounds tell less")
      ->group("Comparison");
  add_verdict_options(*sub, options->margin, options->fail_if_slower, options->json);
  // A and B may begin with '-', so that they are no positional arguments.
  sub->allow_extras();
  sub->callback([sub, options, seconds] {
    options->words = sub->remaining();
    options->seconds_given = seconds->count() > 0;
  });
  sub->footer("A and B are each one of\n"
              "  options of 'pumice bench', in quotes\n"
              "  a model, in quotes together with options if it needs any\n"
              "  the path of a pumice: another build\n"
              "  a command, in quotes: one with the word 'bench' is compared test by test,\n"
              "    any other by its whole time\n"
              "What follows them, MODEL and options of 'pumice bench', is for both.\n\n"
              "The verdicts: faster, slower, the same (within the margin), or cannot tell (and what it needs "
              "to tell).\n\n"
              "Examples:\n"
              "  pumice bench ab \"--kv f16\" \"--kv q8_0\" model.gguf -p 64 -n 16\n"
              "  pumice bench ab q4.gguf q8.gguf -p 64 -n 16\n"
              "  pumice bench ab before/pumice after/pumice model.gguf --fail-if-slower\n"
              "  pumice bench ab \"pumice tokenize model.gguf hello\" \"other-program hello\"");
  return sub;
}

// A size that is given twice is measured once.
void remove_repeated(BenchOptions& options) {
  for (std::vector<uint32_t>* sizes :
       {&options.prompts, &options.counts, &options.depths, &options.batches, &options.chunks}) {
    std::vector<uint32_t> once;
    for (const uint32_t size : *sizes) {
      if (std::ranges::count(once, size) == 0) once.push_back(size);
    }
    *sizes = std::move(once);
  }
}

} // namespace

Subcommand add_bench(CLI::App& app) {
  CLI::App* sub = app.add_subcommand("bench", "Measure the speed of models and operations.");
  auto options = std::make_shared<BenchOptions>();
  auto compare_options = std::make_shared<CompareOptions>();
  sub->add_option("MODEL", options->model, "A GGUF file or a Hugging Face folder")->type_name("");
  add_measurement_options(*sub, *options);
  add_size_options(*sub, options->size, "f16");
  add_size_lists(*sub, *options);
  add_max_stall_option(*sub, options->size);
  add_settings_options(*sub, options->size.load);
  add_device_options(*sub, options->device);
  options->device.measures = true;
  add_stage_options(*sub, options->device);
  auto ab_options = std::make_shared<AbOptions>();
  CLI::App* compare = add_compare(*sub, compare_options);
  CLI::App* ab = add_ab(*sub, ab_options);
  sub->footer(example("pumice bench model.gguf -p 128,512 -n 32 -d 0,1024 -r 10 -o json > before.json\n"
                      "  pumice bench compare before.json after.json\n"
                      "  pumice bench ab \"--kv f16\" \"--kv q8_0\" model.gguf\n"
                      "  pumice bench --ops"));
  return {sub,
          [options, compare_options, ab_options, compare, ab] {
            if (ab->parsed()) return compare_sides(*ab_options);
            if (compare->parsed()) return compare_benches(*compare_options);
            remove_repeated(*options);
            return bench(*options);
          },
          {},
          [options] { return serve_stage(options->model, options->device, options->size.load); },
          &options->device.timeout};
}

} // namespace pumice::command
