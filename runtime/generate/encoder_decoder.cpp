#include "generate/encoder_decoder.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "step/check_tokens.h"

namespace pumice {

namespace {

constexpr uint32_t prompt_chunk = 64; // tokens of prompts in one step

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
    decoder.readable = {"continuations"};
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
  PUMICE_CHECK(check_tokens(model(), config.prompt, model().shape().vocabulary));
  if (config.beams > options_.beams) {
    return Error{Code::invalid_argument,
                 fmt::format("{} beams were asked for, and this session was made for {}", config.beams,
                             options_.beams)};
  }
  return {};
}

Status EncoderDecoder::check_terms(const GenerationOptions& options, size_t inputs) const {
  if (options.terms.empty()) return {};
  if (options.config.beams < 2 || options.terms.size() != inputs) {
    return Error{Code::invalid_argument,
                 fmt::format("terms of {} inputs and {} beams: terms need a list for each of the {} inputs, "
                             "and at least 2 beams",
                             options.terms.size(), options.config.beams, inputs)};
  }
  for (const std::vector<Term>& terms : options.terms) {
    for (const Term& term : terms) {
      if (term.empty()) return Error{Code::invalid_argument, "a term has no tokens: give it at least one"};
      PUMICE_CHECK(check_tokens(model(), term, model().shape().vocabulary));
    }
  }
  return {};
}

// Whether sampling's kernels choose the tokens, so that steps need no answer of the host.
bool EncoderDecoder::samples_on_device(const GenerationOptions& options) const {
  return batch_ && only_suppresses(options.config) && !options.rule;
}

// Whether the search's kernels can find the continuations.
bool EncoderDecoder::searches_on_device(const GenerationOptions& options) const {
  return device_can_search(options, decoder_->size().context);
}

// The runner of the decoder's steps.
Runner& EncoderDecoder::runner_of(const GenerationOptions& options) const {
  if (samples_on_device(options)) return batch_->runner();
  return searches_on_device(options) ? *search_runner_ : *host_runner_;
}

// Makes the runner that these options need.
Status EncoderDecoder::make_runner(const GenerationOptions& options) {
  if (samples_on_device(options)) return {};
  const bool searches = searches_on_device(options);
  std::unique_ptr<Runner>& wanted = searches ? search_runner_ : host_runner_;
  if (wanted) return {};
  RunnerOptions runner;
  runner.size = decoder_->size();
  runner.caches = decoder_->shared_caches();
  runner.sampling = false;
  runner.readable = {searches ? "continuations" : "logits"};
  PUMICE_TRY(wanted, Runner::create(decoder_->shared_model(), std::move(runner)));
  return {};
}

Status EncoderDecoder::prepare(const GenerationOptions& options, size_t threads, const Progress& progress) {
  PUMICE_CHECK(make_runner(options));
  PUMICE_CHECK(encoder_->runner().prepare_all(threads, progress));
  return runner_of(options).prepare_all(threads, progress);
}

Result<std::vector<std::vector<Hypothesis>>> EncoderDecoder::generate(std::span<const EncoderInput> inputs,
                                                                      const GenerationOptions& options) {
  PUMICE_CHECK(begin(inputs, options));
  PUMICE_CHECK(run());
  return take_texts();
}

Status EncoderDecoder::begin(std::span<const EncoderInput> inputs, const GenerationOptions& options) {
  PUMICE_CHECK(end());
  return open_run(inputs, options);
}

Status EncoderDecoder::open_run(std::span<const EncoderInput> inputs, const GenerationOptions& options) {
  PUMICE_CHECK(check(options));
  if (!samples_on_device(options) && options.sampling.temperature > 0) {
    return Error{Code::unsupported,
                 "a temperature above 0 cannot be combined with beam search, nor with the rules for tokens "
                 "in this model's settings: use a temperature of 0"};
  }
  PUMICE_CHECK(check_terms(options, inputs.size()));
  PUMICE_CHECK(make_runner(options));
  run_ = std::make_unique<Run>();
  run_->inputs = inputs;
  run_->options = options;
  run_->texts.resize(inputs.size());
  const uint32_t room = decoder_->size().context - static_cast<uint32_t>(options.config.prompt.size());
  uint32_t& most = run_->options.config.max_tokens;
  most = most ? std::min(most, room) : room;
  return {};
}

Status EncoderDecoder::again(std::span<const size_t> indices, std::span<const EncoderInput> inputs,
                             const GenerationOptions& options) {
  const bool kept =
      !active() && std::ranges::all_of(indices, [&](size_t index) { return index < kept_.size(); });
  if (!kept) return begin(inputs, options);
  std::vector<InputRange> all = std::exchange(kept_, {}), ranges;
  for (size_t i = 0; i < all.size(); ++i) {
    if (std::ranges::count(indices, i) == 0) encoder_->release(all[i]);
  }
  for (const size_t index : indices) ranges.push_back(all[index]);
  const Status status = open_run(inputs, options);
  if (status.ok()) {
    run_->ranges = std::move(ranges);
  } else {
    kept_ = std::move(ranges);
  }
  return status;
}

void EncoderDecoder::release_kept() {
  for (const InputRange& range : std::exchange(kept_, {})) encoder_->release(range);
}

// The next inputs that run together.
Result<std::span<const EncoderInput>> EncoderDecoder::next_inputs() {
  const Progress& progress = run_->options.progress;
  if (progress && !progress(run_->first, run_->inputs.size())) {
    return Error{Code::cancelled, "cancelled between two inputs"};
  }
  const std::span<const EncoderInput> left = run_->inputs.subspan(run_->first);
  return left.first(std::max<size_t>(encoder_->fitting(left), 1));
}

Status EncoderDecoder::begin_decoding() {
  const DecodingTask task{run_->options, run_->ranges, run_->first,
                          std::span(run_->texts).subspan(run_->first, run_->ranges.size())};
  run_->decoding = samples_on_device(run_->options)
                       ? make_greedy_decoding(*batch_, task)
                       : make_search_decoding(runner_of(run_->options), options_.beams, task);
  return run_->decoding->begin();
}

// Forgets the inputs that run together, whose texts are complete or not wanted.
Status EncoderDecoder::end_decoding() {
  const Status status = run_->decoding ? run_->decoding->end() : Status();
  run_->decoding.reset();
  if (run_->options.keep_inputs) {
    kept_.insert(kept_.end(), run_->ranges.begin(), run_->ranges.end());
  } else {
    for (const InputRange& range : run_->ranges) encoder_->release(range);
  }
  run_->first += run_->ranges.size();
  run_->ranges.clear();
  return status;
}

Status EncoderDecoder::step() {
  if (run_->options.interrupted()) return cancelled();
  if (run_->ranges.empty()) {
    PUMICE_TRY(const std::span<const EncoderInput> inputs, next_inputs());
    PUMICE_TRY(run_->ranges, encoder_->encode(inputs));
    return {};
  }
  if (!run_->decoding) PUMICE_CHECK(begin_decoding());
  PUMICE_CHECK(run_->decoding->step());
  return run_->decoding->done() ? end_decoding() : Status();
}

Status EncoderDecoder::run() {
  while (active()) {
    Status status = step();
    if (status.ok()) continue;
    (void)end();
    return status;
  }
  if (run_->options.progress) (void)run_->options.progress(run_->inputs.size(), run_->inputs.size());
  return {};
}

Status EncoderDecoder::end() {
  if (!run_) return {};
  encoder_->runner().close_step();
  const Status status = end_decoding();
  run_.reset();
  release_kept();
  return status;
}

Status EncoderDecoder::fill(Slice& slice) {
  if (run_->ranges.empty()) {
    PUMICE_TRY(const std::span<const EncoderInput> inputs, next_inputs());
    PUMICE_TRY(run_->ranges, encoder_->open(inputs));
  }
  if (encoder_->runner().step_open()) {
    PUMICE_TRY(const std::optional<Completion> done, encoder_->runner().fill(slice));
    if (!done) return {};
  }
  if (!run_->decoding) PUMICE_CHECK(begin_decoding());
  return run_->decoding->done() ? Status() : run_->decoding->fill(slice);
}

Status EncoderDecoder::collect(const Slicer& slicer) {
  if (!run_ || !run_->decoding) return {};
  PUMICE_CHECK(run_->decoding->collect());
  // Steps that ran ahead of the end of the texts still use what the texts have.
  return run_->decoding->done() && !slicer.under_way() ? end_decoding() : Status();
}

double EncoderDecoder::largest_dispatch(const Slicer& slicer) const {
  if (!run_ || !run_->decoding) return encoder_->runner().largest_dispatch(slicer);
  return runner_of(run_->options).largest_dispatch(slicer);
}

} // namespace pumice
