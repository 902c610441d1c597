#include <algorithm>

#include <fmt/format.h>

#include "attention_picture.h"
#include "model/vocabulary.h"
#include "model_kind.h"
#include "open_device.h"
#include "picture_input.h"
#include "subcommand.h"
#include "terminal.h"
#include "writing.h"

namespace pumice::command {

namespace {

struct CaptionOptions {
  std::string model;
  std::vector<std::string> pictures;
  AttentionOptions attention;
  WritingOptions writing;
};

// Puts "FILE<tab>" before each line.
std::string with_name(const std::string& lines, const std::string& name) {
  std::string result;
  for (size_t at = 0; at < lines.size();) {
    const size_t end = lines.find('\n', at) + 1;
    result += name + "\t" + lines.substr(at, end - at);
    at = end;
  }
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

Status caption(const CaptionOptions& options) {
  PUMICE_TRY(ModelFile file, ModelFile::open(path_of(options.model)));
  PUMICE_TRY(std::unique_ptr<ModelDefinition> definition, open_model_definition(file));
  const ModelShape shape = definition->shape();
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
  CLI::App* sub = app.add_subcommand("caption", "Describe pictures in words.");
  auto options = std::make_shared<CaptionOptions>();
  sub->add_option(
         "MODEL", options->model,
         "A Hugging Face folder, such as ViT with GPT-2. The model has an encoder of pictures and a decoder")
      ->required()
      ->type_name("");
  sub->add_option("IMAGE", options->pictures,
                  "PNG or JPEG files. With several, each line begins with the file's name and a tab")
      ->required()
      ->type_name("");
  sub->add_flag("--json", options->writing.json,
                "Print one JSON object for each picture. Its fields: image, text, tokens; score with beam "
                "search; hypotheses with --n-best")
      ->group("Text");
  add_attention_options(*sub, options->attention);
  add_writing_options(*sub, options->writing);
  sub->footer(example("pumice caption vit-gpt2-image-captioning photo.jpg --beams 4"));
  return {sub, [options] { return caption(*options); }, {{"MODEL", "IMAGE"}, {"--attention"}}};
}

} // namespace pumice::command
