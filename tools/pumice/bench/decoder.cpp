#include <algorithm>

#include <fmt/format.h>

#include "bench/measure.h"
#include "generate/session.h"
#include "terminal/terminal.h"

namespace pumice::command {

namespace {

// Adds the arithmetic and the memory traffic of a prompt's steps, as their plans estimate them.
Status add_prompt_work(Session& session, uint32_t count, Measurement& measurement) {
  const uint32_t chunk = session.size().chunk;
  for (uint32_t first = 0; first < count; first += chunk) {
    PUMICE_TRY(const Plan* plan, session.runner().plan(std::min(chunk, count - first)));
    measurement.flops += plan->flops();
    measurement.bytes += plan->bytes();
  }
  return {};
}

Status write_token(Session& session) {
  if (interrupted()) return interruption();
  PUMICE_TRY(const uint32_t token, session.next());
  (void)token;
  return {};
}

// A decoder whose context holds `depth` tokens at the beginning of every run.
class Depth {
public:
  Depth(Session& session, uint32_t depth)
      : session_(session), tokens_(random_tokens(depth, session.runner().model().shape().vocabulary)) {}

  // Keys and values that the cache still holds from the run before are not computed again.
  Status restore() {
    if (tokens_.empty()) return session_.reset();
    return session_.set_prompt(tokens_, {}, [](uint64_t, uint64_t) { return !interrupted(); });
  }

  Measurement name(std::string test, const char* kind, uint32_t count) const {
    const auto depth = static_cast<uint32_t>(tokens_.size());
    Measurement result;
    result.test = depth ? fmt::format("{} @ d{}", test, depth) : std::move(test);
    result.kind = kind;
    result.depth = depth;
    result.tokens = count;
    return result;
  }

  Result<BenchRun> prompt(std::span<const uint32_t> tokens) {
    PUMICE_CHECK(restore());
    BenchRun run;
    const Stopwatch watch;
    // With a callback, prefill waits for the device.
    PUMICE_CHECK(session_.prefill(tokens, {}, [](uint64_t, uint64_t) { return !interrupted(); }));
    run.seconds = watch.seconds();
    if (session_.reused() != tokens_.size()) {
      return Error{Code::internal, fmt::format("{} tokens of a prompt were there already: expected {}",
                                               session_.reused(), tokens_.size())};
    }
    PUMICE_CHECK(write_token(session_));
    run.first_token = watch.seconds();
    return run;
  }

  Result<BenchRun> decode(uint32_t count) {
    PUMICE_CHECK(restore());
    if (tokens_.empty()) {
      PUMICE_CHECK(
          session_.prefill(random_tokens(1, 1), {}, [](uint64_t, uint64_t) { return !interrupted(); }));
    }
    BenchRun run;
    const double host = session_.host_seconds();
    const uint64_t steps = session_.decode_steps();
    // The device is idle here. Its steps run ahead of the host, so the watch must start before they do.
    const Stopwatch watch;
    PUMICE_CHECK(write_token(session_)); // the first token, which reading the prompt has computed
    run.seconds = watch.seconds();
    for (uint32_t i = 0; i < count; ++i) {
      PUMICE_CHECK(write_token(session_));
      const double now = watch.seconds();
      run.token_seconds.push_back(now - run.seconds);
      run.seconds = now;
    }
    share_time(run.token_seconds, session_.steps_per_submit());
    run.after_first = run.seconds;
    if (session_.decode_steps() > steps) {
      run.host_step_seconds =
          (session_.host_seconds() - host) / static_cast<double>(session_.decode_steps() - steps);
    }
    return run;
  }

