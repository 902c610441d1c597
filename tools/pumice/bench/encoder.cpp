#include <algorithm>
#include <random>

#include <fmt/format.h>

#include "bench/measure.h"
#include "bench/profile.h"
#include "generate/encoder_decoder.h"
#include "generate/generation_config.h"
#include "terminal/terminal.h"

namespace pumice::command {

namespace {

// Random inputs. `tokens` is for text only: the model fixes the size of pictures and sounds.
Result<std::vector<EncoderInput>> random_inputs(const Model& model, uint32_t tokens, uint32_t count) {
  const EncoderShape& shape = *model.shape().encoder;
  EncoderInput input;
  if (shape.kind == InputKind::tokens) {
    if (tokens > shape.context && !shape.any_length) {
      return Error{Code::invalid_argument, fmt::format("-p {}: {} reads at most {} tokens at a time", tokens,
                                                       model.file().path(), shape.context)};
    }
    input.tokens = random_tokens(tokens, shape.vocabulary);
  } else {
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    input.values.resize(shape.input_values());
    for (float& value : input.values) value = normal(random);
  }
  return std::vector<EncoderInput>(count, input);
}

// The numbers of positions of the inputs to measure.
std::vector<uint32_t> input_sizes(const BenchOptions& options, const EncoderShape& shape) {
  if (shape.kind != InputKind::tokens) return {shape.context};
  std::vector<uint32_t> sizes = options.prompts;
  std::erase(sizes, 0u);
  return sizes;
}

std::string batch_text(uint32_t inputs) {
  return inputs > 1 ? fmt::format(" b{}", inputs) : "";
}

// Encodes the inputs once, and releases them.
Result<BenchRun> encode(Encoder& encoder, std::span<const EncoderInput> inputs) {
  BenchRun run;
  const Stopwatch watch;
  PUMICE_TRY(const std::vector<InputRange> ranges, encoder.encode(inputs));
  PUMICE_TRY(const std::vector<float> none,
             encoder.runner().read("last_hidden_state", 0)); // waits for the device
  (void)none;
  run.seconds = watch.seconds();
  for (const InputRange& range : ranges) encoder.release(range);
  return run;
}

// The model's settings reduced to the decoder's prompt, so that nothing ends a text early or forbids a token.
Result<GenerationConfig> plain_generation(const Model& model, uint32_t count) {
  PUMICE_TRY(const GenerationConfig theirs, read_generation_config(model.file(), model.shape().vocabulary));
  GenerationConfig config;
  config.prompt = theirs.prompt;
  if (config.prompt.empty()) config.prompt = {0};
  config.max_tokens = count;
  return config;
}

Result<BenchRun> translate(EncoderDecoder& session, std::span<const EncoderInput> inputs,
                           const GenerationConfig& config) {
  BenchRun run;
  GenerationOptions options;
  options.config = config;
  const Stopwatch watch;
  double last = 0;
  options.on_token = [&](size_t input, uint32_t) {
    const double now = watch.seconds();
    if (!run.first_token) {
      run.first_token = now;
    } else if (input == 0) {
      run.token_seconds.push_back(now - last);
    }
    if (input == 0) last = now;
  };
  PUMICE_TRY(const auto texts, session.generate(inputs, options));
  run.seconds = watch.seconds();
  share_time(run.token_seconds, session.steps_per_submit());
  run.after_first = run.seconds - run.first_token.value_or(run.seconds);
  for (const std::vector<Hypothesis>& text : texts) {
    if (text[0].tokens.size() == config.max_tokens) continue;
    return Error{Code::internal, fmt::format("a text of {} tokens was made: expected {}",
                                             text[0].tokens.size(), config.max_tokens)};
  }
  return run;
}

Result<std::unique_ptr<EncoderDecoder>> create_session(const BenchOptions& options,
                                                       const std::shared_ptr<const Model>& model,
                                                       const GenerationConfig& config, uint32_t positions,
                                                       uint32_t batch) {
  EncoderDecoderOptions session;
  session.inputs = batch;
  session.input_tokens = positions * batch;
  session.cache = session_size(options.size, model->shape()).cache;
  const uint32_t needed = static_cast<uint32_t>(config.prompt.size()) + config.max_tokens + 1;
  session.output_tokens = std::min(needed, model->shape().context);
  if (config.prompt.size() + config.max_tokens > session.output_tokens) {
    return Error{Code::invalid_argument,
                 fmt::format("-n {}: the decoder of {} has a context of {}, with a prompt of {}",
                             config.max_tokens, model->file().path(), model->shape().context,
                             config.prompt.size())};
  }
  return EncoderDecoder::create(model, session);
}

Status add_work(Runner& runner, uint32_t tokens, double times, Measurement& result) {
  PUMICE_TRY(const Plan* plan, runner.plan(tokens));
  result.flops += plan->flops() * times;
  result.bytes += plan->bytes() * times;
  return {};
}

Result<StepProfile> profile_inputs(Encoder& encoder, std::span<const EncoderInput> inputs, uint32_t tokens) {
  return profile_step(encoder.runner(), tokens, fmt::format("encoder, {} positions", tokens),
                      [&]() -> Status {
                        PUMICE_TRY(const std::vector<InputRange> ranges, encoder.encode(inputs));
                        for (const InputRange& range : ranges) encoder.release(range);
                        return Status{};
                      });
}

} // namespace

Result<std::vector<StepProfile>> profile_encoder(const BenchOptions& options,
                                                 const std::shared_ptr<const Model>& model) {
  const std::vector<uint32_t> sizes = input_sizes(options, *model->shape().encoder);
  const uint32_t positions = sizes.empty() ? 1 : sizes[0];
  PUMICE_TRY(const std::vector<EncoderInput> inputs, random_inputs(*model, positions, 1));
  if (!model->shape().has_decoder()) {
    EncoderOptions encoder_options;
    encoder_options.tokens = positions;
    PUMICE_TRY(const std::unique_ptr<Encoder> encoder, Encoder::create(model, encoder_options));
    PUMICE_TRY(StepProfile profile, profile_inputs(*encoder, inputs, positions));
    return std::vector{std::move(profile)};
  }
  PUMICE_TRY(const GenerationConfig config, plain_generation(*model, 1));
  PUMICE_TRY(const std::unique_ptr<EncoderDecoder> session,
             create_session(options, model, config, positions, 1));
  PUMICE_TRY(StepProfile of_encoder, profile_inputs(session->encoder(), inputs, positions));
  Runner& decoder = session->decoder();
  PUMICE_CHECK(decoder.set_input(0, {0, positions}));
  PUMICE_TRY(StepProfile of_decoder, profile_step(decoder, 1, "decoder, 1 token", [&] {
               return decoder.write_step(std::array{StepToken{.token = config.prompt[0], .output = true}});
             }));
  return std::vector{std::move(of_encoder), std::move(of_decoder)};
}

Status measure_encoder(const BenchOptions& options, const std::shared_ptr<const Model>& model,
                       Sampler& sampler) {
  for (uint32_t positions : input_sizes(options, *model->shape().encoder)) {
    for (uint32_t batch : options.batches) {
      PUMICE_TRY(const std::vector<EncoderInput> inputs, random_inputs(*model, positions, batch));
      EncoderOptions encoder_options;
      encoder_options.tokens = positions * batch;
      encoder_options.inputs = batch;
      encoder_options.cache = session_size(options.size, model->shape()).cache;
      encoder_options.readable = {"last_hidden_state"};
      PUMICE_TRY(const std::unique_ptr<Encoder> encoder, Encoder::create(model, encoder_options));
      Measurement result;
      result.test = fmt::format("enc{}{}", positions, batch_text(batch));
      result.kind = "encode";
      result.tokens = positions * batch;
      PUMICE_CHECK(add_work(encoder->runner(), positions * batch, 1, result));
      PUMICE_CHECK(sampler.add(std::move(result), [&] { return encode(*encoder, inputs); }));
    }
  }
  return {};
}

Status measure_encoder_decoder(const BenchOptions& options, const std::shared_ptr<const Model>& model,
                               Sampler& sampler) {
  for (uint32_t positions : input_sizes(options, *model->shape().encoder)) {
    for (uint32_t count : options.counts) {
      if (count == 0) continue;
      for (uint32_t batch : options.batches) {
        PUMICE_TRY(const std::vector<EncoderInput> inputs, random_inputs(*model, positions, batch));
        PUMICE_TRY(const GenerationConfig config, plain_generation(*model, count));
        PUMICE_TRY(const std::unique_ptr<EncoderDecoder> session,
                   create_session(options, model, config, positions, batch));
        Measurement result;
        result.test = fmt::format("enc{}+tg{}{}", positions, count, batch_text(batch));
        result.kind = "translate";
        result.tokens = count * batch; // generated tokens
        PUMICE_CHECK(add_work(session->encoder().runner(), positions * batch, 1, result));
        PUMICE_CHECK(add_work(session->decoder(), batch, count, result));
        PUMICE_CHECK(sampler.add(std::move(result), [&] { return translate(*session, inputs, config); }));
      }
    }
  }
  return {};
}

} // namespace pumice::command
