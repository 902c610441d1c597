#include <fmt/format.h>
#include <fmt/ranges.h>

#include "loading/line_encoder.h"
#include "loading/picture_encoder.h"
#include "loading/sentence_settings.h"
#include "options/option_text.h"
#include "options/prompt.h"
#include "options/subcommand.h"
#include "output/json_output.h"
#include "output/vector_file.h"
#include "process/replicas.h"
#include "terminal/terminal.h"

namespace pumice::command {

namespace {

struct EmbedOptions {
  LineOptions lines;
  TextOptions texts;
  std::vector<std::string> pictures;
  std::string pooling; // empty: from the model's settings
  std::string normalize;
  std::string prompt, prefix;
  uint32_t dimensions = 0; // 0: all
  std::string output;
  bool json = false;
};

Status check_dimensions(const EmbedOptions& options, uint32_t columns) {
  if (options.dimensions <= columns) return {};
  return Error{Code::invalid_argument,
               fmt::format("--dimensions {}: the model's vectors have {}", options.dimensions, columns)};
}

// The text before each line.
Result<std::string> text_before(const EmbedOptions& options, const SentenceSettings& settings) {
  if (!options.prefix.empty()) {
    PUMICE_CHECK(check_utf8(options.prefix, "--prefix"));
    return options.prefix;
  }
  return settings.prompt(options.lines.model, options.prompt);
}

// Prints each vector, or writes it to the file.
class VectorOutput {
public:
  VectorOutput(const EmbedOptions& options, uint32_t columns) : options_(options), columns_(columns) {}

