#include <fmt/format.h>

#include "convert/conversion.h"
#include "convert/whisper_cpp.h"
#include "io/no_weights.h"
#include "options/options.h"
#include "options/subcommand.h"
#include "output/json_output.h"
#include "terminal/terminal.h"

namespace pumice::command {

namespace {

struct ConvertOptions {
  std::string model;
  std::string out;
  std::string type = "F16";
  bool no_vocabulary = false;
  bool mmproj = false; // in place of the text model
  bool json = false;
};

std::string file_size_text(uint64_t bytes) {
  const double megabytes = static_cast<double>(bytes) / 1e6;
  return megabytes < 1000 ? fmt::format("{:.1f} MB", megabytes) : fmt::format("{:.2f} GB", megabytes / 1000);
}

Status convert(const ConvertOptions& options) {
  ConversionOptions conversion_options{.vocabulary = !options.no_vocabulary};
  Result<TensorType> type = conversion_type(options.type);
  if (!type.ok()) return Error{Code::invalid_argument, fmt::format("--type: {}", type.error().message)};
  conversion_options.type = *type;
  PUMICE_TRY(ModelFile file, ModelFile::open(path_of(options.model)));
  if (file.format() == ModelFile::Format::gguf) {
    return Error{
        Code::unsupported,
        fmt::format("{}: this is a GGUF file already; convert reads Hugging Face folders", file.path())};
  }
  PUMICE_TRY(std::unique_ptr<ModelDefinition> definition, open_model_definition(file));
  if (options.mmproj) {
    if (!definition->shape().pictures) {
      return Error{
          Code::unsupported,
          fmt::format("{}: --mmproj: a model of the architecture '{}' reads no pictures in its prompts",
                      file.path(), file.architecture())};
    }
    PUMICE_TRY(definition, open_model_definition(file, Tower::pictures));
  }
  if (!file.has_weights()) {
    return no_weights(file);
  }
  ProgressBar bar("converting");
  const std::filesystem::path out = path_of(options.out);
  const auto convert_to = out.extension() == ".bin" ? convert_to_whisper_cpp : convert_to_gguf;
  Result<Conversion> conversion = convert_to(file, *definition, out, conversion_options, bar.callback());
  bar.erase();
  if (!conversion.ok()) {
    Error error = std::move(conversion).error();
    if (error.code == Code::unsupported && !file.tokenizer_path().empty() &&
        error.message.starts_with(path_text(file.tokenizer_path())) && conversion_options.vocabulary)
      error.reasons.push_back("--no-vocabulary converts the model without its vocabulary");
    return error;
  }
  if (!options.mmproj && definition->shape().pictures) {
    conversion->notes.push_back(
        fmt::format("{} has the text model alone: --mmproj writes the encoder of its pictures", options.out));
  }
  if (options.json) {
    print_json({{"model", options.model},
                {"path", options.out},
                {"type", info(conversion_options.type).name},
                {"tensors", conversion->tensors},
                {"bytes", conversion->bytes},
                {"notes", conversion->notes}});
    return {};
  }
  for (const std::string& note : conversion->notes) print_note(note);
  print_result(fmt::format("{}: {} tensors, {}\n", options.out, conversion->tensors,
                           file_size_text(conversion->bytes)));
  return {};
}

} // namespace

Subcommand add_convert(CLI::App& app) {
  CLI::App* sub = app.add_subcommand("convert", "Convert a model to one file, of GGUF or whisper.cpp.");
  auto options = std::make_shared<ConvertOptions>();
  sub->add_option("MODEL_DIR", options->model, "A Hugging Face folder: config.json, weights, tokenizer")
      ->required()
      ->type_name("");
  sub->add_option("OUT", options->out, "The file to write: GGUF, or whisper.cpp's if it ends in .bin")
      ->required()
      ->type_name("");
  sub->add_option("--type", options->type, fmt::format("Type of the weight matrices: {}", conversion_types()))
      ->type_name("TYPE")
      ->transform(weight_type(names_in(conversion_types())))
      ->capture_default_str()
      ->group("Output");
  sub->add_flag("--no-vocabulary", options->no_vocabulary,
                "Leave the vocabulary out. The result then works with token ids only")
      ->group("Output");
  sub->add_flag("--mmproj", options->mmproj,
                "Write the encoder of pictures (LLaVA, SmolVLM, Gemma 3, Qwen 2.5-VL) in place of the text "
                "model. llama.cpp has it in a file of its own, mmproj*.gguf")
      ->group("Output");
  sub->add_flag("--json", options->json,
                "Print one JSON object. Its fields: model, path, type, tensors, bytes, notes")
      ->group("Output");
  sub->footer("llama.cpp reads the GGUF file too, if it knows the architecture; otherwise only Pumice does. "
              "Norms, biases, position tables and routers are F32. A matrix whose rows do not fill whole "
              "blocks of the type becomes Q8_0, or F16 if Q8_0 does not fit either. With Q4_K, the output "
              "head is Q6_K. A file of whisper.cpp (ggml-*.bin) can be made of a Whisper only.\n\n" +
              example("pumice convert path/to/huggingface/folder model.gguf --type Q8_0"));
  return {sub, [options] { return convert(*options); }, {{"MODEL_DIR"}, {"OUT"}}};
}

} // namespace pumice::command
