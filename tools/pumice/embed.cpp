#include <filesystem>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "io/json_text.h"
#include "io/mapped_file.h"
#include "io/safetensors.h"
#include "json_output.h"
#include "line_encoder.h"
#include "picture_encoder.h"
#include "subcommand.h"
#include "terminal.h"

namespace pumice::command {

namespace {

struct EmbedOptions {
  LineOptions lines;
  TextOptions texts;
  std::vector<std::string> pictures;
  std::string pooling; // empty: from the model's settings
  std::string output;
  bool json = false;
};

// The pooling in the settings of sentence-transformers beside the weights; empty if there are none.
Result<std::string> pooling_of_folder(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / "1_Pooling" / "config.json";
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return std::string();
  PUMICE_TRY(MappedFile mapped, MappedFile::open(path));
  PUMICE_TRY(nlohmann::json json, parse_json_object(mapped.bytes(), mapped.path()));
  const Fields fields(json, mapped.path());
  PUMICE_TRY(bool mean, fields.boolean_or("pooling_mode_mean_tokens", false));
  PUMICE_TRY(bool cls, fields.boolean_or("pooling_mode_cls_token", false));
  for (const auto& [name, value] : json.items()) {
    const bool known = name == "pooling_mode_mean_tokens" || name == "pooling_mode_cls_token";
    if (known || !name.starts_with("pooling_mode_") || value != true) continue;
    return Error{
        Code::unsupported,
        fmt::format(
            "{}: the model combines the vectors of its tokens by '{}', which Pumice cannot do: choose "
            "--pooling mean or --pooling cls",
            path_text(path), name)};
  }
  if (mean && cls) {
    return Error{Code::unsupported,
                 fmt::format("{}: the settings name two ways to combine the vectors of the "
                             "tokens: choose --pooling mean or --pooling cls",
                             path_text(path))};
  }
  return std::string(cls ? "cls" : "mean");
}

Result<std::string> pooling_of(const ModelFile& file) {
  if (file.format() == ModelFile::Format::hugging_face) return pooling_of_folder(path_of(file.path()));
  constexpr uint32_t first_token = 2; // llama.cpp's number
  PUMICE_TRY(uint32_t type, file.fields().u32_or(file.architecture() + ".pooling_type", 0));
  return std::string(type == first_token ? "cls" : "mean");
}

Result<std::string> pooled_name(const EmbedOptions& options, const ModelFile& file, const ModelShape& shape) {
  if (shape.shared_space) return std::string(SharedSpace::text);
  std::string pooling = options.pooling;
  if (pooling.empty()) {
    PUMICE_TRY(pooling, pooling_of(file));
  }
  return "sentence_embedding_" + (pooling.empty() ? std::string("mean") : pooling);
}

void print(const EmbedOptions& options, const std::string& line, const std::vector<float>& values) {
  if (options.json) {
    print_json({{"text", line}, {"embedding", values}});
  } else {
    print_result(fmt::format("{}\n", fmt::join(values, " ")));
  }
}

Status write(const std::string& path, const std::vector<float>& values, uint64_t columns) {
  const SafetensorsFile::Entry entry{
      "embeddings", "F32", {values.size() / columns, columns}, std::as_bytes(std::span(values))};
  return write_safetensors(path_of(path), std::span(&entry, 1));
}

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
  PUMICE_TRY(OpenedDevice device, open_device(options.lines.device));
  std::string name = picture_name(options, model.tower);
  PUMICE_TRY(const std::unique_ptr<PictureEncoder> encoder,
             PictureEncoder::create(std::move(model), device, options.lines.load, options.lines.batch_tokens,
                                    options.pictures.size(), std::move(name)));
  std::vector<float> all;
  PUMICE_CHECK(encoder->run(options.pictures, "encoding", [&](size_t i, std::vector<float> values) -> Status {
    if (!options.output.empty()) {
      all.insert(all.end(), values.begin(), values.end());
    } else if (options.json) {
      print_json({{"image", options.pictures[i]}, {"embedding", values}});
    } else {
      print_result(fmt::format("{}\n", fmt::join(values, " ")));
    }
    return {};
  }));
  if (!options.output.empty()) PUMICE_CHECK(write(options.output, all, encoder->columns()));
  print_figures(fmt::format("{} ({})\n{}", device.name(), device.driver(), compiled_text()));
  return device.save_pipelines();
}

Status embed(const EmbedOptions& options) {
  if (!options.pictures.empty()) return embed_pictures(options);
  PUMICE_TRY(TextEncoder model, open_text_encoder(options.lines.model));
  const std::shared_ptr<const Tokenizer> tokenizer = model.tokenizer;
  PUMICE_TRY(std::string name, pooled_name(options, model.file, model.definition->shape()));
  PUMICE_TRY(std::unique_ptr<LineEncoder> encoder,
             LineEncoder::create(std::move(model), options.lines, std::move(name)));
  WaitingLines source(options.texts);
  std::vector<float> all; // all vectors, for the file
  PUMICE_CHECK(encoder->run(
      source, [&](const std::string& line, size_t limit) { return tokenizer->encode_limited(line, limit); },
      [&](const Line& line, const std::vector<float>& values) {
        if (options.output.empty()) {
          print(options, line.text, values);
        } else {
          all.insert(all.end(), values.begin(), values.end());
        }
      }));
  if (!options.output.empty()) PUMICE_CHECK(write(options.output, all, encoder->columns()));
  return encoder->finish();
}

} // namespace

Subcommand add_embed(CLI::App& app) {
  CLI::App* sub =
      app.add_subcommand("embed", "Turn each line of text, or each picture, into a vector of length 1.");
  auto options = std::make_shared<EmbedOptions>();
  add_line_options(*sub, options->lines);
  add_text_options(*sub, options->texts, "TEXT", "The texts; without TEXT, the lines of standard input");
  sub->add_option(
         "--image", options->pictures,
         "PNG or JPEG files to embed instead of texts, with a model of pictures, or of texts and pictures "
         "in one space (CLIP, SigLIP)")
      ->type_name("FILE")
      ->group("Input");
  sub->add_option("--pooling", options->pooling,
                  "mean or cls of the tokens (default: the model's). 'mean' is the average of the tokens' "
                  "vectors, 'cls' is the first of them. If the model's settings say nothing, it is mean")
      ->type_name("HOW")
      ->transform(one_of({"mean", "cls"}))
      ->group("Output");
  CLI::Option* output = sub->add_option("-o,--output", options->output,
                                        "Write the vectors to this safetensors file. Its tensor 'embeddings' "
                                        "is [texts, hidden]. Nothing is printed")
                            ->type_name("FILE")
                            ->group("Output");
  sub->add_flag("--json", options->json, "Print one JSON object for each text. Its fields: text, embedding")
      ->group("Output")
      ->excludes(output);
  sub->footer(
      "Prints one vector on each line, in the order of the texts: numbers separated by spaces. A text "
      "that is longer than the model's context is cut.\n\n" +
      example("pumice embed bge-small-folder < lines.txt > vectors.txt"));
  return {sub, [options] { return embed(*options); }, {{"MODEL", "--file"}, {"--output"}}};
}

} // namespace pumice::command
