#include <fmt/format.h>

#include "input/sound_input.h"
#include "loading/open_device.h"
#include "loading/picture_tower.h"
#include "media/audio.h"
#include "model/vocabulary.h"
#include "options/beam_options.h"
#include "options/form_options.h"
#include "options/options.h"
#include "options/subcommand.h"
#include "output/attention_picture.h"
#include "output/live_transcript.h"
#include "output/output_files.h"
#include "output/transcript_output.h"
#include "process/processes.h"
#include "task/captioner.h"
#include "task/model_kind.h"
#include "task/speech_recognizer.h"
#include "terminal/terminal.h"

namespace pumice::command {

namespace {

struct TranscribeOptions {
  std::string model, mmproj;
  std::vector<std::string> files;
  std::string task = "transcribe";
  bool translate = false, detect = false, live = false;
  bool no_previous_text = false, no_fallback = false, no_vad = false;
  std::string raw; // the type of samples without a header; empty: files say what they are
  uint32_t raw_rate = 16000;
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
  TranscriptionOptions resolved() const {
    TranscriptionOptions result = transcription;
    result.translate = task_name() == "translate";
    result.timestamps = transcription.timestamps || subtitles();
    result.previous_text = !no_previous_text;
    result.voice_activity = !no_vad && !live;
    if (no_fallback) result.temperatures = {0};
    return result;
  }
  std::string task_name() const { return translate ? "translate" : task; }
  std::optional<RawSound> raw_sound() const {
    if (raw.empty()) return std::nullopt;
    return RawSound{raw == "f32", raw_rate};
  }
  // Segments are printed as they are recognised, not all at the end.
  bool as_they_come() const { return folder.empty() && !json && !subtitles(); }
};

// Writes the decoder's attention to the first window with speech, of `seconds` whatever its sound fills.
// Where the encoder reads samples, it is as long as its sound.
Status show_attention(const std::shared_ptr<const Model>& model, const TranscribeOptions& options,
                      TranscriptWindow window, double seconds, const Tokenizer* tokenizer) {
  AttendedText text;
  text.input.values = std::move(window.features);
  text.prompt = std::move(window.prompt);
  text.input_axis = "seconds";
  const double heard = window.seconds;
  const EncoderShape& encoder = *model->shape().encoder;
  uint32_t positions = encoder.context;
  if (encoder.kind == InputKind::samples) {
    positions = encoder.frames(static_cast<uint32_t>(text.input.values.size()));
    seconds = heard;
  }
  text.shown = std::min<size_t>(positions, static_cast<size_t>(std::ceil(heard / seconds * positions)));
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
  if (!options.raw.empty() && (options.files.size() > 1 || options.files.front() != "-"))
    return refused("--raw and --live are for samples from standard input: give '-' as the only sound");
  if (options.live && (options.subtitles() || !options.folder.empty() || options.attention.given()))
    return refused("--live prints lines, or JSON: leave --srt, --vtt, --output-dir and --attention out");
  if (!options.folder.empty()) return check_folder(options);
  if (options.srt + options.vtt + options.json > 1)
    return refused("only one of --srt, --vtt and --json can be printed: write the others with --output-dir");
  if (options.subtitles() && options.files.size() > 1)
    return refused("the subtitles of several files cannot be printed: write them with --output-dir");
  return {};
}

// Reads a sound to its end for its level. Its samples are kept if `kept` is given.
Result<SoundLevel> level_of(SoundInput& input, std::vector<float>* kept) {
  SoundLevel level;
  std::vector<float> samples;
  for (;;) {
    if (interrupted()) return interruption();
    samples.clear();
    PUMICE_CHECK(input.read(1 << 18, samples));
    if (samples.empty()) return level;
    level.add(samples);
    if (kept) kept->insert(kept->end(), samples.begin(), samples.end());
  }
}

// Of one sound among others.
void tell_unread(const TranscribeOptions& options, const std::string& path, const Error& error) {
  print_part_error(error.text());
  if (options.json && options.folder.empty()) print_json({{"audio", path}, {"error", error.text()}});
}

// Transcribes files, one after the other.
class FileTranscriber {
public:
  FileTranscriber(const TranscribeOptions& options, OpenedDevice device, std::shared_ptr<const Model> model)
      : options_(options), device_(std::move(device)), model_(std::move(model)) {}

