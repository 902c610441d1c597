#include <algorithm>

#include <fmt/format.h>

#include "base/lines.h"
#include "chat/chosen_template.h"
#include "commands/mmproj.h"
#include "generate/picture_prompt.h"
#include "input/picture_rows.h"
#include "loading/open_device.h"
#include "model/vocabulary.h"
#include "options/prompt.h"
#include "options/subcommand.h"
#include "output/attention_picture.h"
#include "process/processes.h"
#include "task/model_kind.h"
#include "terminal/terminal.h"
#include "terminal/writing.h"
#include "text/chat/chat.h"

namespace pumice::command {

namespace {

struct CaptionOptions {
  std::string model;
  std::string mmproj;
  std::vector<std::string> pictures;
  std::string prompt = "USER: <image>\nDescribe this picture. ASSISTANT:";
  CLI::Option* prompt_option = nullptr;
  AttentionOptions attention;
  WritingOptions writing;
};

// Puts "FILE<tab>" before each line.
std::string with_name(const std::string& lines, const std::string& name) {
  std::string result;
  for (const std::string_view line : split_lines(lines)) result += fmt::format("{}\t{}\n", name, line);
  return result;
}

void print(const CaptionOptions& options, const std::string& picture, std::span<const Hypothesis> written,
           const GenerationOptions& generation, const Tokenizer& tokenizer) {
  if (options.writing.json) {
    Json json = {{"image", picture}};
    add_written(json, written_texts(written, generation.config, tokenizer), generation);
    print_json(json);
    return;
  }
  const std::string lines = lines_of(written_texts(written, generation.config, tokenizer), generation);
  print_result(options.pictures.size() > 1 ? with_name(lines, picture) : lines);
}

Status draw(const std::shared_ptr<const Model>& model, const CaptionOptions& options,
            const EncoderInput& input, const GenerationConfig& config, const Hypothesis& written,
            const Tokenizer& tokenizer) {
  AttendedText text{input, config.prompt, written.tokens, {}, {}, "patches of the picture"};
  text.input_labels = patch_labels(*model->shape().encoder);
  text.output_labels = token_labels(tokenizer, text.output);
  return write_attention(model, options.attention, text);
}

Status check_options(const CaptionOptions& options, const ModelShape& shape) {
  if (!shape.has_decoder() || !shape.encoder || shape.encoder->kind != InputKind::pixels) {
    return wrong_subcommand(options.model, shape);
  }
  PUMICE_CHECK(check_attention(options.attention, shape));
  if (!options.attention.given() || options.pictures.size() == 1) return {};
  return Error{Code::invalid_argument,
               fmt::format("--attention shows one picture, but {} were given", options.pictures.size())};
}

// Prints the captions of each batch when the batch is complete.
Status describe(EncoderDecoder& writer, const CaptionOptions& options, const PictureInput& reader,
                const GenerationOptions& generation, const Tokenizer& tokenizer, WritingFigures& figures) {
  const size_t at_a_time = inputs_at_a_time(options.writing, generation.config);
  ProgressBar bar("describing");
  for (size_t first = 0; first < options.pictures.size(); first += at_a_time) {
    if (!bar.update(first, options.pictures.size())) return interruption();
    const size_t count = std::min(at_a_time, options.pictures.size() - first);
    const std::span names = std::span(options.pictures).subspan(first, count);
    std::vector<EncoderInput> inputs;
    const Status status = reader.read(names, inputs);
    const ComputeWatch stopwatch;
    PUMICE_TRY(const std::vector<std::vector<Hypothesis>> written, writer.generate(inputs, generation));
    figures.add(written, stopwatch.seconds());
    bar.erase();
    for (size_t i = 0; i < inputs.size(); ++i) print(options, names[i], written[i], generation, tokenizer);
    PUMICE_CHECK(status);
    if (options.attention.given()) {
      return draw(writer.decoder().shared_model(), options, inputs[0], generation.config, written[0][0],
                  tokenizer);
    }
  }
  return {};
}

// Of a picture in a decoder's prompt: the text that follows.
class PromptedWriter {
public:
  PromptedWriter(const CaptionOptions& options, GenerationOptions generation,
                 std::shared_ptr<const Tokenizer> tokenizer)
      : options_(options), generation_(std::move(generation)), tokenizer_(std::move(tokenizer)) {
    if (generation_.config.max_tokens == 0) generation_.config.max_tokens = 256;
    generation_.sampling.stop_tokens = generation_.config.ends;
  }

