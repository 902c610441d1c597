#include "generate/encoder_decoder.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

namespace pumice {

namespace {

constexpr uint32_t prompt_chunk = 64; // tokens of prompts in one step

void log_softmax(std::span<float> scores) {
  // A NaN counts as the smallest value.
  for (float& score : scores) score = std::isnan(score) ? -std::numeric_limits<float>::infinity() : score;
  const float largest = *std::ranges::max_element(scores);
  double sum = 0;
  for (float score : scores) sum += std::exp(double{score} - largest);
  const auto log_sum = static_cast<float>(largest + std::log(sum));
  for (float& score : scores) score -= log_sum;
}

// The best continuations of one beam, among those of others: at most `wanted` altogether, best first.
void add_continuations(uint32_t beam, float beam_score, std::span<const float> scores, size_t wanted,
                       std::vector<Continuation>& best) {
  const auto better = [](const Continuation& a, const Continuation& b) { return a.score > b.score; };
  for (uint32_t token = 0; token < scores.size(); ++token) {
    const Continuation next{beam, token, beam_score + scores[token]};
    if (!(next.score > -std::numeric_limits<float>::infinity())) continue;
    if (best.size() == wanted && !better(next, best.back())) continue;
    best.insert(std::ranges::upper_bound(best, next, better), next);
    if (best.size() > wanted) best.pop_back();
  }
}

Error cancelled() {
  return {Code::cancelled, "writing was cancelled"};
}

} // namespace

Result<std::vector<RunnerOptions>> EncoderDecoder::runner_options(const Model& model,
                                                                  const EncoderDecoderOptions& options) {
  const ModelShape& shape = model.shape();
  if (!shape.encoder || !shape.has_decoder()) {
    return Error{Code::unsupported,
                 fmt::format("{}: a model of the architecture '{}' has {}: use one with an encoder and a "
                             "decoder",
                             model.file().path(), model.file().architecture(),
                             shape.encoder ? "no decoder" : "no encoder")};
  }
  if (options.inputs == 0 || options.beams == 0) {
    return Error{Code::invalid_argument,
                 fmt::format("{} inputs of {} beams at a time: both must be at least 1", options.inputs,
                             options.beams)};
  }
  EncoderOptions encoder_options;
  encoder_options.tokens = options.input_tokens;
  encoder_options.inputs = options.inputs;
  encoder_options.cache = options.cache;
  PUMICE_TRY(RunnerOptions encoder, Encoder::runner_options(model, encoder_options));
  RunnerOptions decoder;
  SessionSize& size = decoder.size;
  size.context = options.output_tokens;
  size.sequences = options.inputs * options.beams;
  size.chunk = std::max(prompt_chunk, size.sequences);
  size.cache = options.cache;
  size.beams = options.beams > 1;
  size.input_positions = encoder.size.input_positions;
  if (options.beams > 1) {
    decoder.sampling = false;
    decoder.readable = {"logits"};
  }
  return std::vector<RunnerOptions>{std::move(decoder), std::move(encoder)};
}

Result<std::unique_ptr<EncoderDecoder>> EncoderDecoder::create(std::shared_ptr<const Model> model,
                                                               EncoderDecoderOptions options) {
  PUMICE_TRY(const std::vector<RunnerOptions> runners, runner_options(*model, options));
  std::unique_ptr<EncoderDecoder> result(new EncoderDecoder());
  result->options_ = options;
  if (options.beams == 1) {
    SessionOptions session;
    session.size = runners[0].size;
    PUMICE_TRY(result->batch_, Batch::create(model, session));
    result->decoder_ = &result->batch_->runner();
  } else {
    PUMICE_TRY(result->search_runner_, Runner::create(model, runners[0]));
    result->decoder_ = result->search_runner_.get();
  }
  EncoderOptions encoder;
  encoder.tokens = options.input_tokens;
  encoder.inputs = options.inputs;
  encoder.caches = result->decoder_->shared_caches();
  PUMICE_TRY(result->encoder_, Encoder::create(std::move(model), std::move(encoder)));
  return result;
}

Status EncoderDecoder::check(const GenerationOptions& options) const {
  const GenerationConfig& config = options.config;
  const std::string& path = model().file().path();
  if (config.prompt.empty()) {
    return Error{Code::invalid_argument,
                 fmt::format("{}: the settings do not say which token the decoder begins "
                             "with: add the field 'decoder_start_token_id'",
                             path)};
  }
  const uint32_t context = decoder_->size().context;
  if (config.prompt.size() >= context) {
    return Error{
        Code::invalid_argument,
        fmt::format("{}: the decoder's prompt of {} tokens does not fit its context of {}: ask for a longer "
                    "one",
                    path, config.prompt.size(), context)};
  }
  for (uint32_t token : config.prompt) {
    if (token < model().shape().vocabulary) continue;
    return Error{Code::invalid_argument,
                 fmt::format("{}: token {} is not in the vocabulary, whose ids are 0 to {}", path, token,
                             model().shape().vocabulary - 1)};
  }
  if (config.beams > options_.beams) {
    return Error{Code::invalid_argument,
                 fmt::format("{} beams were asked for, and this session was made for {}", config.beams,
                             options_.beams)};
  }
  return {};
}

Result<std::vector<std::vector<Hypothesis>>> EncoderDecoder::generate(std::span<const EncoderInput> inputs,
                                                                      const GenerationOptions& asked) {
  PUMICE_CHECK(check(asked));
  GenerationOptions options = asked;
  const uint32_t room = decoder_->size().context - static_cast<uint32_t>(options.config.prompt.size());
  uint32_t& most = options.config.max_tokens;
  most = most ? std::min(most, room) : room;
  const bool on_device = batch_ && only_suppresses(options.config) && !options.rule;
  if (!on_device && options.sampling.temperature > 0) {
    return Error{Code::unsupported,
                 "a temperature above 0 cannot be combined with beam search, nor with the rules for tokens "
                 "in this model's settings: use a temperature of 0"};
  }
  if (!on_device && !search_runner_) {
    RunnerOptions runner;
    runner.size = decoder_->size();
    runner.caches = decoder_->shared_caches();
    runner.sampling = false;
    runner.readable = {"logits"};
    PUMICE_TRY(search_runner_, Runner::create(batch_->runner().shared_model(), std::move(runner)));
  }
  std::vector<std::vector<Hypothesis>> texts(inputs.size());
  for (size_t first = 0; first < inputs.size();) {
    if (options.progress && !options.progress(first, inputs.size())) {
      return Error{Code::cancelled, "cancelled between two inputs"};
    }
    const size_t count = std::max<size_t>(encoder_->fitting(inputs.subspan(first)), 1);
    PUMICE_TRY(const std::vector<InputRange> ranges, encoder_->encode(inputs.subspan(first, count)));
    if (options.interrupted()) {
      for (const InputRange& range : ranges) encoder_->release(range);
      return cancelled();
    }
    const Status status =
        on_device ? greedy(ranges, first, options, texts) : search(ranges, first, options, texts);
    for (const InputRange& range : ranges) encoder_->release(range);
    PUMICE_CHECK(status);
    first += count;
  }
  if (options.progress) (void)options.progress(inputs.size(), inputs.size());
  return texts;
}

Status EncoderDecoder::greedy(std::span<const InputRange> ranges, size_t first_input,
                              const GenerationOptions& options, std::vector<std::vector<Hypothesis>>& texts) {
  SequenceRequest request;
  request.prompt = options.config.prompt;
  request.sampling = options.sampling;
  for (uint32_t token : options.config.suppressed) {
    request.sampling.logit_biases.push_back({token, -std::numeric_limits<float>::infinity()});
  }
  const std::vector<uint32_t>& ends = options.config.ends;
  request.sampling.stop_tokens.insert(request.sampling.stop_tokens.end(), ends.begin(), ends.end());
  request.max_tokens = options.config.max_tokens;
  std::vector<uint32_t> ids;
  for (const InputRange& range : ranges) {
    request.input = range;
    PUMICE_TRY(uint32_t id, batch_->add(request));
    ids.push_back(id);
    texts[first_input + ids.size() - 1].resize(1);
  }
  while (batch_->sequences() > 0) {
    if (options.interrupted()) {
      for (uint32_t id : ids) PUMICE_CHECK(batch_->drop(id));
      return cancelled();
    }
    PUMICE_TRY(const std::span<const BatchToken> tokens, batch_->step());
    for (const BatchToken& each : tokens) {
      const size_t input =
          first_input + static_cast<size_t>(std::ranges::find(ids, each.sequence) - ids.begin());
      texts[input][0].tokens.push_back(each.token);
      texts[input][0].finished = each.finish_reason != FinishReason::none;
      if (options.on_token) options.on_token(input, each.token);
      if (options.on_texts && texts[input][0].finished) options.on_texts(input, texts[input]);
    }
  }
  return batch_->wait();
}

Status EncoderDecoder::search(std::span<const InputRange> ranges, size_t first_input,
                              const GenerationOptions& options, std::vector<std::vector<Hypothesis>>& texts) {
  std::vector<Search> searches;
  std::vector<StepToken> rows; // of the prompts, without their last tokens
  const std::vector<uint32_t>& prompt = options.config.prompt;
  for (size_t i = 0; i < ranges.size(); ++i) {
    const uint32_t slot = static_cast<uint32_t>(i) * options_.beams;
    for (uint32_t beam = 0; beam < options_.beams; ++beam) {
      PUMICE_CHECK(search_runner_->set_input(slot + beam, ranges[i]));
    }
    searches.push_back({first_input + i, slot, BeamSearch(options.config), {}});
    searches.back().cache_indirection.assign(1, std::vector<uint32_t>(prompt.size() - 1, slot));
    for (uint32_t at = 0; at + 1 < prompt.size(); ++at) rows.push_back({prompt[at], at, slot});
    if (options_.beams > 1)
      PUMICE_CHECK(search_runner_->set_cache_indirection(slot, std::vector(prompt.size(), slot)));
  }
  for (size_t first = 0; first < rows.size(); first += search_runner_->size().chunk) {
    const size_t count = std::min<size_t>(search_runner_->size().chunk, rows.size() - first);
    PUMICE_CHECK(search_runner_->write_step(std::span(rows).subspan(first, count)));
    PUMICE_CHECK(search_runner_->submit(static_cast<uint32_t>(count)));
  }
  const auto done = [](const Search& each) { return each.beams.done(); };
  while (!std::ranges::all_of(searches, done)) {
    if (options.interrupted()) return cancelled();
    PUMICE_CHECK(search_step(searches, options));
    for (const Search& each : searches) {
      std::vector<Hypothesis>& own = texts[each.input];
      if (!each.beams.done() || !own.empty()) continue;
      own = each.beams.results(options.hypotheses);
      if (options.on_texts) options.on_texts(each.input, own);
    }
  }
  return {};
}

// Writes a row for each beam of each unfinished search: its last token.
Result<uint32_t> EncoderDecoder::write_rows(std::vector<Search>& searches, const GenerationOptions& options) {
  std::vector<StepToken> rows;
  const std::vector<uint32_t>& prompt = options.config.prompt;
  for (Search& search : searches) {
    if (search.beams.done()) continue;
    for (uint32_t beam = 0; beam < search.beams.beams().size(); ++beam) {
      const std::vector<uint32_t>& tokens = search.beams.beams()[beam].tokens;
      StepToken row;
      row.token = tokens.empty() ? prompt.back() : tokens.back();
      row.position = static_cast<uint32_t>(prompt.size() + tokens.size() - 1);
      row.sequence = search.first_slot + beam;
      row.output = true;
      rows.push_back(row);
      search.cache_indirection[beam].push_back(row.sequence);
      if (options_.beams > 1) {
        PUMICE_CHECK(search_runner_->set_cache_indirection(row.sequence, search.cache_indirection[beam]));
      }
    }
  }
  PUMICE_CHECK(search_runner_->write_step(rows));
  return static_cast<uint32_t>(rows.size());
}

Status EncoderDecoder::search_step(std::vector<Search>& searches, const GenerationOptions& options) {
  PUMICE_TRY(const uint32_t count, write_rows(searches, options));
  PUMICE_CHECK(search_runner_->submit(count));
  PUMICE_TRY(std::vector<float> logits, search_runner_->read("logits", count));
  const size_t vocabulary = model().shape().vocabulary;
  size_t row = 0;
  for (Search& search : searches) {
    if (search.beams.done()) continue;
    std::vector<Continuation> best;
    const std::span<const BeamSearch::Beam> beams = search.beams.beams();
    for (uint32_t beam = 0; beam < beams.size(); ++beam, ++row) {
      const std::span<float> scores = std::span(logits).subspan(row * vocabulary, vocabulary);
      // As in transformers, rules change log-probabilities with several beams, and logits with one.
      if (options.config.beams > 1) log_softmax(scores);
      apply_rules(options.config, scores, beams[beam].tokens);
      if (options.rule) options.rule(scores, beams[beam].tokens);
      if (options.config.beams == 1) log_softmax(scores);
      add_continuations(beam, beams[beam].score, scores, search.beams.wanted(), best);
    }
    const std::vector<uint32_t> parents = search.beams.advance(best);
    std::vector<std::vector<uint32_t>> cache_indirection;
    for (uint32_t parent : parents) cache_indirection.push_back(search.cache_indirection[parent]);
    if (!cache_indirection.empty()) search.cache_indirection = std::move(cache_indirection);
    if (options.config.beams == 1 && options.on_token && !best.empty()) {
      options.on_token(search.input, best.front().token);
    }
  }
  return {};
}

} // namespace pumice