  Status open(SpeechSettings settings, std::shared_ptr<const Model> tower) {
    has_text_ = settings.has_text();
    PUMICE_TRY(recognizer_, SpeechRecognizer::create(model_, std::move(settings), std::move(tower)));
    return {};
  }

  // Says which language is spoken.
  Status detect(const std::string& path, const std::shared_ptr<SoundInput>& input) {
    PUMICE_TRY(const Transcript heard, recognizer_->detect_language(SoundInput::source(input)));
    if (heard.language.empty())
      print_note(fmt::format("{}: no speech was found in it, so its language is not known{}", path,
                             options_.no_vad ? "" : "; --no-vad listens to what is silent too"));
    if (options_.json) {
      Json json;
      json["audio"] = path;
      json["language"] = language_json(heard.language);
      json["probability"] = heard.language_probability;
      add_device(json, device_);
      print_result(json_text(json));
      return {};
    }
    print_result(fmt::format("{}{}\t{:.3f}\n", name_of(path), heard.language, heard.language_probability));
    return {};
  }

  // Prints what is spoken while it is spoken.
  Status listen(const std::shared_ptr<SoundInput>& input) {
    const ComputeWatch watch;
    PUMICE_CHECK(print_live(*recognizer_->transcriber(), *input, options_.json));
    sound_ += input->seconds();
    spent_ += watch.seconds();
    tell_damage(*input);
    return {};
  }

  Status transcribe(const std::string& path, const std::shared_ptr<SoundInput>& input) {
    std::optional<TranscriptWindow> shown;
    segments_.clear();
    ProgressBar bar(options_.files.size() > 1 ? "transcribing " + path : "transcribing");
    const auto on_window = [&](const TranscriptWindow& window) {
      if (options_.attention.given() && !shown && !window.tokens.empty()) shown = window;
      segments_.insert(segments_.end(), window.segments.begin(), window.segments.end());
      keep_partial(so_far(), path, input->seconds());
      if (!options_.as_they_come()) return;
      bar.erase();
      for (const TranscriptSegment& segment : window.segments) print_result(lines(segment, name_of(path)));
    };
    keep_partial({}, path, input->seconds());
    const ComputeWatch watch;
    const Result<Transcript> transcript = run(path, input, on_window, bar.callback());
    bar.erase();
    if (!transcript.ok()) return transcript.error();
    set_last_words({});
    sound_ += input->seconds();
    spent_ += watch.seconds();
    language_ = transcript->language;
    put_out(*transcript, {path, input->seconds(), !input->damage().empty()});
    tell_damage(*input);
    if (!options_.attention.given()) return {};
    const LogMelShape& shape = recognizer_->transcriber()->shape();
    return show_attention(model_, options_, std::move(shown).value_or(TranscriptWindow()),
                          static_cast<double>(shape.samples) / shape.sample_rate,
                          recognizer_->settings().tokenizer.get());
  }