  Status run(const OpenedDevice& device, ModelFile file, const ModelShape& shape,
             const PictureInput& reader) {
    PUMICE_CHECK(choose_prompt(file, *shape.pictures));
    PUMICE_TRY(PictureRows encoder,
               PictureRows::create(tower_path(file), *shape.pictures, device, options_.writing.load));
    PUMICE_TRY(const std::shared_ptr<const Model> model,
               load_model(std::move(file), device, options_.writing.load));
    std::unique_ptr<Batch> batch;
    for (const std::string& path : options_.pictures) {
      PUMICE_TRY(const PromptPicture picture, reader.read_for_prompt(path));
      PUMICE_TRY(const std::vector<uint32_t> words, words_around(picture.grid, shape.pictures->markup));
      PUMICE_TRY(const std::vector<std::vector<float>> rows, encoder.rows(picture.inputs));
      PUMICE_TRY(PicturePrompt prompt,
                 with_pictures(*shape.pictures, words, rows, "--prompt", grids_of(picture.inputs)));
      PUMICE_CHECK(make_room(model, prompt.tokens.size(), batch));
      PUMICE_TRY(const Hypothesis written, write(*batch, std::move(prompt)));
      print(options_, path, std::span(&written, 1), generation_, *tokenizer_);
    }
    return {};
  }

private:
  // Without --prompt, what the model's chat template makes of a picture and a question.
  Status choose_prompt(const ModelFile& file, const PictureTokens& pictures) {
    if (options_.prompt_option->count() > 0 || pictures.markup.place.empty()) return {};
    PUMICE_TRY(const ChatTemplates templates, ChatTemplates::open(path_of(options_.model)));
    if (templates.empty()) return {};
    PUMICE_TRY(ChatTemplate chosen, templates.choose("", false));
    chat_.emplace(std::move(chosen), tokenizer_, end_tokens(file, tokenizer_.get()), local_time());
    PUMICE_CHECK(chat_->add(
        {{"role", "user"},
         {"content", {{{"type", "image"}}, {{"type", "text"}, {"text", "Describe this picture."}}}}}));
    generation_.config.ends.assign(chat_->ends().begin(), chat_->ends().end());
    generation_.sampling.stop_tokens = generation_.config.ends;
    return {};
  }

  Result<std::vector<uint32_t>> words_around(const PictureGrid& grid, const PictureMarkup& markup) const {
    PicturePlaces places = picture_places(markup, std::span(&grid, 1));
    if (chat_) {
      PUMICE_TRY(ChatPrompt prompt, chat_->prompt(places));
      return std::move(prompt.ids);
    }
    if (!places.place.empty() && options_.prompt.find(places.place) == std::string::npos)
      places.place = "<image>"; // whatever the model's own mark is
    PUMICE_TRY(const std::string text, show_pictures(options_.prompt, places, "--prompt"));
    return encode_prompt(*tokenizer_, text, "--prompt");
  }

  // A batch with a context that fits a prompt and its answer.
  Status make_room(const std::shared_ptr<const Model>& model, size_t prompt,
                   std::unique_ptr<Batch>& batch) const {
    const auto needed = static_cast<uint32_t>(
        std::min<uint64_t>(model->shape().context, prompt + uint64_t{generation_.config.max_tokens} + 1));
    if (batch && batch->runner().size().context >= needed) return {};
    batch.reset(); // its memory is free for the next one
    SessionOptions session;
    session.size.context = needed;
    PUMICE_TRY(batch, Batch::create(model, session));
    return {};
  }

  Result<Hypothesis> write(Batch& batch, PicturePrompt prompt) const {
    PUMICE_CHECK(batch.add({std::move(prompt.tokens),
                            generation_.sampling,
                            generation_.config.max_tokens,
                            {},
                            std::move(prompt.given)}));
    Hypothesis written;
    float sum = 0;
    while (batch.sequences() > 0) {
      if (interrupted()) return interruption();
      PUMICE_TRY(const std::span<const BatchToken> tokens, batch.step());
      for (const BatchToken& token : tokens) {
        written.tokens.push_back(token.token);
        sum += token.log_probabilities.log_probability;
      }
    }
    written.score = score_of(sum, written.tokens.size(), generation_.config);
    return written;
  }

