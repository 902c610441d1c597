#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "bench/measure.h"
#include "step/batch_groups.h"
#include "terminal/terminal.h"

namespace pumice::command {

namespace {

// Sequences that a decoder continues in the same steps, each after a text of its own, before which may be one
// that all have in common.
class SequencesTogether {
public:
  // `depth`: tokens of each before it is continued, at least 1.
  SequencesTogether(BatchGroups& batch, uint32_t sequences, uint32_t shared, uint32_t depth) : batch_(batch) {
    const uint32_t vocabulary = batch.first().runner().model().shape().vocabulary;
    const std::vector<uint32_t> all = random_tokens(shared + depth * sequences, vocabulary);
    const auto own = all.begin() + static_cast<ptrdiff_t>(shared);
    for (auto first = own; first != all.end(); first += static_cast<ptrdiff_t>(depth)) {
      std::vector<uint32_t>& prompt = prompts_.emplace_back(all.begin(), own);
      prompt.insert(prompt.end(), first, first + static_cast<ptrdiff_t>(depth));
    }
  }

  // From where each has a token until all together have got `count` times as many. Of the last step, which
  // may give more, a part of its time counts.
  Result<BenchRun> decode(uint32_t count) {
    PUMICE_CHECK(begin());
    BenchRun run;
    const Stopwatch watch;
    double last = 0;
    for (size_t left = count * prompts_.size(); left > 0;) {
      PUMICE_TRY(const size_t tokens, step());
      if (tokens == 0) return Error{Code::internal, "a step gave no token"};
      const size_t counted = std::min(tokens, left);
      const double now = watch.seconds(), took = now - last;
      run.token_seconds.push_back(took);
      run.seconds += took * static_cast<double>(counted) / static_cast<double>(tokens);
      left -= counted;
      last = now;
    }
    share_time(run.token_seconds, batch_.first().steps_per_submit());
    run.after_first = run.seconds;
    PUMICE_CHECK(batch_.stop_all());
    return run;
  }

  uint32_t sequences() const { return static_cast<uint32_t>(prompts_.size()); }

  // Another text's prompt is read while the others go on: up to its first token, and how long the others wait
  // for each of theirs.
  Result<BenchRun> join(uint32_t length) {
    const uint32_t vocabulary = batch_.first().runner().model().shape().vocabulary;
    std::vector<uint32_t> prompt = random_tokens(length, vocabulary);
    prompt[0] = (prompt[0] + ++joined_) % vocabulary; // nothing of it was read before
    PUMICE_CHECK(begin());
    BenchRun run;
    const Stopwatch watch;
    SequenceRequest request;
    request.prompt = std::move(prompt);
    PUMICE_TRY(const uint32_t id, batch_.add(std::move(request)));
    double last = 0;
    while (!run.first_token) {
      if (interrupted()) return interruption();
      PUMICE_TRY(const std::span<const BatchToken> tokens, batch_.step());
      run.seconds = watch.seconds();
      const bool read = std::ranges::find(tokens, id, &BatchToken::sequence) != tokens.end();
      if (read) run.first_token = run.seconds;
      if (tokens.size() == read) continue;
      run.token_seconds.push_back(run.seconds - last);
      last = run.seconds;
    }
    run.after_first = run.seconds;
    PUMICE_CHECK(batch_.stop_all());
    return run;
  }

private:
  // Up to where each has got a token.
  Status begin() {
    std::set<uint32_t> without;
    for (const std::vector<uint32_t>& prompt : prompts_) {
      SequenceRequest request;
      request.prompt = prompt;
      PUMICE_TRY(const uint32_t id, batch_.add(std::move(request)));
      without.insert(id);
    }
    while (!without.empty()) {
      if (interrupted()) return interruption();
      PUMICE_TRY(const std::span<const BatchToken> tokens, batch_.step());
      for (const BatchToken& token : tokens) without.erase(token.sequence);
    }
    return {};
  }

