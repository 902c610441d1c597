#include <algorithm>
#include <bit>
#include <optional>

#include <fmt/format.h>

#include "commands/generate.h"
#include "generate/encoder_decoder.h"
#include "options/prompt.h"
#include "task/evaluation/model_inputs.h"
#include "task/model_kind.h"
#include "terminal/terminal.h"
#include "text/stop_strings.h"

// `pumice generate` for models with an encoder.
namespace pumice::command {

namespace {

Status check_options(const GenerateOptions& options, const ModelShape& shape) {
  if (options.session.given())
    return wrong_kind(options.model, shape, "--session is only for models without an encoder");
  if (options.log_probabilities)
    return wrong_kind(options.model, shape, "--logprobs is only for models without an encoder");
  if (shape.encoder->kind != InputKind::tokens && options.inputs.empty()) {
    return wrong_kind(options.model, shape, "it does not read text; give its inputs with --inputs");
  }
  return {};
}

Result<GenerationConfig> read_config(const GenerateOptions& options, const ModelFile& file,
                                     const ModelShape& shape) {
  PUMICE_TRY(GenerationConfig config, read_generation_config(file, shape.vocabulary));
  PUMICE_CHECK(options.beams.apply(config, option_names));
  if (options.ignore_end) config.ends.clear();
  config.ends.insert(config.ends.end(), options.stop_ids.begin(), options.stop_ids.end());
  if (options.count_option->count() || config.max_tokens == 0) config.max_tokens = options.count;
  if (config.max_tokens == no_token_limit) {
    const uint32_t room = context_for(options.size.context, shape);
    config.max_tokens = room - std::min(room, static_cast<uint32_t>(config.prompt.size()));
  }
  return config;
}

// The tensors of --inputs, each row as a text.
Status add_inputs(EncoderBatch batch, TextSource& source) {
  for (EncoderInput& input : batch.inputs) {
    Text text;
    text.source = batch.source;
    text.input = std::move(input);
    PUMICE_CHECK(source.add(std::move(text)));
  }
  return {};
}

Status check_prompt(const Text& text, const EncoderShape& shape) {
  if (!text.input.values.empty() || !text.input.tokens.empty()) return {}; // --inputs checks them itself
  PUMICE_CHECK(check_ids(text.prompt, shape.vocabulary, text.source));
  if (shape.any_length || text.prompt.size() <= shape.context) return {};
  return Error{Code::invalid_argument, fmt::format("{}: it has {} tokens, and the model reads {} at most",
                                                   text.source, text.prompt.size(), shape.context)};
}

EncoderInput input_of(const Text& text) {
  return text.prompt.empty() ? text.input : EncoderInput{text.prompt, {}, {}};
}

// Whether two texts can be written in the same steps.
bool same_settings(const Text& a, const Text& b) {
#define OPTION(field, ...)                                                                                   \
  if (a.sampling.field != b.sampling.field) return false;
#include "kernel/sampling_options.def"
  const bool drawn = a.sampling.temperature > 0;
  return a.count == b.count && (!drawn || a.sampling.seed == b.sampling.seed);
}

// Answers inputs as they arrive, those with the same settings together.
class InputAnswerer {
public:
  InputAnswerer(const GenerateOptions& options, const MaybeTokenizer& tokenizer, TextQueue& queue,
                std::shared_ptr<const Model> model, GenerationConfig config)
      : options_(options), tokenizer_(tokenizer), queue_(queue), model_(std::move(model)),
        config_(std::move(config)) {}

  // Until all texts have ended.
  Status run() {
    for (;;) {
      if (queue_.waiting() == 0) PUMICE_CHECK(queue_.take(true));
      if (queue_.waiting() == 0) return {};
      size_t count = 1;
      while (count < queue_.waiting() && same_settings(queue_.waiting(0), queue_.waiting(count))) ++count;
      PUMICE_CHECK(answer(count));
    }
  }

private:
  // The number of beams in the model's settings is for greedy search.
  uint32_t beams_of(const Text& text) const {
    return text.sampling.temperature > 0 && !options_.beams.given() ? 1 : config_.beams;
  }

