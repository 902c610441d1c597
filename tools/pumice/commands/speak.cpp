#include <fmt/format.h>

#include "input/input_stream.h"
#include "loading/open_device.h"
#include "model/vocabulary.h"
#include "options/options.h"
#include "options/prompt.h"
#include "options/subcommand.h"
#include "output/json_output.h"
#include "output/output_files.h"
#include "output/sound_file.h"
#include "task/model_kind.h"
#include "task/speaking/speaker.h"
#include "terminal/terminal.h"

namespace pumice::command {

namespace {

struct SpeakOptions {
  std::string model, codec; // of the latter empty: the folder "codec" beside the model
  std::string text;
  CLI::Option* text_option = nullptr;
  std::string file;   // empty: none
  std::string output; // "-": standard output
  std::string voice;  // a file; empty: none
  uint32_t count = 0; // most tokens; 0: until the sound or the context ends
  uint32_t chunk_ms = 0;
  bool json = false;
  SizeOptions size;
  SamplingOptions sampling;
  DeviceOptions device;
};

Result<std::string> read_spoken(const SpeakOptions& options) {
  if (options.text_option->count() > 0 && options.text != "-") {
    PUMICE_CHECK(check_utf8(options.text, "TEXT"));
    return options.text;
  }
  if (options.text_option->count() > 0 || !options.file.empty() || input_is_given())
    return read_text(options.file.empty() ? "-" : options.file);
  return Error{Code::invalid_argument, "there is no text to speak: give TEXT, --file, or standard input"};
}

// Opens the model that makes a sound of the codes.
Result<OpenedModel> open_codec(const SpeakOptions& options, const ModelFile& model) {
  if (!options.codec.empty()) return OpenedModel::open(path_of(options.codec));
  const std::filesystem::path beside = usual_codec_path(model);
  std::error_code ignored;
  if (std::filesystem::exists(beside, ignored)) return OpenedModel::open(beside);
  return Error{Code::not_found,
               fmt::format("{}: it writes codes of a sound, and the model that makes the sound is not there: "
                           "expected the folder {}, or another one with --codec (DAC of transformers)",
                           model.path(), path_text(beside))};
}

// Before any work.
Status check_output(const SpeakOptions& options) {
  if (options.output == "-") {
    if (!options.json) return {};
    return Error{Code::invalid_argument,
                 "--json and the sound cannot both go to standard output: give a file with --output"};
  }
  std::vector<NamedFile> inputs;
  for (const auto& [name, path] : {std::pair("MODEL", options.model),
                                   {"--codec", options.codec},
                                   {"--voice", options.voice},
                                   {"--file", options.file}}) {
    if (!path.empty()) inputs.push_back({name, path_of(path)});
  }
  return check_files(inputs, {{"--output", path_of(options.output)}});
}

const char* reason_text(FinishReason reason) {
  switch (reason) {
  case FinishReason::stop:
    return "stop token";
  case FinishReason::length:
    return "count";
  case FinishReason::context:
    return "context";
  case FinishReason::none:
    break;
  }
  return "interrupted";
}

// Speaks into the file, which is finished, or kept as far as it goes.
Status speak_into(SoundFile& file, Speaker& speaker, const std::string& text) {
  ProgressBar bar("speaking");
  const uint64_t most = speaker.most_samples();
  PUMICE_CHECK(speaker.begin(text, [&](std::span<const float> samples) -> Status {
    PUMICE_CHECK(file.write(samples));
    return bar.update(file.samples(), most) ? Status() : Status(interruption());
  }));
  const SavedWork saved; // what there is of the sound is kept
  const Status status = speaker.run();
  bar.erase();
  if (status.ok()) return file.finish();
  if (const Status kept = file.keep_part(); !kept.ok()) print_error(kept.error().text());
  return status;
}

void print_figures_of(const SpeakOptions& options, const OpenedDevice& device, const Speaker& speaker,
                      const SamplingParams& sampling, const SoundFile& file, const std::string& text,
                      double seconds) {
  const Speaker::Figures& figures = speaker.figures();
  if (options.json) {
    Json json;
    json["text"] = text;
    json["output"] = options.output;
    json["sample_rate"] = speaker.sample_rate();
    json["samples"] = figures.samples;
    json["prompt_tokens"] = figures.prompt_tokens;
    json["ids"] = std::vector<uint32_t>(speaker.tokens().begin(), speaker.tokens().end());
    json["finish_reason"] = reason_text(figures.finish_reason);
    json["seed"] = seed_json(sampling, options.sampling.seed.has_value());
    json["seconds"] = seconds;
    add_device(json, device);
    print_json(json);
    return;
  }
  print_figures(fmt::format(
      "{} ({}){}\n{}{:.2f} s of sound, of {} tokens, in {:.3f} s, {:.2f} times as fast as it plays\n",
      device.name(), device.driver(), sampling.temperature > 0 ? fmt::format(", seed {}", sampling.seed) : "",
      compiled_text(), file.seconds(), figures.tokens, seconds, seconds > 0 ? file.seconds() / seconds : 0));
}

Status speak(const SpeakOptions& options) {
  PUMICE_CHECK(check_output(options));
  PUMICE_TRY(OpenedModel opened, OpenedModel::open(path_of(options.model), options.size.load.settings));
  const ModelShape shape = opened.definition->shape();
  PUMICE_CHECK(check_continues_text(opened.file, shape));
  PUMICE_CHECK(check_biases(options.sampling, shape.vocabulary));
  PUMICE_TRY(const std::string text, read_spoken(options));
  PUMICE_TRY(OpenedModel codec, open_codec(options, opened.file));
  PUMICE_TRY(std::shared_ptr<const Tokenizer> tokenizer, load_tokenizer(opened.file));
  SpeakerOptions asked;
  PUMICE_TRY(asked.sampling, options.sampling.resolved(*tokenizer));
  const SamplingParams sampling = asked.sampling;
  asked.size = session_size(options.size, shape);
  asked.max_tokens = options.count;
  asked.chunk_ms = options.chunk_ms;
  if (!options.voice.empty()) {
    PUMICE_TRY(asked.voice, read_text(options.voice));
    asked.voice_name = input_name(options.voice);
  }
  PUMICE_TRY(SpeakerSettings settings, read_speaker_settings(opened.file, *opened.definition, codec.file,
                                                             *codec.definition, tokenizer, asked));
  PUMICE_CHECK(speech_prompt(*tokenizer, text, settings.voice.get(), settings.path)); // an early error

  PUMICE_TRY(const OpenedDevice device, open_device(options.device));
  PUMICE_TRY(std::shared_ptr<const Model> sounds, load_model(std::move(codec), device, {}));
  PUMICE_TRY(std::shared_ptr<const Model> model,
             load_model(std::move(opened), device, options.size.load, &options.size));
  PUMICE_TRY(const std::unique_ptr<Speaker> speaker,
             Speaker::create(std::move(model), std::move(sounds), std::move(settings)));
  SoundFile file;
  PUMICE_CHECK(file.open(options.output, speaker->sample_rate()));
  const ComputeWatch watch;
  PUMICE_CHECK(speak_into(file, *speaker, text));
  print_figures_of(options, device, *speaker, sampling, file, text, watch.seconds());
  if (speaker->figures().samples == 0)
    print_note("the model has written no codes of a sound: another --seed may do better");
  return device.save_pipelines();
}

} // namespace

Subcommand add_speak(CLI::App& app) {
  CLI::App* sub = app.add_subcommand("speak", "Speak a text into a sound file, or to a pipe.");
  auto options = std::make_shared<SpeakOptions>();
  sub->add_option("MODEL", options->model,
                  "OuteTTS 1.0 as a GGUF file or a Hugging Face folder. The codec that makes its sound is "
                  "the folder 'codec' beside the file or in the folder, or given by --codec")
      ->required()
      ->type_name("");
  options->text_option =
      sub->add_option("TEXT", options->text,
                      "The text to speak; '-' reads it from standard input, as does no TEXT at all")
          ->type_name("");
  sub->add_option("-f,--file", options->file, "Read the text to speak from this file")
      ->type_name("FILE")
      ->excludes(options->text_option)
      ->group("Speech");
  sub->add_option("-o,--output", options->output,
                  "The WAV file to write: 16 bits, one channel. '-' is standard output, which gets the sound "
                  "while it is made")
      ->required()
      ->type_name("FILE")
      ->group("Speech");
  sub->add_option("--codec", options->codec, "A folder with DAC (transformers), whose codes the model writes")
      ->type_name("FOLDER")
      ->group("Speech");
  sub->add_option("--voice", options->voice,
                  "A voice to go on with: a profile of OuteTTS, version 3, as JSON. Without one, the model "
                  "takes any")
      ->type_name("FILE")
      ->group("Speech");
  sub->add_option("-n,--count", options->count,
                  "Maximum number of tokens (default: until the sound ends, or the context is full)")
      ->type_name("N")
      ->transform(token_count(0, UINT32_MAX, 0))
      ->group("Speech");
  sub->add_option(
         "--chunk-ms", options->chunk_ms,
         "Write the sound in pieces of so many milliseconds. Smaller ones come sooner, and cost more "
         "to make")
      ->type_name("N")
      ->check(within(1u, 60'000u))
      ->group(more_of("Speech"));
  sub->add_flag("--json", options->json,
                "Print one JSON object at the end. Its fields: text, output, sample_rate, samples, ids (that "
                "were generated), finish_reason, seed, seconds")
      ->group("Speech");
  add_sampling_options(*sub, options->sampling, usual_speech_sampling());
  add_size_options(*sub, options->size, "f16");
  add_device_options(*sub, options->device);
  sub->footer(example("pumice speak OuteTTS-1.0-0.6B-Q8_0.gguf \"Good morning.\" -o morning.wav"));
  return {sub, [options] { return speak(*options); }, {}};
}

} // namespace pumice::command
