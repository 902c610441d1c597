#include <algorithm>
#include <cctype>
#include <optional>

#include <fmt/format.h>

#include "convert/conversion.h"
#include "convert/importance.h"
#include "convert/whisper_cpp.h"
#include "io/bytes.h"
#include "io/no_weights.h"
#include "model/gguf_model.h"
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
  std::vector<std::string> tensor_types;
  std::string imatrix;
  uint64_t split_bytes = 0;
  bool dry_run = false;
  bool no_vocabulary = false;
  bool mmproj = false; // in place of the text model
  bool json = false;
};

std::string file_size_text(uint64_t bytes) {
  const double megabytes = static_cast<double>(bytes) / 1e6;
  return megabytes < 1000 ? fmt::format("{:.1f} MB", megabytes) : fmt::format("{:.2f} GB", megabytes / 1000);
}

// What the options ask for, without the importance.
Result<ConversionOptions> conversion_options(const ConvertOptions& options) {
  ConversionOptions asked;
  asked.vocabulary = !options.no_vocabulary;
  asked.split_bytes = options.split_bytes;
  asked.dry_run = options.dry_run;
  Result<Mixture> mixture = find_mixture(options.type);
  if (!mixture.ok()) return Error{Code::invalid_argument, fmt::format("--type: {}", mixture.error().message)};
  asked.mixture = *mixture;
  for (const std::string& rule : options.tensor_types) {
    Result<TensorTypeRule> parsed = parse_tensor_type_rule(rule);
    if (!parsed.ok())
      return Error{Code::invalid_argument, fmt::format("--tensor-type: {}", parsed.error().message)};
    asked.rules.push_back(std::move(*parsed));
  }
  return asked;
}

Result<Conversion> convert_folder(const ModelFile& file, const ConvertOptions& options,
                                  const ConversionOptions& asked, const Progress& progress) {
  PUMICE_TRY(std::unique_ptr<ModelDefinition> definition, open_model_definition(file));
  const std::optional<PictureTokens> pictures = definition->shape().pictures;
  if (options.mmproj) {
    if (!pictures) {
      return Error{
          Code::unsupported,
          fmt::format("{}: --mmproj: a model of the architecture '{}' reads no pictures in its prompts",
                      file.path(), file.architecture())};
    }
    PUMICE_TRY(definition, open_model_definition(file, Tower::pictures));
  }
  if (!file.has_weights()) return no_weights(file);
  const std::filesystem::path out = path_of(options.out);
  const auto convert_to = out.extension() == ".bin" ? convert_to_whisper_cpp : convert_to_gguf;
  Result<Conversion> conversion = convert_to(file, *definition, out, asked, progress);
  if (conversion.ok() && !options.mmproj && pictures) {
    const auto tower = open_model_definition(file, Tower::pictures);
    const bool written = tower.ok() && (*tower)->gguf(file).ok();
    conversion->notes.push_back(fmt::format("{} has the text model alone: {} the encoder of its {}",
                                            options.out, written ? "--mmproj writes" : "GGUF has no form of",
                                            pictures->sounds ? "sounds" : "pictures"));
  }
  return conversion;
}

// Of a file that is GGUF already.
Result<Conversion> convert_file(const ModelFile& file, const ConvertOptions& options,
                                const ConversionOptions& asked, const Progress& progress) {
  const char* without = options.mmproj                               ? "--mmproj"
                        : options.no_vocabulary                      ? "--no-vocabulary"
                        : path_of(options.out).extension() == ".bin" ? "a file of whisper.cpp (.bin)"
                                                                     : nullptr;
  if (without)
    return Error{Code::unsupported,
                 fmt::format("{}: {} is for Hugging Face folders, and this is a GGUF file already",
                             file.path(), without)};
  return convert_gguf(file, path_of(options.out), asked, progress);
}

// One line for each tensor: its name, its shape, and its types before and after with the size.
void print_tensors(const Conversion& conversion) {
  size_t longest = 0;
  for (const ConvertedTensor& tensor : conversion.written) longest = std::max(longest, tensor.name.size());
  for (const ConvertedTensor& tensor : conversion.written) {
    print_result(fmt::format("{:<{}}  {:>18}  {:>7} -> {:<7}  {:>10}\n", tensor.name, longest,
                             shape_text(tensor.shape), info(tensor.from).name, info(tensor.type).name,
                             file_size_text(tensor.bytes)));
  }
}

Json tensors_json(const Conversion& conversion) {
  Json tensors = Json::array();
  for (const ConvertedTensor& tensor : conversion.written) {
    tensors.push_back({{"name", tensor.name},
                       {"shape", tensor.shape},
                       {"from", info(tensor.from).name},
                       {"type", info(tensor.type).name},
                       {"bytes", tensor.bytes}});
  }
  return tensors;
}

void print_conversion(const ConvertOptions& options, const Conversion& conversion) {
  if (options.json) {
    Json result = {{"model", options.model},        {"path", options.out},       {"type", options.type},
                   {"tensors", conversion.tensors}, {"bytes", conversion.bytes}, {"notes", conversion.notes}};
    if (options.dry_run) result["written"] = tensors_json(conversion);
    if (conversion.files.size() > 1) {
      for (const std::filesystem::path& file : conversion.files) result["files"].push_back(path_text(file));
    }
    print_json(result);
    return;
  }
  for (const std::string& note : conversion.notes) print_note(note);
  if (options.dry_run) print_tensors(conversion);
  const std::string name =
      conversion.files.size() > 1
          ? fmt::format("{} and {} more", path_text(conversion.files.front()), conversion.files.size() - 1)
          : options.out;
  print_result(fmt::format("{}: {} tensors, {}{}\n", name, conversion.tensors,
                           file_size_text(conversion.bytes), options.dry_run ? ", not written" : ""));
}