  const CaptionOptions& options_;
  GenerationOptions generation_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::optional<Chat> chat_; // whose template makes the prompt
};

Status caption_by_prompt(const CaptionOptions& options, ModelFile file, const ModelShape& shape) {
  if (options.attention.given() || options.writing.beams.given()) {
    return wrong_kind(options.model, shape,
                      "it reads the picture in its prompt: leave --attention and --beams out");
  }
  if (command::others() || !options.writing.device.devices.empty()) {
    return wrong_kind(options.model, shape, "it reads the picture in its prompt, which takes one device");
  }
  PUMICE_CHECK(check_biases(options.writing.sampling, shape.vocabulary));
  PUMICE_TRY(std::shared_ptr<const Tokenizer> tokenizer, load_tokenizer(file));
  PUMICE_TRY(GenerationConfig config, read_generation_config(file, shape.vocabulary));
  PUMICE_TRY(GenerationOptions generation, writing_options(options.writing, std::move(config)));
  PUMICE_TRY(const std::unique_ptr<ModelDefinition> tower, open_model_definition(file, Tower::pictures));
  PUMICE_TRY(const PictureInput reader, PictureInput::open(file, *tower->shape().encoder));
  PUMICE_CHECK(reader.read_for_prompt(options.pictures.front())); // an early error
  PUMICE_TRY(OpenedDevice device, open_device(options.writing.device));
  PromptedWriter writer(options, std::move(generation), std::move(tokenizer));
  PUMICE_CHECK(writer.run(device, std::move(file), shape, reader));
  print_figures(fmt::format("{} ({})\n{}", device.name(), device.driver(), compiled_text()));
  return device.save_pipelines();
}

Status caption(const CaptionOptions& options) {
  PUMICE_TRY(ModelFile file, open_with_mmproj(options.model, options.mmproj));
  PUMICE_TRY(std::unique_ptr<ModelDefinition> definition, open_model_definition(file));
  const ModelShape shape = definition->shape();
  if (shape.pictures) return caption_by_prompt(options, std::move(file), shape);
  if (options.prompt_option->count() > 0) {
    return wrong_kind(
        options.model, shape,
        "--prompt is for decoders that read pictures in their prompt (LLaVA, SmolVLM, Gemma 3, Qwen 2.5-VL)");
  }
  PUMICE_CHECK(check_options(options, shape));
  PUMICE_CHECK(check_biases(options.writing.sampling, shape.vocabulary));
  PUMICE_TRY(std::shared_ptr<const Tokenizer> tokenizer, load_tokenizer(file));
  PUMICE_TRY(GenerationConfig config, read_generation_config(file, shape.vocabulary));
  PUMICE_TRY(GenerationOptions generation, writing_options(options.writing, std::move(config)));
  PUMICE_TRY(const PictureInput reader, PictureInput::open(file, *shape.encoder));
  PUMICE_CHECK(reader.read(options.pictures.front())); // an early error, before the model is loaded

  PUMICE_TRY(OpenedDevice device, open_device(options.writing.device));
  PUMICE_TRY(std::shared_ptr<const Model> model, load_model(std::move(file), device, options.writing.load));
  WritingOptions writing = options.writing;
  writing.sequences = std::min<uint32_t>(writing.sequences, static_cast<uint32_t>(options.pictures.size()) *
                                                                generation.config.beams);
  PUMICE_TRY(std::unique_ptr<EncoderDecoder> writer,
             create_writer(model, writing, generation.config, shape.encoder->context));
  WritingFigures figures;
  PUMICE_CHECK(describe(*writer, options, reader, generation, *tokenizer, figures));
  figures.print(device);
  return device.save_pipelines();
}

} // namespace

Subcommand add_caption(CLI::App& app) {
  CLI::App* sub = app.add_subcommand("caption", "Describe pictures in words, or read the text in them.");
  auto options = std::make_shared<CaptionOptions>();
  sub->add_option("MODEL", options->model,
                  "A Hugging Face folder, such as ViT with GPT-2, TrOCR, LLaVA, SmolVLM, Gemma 3 or Qwen "
                  "2.5-VL. The model has an encoder of pictures and a decoder. Of the last four, a GGUF file "
                  "with --mmproj")
      ->required()
      ->type_name("");
  sub->add_option("IMAGE", options->pictures,
                  "PNG or JPEG files. With several, each line begins with the file's name and a tab")
      ->required()
      ->type_name("");
  add_mmproj_option(*sub, options->mmproj, "Text");
  options->prompt_option =
      sub->add_option("--prompt", options->prompt,
                      "What a decoder that reads pictures in its prompt (LLaVA, SmolVLM, Gemma 3, Qwen "
                      "2.5-VL) continues. "
                      "<image> is the "
                      "picture. Without it, a model whose chat template shows pictures is asked through that")
          ->type_name("TEXT")
          ->capture_default_str()
          ->group("Text");
  sub->add_flag("--json", options->writing.json,
                "Print one JSON object for each picture. Its fields: image, text, tokens, score; "
                "hypotheses with --n-best")
      ->group("Text");
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