  Result<size_t> step() {
    if (interrupted()) return interruption();
    PUMICE_TRY(const std::span<const BatchToken> tokens, batch_.step());
    return tokens.size();
  }

  BatchGroups& batch_;
  std::vector<std::vector<uint32_t>> prompts_;
  uint32_t joined_ = 0; // texts so far
};

// How a test's name goes on: what lies before what is measured.
std::string behind(const BenchOptions& options, uint32_t depth) {
  std::string text;
  if (options.shared_prefix > 0) text += fmt::format(" @ shared {}", options.shared_prefix);
  if (depth > 0) text += fmt::format(" @ d{}", depth);
  return text;
}

// A text of `options.newcomer` tokens joins the others.
Status measure_newcomer(const BenchOptions& options, BatchGroups& batch, SequencesTogether& together,
                        uint32_t depth, Sampler& sampler) {
  const SessionSize& size = batch.first().size();
  Measurement result;
  result.test =
      fmt::format("pp{} beside b{}{}", options.newcomer, together.sequences(), behind(options, depth));
  result.kind = "join";
  result.depth = depth;
  result.shared_prefix = options.shared_prefix;
  result.sequences = together.sequences();
  result.tokens = options.newcomer;
  PUMICE_TRY(const Plan* plan, batch.first().runner().plan(size.chunk));
  const double steps = double(options.newcomer) / (size.chunk - size.sequences + 1);
  result.flops = plan->flops() * steps;
  result.bytes = plan->bytes() * steps;
  return sampler.add(std::move(result), [&] { return together.join(options.newcomer); });
}

} // namespace

Status measure_batch(const BenchOptions& options, const std::shared_ptr<const Model>& model, uint32_t depth,
                     uint32_t sequences, Sampler& sampler) {
  const uint32_t count = std::ranges::max(options.counts), joins = options.newcomer;
  if (count == 0 && joins == 0) return {};
  SessionOptions session;
  session.size = session_size(options.size, model->shape());
  session.size.sequences = sequences + (joins > 0);
  session.size.pages = all_pages;
  session.max_stall_seconds = options.size.max_stall_ms * 1e-3;
  const uint32_t tokens = std::max(depth, 1u), shared = options.shared_prefix;
  // While the last prompts are read, the first sequences go on already; while a text joins, all do, and it
  // may have a token a step.
  const uint64_t reading = uint64_t{tokens} * sequences / session.size.chunk + sequences;
  const uint64_t needed =
      uint64_t{shared} + tokens + std::max(count, joins) + reading + 4 + session.steps_ahead;
  uint32_t& context = session.size.context;
  if (!options.size.context)
    context = static_cast<uint32_t>(std::min<uint64_t>(needed, model->shape().context));
  if (needed > context) {
    return Error{Code::invalid_argument,
                 fmt::format("{} {} with --batch {}{}{} needs a context of {} tokens, and there are {}",
                             joins > count ? "--newcomer" : "-n", std::max(count, joins), sequences,
                             shared ? fmt::format(" and --shared-prefix {}", shared) : "",
                             depth ? fmt::format(" after -d {}", depth) : "", needed, context)};
  }
  PUMICE_TRY(const std::unique_ptr<BatchGroups> batch, BatchGroups::create(model, session));
  SequencesTogether together(*batch, sequences, shared, tokens);
  for (const uint32_t each : options.counts) {
    if (each == 0) continue;
    Measurement result;
    result.test = fmt::format("tg{} b{}{}", each, sequences, behind(options, depth));
    result.kind = "decode";
    result.depth = depth;
    result.shared_prefix = options.shared_prefix;
    result.sequences = sequences;
    result.tokens = each * sequences;
    PUMICE_TRY(const Plan* plan, batch->first().runner().plan(sequences));
    result.flops = plan->flops() * each;
    result.bytes = plan->bytes() * each;
    PUMICE_CHECK(sampler.add(std::move(result), [&] { return together.decode(each); }));
  }
  return joins ? measure_newcomer(options, *batch, together, depth, sampler) : Status();
}

} // namespace pumice::command
