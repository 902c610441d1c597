#include <fmt/format.h>

#include "attention_picture.h"
#include "input_stream.h"
#include "media/audio.h"
#include "model/vocabulary.h"
#include "open_device.h"
#include "options.h"
#include "output_files.h"
#include "processes.h"
#include "speech/ctc.h"
#include "subcommand.h"
#include "terminal.h"
#include "transcript_output.h"

namespace pumice::command {

namespace {

struct TranscribeOptions {
  std::string model;
  std::vector<std::string> files;
  std::string task = "transcribe";
  TranscriptionOptions transcription;
  bool json = false;
  bool srt = false;
  bool vtt = false;
  std::string folder; // empty: standard output
  AttentionOptions attention;
  LoadOptions load;
  DeviceOptions device;

  bool subtitles() const { return srt || vtt; }
  // That are printed or written.
  std::vector<TranscriptForm> forms() const {
    std::vector<TranscriptForm> forms;
    if (json) forms.push_back(TranscriptForm::json);
    if (srt) forms.push_back(TranscriptForm::srt);
    if (vtt) forms.push_back(TranscriptForm::vtt);
    if (forms.empty()) forms.push_back(TranscriptForm::text);
    return forms;
  }
  // Segments are printed as they are recognised, not all at the end.
  bool as_they_come() const { return folder.empty() && !json && !subtitles(); }
};

// Null if the model has no tokenizer. Then the results are token ids.
Result<std::shared_ptr<const Tokenizer>> find_tokenizer(const ModelFile& file) {
  Result<std::shared_ptr<const Tokenizer>> tokenizer = load_tokenizer(file);
  if (!tokenizer.ok() && tokenizer.error().code == Code::not_found) {
    return std::shared_ptr<const Tokenizer>();
  }
  return tokenizer;
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

// Makes the folder of the outputs, and checks them before any work.
Status check_folder(const TranscribeOptions& options) {
  PUMICE_CHECK(prepare_outputs(options.folder, options.files));
  std::vector<NamedFile> inputs = {{"MODEL", path_of(options.model)}}, outputs;
  for (const std::string& file : options.files) {
    inputs.push_back({"AUDIO", path_of(file)});
    for (const TranscriptForm form : options.forms())
      outputs.push_back({"--output-dir", path_of(output_path(options.folder, file, form))});
  }
  return check_files(inputs, outputs);
}

Status check_options(const TranscribeOptions& options) {
  const auto refused = [](const char* reason) { return Error{Code::invalid_argument, reason}; };
  if (options.attention.given() && options.files.size() > 1)
    return refused("--attention shows one sound file, but several were given");
  if (!options.folder.empty()) return check_folder(options);
  if (options.srt + options.vtt + options.json > 1)
    return refused("only one of --srt, --vtt and --json can be printed: write the others with --output-dir");
  if (options.subtitles() && options.files.size() > 1)
    return refused("the subtitles of several files cannot be printed: write them with --output-dir");
  return {};
}

Result<Audio> read_sound(const std::string& path, uint32_t rate) {
  if (path != "-") return read_audio_at(rate, path_of(path));
  InputStream stream(path);
  std::string bytes;
  while (!stream.ended()) PUMICE_CHECK(stream.read(bytes, true));
  PUMICE_TRY(Audio audio, parse_audio(std::as_bytes(std::span(bytes)), stream.name()));
  return at_rate(std::move(audio), rate);
}

// Transcribes files, one after the other.
class FileTranscriber {
public:
  FileTranscriber(const TranscribeOptions& options, OpenedDevice device, std::shared_ptr<const Model> model,
                  std::shared_ptr<const Tokenizer> tokenizer, std::optional<CtcVocabulary> letters)
      : options_(options), device_(std::move(device)), model_(std::move(model)),
        tokenizer_(std::move(tokenizer)), letters_(std::move(letters)) {}

  Status open() {
    if (letters_) {
      CtcOptions ctc;
      ctc.beams = std::max(options_.transcription.beams, 1u);
      PUMICE_TRY(ctc_, CtcTranscriber::create(model_, *letters_, ctc));
      return {};
    }
    TranscriptionOptions transcription = options_.transcription;
    transcription.translate = options_.task == "translate";
    transcription.timestamps = transcription.timestamps || options_.subtitles();
    PUMICE_TRY(transcriber_, Transcriber::create(model_, tokenizer_, transcription));
    return {};
  }

  Status transcribe(const std::string& path, const Audio& audio) {
    std::optional<TranscriptWindow> shown;
    std::vector<TranscriptSegment> segments; // so far
    ProgressBar bar(options_.files.size() > 1 ? "transcribing " + path : "transcribing");
    const auto on_window = [&](const TranscriptWindow& window) {
      if (options_.attention.given() && !shown && !window.tokens.empty()) shown = window;
      segments.insert(segments.end(), window.segments.begin(), window.segments.end());
      keep_partial({transcriber_ ? transcriber_->language() : "", segments}, path, audio);
      if (!options_.as_they_come()) return;
      bar.erase();
      for (const TranscriptSegment& segment : window.segments) print_result(name_of(path) + line(segment));
    };
    keep_partial({}, path, audio);
    const ComputeWatch watch;
    Result<Transcript> transcript = ctc_ ? ctc_->transcribe(audio.samples, on_window, bar.callback())
                                         : transcriber_->transcribe(audio.samples, on_window, bar.callback());
    bar.erase();
    if (!transcript.ok()) return transcript.error();
    set_last_words({});
    sound_ += audio.seconds();
    spent_ += watch.seconds();
    language_ = transcript->language;
    PUMICE_CHECK(put_out(*transcript, {path, audio.seconds()}));
    if (!options_.attention.given()) return {};
    const LogMelShape& shape = transcriber_->shape();
    return show_attention(model_, options_, std::move(shown).value_or(TranscriptWindow()),
                          static_cast<double>(shape.samples) / shape.sample_rate, tokenizer_.get());
  }

  Status finish() const {
    print_figures(
        fmt::format("{} ({})\n{}{:.2f} s of sound{} in {:.3f} s, {:.1f} times as fast as it plays\n",
                    device_.name(), device_.driver(), compiled_text(), sound_,
                    language_.empty() || options_.files.size() > 1 ? "" : fmt::format(" in '{}'", language_),
                    spent_, spent_ > 0 ? sound_ / spent_ : 0));
    return device_.save_pipelines();
  }

private:
  // What comes before each line, if there are several files.
  std::string name_of(const std::string& path) const { return options_.files.size() > 1 ? path + "\t" : ""; }
  std::string line(const TranscriptSegment& segment) const {
    return line_of(segment, has_text(), options_.transcription.timestamps);
  }

  bool has_text() const { return letters_ ? !letters_->letters.empty() : tokenizer_ != nullptr; }

  std::string in_form(TranscriptForm form, const Transcript& transcript, const SpokenFile& file) const {
    const bool has_text = this->has_text();
    if (form == TranscriptForm::srt) return srt_of(transcript, has_text);
    if (form == TranscriptForm::vtt) return vtt_of(transcript, has_text);
    if (form == TranscriptForm::json) {
      Json json = json_of(transcript, file, options_.task, has_text);
      add_device(json, device_);
      return json_text(json);
    }
    std::string text;
    for (const TranscriptSegment& segment : transcript.segments) text += line(segment);
    return text;
  }

  // For Ctrl-C. Files hold only what is complete.
  void keep_partial(const Transcript& transcript, const std::string& path, const Audio& audio) const {
    if (options_.as_they_come() || !options_.folder.empty()) return;
    set_last_words([text = in_form(options_.forms().front(), transcript, {path, audio.seconds(), true})] {
      return text;
    });
  }

  // The forms that are asked for: printed, or each in a file.
  Status put_out(const Transcript& transcript, const SpokenFile& file) const {
    if (options_.as_they_come()) return {};
    for (const TranscriptForm form : options_.forms()) {
      const std::string text = in_form(form, transcript, file);
      if (options_.folder.empty()) {
        print_result(text);
        continue;
      }
      const std::string path = output_path(options_.folder, file.path, form);
      PUMICE_CHECK(write_text(path, text));
      print_result(path + "\n");
    }
    return {};
  }

  const TranscribeOptions& options_;
  OpenedDevice device_;
  std::shared_ptr<const Model> model_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::optional<CtcVocabulary> letters_; // of a model of letters
  std::unique_ptr<Transcriber> transcriber_;
  std::unique_ptr<CtcTranscriber> ctc_;
  double sound_ = 0, spent_ = 0; // seconds
  std::string language_;         // of the last file
};

// Of a model that hears letters (wav2vec 2.0); nothing for others.
Result<std::optional<CtcVocabulary>> letters_of(const TranscribeOptions& options, const ModelFile& file,
                                                const ModelDefinition& definition) {
  const ModelShape shape = definition.shape();
  if (!shape.encoder || shape.encoder->kind != InputKind::samples) return std::optional<CtcVocabulary>();
  const TranscriptionOptions& asked = options.transcription;
  if (!asked.language.empty() || options.task != "transcribe" || options.attention.given()) {
    return Error{
        Code::unsupported,
        fmt::format("{} hears the letters of one language: leave --language, --task and --attention out",
                    options.model)};
  }
  PUMICE_TRY(const EncoderGraph graph, definition.encoder_graph(file));
  if (!graph.readable.contains("logits")) {
    return Error{
        Code::unsupported,
        fmt::format("{}: it has no head for letters ('lm_head.weight'): it was not trained to transcribe",
                    options.model)};
  }
  PUMICE_TRY(CtcVocabulary vocabulary, read_ctc_vocabulary(file));
  return std::optional(std::move(vocabulary));
}

Status transcribe(const TranscribeOptions& options) {
  PUMICE_TRY(ModelFile file, ModelFile::open(path_of(options.model)));
  PUMICE_TRY(std::unique_ptr<ModelDefinition> definition, open_model_definition(file));
  PUMICE_TRY(const std::optional<CtcVocabulary> letters, letters_of(options, file, *definition));
  uint32_t rate = 0;
  std::shared_ptr<const Tokenizer> tokenizer;
  if (letters) {
    rate = letters->sample_rate;
  } else {
    PUMICE_TRY(const LogMelShape shape, read_log_mel_shape(file, definition->shape()));
    rate = shape.sample_rate;
    PUMICE_CHECK(check_attention(options.attention, definition->shape()));
    PUMICE_TRY(tokenizer, find_tokenizer(file));
  }
  PUMICE_CHECK(check_options(options));
  // An error in the first file comes before the model is loaded.
  PUMICE_TRY(Audio audio, read_sound(options.files.front(), rate));

  PUMICE_TRY(OpenedDevice device, open_device(options.device));
  PUMICE_TRY(std::shared_ptr<const Model> model, load_model(std::move(file), device, options.load));
  FileTranscriber transcriber(options, std::move(device), std::move(model), std::move(tokenizer), letters);
  PUMICE_CHECK(transcriber.open());
  for (size_t i = 0; i < options.files.size(); ++i) {
    if (i > 0) {
      PUMICE_TRY(audio, read_sound(options.files[i], rate));
    }
    PUMICE_CHECK(transcriber.transcribe(options.files[i], audio));
  }
  return transcriber.finish();
}

} // namespace

Subcommand add_transcribe(CLI::App& app) {
  CLI::App* sub = app.add_subcommand("transcribe", "Turn the speech of sound files into text.");
  auto options = std::make_shared<TranscribeOptions>();
  TranscriptionOptions& transcription = options->transcription;
  sub->add_option("MODEL", options->model, "A Hugging Face folder of a speech model (Whisper, wav2vec 2.0)")
      ->required()
      ->type_name("");
  sub->add_option("AUDIO", options->files,
                  "WAV, FLAC or Ogg files; '-' is standard input. With several files, each line "
                  "begins with the file's name and a tab")
      ->required()
      ->type_name("");
  sub->add_option(
         "--language", transcription.language,
         "Spoken language, such as 'en' (default: detected). It is detected from the beginning of the sound")
      ->type_name("CODE")
      ->group("Speech");
  sub->add_option("--task", options->task,
                  "transcribe or translate. 'transcribe' keeps the spoken language, 'translate' translates "
                  "into English")
      ->transform(one_of({"transcribe", "translate"}))
      ->type_name("TASK")
      ->capture_default_str()
      ->group("Speech");
  sub->add_flag("--timestamps", transcription.timestamps, "Print when each segment begins and ends")
      ->group("Speech");
  sub->add_option("-n,--count", transcription.max_tokens,
                  "Maximum number of tokens to generate for each window of sound (default: from the model's "
                  "settings, else as many as fit). A window is usually 30 seconds")
      ->type_name("N")
      ->transform(token_count(1, 1u << 24, 0))
      ->group(more_of("Speech"));
  sub->add_option("--beams", transcription.beams,
                  "Continue N texts, take the best (default: the model's; of wav2vec 2.0 1). If the model's "
                  "settings say "
                  "nothing, it is 1, which is greedy search")
      ->type_name("N")
      ->check(within(1u, 1024u))
      ->group("Speech");
  sub->add_flag(
         "--json", options->json,
         "Print one JSON object for each file. Its fields: audio, language, task, duration, partial (after "
         "Ctrl-C), text, segments, device, driver")
      ->group("Output");
  sub->add_flag("--srt", options->srt, "Print SubRip subtitles")->group("Output");
  sub->add_flag("--vtt", options->vtt, "Print WebVTT subtitles")->group("Output");
  sub->add_option("-o,--output-dir", options->folder,
                  "Write to this folder, and print the names of the files. They are NAME.srt, NAME.vtt and "
                  "NAME.json as asked for, else NAME.txt")
      ->type_name("DIR")
      ->group("Output");
  add_attention_options(*sub, options->attention);
  add_weights_option(*sub, options->load);
  add_device_options(*sub, options->device);
  add_stage_options(*sub, options->device);
  sub->footer(example("pumice transcribe whisper-tiny speech.flac --timestamps\n  "
                      "pumice transcribe whisper-tiny --srt -o subtitles monday.ogg tuesday.ogg"));
  return {sub,
          [options] { return transcribe(*options); },
          {{"MODEL", "AUDIO"}, {"--attention"}},
          [options] { return serve_stage(options->model, options->device, options->load); },
          &options->device.timeout};
}

} // namespace pumice::command