  // Positions of an input and of its text.
  uint32_t input_positions(const Text& text) const {
    if (!text.input.values.empty()) return model_->shape().encoder->context;
    return static_cast<uint32_t>(std::max(text.prompt.size(), text.input.tokens.size()));
  }
  uint32_t output_positions(const Text& text) const {
    const uint64_t wanted = uint64_t{text.count} + config_.prompt.size();
    return static_cast<uint32_t>(std::min<uint64_t>(wanted, model_->shape().context));
  }

  // A session for the texts that wait. While others may come, it gets some room for them.
  Status make_session() {
    const bool all = queue_.all_arrived();
    uint64_t longest = 1, total = 0, output = 1;
    for (size_t i = 0; i < queue_.waiting(); ++i) {
      const Text& text = queue_.waiting(i);
      longest = std::max<uint64_t>(longest, input_positions(text));
      output = std::max<uint64_t>(output, output_positions(text));
      total += input_positions(text);
    }
    const EncoderShape& shape = *model_->shape().encoder;
    uint64_t together = std::min<uint64_t>(batch_tokens(options_.batch_tokens), total);
    if (shape.kind != InputKind::tokens) together -= together % longest;
    if (!all) {
      constexpr uint64_t least_room = 64;
      output = std::bit_ceil(std::max(output, least_room));
      longest = std::bit_ceil(std::max(longest, least_room));
      together = std::max<uint64_t>(longest, batch_tokens(options_.batch_tokens));
      if (!shape.any_length) longest = std::min<uint64_t>(longest, shape.context);
    }
    EncoderDecoderOptions session;
    session.inputs = all ? static_cast<uint32_t>(std::min<size_t>(options_.sequences, queue_.waiting()))
                         : options_.sequences;
    session.beams = beams_of(queue_.waiting(0));
    session.cache = session_size(options_.size, model_->shape()).cache;
    session.input_tokens = static_cast<uint32_t>(std::max(longest, together));
    session.output_tokens = options_.size.context;
    if (!options_.size.context)
      session.output_tokens = static_cast<uint32_t>(std::min<uint64_t>(model_->shape().context, output));
    session_.reset(); // its memory is free for the next one
    PUMICE_TRY(session_, EncoderDecoder::create(model_, session));
    size_ = session;
    return {};
  }

  bool session_fits(size_t count) const {
    if (!session_ || size_.beams != beams_of(queue_.waiting(0))) return false;
    for (size_t i = 0; i < count; ++i) {
      const Text& text = queue_.waiting(i);
      const bool output = options_.size.context || output_positions(text) <= size_.output_tokens;
      if (!output || input_positions(text) > size_.input_tokens) return false;
    }
    return true;
  }

  Status answer(size_t count) {
    if (queue_.waiting(0).count == 0) {
      for (size_t i = 0; i < count; ++i) queue_.waiting(i).finish_reason = "count";
      queue_.begin(count);
      queue_.print();
      return {};
    }
    if (!session_fits(count)) PUMICE_CHECK(make_session());
    std::vector<Text*> texts;
    std::vector<EncoderInput> inputs;
    for (size_t i = 0; i < count; ++i) {
      texts.push_back(&queue_.waiting(i));
      inputs.push_back(input_of(*texts.back()));
    }
    queue_.begin(count);
    GenerationOptions generation;
    generation.config = config_;
    generation.config.max_tokens = texts[0]->count;
    generation.config.beams = size_.beams;
    generation.sampling = texts[0]->sampling;
    generation.hypotheses = options_.beams.hypotheses;
    ProgressBar bar("generating");
    generation.progress = bar.callback();
    generation.on_texts = [&](size_t input, const std::vector<Hypothesis>& written) {
      if (!saved_) saved_.emplace();
      complete(*texts[input], written);
      if (!queue_.can_print()) return;
      bar.erase();
      queue_.print();
    };
    Result<std::vector<std::vector<Hypothesis>>> written = session_->generate(inputs, generation);
    return written.ok() ? Status() : Status(std::move(written).error());
  }

