#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include <fmt/format.h>

#include "bench_profile.h"
#include "bench_report.h"
#include "kernel/probe.h"
#include "model_kind.h"
#include "open_device.h"
#include "options.h"
#include "session/session.h"
#include "subcommand.h"
#include "terminal.h"

namespace pumice::command {

namespace {

struct BenchOptions {
  std::string model;
  uint32_t prompt = 128;
  uint32_t generate = 32;
  uint32_t depth = 0;
  uint32_t repetitions = 5;
  std::string format = "md";
  bool profile = false;
  DeviceOptions device;
  SizeOptions size;
};

std::vector<uint32_t> random_tokens(uint32_t count, uint32_t vocabulary) {
  std::mt19937 generator(1);
  std::vector<uint32_t> tokens(count);
  for (uint32_t& token : tokens) token = generator() % vocabulary;
  return tokens;
}

// A session with `tokens` in its cache already.
Status fill(Session& session, std::span<const uint32_t> tokens) {
  PUMICE_CHECK(session.reset());
  if (tokens.empty()) return {};
  return session.prefill(tokens, {}, [](uint64_t, uint64_t) { return !interrupted(); });
}

// Seconds to read a prompt of `tokens` after what the session holds.
Result<double> time_prompt(Session& session, std::span<const uint32_t> tokens) {
  const Stopwatch watch;
  // With a callback, prefill waits for the device.
  PUMICE_CHECK(session.prefill(tokens, {}, [](uint64_t, uint64_t) { return !interrupted(); }));
  return watch.seconds();
}

// Seconds to write `count` tokens. The prompt's own first token comes before.
Result<double> time_decoding(Session& session, uint32_t count) {
  PUMICE_TRY(uint32_t first, session.next());
  (void)first;
  const Stopwatch watch;
  for (uint32_t i = 0; i < count; ++i) {
    if (interrupted()) return interruption();
    PUMICE_TRY(uint32_t token, session.next());
    (void)token;
  }
  return watch.seconds();
}

// What the plans of a prompt's steps say that they compute and move.
Status add_prompt_work(Session& session, uint32_t count, Measurement& measurement) {
  const uint32_t chunk = session.size().chunk;
  for (uint32_t first = 0; first < count; first += chunk) {
    PUMICE_TRY(const Plan* plan, session.runner().plan(std::min(chunk, count - first)));
    measurement.flops += plan->flops();
    measurement.bytes += plan->bytes();
  }
  return {};
}

Result<Measurement> measure_prompt(Session& session, const BenchOptions& options,
                                   std::span<const uint32_t> depth, std::span<const uint32_t> tokens) {
  Measurement result;
  result.test = fmt::format("pp{}", options.prompt);
  if (options.depth) result.test += fmt::format(" @ d{}", options.depth);
  result.tokens = options.prompt;
  PUMICE_CHECK(add_prompt_work(session, options.prompt, result));
  for (uint32_t run = 0; run <= options.repetitions; ++run) { // the first one warms up
    PUMICE_CHECK(fill(session, depth));
    PUMICE_TRY(double seconds, time_prompt(session, tokens));
    if (run > 0) result.samples.push_back(options.prompt / seconds);
  }
  return result;
}

Result<Measurement> measure_decoding(Session& session, const BenchOptions& options,
                                     std::span<const uint32_t> depth, std::span<const uint32_t> tokens) {
  Measurement result;
  result.test = fmt::format("tg{}", options.generate);
  if (options.depth) result.test += fmt::format(" @ d{}", options.depth);
  result.tokens = options.generate;
  PUMICE_TRY(const Plan* plan, session.runner().plan(1));
  result.flops = plan->flops() * options.generate;
  result.bytes = plan->bytes() * options.generate;
  for (uint32_t run = 0; run <= options.repetitions; ++run) {
    PUMICE_CHECK(fill(session, depth.empty() ? tokens.first(1) : depth));
    PUMICE_TRY(double seconds, time_decoding(session, options.generate));
    if (run > 0) result.samples.push_back(options.generate / seconds);
  }
  return result;
}

uint64_t count_parameters(const Definition& definition) {
  uint64_t sum = 0;
  for (const WeightSpec& spec : definition.weights()) {
    sum += std::accumulate(spec.shape.begin(), spec.shape.end(), uint64_t{1}, std::multiplies<>());
  }
  return sum;
}

Status measure(const BenchOptions& options, const OpenedDevice& device,
               const std::shared_ptr<const Model>& model) {
  SessionOptions session_options;
  session_options.size = session_size(options.size, model->shape());
  // The decoding loop runs ahead of the token it returns.
  const uint32_t needed =
      options.depth + std::max(options.prompt, options.generate + 2) + 1 + session_options.steps_ahead;
  if (!options.size.context) session_options.size.context = std::min(needed, model->shape().context);
  if (needed > session_options.size.context) {
    return Error{Code::invalid_argument,
                 fmt::format("-p {} -n {} -d {} need a context of {}; it has {}", options.prompt,
                             options.generate, options.depth, needed, session_options.size.context)};
  }
  PUMICE_TRY(std::unique_ptr<Session> session, Session::create(model, session_options));
  const std::vector<uint32_t> depth = random_tokens(options.depth, model->shape().vocabulary);
  const std::vector<uint32_t> tokens = random_tokens(std::max(options.prompt, 1u), model->shape().vocabulary);
  BenchReport report{device.name(),
                     device.driver(),
                     model->file().path(),
                     model->file().file_bytes(),
                     count_parameters(model->definition()),
                     {},
                     {}};
  PUMICE_TRY(report.ceilings, measure_ceilings(device.context.device, device.context.pipelines));
  if (options.prompt) {
    PUMICE_TRY(Measurement prompt, measure_prompt(*session, options, depth, tokens));
    report.results.push_back(std::move(prompt));
  }
  if (options.generate) {
    PUMICE_TRY(Measurement decoding, measure_decoding(*session, options, depth, tokens));
    report.results.push_back(std::move(decoding));
  }
  print_report(report, options.format);
  return options.profile ? print_profile(*session) : Status();
}

Status bench(const BenchOptions& options) {
  PUMICE_TRY(ModelFile file, ModelFile::open(options.model));
  PUMICE_TRY(std::unique_ptr<Definition> definition, open_definition(file));
  if (const ModelShape shape = definition->shape(); shape.encoder) {
    return wrong_kind(options.model, shape,
                      "what is measured is going on from tokens, as a decoder by itself does");
  }
  PUMICE_TRY(OpenedDevice device, open_device(options.device));
  PUMICE_TRY(std::shared_ptr<const Model> model, load_model(std::move(file), device, options.size.load));
  PUMICE_CHECK(measure(options, device, model));
  if (interrupted()) return interruption();
  return device.save_pipelines();
}

} // namespace

Subcommand add_bench(CLI::App& app) {
  CLI::App* sub = app.add_subcommand("bench", "Measure how fast prompts are read and tokens written");
  auto options = std::make_shared<BenchOptions>();
  sub->add_option("MODEL", options->model, "A GGUF file or a Hugging Face folder")->required();
  const auto option = [&](const char* name, auto& value, const char* help, uint32_t low, const char* type) {
    sub->add_option(name, value, help)
        ->type_name(type)
        ->check(CLI::Range(low, 1u << 20).description(""))
        ->capture_default_str()
        ->group("Measurement");
  };
  option("-p,--prompt", options->prompt, "Tokens of the prompt that is read; 0 for no such test", 0, "N");
  option("-n,--count", options->generate, "Tokens that are written; 0 for no such test", 0, "N");
  option("-d,--depth", options->depth, "Tokens that are in the context before either", 0, "N");
  option("-r,--repetitions", options->repetitions, "Runs of each test that count; one before them does not",
         1, "N");
  sub->add_option("-o,--output", options->format, "What to print: md (a table), csv or json")
      ->type_name("FORMAT")
      ->check(CLI::IsMember({"md", "csv", "json"}).description(""))
      ->capture_default_str()
      ->group("Measurement");
  sub->add_flag("--profile", options->profile,
                "Afterwards, what each kernel of a step takes, by the device's clock")
      ->group("Measurement");
  add_size_options(*sub, options->size, "f16");
  add_device_options(*sub, options->device);
  sub->footer(example("pumice bench model.gguf -p 128 -n 32 -r 5 -o json"));
  return {sub, [options] { return bench(*options); }};
}

} // namespace pumice::command
