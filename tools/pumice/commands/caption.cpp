#include <algorithm>
#include <iterator>
#include <memory>

#include <fmt/format.h>

#include "base/lines.h"
#include "chat/chosen_template.h"
#include "loading/open_device.h"
#include "loading/picture_tower.h"
#include "media/audio.h"
#include "model/vocabulary.h"
#include "options/form_options.h"
#include "options/prompt.h"
#include "options/subcommand.h"
#include "output/attention_picture.h"
#include "process/processes.h"
#include "task/captioner.h"
#include "task/model_kind.h"
#include "terminal/terminal.h"
#include "terminal/writing.h"

namespace pumice::command {

namespace {

struct CaptionOptions {
  std::string model;
  std::string mmproj;
  std::vector<std::string> pictures;
  std::string prompt;
  CLI::Option* prompt_option = nullptr;
  AttentionOptions attention;
  WriterOptions writing;
  FormSource form;

  bool prompted() const { return prompt_option->count() > 0; }
};

// Puts "FILE<tab>" before each line.
std::string with_name(const std::string& lines, const std::string& name) {
  std::string result;
  for (const std::string_view line : split_lines(lines)) result += fmt::format("{}\t{}\n", name, line);
  return result;
}

// The field of --json with the file's name.
const char* file_field(const CaptionerSettings& settings) {
  return settings.sound ? "audio" : "image";
}

// `partial`: the text ends where Ctrl-C or an error came.
std::string text_of(const CaptionOptions& options, const std::string& picture,
                    std::span<const WrittenText> written, const CaptionerSettings& settings,
                    bool partial = false) {
  const GenerationOptions& generation = settings.generation;
  if (options.writing.json) {
    Json json = {{file_field(settings), picture}};
    add_written(json, written, generation);
    if (partial) json["partial"] = true;
    return json_text(json);
  }
  const std::string lines = lines_of(written, generation);
  return options.pictures.size() > 1 ? with_name(lines, picture) : lines;
}

// What is written by now of pictures that run together. `partial`: not only those that are complete.
std::string text_so_far(const CaptionOptions& options, const std::vector<std::string>& names,
                        const std::vector<std::vector<WrittenText>>& texts, const CaptionerSettings& settings,
                        bool partial) {
  std::string text;
  for (size_t i = 0; i < std::min(texts.size(), names.size()); ++i) {
    if (!texts[i].empty() && !texts[i].front().tokens.empty())
      text += text_of(options, names[i], texts[i], settings, partial);
  }
  return text;
}

Status draw(const std::shared_ptr<const Model>& model, const CaptionOptions& options, EncoderInput input,
            const CaptionerSettings& settings, const WrittenText& written, const Tokenizer& tokenizer) {
  AttendedText text{std::move(input),        settings.generation.config.prompt, written.tokens, {}, {},
                    "patches of the picture"};
  text.input_labels = patch_labels(*model->shape().encoder);
  std::ranges::move(token_labels(tokenizer, text.input.tokens), std::back_inserter(text.input_labels));
  text.output_labels = token_labels(tokenizer, text.output);
  return write_attention(model, options.attention, text);
}

// Of a decoder that reads pictures in its prompt.
Status check_prompted(const CaptionOptions& options, const ModelShape& shape) {
  if (options.attention.given() || options.writing.writing.beams.given()) {
    return wrong_kind(options.model, shape,
                      "it reads the picture in its prompt: leave --attention and --beams out");
  }
  if (command::others() || !options.writing.device.devices.empty()) {
    return wrong_kind(options.model, shape, "it reads the picture in its prompt, which takes one device");
  }
  return {};
}

Status check_prompt(const CaptionOptions& options) {
  if (!options.prompted()) return {};
  if (options.prompt.empty()) return Error{Code::invalid_argument, "--prompt is empty: give a text"};
  return check_utf8(options.prompt, "--prompt");
}

Status check_options(const CaptionOptions& options, const ModelFile& file, const ModelShape& shape) {
  PUMICE_CHECK(check_prompt(options));
  if (shape.pictures) return check_prompted(options, shape);
  if (!shape.has_decoder() || !shape.encoder || shape.encoder->kind != InputKind::pixels) {
    const bool may_see = !shape.encoder && file.format() == ModelFile::Format::gguf;
    return may_see ? wrong_kind(file, "it reads pictures only with the mmproj file of its maker (--mmproj)")
                   : wrong_subcommand(file);
  }
  PUMICE_CHECK(check_attention(options.attention, shape));
  if (!options.attention.given() || options.pictures.size() == 1) return {};
  return Error{Code::invalid_argument,
               fmt::format("--attention shows one picture, but {} were given", options.pictures.size())};
}

Result<PreparedPicture> read_picture(const std::string& path, const CaptionerSettings& settings) {
  if (settings.sound) {
    PUMICE_TRY(Audio audio, read_audio_at(settings.sound->spectrum.sample_rate, path_of(path)));
    return prepare_sound(std::move(audio.samples), *settings.sound, path, [] { return !interrupted(); });
  }
  PUMICE_TRY(const Image image, read_image(path_of(path)));
  return prepare_for_prompt(image, settings.preparation, path);
}

// The first error, where no picture can be read.
Status check_any_picture(std::span<const std::string> paths, const CaptionerSettings& settings) {
  Status first;
  for (const std::string& path : paths) {
    const Result<PreparedPicture> picture = read_picture(path, settings);
    if (picture.ok()) return {};
    if (first.ok()) first = picture.error();
  }
  return first;
}

// Of one among others.
void tell_unread(const CaptionerSettings& settings, const std::string& path, const Error& error, bool json) {
  print_part_error(error.text());
  if (json) print_json({{file_field(settings), path}, {"error", error.text()}});
}

struct NamedPictures {
  std::vector<std::string> names;
  std::vector<PreparedPicture> pictures;
};

// Those that can be read; tells of the others.
NamedPictures read_pictures(std::span<const std::string> paths, const CaptionerSettings& settings,
                            bool json) {
  NamedPictures read;
  for (const std::string& path : paths) {
    Result<PreparedPicture> picture = read_picture(path, settings);
    if (picture.ok()) {
      read.names.push_back(path);
      read.pictures.push_back(*std::move(picture));
    } else {
      tell_unread(settings, path, picture.error(), json);
    }
  }
  return read;
}

// Prints the captions of pictures that run together when they are complete.
Status describe(Captioner& captioner, const std::shared_ptr<const Model>& model,
                const CaptionOptions& options, const Tokenizer& tokenizer, WritingFigures& figures) {
  const CaptionerSettings& settings = captioner.settings();
  const auto kept_settings = std::make_shared<const CaptionerSettings>(settings);
  ProgressBar bar("describing");
  for (size_t first = 0; first < options.pictures.size(); first += captioner.at_a_time()) {
    if (!bar.update(first, options.pictures.size())) return interruption();
    const size_t count = std::min(captioner.at_a_time(), options.pictures.size() - first);
    NamedPictures read =
        read_pictures(std::span(options.pictures).subspan(first, count), settings, options.writing.json);
    const std::vector<std::string>& names = read.names;
    if (names.empty()) continue;
    EncoderInput shown;
    if (options.attention.given()) {
      shown = read.pictures[0].inputs[0];
      shown.tokens = settings.picture_text;
    }
    const ComputeWatch stopwatch;
    // The words are made only if they are wanted, of copies that outlive an error.
    captioner.on_text([&, kept_names = std::make_shared<const std::vector<std::string>>(names)] {
      set_last_words([&options, kept_names, kept_settings, texts = captioner.texts_so_far(),
                      partial = captioner.at_a_time() == 1] {
        return text_so_far(options, *kept_names, texts, *kept_settings, partial);
      });
    });
    Status status = captioner.begin(std::move(read.pictures));
    if (status.ok()) status = captioner.run();
    bar.erase();
    if (!status.ok() && names.size() == 1 && options.pictures.size() > 1 && is_of_input(status.error())) {
      set_last_words({});
      tell_unread(settings, names[0], named_error(names[0], status.error()), options.writing.json);
      continue;
    }
    PUMICE_CHECK(status);
    set_last_words({});
    PUMICE_TRY(const std::vector<std::vector<WrittenText>> texts, captioner.texts());
    figures.seconds += stopwatch.seconds();
    for (size_t i = 0; i < texts.size(); ++i) {
      ++figures.inputs;
      figures.tokens += texts[i].front().tokens.size();
      print_result(text_of(options, names[i], texts[i], settings));
    }
    if (options.attention.given())
      return draw(model, options, std::move(shown), settings, texts[0][0], tokenizer);
  }
  return {};
}

Status caption(const CaptionOptions& options) {
  PUMICE_TRY(ModelFile file, open_with_mmproj(options.model, options.mmproj));
  PUMICE_TRY(OpenedModel opened, OpenedModel::open(std::move(file)));
  const ModelShape shape = opened.definition->shape();
  PUMICE_CHECK(check_options(options, opened.file, shape));
  PUMICE_CHECK(check_biases(options.writing.sampling, shape.vocabulary));
  PUMICE_TRY(std::shared_ptr<const Tokenizer> tokenizer, load_tokenizer(opened.file));
  CaptionerOptions asked{options.writing.resolved(), {}, local_time(), {}};
  if (options.prompted()) asked.prompt = options.prompt;
  PUMICE_TRY(asked.form, read_form(options.form));
  asked.writing.inputs = static_cast<uint32_t>(options.pictures.size());
  PUMICE_TRY(CaptionerSettings settings,
             read_captioner_settings(opened.file, shape, tokenizer, asked, option_names));
  PUMICE_CHECK(check_any_picture(options.pictures, settings)); // an early error

  PUMICE_TRY(OpenedDevice device, open_device(options.writing.device));
  std::shared_ptr<const Model> tower; // of a decoder's pictures or sounds
  if (shape.pictures) {
    PUMICE_TRY(tower, load_tower(tower_path(opened.file), device, options.writing.load));
  }
  PUMICE_TRY(std::shared_ptr<const Model> model, load_model(std::move(opened), device, options.writing.load));
  PUMICE_TRY(const std::unique_ptr<Captioner> captioner,
             Captioner::create(model, std::move(tower), tokenizer, std::move(settings)));
  WritingFigures figures;
  PUMICE_CHECK(describe(*captioner, model, options, *tokenizer, figures));
  if (shape.pictures) {
    print_figures(fmt::format("{} ({})\n{}", device.name(), device.driver(), compiled_text()));
  } else {
    figures.print(device);
  }
  return device.save_pipelines();
}

} // namespace

Subcommand add_caption(CLI::App& app) {
  CLI::App* sub = app.add_subcommand("caption", "Describe pictures or sounds, or read a picture's text.");
  auto options = std::make_shared<CaptionOptions>();
  sub->add_option("MODEL", options->model,
                  "A Hugging Face folder, such as TrOCR, Donut, Florence-2, LLaVA, SmolVLM, Gemma 3, Qwen "
                  "2.5-VL, Voxtral or Qwen2-Audio. The model has an encoder of pictures, or of sounds, and a "
                  "decoder. Of the last six, a GGUF file with --mmproj")
      ->required()
      ->type_name("");
  sub->add_option(
         "IMAGE", options->pictures,
         "PNG or JPEG files, or for Voxtral and Qwen2-Audio WAV, FLAC, Ogg or Opus. With several, each "
         "line begins with the file's name and a tab")
      ->required()
      ->type_name("");
  add_mmproj_option(*sub, options->mmproj, "Text");
  options->prompt_option =
      sub->add_option(
             "--prompt", options->prompt,
             "What a decoder that reads pictures in its prompt (LLaVA, SmolVLM, Gemma 3, Qwen "
             "2.5-VL) continues. <image> is the picture, <audio> a sound. Without it, a model whose chat "
             "template shows pictures is asked through that. Of Donut and Florence-2, the task: "
             "<s_cord-v2>, <OCR>")
          ->type_name("TEXT")
          ->default_str(usual_caption_prompt)
          ->group("Text");
  sub->add_flag("--json", options->writing.json,
                "Print one JSON object for each picture. Its fields: image or audio, text, tokens, score; "
                "hypotheses with --n-best; partial after Ctrl-C")
      ->group("Text");
  add_form_options(*sub, options->form);
  add_attention_options(*sub, options->attention);
  add_writing_options(*sub, options->writing);
  add_stage_options(*sub, options->writing.device);
  sub->footer(example("pumice caption vit-gpt2-image-captioning photo.jpg --beams 4"));
  return {sub,
          [options] { return caption(*options); },
          {{"MODEL", "IMAGE", "--mmproj"}, {"--attention"}},
          [options] { return serve_stage(options->model, options->writing.device, options->writing.load); },
          &options->writing.device.timeout};
}

} // namespace pumice::command