  Answer answer_of(const Hypothesis& written, const Text& text, bool& stopped) const {
    Answer answer{written.tokens, {}, {}, written.score};
    std::vector<uint32_t>& ids = answer.ids;
    if (!ids.empty() && std::ranges::count(config_.ends, ids.back())) {
      answer.end = ids.back();
      ids.pop_back();
    }
    if (!tokenizer_.ok()) return answer;
    StreamDecoder decoder(*tokenizer_);
    StopStrings stops(text.stops);
    for (size_t i = 0; i < ids.size() && !stops.found(); ++i) {
      answer.text += stops.push(decoder.push(ids[i]));
      if (stops.found()) ids.resize(i + 1);
    }
    if (!stops.found()) answer.text += stops.push(decoder.flush());
    answer.text += stops.flush();
    if (stops.found()) answer.end.reset();
    stopped = stops.found();
    return answer;
  }

  void complete(Text& text, const std::vector<Hypothesis>& written) const {
    bool stopped = false;
    for (const Hypothesis& each : written) {
      bool by_string = false;
      text.hypotheses.push_back(answer_of(each, text, by_string));
      if (text.hypotheses.size() == 1) stopped = by_string;
    }
    const Answer& best = text.hypotheses.front();
    text.ids = best.ids;
    text.text = best.text;
    text.end = best.end;
    text.finish_reason = stopped                                      ? "stop string"
                         : best.end                                   ? "stop token"
                         : written.front().tokens.size() < text.count ? "context"
                                                                      : "count";
    if (size_.beams == 1) text.hypotheses.clear();
  }

  const GenerateOptions& options_;
  const MaybeTokenizer& tokenizer_;
  TextQueue& queue_;
  std::shared_ptr<const Model> model_;
  GenerationConfig config_;
  std::unique_ptr<EncoderDecoder> session_;
  EncoderDecoderOptions size_;     // of session_
  std::optional<SavedWork> saved_; // what was written until Ctrl-C
};

} // namespace

Status generate_from_inputs(const GenerateOptions& options, OpenedModel opened,
                            const MaybeTokenizer& tokenizer) {
  const ModelShape shape = opened.definition->shape();
  PUMICE_CHECK(check_options(options, shape));
  PUMICE_TRY(GenerationConfig config, read_config(options, opened.file, shape));
  const EncoderShape& encoder = *shape.encoder;
  TextSource source(options, tokenizer, config.max_tokens,
                    [&](const Text& text) { return check_prompt(text, encoder); });
  EncoderBatch batch;
  if (options.inputs.empty()) {
    PUMICE_CHECK(source.open());
    if (!source.has_texts()) {
      return Error{Code::invalid_argument,
                   "there is no input: give one as an argument, or with --prompt, --file, --ids, --inputs or "
                   "--requests"};
    }
  } else {
    PUMICE_TRY(SafetensorsFile tensors, SafetensorsFile::open(path_of(options.inputs)));
    PUMICE_TRY(batch, read_encoder_inputs(tensors, options.inputs, encoder));
    PUMICE_CHECK(check_lengths(batch, encoder));
  }
  PUMICE_TRY(OpenedDevice device, open_device(options.device));
  PUMICE_TRY(std::shared_ptr<const Model> model,
             load_model(std::move(opened), device, options.size.load, &options.size));
  PUMICE_CHECK(replace_sound(*model, batch));
  PUMICE_CHECK(add_inputs(std::move(batch), source));
  TextPrinter printer(options, device, tokenizer, source.given() > options.samples);
  TextQueue queue(options, source, printer);
  const Status status = InputAnswerer(options, tokenizer, queue, model, std::move(config)).run();
  if (status.ok() || queue.has_results()) queue.finish(status.ok());
  if (!status.ok()) {
    if (const Status written = write_generated(options, queue, model->file(), false); !written.ok())
      print_error(written.error().text());
  }
  PUMICE_CHECK(status);
  PUMICE_CHECK(write_generated(options, queue, model->file(), true));
  return device.save_pipelines();
}

} // namespace pumice::command