  Status open() {
    return options_.output.empty() ? Status() : file_.open(path_of(options_.output), columns_);
  }
  Status take(const std::string& line, const std::vector<float>& values) {
    if (!options_.output.empty()) return file_.write(values);
    if (options_.json) {
      print_json({{"text", line}, {"embedding", values}});
    } else {
      print_result(fmt::format("{}\n", fmt::join(values, " ")));
    }
    return {};
  }
  Status finish() { return options_.output.empty() ? Status() : file_.finish(); }

private:
  const EmbedOptions& options_;
  uint32_t columns_;
  VectorFile file_;
};

// Of texts and pictures in one space: the picture's vector there; otherwise of its rows, as for a text.
std::string picture_name(const EmbedOptions& options, Tower tower) {
  if (tower == Tower::pictures) return SharedSpace::picture;
  return "sentence_embedding_" + (options.pooling.empty() ? std::string("cls") : options.pooling);
}

Status embed_pictures(const EmbedOptions& options) {
  if (options.texts.has_file() || !options.texts.texts.empty()) {
    return Error{Code::invalid_argument,
                 "--image is for pictures alone: embed texts by a command of their own"};
  }
  PUMICE_TRY(PictureModel model, PictureModel::open(options.lines.model));
  PUMICE_TRY(const std::unique_ptr<ModelDefinition> main, open_model_definition(model.file));
  if (model.tower == Tower::pictures && !main->shape().shared_space) {
    return Error{Code::unsupported,
                 fmt::format("{}: its rows of pictures are for its decoder alone; use pumice "
                             "caption",
                             options.lines.model)};
  }
  PUMICE_TRY(const PictureInput reader, PictureInput::open(model.file, model.shape));
  PUMICE_CHECK(reader.read(options.pictures.front())); // an early error, before the model is loaded
  PUMICE_TRY(OpenedDevice device, open_device(options.lines.device));
  std::string name = picture_name(options, model.tower);
  PUMICE_TRY(const std::unique_ptr<PictureEncoder> encoder,
             PictureEncoder::create(std::move(model), device, options.lines.load, options.lines.batch_tokens,
                                    options.pictures.size(), std::move(name)));
  PUMICE_CHECK(check_dimensions(options, encoder->columns()));
  const uint32_t columns = options.dimensions ? options.dimensions : encoder->columns();
  VectorFile file;
  if (!options.output.empty()) PUMICE_CHECK(file.open(path_of(options.output), columns));
  PUMICE_CHECK(encoder->run(options.pictures, "encoding", [&](size_t i, std::vector<float> values) -> Status {
    if (options.dimensions) values = finish_vector({}, std::move(values), options.dimensions, true);
    if (!options.output.empty()) return file.write(values);
    if (options.json) {
      print_json({{"image", options.pictures[i]}, {"embedding", values}});
    } else {
      print_result(fmt::format("{}\n", fmt::join(values, " ")));
    }
    return {};
  }));
  if (!options.output.empty()) PUMICE_CHECK(file.finish());
  print_figures(fmt::format("{} ({})\n{}", device.name(), device.driver(), compiled_text()));
  return device.save_pipelines();
}

Status embed(const EmbedOptions& options) {
  if (is_replica() && (!options.pictures.empty() || !options.output.empty())) {
    return Error{
        Code::invalid_argument,
        "--replicas divides lines of text, whose vectors are printed: leave --image and --output out"};
  }
  if (!options.pictures.empty()) return embed_pictures(options);
  PUMICE_TRY(TextEncoder model, open_text_encoder(options.lines.model));
  const std::shared_ptr<const Tokenizer> tokenizer = model.tokenizer;
  PUMICE_TRY(const SentenceSettings settings, read_sentence_settings(model.file, options.pooling));
  PUMICE_TRY(const std::string before, text_before(options, settings));
  const ModelShape whole = model.definition->shape();
  const EncoderShape& shape = *whole.encoder;
  std::string name = whole.shared_space ? std::string(SharedSpace::text) : pooled_tensor(settings, shape);
  const bool normalized = options.normalize.empty() ? settings.normalized : options.normalize == "yes";
  if (!whole.shared_space) PUMICE_CHECK(check_dimensions(options, settings.columns(shape.hidden)));
  PUMICE_TRY(std::unique_ptr<LineEncoder> encoder,
             LineEncoder::create(std::move(model), options.lines, std::move(name), settings.max_tokens));
  const uint32_t columns = settings.columns(encoder->columns());
  PUMICE_CHECK(check_dimensions(options, columns));
  VectorOutput output(options, options.dimensions ? options.dimensions : columns);
  PUMICE_CHECK(output.open());
  WaitingLines source(options.texts);
  PUMICE_CHECK(encoder->run(
      source,
      [&](const std::string& line, size_t limit) { return tokenizer->encode_limited(before + line, limit); },
      [&](const Line& line, std::vector<float> pooled) -> Status {
        PUMICE_CHECK(output.take(line.text,
                                 finish_vector(settings, std::move(pooled), options.dimensions, normalized)));
        return end_line(line.number);
      }));
  PUMICE_CHECK(output.finish());
  return encoder->finish();
}

void add_vector_options(CLI::App& sub, EmbedOptions& options) {
  sub.add_option(
         "--pooling", options.pooling,
         "mean, cls or last of the tokens (default: the model's). 'mean' is the average of the tokens' "
         "vectors, 'cls' is the first of them, 'last' the last one. If the model's settings say "
         "nothing, it is mean, and last of a decoder")
      ->type_name("HOW")
      ->transform(one_of({"mean", "cls", "last"}))
      ->group("Vectors");
  sub.add_option(
         "--normalize", options.normalize,
         "yes: vectors of length 1; no: as they come (default: the model's, and yes where its settings "
         "say nothing)")
      ->type_name("yes|no")
      ->transform(one_of({"yes", "no"}))
      ->group(more_of("Vectors"));
  sub.add_option("--dimensions", options.dimensions,
                 "Keep only the first N numbers of each vector, for models trained for that (Matryoshka)")
      ->type_name("N")
      ->check(within(1u, 1u << 20))
      ->group("Vectors");
  CLI::Option* prompt =
      sub.add_option("--prompt", options.prompt,
                     "Put the model's prompt of this name before each text, such as query (default: the one "
                     "that its settings name)")
          ->type_name("NAME")
          ->group("Text");
  sub.add_option("--prefix", options.prefix, "Put this before each text, in place of a prompt")
      ->type_name("TEXT")
      ->group("Text")
      ->excludes(prompt);
}

} // namespace

Subcommand add_embed(CLI::App& app) {
  CLI::App* sub = app.add_subcommand("embed", "Turn lines of text, or pictures, into vectors.");
  auto options = std::make_shared<EmbedOptions>();
  add_line_options(*sub, options->lines);
  add_timeout_option(*sub, options->lines.device);
  add_replica_option(*sub, options->lines.device);
  add_resume_option(*sub, options->texts.resume);
  add_text_options(*sub, options->texts, "TEXT", "The texts; without TEXT, the lines of standard input");
  sub->add_option("--image", options->pictures,
                  "PNG or JPEG files to embed instead of texts. The model is one of pictures, or of texts "
                  "and pictures "
                  "in one space (CLIP, SigLIP)")
      ->type_name("FILE")
      ->group("Input");
  add_vector_options(*sub, *options);
  CLI::Option* output = sub->add_option("-o,--output", options->output,
                                        "Write the vectors to this file. If its name ends in .npy it is "
                                        "NumPy's, in .jsonl a JSON list on each line, otherwise safetensors "
                                        "with the tensor 'embeddings' [texts, columns]. Nothing is printed")
                            ->type_name("FILE")
                            ->group("Output");
  sub->add_flag("--json", options->json, "Print one JSON object for each text. Its fields: text, embedding")
      ->group("Output")
      ->excludes(output);
  sub->get_option("--resume")->excludes("--image")->excludes("--output");
  sub->footer(
      "Prints one vector on each line, in the order of the texts: numbers separated by spaces. A text "
      "that is longer than the model reads is cut.\n\n" +
      example("pumice embed bge-small-folder < lines.txt > vectors.txt"));
  DeviceOptions& device = options->lines.device;
  return {sub,
          [options] { return embed(*options); },
          {{"MODEL", "--file"}, {"--output", "--resume"}},
          {},
          &device.timeout,
          &device.replicas};
}

} // namespace pumice::command
