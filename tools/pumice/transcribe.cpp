#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "attention_picture.h"
#include "json_output.h"
#include "media/audio.h"
#include "model/vocabulary.h"
#include "open_device.h"
#include "options.h"
#include "speech/transcription.h"
#include "subcommand.h"
#include "terminal.h"

namespace pumice::command {

namespace {

struct TranscribeOptions {
  std::string model;
  std::string audio;
  std::string task = "transcribe";
  TranscriptionOptions transcription;
  bool json = false;
  AttentionOptions attention;
  LoadOptions load;
  DeviceOptions device;
};

// Null if the model has no tokenizer. Then the results are token ids.
Result<std::shared_ptr<const Tokenizer>> find_tokenizer(const ModelFile& file) {
  Result<std::shared_ptr<const Tokenizer>> tokenizer = load_tokenizer(file);
  if (!tokenizer.ok() && tokenizer.error().code == Code::not_found) {
    return std::shared_ptr<const Tokenizer>();
  }
  return tokenizer;
}

// "01:02.50"; from an hour on "01:01:02.50".
std::string clock(double seconds) {
  const auto hundredths = static_cast<uint64_t>(std::llround(seconds * 100));
  const uint64_t minutes = hundredths / 6000;
  const std::string rest = fmt::format("{:02}.{:02}", hundredths / 100 % 60, hundredths % 100);
  return minutes < 60 ? fmt::format("{:02}:{}", minutes, rest)
                      : fmt::format("{:02}:{:02}:{}", minutes / 60, minutes % 60, rest);
}

std::string line_of(const TranscriptSegment& segment, bool has_text, bool timestamps) {
  std::string text = has_text ? segment.text : fmt::format("{}", fmt::join(segment.tokens, ","));
  text.erase(0, text.find_first_not_of(' '));
  if (!timestamps) return text + "\n";
  return fmt::format("[{} --> {}] {}\n", clock(segment.start), clock(segment.end), text);
}

Json json_of(const TranscriptSegment& segment, bool has_text) {
  Json json;
  const auto milliseconds = [](double seconds) { return std::round(seconds * 1000) / 1000; };
  json["start"] = milliseconds(segment.start);
  json["end"] = milliseconds(segment.end);
  if (has_text) json["text"] = segment.text;
  json["tokens"] = segment.tokens;
  if (segment.log_probability) json["avg_logprob"] = *segment.log_probability;
  if (segment.no_speech) json["no_speech_prob"] = *segment.no_speech;
  return json;
}

void print_transcript(const Transcript& transcript, double seconds, const TranscribeOptions& options,
                      bool has_text, const OpenedDevice& device) {
  Json json;
  if (!transcript.language.empty()) json["language"] = transcript.language;
  json["task"] = options.task;
  json["duration"] = seconds;
  std::string text;
  Json segments = Json::array();
  for (const TranscriptSegment& segment : transcript.segments) {
    text += segment.text;
    segments.push_back(json_of(segment, has_text));
  }
  if (has_text) json["text"] = text;
  json["segments"] = std::move(segments);
  add_device(json, device);
  print_json(json);
}

// Writes the decoder's attention to the first window with speech.
Status show_attention(const std::shared_ptr<const Model>& model, const TranscribeOptions& options,
                      TranscriptWindow window, double seconds, const Tokenizer* tokenizer) {
  AttendedText text;
  text.input.values = std::move(window.features);
  text.prompt = std::move(window.prompt);
  text.input_axis = "seconds";
  const uint32_t positions = model->shape().encoder->context;
  uint32_t labelled = 0; // whole seconds that have a label
  for (uint32_t i = 0; i < positions; ++i) {
    const bool whole = i * seconds >= double{1} * labelled * positions;
    text.input_labels.push_back(whole ? fmt::format("{}", labelled) : "");
    labelled += whole;
  }
  if (tokenizer) {
    text.output_labels = token_labels(*tokenizer, window.tokens);
  } else {
    for (uint32_t token : window.tokens) text.output_labels.push_back(fmt::format("{}", token));
  }
  text.output = std::move(window.tokens);
  return write_attention(model, options.attention, text);
}

void print_figures(const OpenedDevice& device, const Transcript& transcript, double sound, double spent) {
  print_figures(fmt::format("{} ({})\n{:.2f} s of sound{} in {:.3f} s, {:.1f} times as fast as it plays\n",
                              device.name(), device.driver(), sound,
                              transcript.language.empty() ? "" : fmt::format(" in '{}'", transcript.language),
                              spent, spent > 0 ? sound / spent : 0));
}

Status transcribe(const TranscribeOptions& options) {
  PUMICE_TRY(ModelFile file, ModelFile::open(options.model));
  PUMICE_TRY(std::unique_ptr<ModelDefinition> definition, open_model_definition(file));
  PUMICE_TRY(const LogMelShape shape, read_log_mel_shape(file, definition->shape()));
  PUMICE_CHECK(check_attention(options.attention, definition->shape()));
  PUMICE_TRY(const std::shared_ptr<const Tokenizer> tokenizer, find_tokenizer(file));
  PUMICE_TRY(const Audio audio, read_audio_at(shape.sample_rate, options.audio));

  PUMICE_TRY(OpenedDevice device, open_device(options.device));
  PUMICE_TRY(const std::shared_ptr<const Model> model, load_model(std::move(file), device, options.load));
  TranscriptionOptions transcription = options.transcription;
  transcription.translate = options.task == "translate";
  PUMICE_TRY(std::unique_ptr<Transcriber> transcriber, Transcriber::create(model, tokenizer, transcription));
  const bool has_text = tokenizer != nullptr;
  std::optional<TranscriptWindow> shown;
  ProgressBar bar("transcribing");
  const auto on_window = [&](const TranscriptWindow& window) {
    if (options.attention.given() && !shown && !window.tokens.empty()) shown = window;
    if (options.json) return;
    bar.erase();
    for (const TranscriptSegment& segment : window.segments) {
      print_result(line_of(segment, has_text, transcription.timestamps));
    }
  };
  const Stopwatch watch;
  Result<Transcript> transcript = transcriber->transcribe(audio.samples, on_window, bar.callback());
  bar.erase();
  if (!transcript.ok()) return transcript.error();
  if (options.json) {
    print_transcript(*transcript, audio.seconds(), options, has_text, device);
  } else {
    print_figures(device, *transcript, audio.seconds(), watch.seconds());
  }
  if (options.attention.given()) {
    const double window = static_cast<double>(shape.samples) / shape.sample_rate;
    PUMICE_CHECK(show_attention(model, options, std::move(shown).value_or(TranscriptWindow()), window,
                                tokenizer.get()));
  }
  return device.save_pipelines();
}

} // namespace

Subcommand add_transcribe(CLI::App& app) {
  CLI::App* sub = app.add_subcommand("transcribe", "Turn the speech of a sound file into text.");
  auto options = std::make_shared<TranscribeOptions>();
  TranscriptionOptions& transcription = options->transcription;
  sub->add_option("MODEL", options->model, "A Hugging Face folder of a speech model (Whisper)")
      ->required()
      ->type_name("");
  sub->add_option("AUDIO", options->audio, "A WAV, FLAC or Ogg file of any length")
      ->required()
      ->type_name("");
  sub->add_option("--language", transcription.language,
                  "Code of the spoken language, such as 'en' (default: detected from the beginning)")
      ->type_name("CODE")
      ->group("Speech");
  sub->add_option("--task", options->task,
                  "'transcribe' keeps the spoken language, 'translate' translates into English")
      ->check(CLI::IsMember({"transcribe", "translate"}).description(""))
      ->type_name("TASK")
      ->capture_default_str()
      ->group("Speech");
  sub->add_flag("--timestamps", transcription.timestamps, "Print when each segment begins and ends")
      ->group("Speech");
  sub->add_option("-n,--count", transcription.max_tokens,
                  "Maximum number of tokens to generate for each window of sound, which is usually 30 "
                  "seconds (default: from the model's settings, else as many as fit)")
      ->type_name("N")
      ->check(CLI::Range(1u, 1u << 24).description(""))
      ->group("Speech");
  sub->add_option("--beams", transcription.beams,
                  "Number of beams: candidate texts that are continued side by side; 1 is greedy search "
                  "(default: from the model's settings, else 1)")
      ->type_name("N")
      ->check(CLI::Range(1u, 1024u).description(""))
      ->group("Speech");
  sub->add_flag("--json", options->json,
                "Print one JSON object: language, task, duration, text, segments, device, driver")
      ->group("Output");
  add_attention_options(*sub, options->attention);
  add_weights_option(*sub, options->load);
  add_device_options(*sub, options->device);
  sub->footer(example("pumice transcribe whisper-tiny speech.flac --timestamps"));
  return {sub, [options] { return transcribe(*options); }, {{"MODEL", "AUDIO"}, {"--attention"}}};
}

} // namespace pumice::command