  // Reads a prompt, and goes on behind it: the time of both.
  Result<BenchRun> read_and_decode(std::span<const uint32_t> tokens, uint32_t count) {
    PUMICE_CHECK(restore());
    BenchRun run;
    const Stopwatch watch;
    PUMICE_CHECK(session_.prefill(tokens, {}, [](uint64_t, uint64_t) { return !interrupted(); }));
    for (uint32_t i = 0; i < count; ++i) {
      PUMICE_CHECK(write_token(session_));
      if (i == 0) run.first_token = watch.seconds();
    }
    run.seconds = watch.seconds();
    run.after_first = run.seconds - *run.first_token;
    return run;
  }

private:
  Session& session_;
  std::vector<uint32_t> tokens_;
};

// One sequence by itself.
bool generates_alone(const BenchOptions& options) {
  return std::ranges::find(options.batches, 1u) != options.batches.end();
}

Status measure_depth(const BenchOptions& options, Session& session, uint32_t tokens, Sampler& sampler) {
  Depth depth(session, tokens);
  for (uint32_t count : options.prompts) {
    if (count == 0) continue;
    Measurement result = depth.name(fmt::format("pp{}", count), "prompt", count);
    PUMICE_CHECK(add_prompt_work(session, count, result));
    const std::vector<uint32_t> prompt = random_tokens(count, session.runner().model().shape().vocabulary);
    PUMICE_CHECK(sampler.add(std::move(result), [&] { return depth.prompt(prompt); }));
  }
  for (uint32_t count : options.counts) {
    if (count == 0 || !generates_alone(options)) continue;
    Measurement result = depth.name(fmt::format("tg{}", count), "decode", count);
    PUMICE_TRY(const Plan* plan, session.runner().plan(1));
    result.flops = plan->flops() * count;
    result.bytes = plan->bytes() * count;
    PUMICE_CHECK(sampler.add(std::move(result), [&] { return depth.decode(count); }));
  }
  for (const std::pair<uint32_t, uint32_t>& pair : options.pairs) {
    const uint32_t read = pair.first, written = pair.second;
    Measurement result = depth.name(fmt::format("pp{}+tg{}", read, written), "text", read + written);
    PUMICE_CHECK(add_prompt_work(session, read, result));
    PUMICE_TRY(const Plan* plan, session.runner().plan(1));
    result.flops += plan->flops() * written;
    result.bytes += plan->bytes() * written;
    const std::vector<uint32_t> prompt = random_tokens(read, session.runner().model().shape().vocabulary);
    PUMICE_CHECK(sampler.add(std::move(result), [&] { return depth.read_and_decode(prompt, written); }));
  }
  return {};
}

// The context that reading a prompt needs: a place for the token after it too. 0 without a prompt.
uint64_t prompt_context(uint32_t depth, uint32_t prompt) {
  return prompt ? uint64_t{depth} + prompt + 1 : 0;
}

// The same for generating, which runs some steps ahead of the token that it returns.
uint64_t count_context(uint32_t depth, uint32_t count, uint32_t steps_ahead) {
  return count ? uint64_t{depth} + count + 4 + steps_ahead : 0;
}

Error too_long(const char* option, uint32_t tokens, uint32_t depth, uint32_t context, uint64_t most) {
  const std::string behind = depth ? fmt::format(" after -d {}", depth) : "";
  return Error{
      Code::invalid_argument,
      most > 0 && most < tokens
          ? fmt::format("{} {}{} does not fit the context of {} tokens; the most that fits is {} {}", option,
                        tokens, behind, context, option, most)
          : fmt::format("{} {}{} does not fit the context of {} tokens", option, tokens, behind, context)};
}

// Prompts, and generating one sequence.
Status measure_alone(const BenchOptions& options, const std::shared_ptr<const Model>& model, uint32_t depth,
                     Sampler& sampler) {
  const uint32_t prompt = std::ranges::max(options.prompts);
  const uint32_t count = generates_alone(options) ? std::ranges::max(options.counts) : 0;
  SessionOptions session_options;
  session_options.size = session_size(options.size, model->shape());
  const uint64_t reading = prompt_context(depth, prompt);
  const uint64_t generating = count_context(depth, count, session_options.steps_ahead);
  uint64_t both = 0;
  for (const auto& [read, written] : options.pairs)
    both = std::max(both, count_context(depth + read, written, session_options.steps_ahead));
  if (reading == 0 && generating == 0 && both == 0) return {};
  uint32_t& context = session_options.size.context;
  if (!options.size.context)
    context = static_cast<uint32_t>(
        std::min<uint64_t>(std::max({reading, generating, both}), model->shape().context));
  if (reading > context) return too_long("-p", prompt, depth, context, prompt - (reading - context));
  if (generating > context) return too_long("-n", count, depth, context, count - (generating - context));
  if (both > context) {
    return Error{Code::invalid_argument,
                 fmt::format("--pg needs a context of {} tokens{}, and there are {}", both,
                             depth ? fmt::format(" after -d {}", depth) : "", context)};
  }
  PUMICE_TRY(const std::unique_ptr<Session> session, Session::create(model, session_options));
  return measure_depth(options, *session, depth, sampler);
}

} // namespace

Status measure_decoder(const BenchOptions& options, const std::shared_ptr<const Model>& model,
                       Sampler& sampler) {
  for (uint32_t depth : options.depths) {
    PUMICE_CHECK(measure_alone(options, model, depth, sampler));
    for (uint32_t sequences : options.batches) {
      if (sequences > 1) PUMICE_CHECK(measure_batch(options, model, depth, sequences, sampler));
    }
  }
  return {};
}

} // namespace pumice::command