  // Of a file among others, which failed: what it has so far, and the error, in one object of JSON.
  void tell_failed(const std::string& path, const SoundInput& input, const Error& error) const {
    set_last_words({});
    if (segments_.empty() || options_.as_they_come()) return tell_unread(options_, path, error);
    print_part_error(error.text());
    print_result(in_form(options_.forms().front(), so_far(), {path, input.seconds(), true}, &error));
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
  Result<Transcript> run(const std::string& path, const std::shared_ptr<SoundInput>& input,
                         const WindowFunction& on_window, const Progress& progress) {
    SoundLevel level;
    std::vector<float> samples;
    std::unique_ptr<SoundSource> source = SoundInput::source(input);
    std::error_code ignored;
    if (recognizer_->wants_level() && std::filesystem::is_regular_file(path_of(path), ignored)) {
      // A file is read twice, so that memory does not grow with the sound; a pipe cannot be.
      PUMICE_TRY(const std::shared_ptr<SoundInput> first,
                 SoundInput::open(path, recognizer_->settings().sample_rate, std::nullopt));
      PUMICE_TRY(level, level_of(*first, nullptr));
    } else if (recognizer_->wants_level()) {
      PUMICE_TRY(level, level_of(*input, &samples));
      source = source_of(samples);
    }
    PUMICE_CHECK(recognizer_->begin(std::move(source), level, on_window, progress));
    return recognizer_->run();
  }

  // What comes before each line, if there are several files.
  std::string name_of(const std::string& path) const { return options_.files.size() > 1 ? path + "\t" : ""; }
  std::string lines(const TranscriptSegment& segment, const std::string& name) const {
    return lines_of(segment, has_text_, options_.transcription.timestamps, name);
  }

  static void tell_damage(const SoundInput& input) {
    if (input.damage().empty()) return;
    print_part_error(input.damage() + "; what can be read is transcribed");
  }

  Transcript so_far() const { return {recognizer_->language().language, 0, segments_}; }

  std::string in_form(TranscriptForm form, const Transcript& transcript, const SpokenFile& file,
                      const Error* error = nullptr) const {
    if (form == TranscriptForm::srt) return srt_of(transcript, has_text_);
    if (form == TranscriptForm::vtt) return vtt_of(transcript, has_text_);
    if (form == TranscriptForm::json) {
      Json json = json_of(transcript, file, options_.task_name(), has_text_);
      if (error) json["error"] = error->text();
      add_device(json, device_);
      return json_text(json);
    }
    std::string text;
    for (const TranscriptSegment& segment : transcript.segments) text += lines(segment, "");
    return text;
  }

  // For Ctrl-C and errors: printed, because files hold only what is complete.
  void keep_partial(const Transcript& transcript, const std::string& path, double seconds) const {
    if (options_.as_they_come()) return;
    set_last_words(
        [text = in_form(options_.forms().front(), transcript, {path, seconds, true})] { return text; });
  }

  // The forms that are asked for: printed, or each in a file. What a full disk does not take is printed, too.
  void put_out(const Transcript& transcript, const SpokenFile& file) const {
    if (options_.as_they_come()) return;
    for (const TranscriptForm form : options_.forms()) {
      const std::string text = in_form(form, transcript, file);
      if (options_.folder.empty()) {
        print_result(text);
        continue;
      }
      const std::string path = output_path(options_.folder, file.path, form);
      if (const Status written = write_text(path, text); !written.ok()) {
        print_part_error(written.error().text() + ": it is printed instead");
        print_result(text);
      } else {
        print_result(path + "\n");
      }
    }
  }

  const TranscribeOptions& options_;
  OpenedDevice device_;
  std::shared_ptr<const Model> model_;
  std::unique_ptr<SpeechRecognizer> recognizer_;
  bool has_text_ = true;
  double sound_ = 0, spent_ = 0;            // seconds
  std::string language_;                    // of the last file
  std::vector<TranscriptSegment> segments_; // of the current one, so far
};

// Opens the next sound, from file `at` on, and tells of those that cannot be read; null: there is none.
Result<std::shared_ptr<SoundInput>> open_next(const TranscribeOptions& options, uint32_t rate, size_t& at) {
  for (; at < options.files.size(); ++at) {
    Result<std::shared_ptr<SoundInput>> input =
        SoundInput::open(options.files[at], rate, options.raw_sound());
    if (input.ok() || input.error().code == Code::cancelled) return input;
    tell_unread(options, options.files[at], input.error());
  }
  return std::shared_ptr<SoundInput>();
}

Status transcribe(const TranscribeOptions& options) {
  PUMICE_TRY(ModelFile file, open_with_mmproj(options.model, options.mmproj));
  PUMICE_TRY(OpenedModel opened, OpenedModel::open(std::move(file)));
  const bool more = options.detect || options.live || options.attention.given();
  TranscriptionOptions transcription = options.resolved();
  PUMICE_TRY(transcription.form, read_form(transcription.form));
  PUMICE_TRY(SpeechSettings settings,
             read_speech_settings(opened.file, *opened.definition, transcription, more, option_names));
  const uint32_t rate = settings.sample_rate;
  if (!settings.letters && !settings.prompted)
    PUMICE_CHECK(check_attention(options.attention, opened.definition->shape()));
  PUMICE_CHECK(check_options(options));
  // JSON has segments of sounds that fit one window, too, where the model can tell them.
  if (options.json && !options.live && !has_form(transcription.form) && settings.tokenizer &&
      WhisperTokens::find(*settings.tokenizer).ok())
    settings.transcription.timestamps = true;
  size_t at = 0;
  PUMICE_TRY(std::shared_ptr<SoundInput> input, open_next(options, rate, at));
  if (!input) return {}; // before the model is loaded

  PUMICE_TRY(OpenedDevice device, open_device(options.device));
  std::shared_ptr<const Model> tower;
  if (settings.prompted) {
    PUMICE_TRY(tower, load_tower(tower_path(opened.file), device, options.load));
  }
  PUMICE_TRY(std::shared_ptr<const Model> model, load_model(std::move(opened), device, options.load));
  FileTranscriber transcriber(options, std::move(device), std::move(model));
  PUMICE_CHECK(transcriber.open(std::move(settings), std::move(tower)));
  while (input) {
    const std::string& path = options.files[at];
    const Status status = options.detect ? transcriber.detect(path, input)
                          : options.live ? transcriber.listen(input)
                                         : transcriber.transcribe(path, input);
    if (!status.ok() && (options.files.size() == 1 || !is_of_input(status.error()))) return status.error();
    if (!status.ok()) transcriber.tell_failed(path, *input, named_error(input_name(path), status.error()));
    PUMICE_TRY(input, open_next(options, rate, ++at));
  }
  return transcriber.finish();
}

// How windows are cut and decoded.
void add_decoding_options(CLI::App& sub, TranscribeOptions& options) {
  TranscriptionOptions& transcription = options.transcription;
  sub.add_option("--batch", transcription.windows,
                 "Windows to decode together. They end where it is quiet, and do not go on from each other's "
                 "text. More is faster where the device is not busy with one")
      ->type_name("N")
      ->check(within(1u, 256u))
      ->capture_default_str()
      ->group(more_of("Speech"));
  sub.add_flag("--no-previous-text", options.no_previous_text,
               "Do not show a window the text before it. A mistake then does not lead to the next one")
      ->group(more_of("Speech"));
  sub.add_flag("--no-fallback", options.no_fallback,
               "Decode each window once. Otherwise a text that repeats itself or is not probable is decoded "
               "again with temperatures of 0.2 to 1")
      ->group(more_of("Speech"));
  sub.add_flag("--no-vad", options.no_vad,
               "Also decode what is silent. Otherwise silence between windows is left out")
      ->group(more_of("Speech"));
}

// Samples from a pipe.
void add_live_options(CLI::App& sub, TranscribeOptions& options) {
  sub.add_flag_callback(
         "--live",
         [&options] {
           options.live = true;
           if (options.raw.empty()) options.raw = "s16";
         },
         "Print text while it is spoken. AUDIO is '-': raw samples from a pipe, see --raw")
      ->group("Speech");
  sub.add_option("--raw", options.raw,
                 "Standard input is samples of this type, without a header: one channel, little-endian. "
                 "s16 is whole numbers, f32 floats from -1 to 1 (default with --live: s16)")
      ->transform(one_of({"s16", "f32"}))
      ->type_name("TYPE")
      ->group(more_of("Speech"));
  sub.add_option("--rate", options.raw_rate, "Samples a second of --raw and --live")
      ->type_name("N")
      ->check(within(1000u, 1000000u))
      ->capture_default_str()
      ->group(more_of("Speech"));
}

} // namespace

Subcommand add_transcribe(CLI::App& app) {
  CLI::App* sub = app.add_subcommand("transcribe", "Turn the speech of sound files into text.");
  auto options = std::make_shared<TranscribeOptions>();
  TranscriptionOptions& transcription = options->transcription;
  sub->add_option("MODEL", options->model,
                  "A speech model: a folder of Hugging Face (Whisper, Moonshine, Parakeet, wav2vec 2.0, "
                  "Voxtral) or CTranslate2, or a file of whisper.cpp (ggml-*.bin)")
      ->required()
      ->type_name("");
  sub->add_option("AUDIO", options->files,
                  "WAV, FLAC, Ogg or Opus files; '-' is standard input. With several files, each line "
                  "begins with the file's name and a tab")
      ->required()
      ->type_name("");
  sub->add_option("--language", transcription.language,
                  "Spoken language, such as en or English (default: detected). It is detected in the first "
                  "window with sound")
      ->type_name("CODE")
      ->group("Speech");
  sub->add_flag("--translate", options->translate, "Translate into English, as --task translate")
      ->group("Speech");
  sub->add_option("--task", options->task,
                  "transcribe or translate. 'transcribe' keeps the spoken language, 'translate' translates "
                  "into English")
      ->transform(one_of({"transcribe", "translate"}))
      ->type_name("TASK")
      ->capture_default_str()
      ->group(more_of("Speech"));
  sub->add_flag("--detect-language", options->detect,
                "Only say which language is spoken. Prints its code and how probable it is")
      ->group(more_of("Speech"));
  sub->add_option("--prompt", transcription.prompt,
                  "Text that the transcript is to go on from. It shows how names are spelled, and what is "
                  "spoken about")
      ->type_name("TEXT")
      ->group("Speech");
  sub->add_flag("--timestamps", transcription.timestamps, "Print when each segment begins and ends")
      ->group("Speech");
  sub->add_flag("--words", transcription.words,
                "Time each word. JSON gets 'words', subtitles one for each word, text a line for each. Each "
                "window takes a second pass of the model")
      ->group("Speech");
  sub->add_option("-n,--count", transcription.max_tokens,
                  "Maximum number of tokens to generate for each window of sound (default: from the model's "
                  "settings, else as many as fit). A window is usually 30 seconds")
      ->type_name("N")
      ->transform(token_count(1, 1u << 24, 0))
      ->group(more_of("Speech"));
  sub->add_option("--beams", transcription.beams,
                  "Continue N texts, take the best (default: the model's; of wav2vec 2.0 and Parakeet 1). If "
                  "the model's settings say nothing, it is 1, which is greedy search")
      ->type_name("N")
      ->check(within(1u, 1024u))
      ->group(more_of("Speech"));
  add_mmproj_option(*sub, options->mmproj, more_of("Speech"));
  add_form_options(*sub, transcription.form);
  add_decoding_options(*sub, *options);
  add_live_options(*sub, *options);
  sub->add_flag(
         "--json", options->json,
         "Print one JSON object for each file. Its fields: audio, language, task, duration, partial (after "
         "Ctrl-C, or of a damaged file), text, segments, device, driver")
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
  sub->footer(example("pumice transcribe ggml-base.bin speech.flac --timestamps\n  "
                      "pumice transcribe whisper-tiny --srt -o subtitles monday.ogg tuesday.ogg\n  "
                      "arecord -t raw -f S16_LE -r 16000 | pumice transcribe whisper-tiny - --live"));
  return {sub,
          [options] { return transcribe(*options); },
          {{"MODEL", "AUDIO", "--mmproj"}, {"--attention"}},
          [options] { return serve_stage(options->model, options->device, options->load); },
          &options->device.timeout};
}

} // namespace pumice::command