// llama-quantize may be given a type in the place of a file, which it names after the type.
Status check_out(const std::string& out) {
  std::string type = out;
  std::ranges::transform(type, type.begin(),
                         [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  if (!find_mixture(type).ok()) return {};
  return Error{Code::invalid_argument,
               fmt::format("OUT: '{}' is a type: give the name of a file, and --type {}", out, type)};
}

Status convert(const ConvertOptions& options) {
  PUMICE_CHECK(check_out(options.out));
  PUMICE_TRY(ConversionOptions asked, conversion_options(options));
  PUMICE_TRY(const ModelFile file, ModelFile::open(path_of(options.model)));
  std::optional<Importance> importance;
  if (!options.imatrix.empty()) {
    PUMICE_TRY(importance, Importance::open(path_of(options.imatrix)));
    asked.importance = &*importance;
  }
  ProgressBar bar("converting");
  const auto convert_it = file.format() == ModelFile::Format::gguf ? convert_file : convert_folder;
  Result<Conversion> conversion = convert_it(file, options, asked, bar.callback());
  bar.erase();
  if (!conversion.ok()) {
    Error error = std::move(conversion).error();
    if (error.code == Code::unsupported && !file.tokenizer_path().empty() &&
        error.message.starts_with(path_text(file.tokenizer_path())) && asked.vocabulary)
      error.reasons.push_back("--no-vocabulary converts the model without its vocabulary");
    return error;
  }
  print_conversion(options, *conversion);
  return {};
}

} // namespace

Subcommand add_convert(CLI::App& app) {
  CLI::App* sub = app.add_subcommand("convert", "Convert a model to a GGUF file, or one of whisper.cpp.");
  auto options = std::make_shared<ConvertOptions>();
  sub->add_option("MODEL", options->model,
                  "A Hugging Face folder (config.json, weights, tokenizer), or a GGUF file")
      ->required()
      ->type_name("");
  sub->add_option("OUT", options->out, "The file to write: GGUF, or whisper.cpp's if it ends in .bin")
      ->required()
      ->type_name("");
  sub->add_option(
         "--type", options->type,
         fmt::format("Type of the weight matrices, or a mixture of types as llama-quantize makes it: {}",
                     mixture_names()))
      ->type_name("TYPE")
      ->transform(weight_type(names_in(mixture_names())))
      ->capture_default_str()
      ->group(more_of("Output"));
  sub->add_option("--tensor-type", options->tensor_types,
                  "Another type for the tensors in whose names a regular expression matches, such as "
                  "attn_v=Q8_0. May be given several times; the first that matches counts")
      ->type_name("PATTERN=TYPE")
      ->allow_extra_args(false)
      ->group(more_of("Output"));
  sub->add_option("--imatrix", options->imatrix,
                  "A file of llama.cpp's llama-imatrix: how much errors in the weights count")
      ->type_name("FILE")
      ->group(more_of("Output"));
  sub->add_option("--split-max-size", options->split_bytes,
                  "Write several files OUT-00001-of-00003.gguf with at most so many bytes of tensors each, "
                  "such as 2G")
      ->type_name("SIZE")
      ->transform(CLI::AsSizeValue(true))
      ->group(more_of("Output"));
  sub->add_flag("--dry-run", options->dry_run, "Show each tensor's type and size, and write nothing")
      ->group("Output");
  sub->add_flag("--no-vocabulary", options->no_vocabulary,
                "Leave the vocabulary out. The result then works with token ids only")
      ->group("Output");
  sub->add_flag("--mmproj", options->mmproj,
                "Write the encoder of pictures (LLaVA, SmolVLM, Gemma 3, Qwen 2.5-VL) or sounds (Voxtral) in "
                "place of the text model. llama.cpp has it in a file of its own, mmproj*.gguf")
      ->group("Output");
  sub->add_flag("--json", options->json,
                "Print one JSON object. Its fields: model, path, type, tensors, bytes, notes; with --dry-run "
                "written, of a model in several files files")
      ->group("Output");
  sub->footer(
      "llama.cpp reads the GGUF file too, if it knows the architecture; otherwise only Pumice does. "
      "Of a folder, norms, biases, position tables and routers are F32; of a GGUF file they stay as "
      "they are. The output head of quantised types is Q6_K, or Q8_0 with Q8_0. A matrix whose rows do "
      "not fill whole blocks of 256 has a type of blocks of 32, or F16. A file of whisper.cpp "
      "(ggml-*.bin) can be made of a Whisper only.\n\n" +
      example("pumice convert path/to/huggingface/folder model.gguf --type Q8_0\n"
              "  pumice convert model-f16.gguf model-q4.gguf --type Q4_K_M"));
  return {sub, [options] { return convert(*options); }, {{"MODEL", "--imatrix"}, {"OUT"}}};
}

} // namespace pumice::command
