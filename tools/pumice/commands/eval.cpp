#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "loading/open_device.h"
#include "loading/picture_tower.h"
#include "options/options.h"
#include "options/subcommand.h"
#include "output/json_output.h"
#include "output/output_files.h"
#include "process/processes.h"
#include "task/evaluation/evaluation.h"
#include "task/evaluation/picture_prompts.h"
#include "terminal/terminal.h"

namespace pumice::command {

namespace {

struct EvalOptions {
  std::string model;
  std::string inputs;
  std::string outputs;
  std::vector<std::string> names;
  bool json = false;
  DeviceOptions device;
  SizeOptions size;
};

Result<EvalBatch> read_batch(const SafetensorsFile& file, const std::string& path, const ModelShape& shape) {
  EvalBatch batch;
  if (shape.encoder) {
    PUMICE_TRY(batch.encoder, read_encoder_inputs(file, path, *shape.encoder));
    PUMICE_CHECK(check_lengths(*batch.encoder, *shape.encoder));
  }
  if (!shape.has_decoder()) return batch;
  const std::string prefix = shape.encoder ? "decoder_" : "";
  PUMICE_TRY(batch.decoder,
             read_tokens(file, path, prefix + "input_ids", prefix + "attention_mask", shape.vocabulary));
  if (batch.decoder->ids.size() == batch.rows()) return batch;
  return Error{Code::invalid_file,
               fmt::format("{} has {} rows, and {} has {}: they need as many", batch.decoder->source,
                           batch.decoder->ids.size(), batch.encoder->source, batch.rows())};
}

// The outputs that are always written, followed by those that --output asks for.
Result<std::vector<std::string>> output_names(const std::vector<std::string>& asked,
                                              const ModelDefinition& definition, const ModelFile& file) {
  const ModelShape shape = definition.shape();
  std::vector<std::string> names = {"logits"};
  if (shape.shared_space) {
    names = {SharedSpace::text};
  } else if (shape.encoder && shape.has_decoder()) {
    names.push_back("encoder_last_hidden_state");
  } else if (shape.encoder) {
    PUMICE_TRY(const EncoderGraph graph, definition.encoder_graph(file));
    names = {"last_hidden_state"};
    if (graph.readable.contains("pooler_output")) names.push_back("pooler_output");
    // Those of a masked language model are many, and written only where they are asked for.
    if (graph.readable.contains("logits") && !graph.readable.contains("masked_logits"))
      names.push_back("logits");
  }
  for (const std::string& name : asked) {
    if (std::ranges::count(names, name) == 0) names.push_back(name);
  }
  return names;
}

Result<ForcedPassOptions> pass_options(const EvalOptions& options, const ModelShape& shape,
                                       const EvalBatch& batch) {
  const SessionSize size = session_size(options.size, shape);
  ForcedPassOptions pass;
  pass.cache = size.cache;
  pass.chunk = size.chunk;
  // Each input has at least one token, so no more inputs fit one step.
  pass.inputs = static_cast<uint32_t>(std::min<uint64_t>(batch.rows(), size.chunk));
  if (batch.encoder) pass.input_tokens = step_positions(*batch.encoder, *shape.encoder, size.chunk);
  if (!batch.decoder) return pass;
  const uint64_t longest = batch.decoder->places.longest();
  const uint64_t limit = options.size.context ? options.size.context : shape.context;
  if (longest > limit) {
    return Error{Code::invalid_argument,
                 fmt::format("{}: a row has {} tokens, and the context has room for {}",
                             batch.decoder->source, longest, limit)};
  }
  pass.tokens = options.size.context ? size.context : static_cast<uint32_t>(std::max<uint64_t>(longest, 1));
  return pass;
}

// `done`: how many rows of the batch have their outputs, from the first on, also after an error.
Status run_batch(ForcedPass& pass, const EvalBatch& batch, std::vector<EvalOutput>& outputs, size_t& done) {
  std::vector<ForcedInput> inputs;
  std::vector<size_t> rows; // of the batch
  for (size_t row = 0; row < batch.rows(); ++row) {
    if (batch.is_padding(row)) continue;
    inputs.push_back(batch.input(row));
    rows.push_back(row);
  }
  std::optional<SavedWork> saved; // the rows until Ctrl-C
  ProgressBar bar("evaluating");
  for (size_t first = 0; first < inputs.size();) {
    if (!bar.update(first, inputs.size())) return interruption();
    const std::span<const ForcedInput> rest = std::span<const ForcedInput>(inputs).subspan(first);
    constexpr size_t most = 16; // what an interruption loses
    const size_t count = std::clamp<size_t>(pass.fitting(rest), 1, most);
    PUMICE_CHECK(pass.run(rest.first(count)));
    for (size_t i = 0; i < count; ++i) {
      for (EvalOutput& output : outputs) {
        PUMICE_TRY(const std::vector<float> values, pass.read(output.name(), i));
        output.place(rows[first + i], values);
      }
    }
    first += count;
    done = rows[first - 1] + 1;
    if (!saved) saved.emplace();
  }
  done = batch.rows();
  return {};
}

struct Evaluated {
  EvalBatch batch; // which the outputs refer to
  std::vector<EvalOutput> outputs;
};

// After an error, writes the outputs of the rows that have them to a file beside the one that was asked for.
Status keep_outputs(const EvalOptions& options, const Evaluated& evaluated, size_t rows) {
  if (rows == 0) return {};
  std::vector<SafetensorsFile::Entry> entries;
  for (const EvalOutput& output : evaluated.outputs) entries.push_back(output.entry(rows));
  const std::filesystem::path path = partial_path(path_of(options.outputs));
  PUMICE_CHECK(write_safetensors(path, entries));
  print_note(fmt::format("{} has the first {} of {} rows, which were there by then", path_text(path), rows,
                         evaluated.batch.rows()));
  return {};
}

// Evaluates a model, or a tower of it.
Result<std::unique_ptr<Evaluated>> evaluate(const EvalOptions& options, const OpenedDevice& device,
                                            OpenedModel opened, const LoadOptions& load, EvalBatch batch,
                                            std::vector<std::string> names) {
  PUMICE_TRY(std::shared_ptr<const Model> model, load_model(std::move(opened), device, load, &options.size));
  auto result = std::make_unique<Evaluated>();
  result->batch = std::move(batch);
  PUMICE_TRY(ForcedPassOptions size, pass_options(options, model->shape(), result->batch));
  size.readable = names;
  if (result->batch.encoder) PUMICE_CHECK(replace_sound(*model, *result->batch.encoder));
  PUMICE_TRY(std::unique_ptr<ForcedPass> pass, ForcedPass::create(std::move(model), std::move(size)));
  for (const std::string& name : names) result->outputs.emplace_back(*pass, result->batch, name);
  size_t done = 0;
  const Status status = run_batch(*pass, result->batch, result->outputs, done);
  if (status.ok()) return result;
  if (const Status kept = keep_outputs(options, *result, done); !kept.ok()) print_error(kept.error().text());
  return status.error();
}

Status write_outputs(const EvalOptions& options, const OpenedDevice& device,
                     const std::vector<SafetensorsFile::Entry>& entries) {
  PUMICE_CHECK(write_safetensors(path_of(options.outputs), entries));
  if (!options.json) {
    print_figures(fmt::format("{} ({})\n{}", device.name(), device.driver(), compiled_text()));
    return {};
  }
  Json json = {{"path", options.outputs}, {"tensors", Json::array()}};
  for (const SafetensorsFile::Entry& entry : entries) {
    json["tensors"].push_back({{"name", entry.name}, {"type", entry.dtype}, {"shape", entry.shape}});
  }
  add_device(json, device);
  print_json(json);
  return {};
}

// Puts the pictures of pixel_values, or the sounds of input_features or audio_16khz, into the places that
// input_ids has for their rows.
Status show_pictures(const EvalOptions& options, const OpenedDevice& device, const SafetensorsFile& inputs,
                     const ModelFile& file, const ModelShape& shape, EvalBatch& batch) {
  if (!shape.pictures || !PicturePrompts::given(inputs)) return {};
  PUMICE_TRY(const PicturePrompts prompts, PicturePrompts::read(inputs, options.inputs, file, shape));
  PUMICE_TRY(PictureRows encoder,
             load_picture_tower(options.model, *shape.pictures, device, options.size.load));
  PUMICE_TRY(batch.prompts, prompts.encode(encoder));
  for (size_t i = 0; i < batch.rows(); ++i) {
    if (batch.prompts[i].tokens.size() == batch.decoder->ids[i].size()) continue;
    return Error{Code::invalid_file,
                 fmt::format("{}: row {} has one token {} for a picture: expected one for each of its rows",
                             batch.decoder->source, i, shape.pictures->token)};
  }
  return {};
}

// Whether the features that the encoder reads are to be written. They are none of the model's outputs.
Result<bool> take_features(std::vector<std::string>& names, const ModelShape& shape) {
  if (std::erase(names, InputFeatures::name) == 0) return false;
  if (shape.encoder && shape.encoder->kind == InputKind::features) return true;
  return Error{Code::invalid_argument,
               fmt::format("--output {} is only for models of sound", InputFeatures::name)};
}

// The size of the pictures in the inputs, where the model can read several sizes and they have another one.
void set_picture_size(ModelDefinition& definition, const SafetensorsFile& inputs, LoadOptions& load) {
  const SafetensorsFile::Entry* pixels = inputs.find("pixel_values");
  const ModelShape shape = definition.shape();
  if (!pixels || pixels->shape.size() < 3 || !shape.encoder || shape.encoder->kind != InputKind::pixels)
    return;
  constexpr uint64_t most = 16384;
  const uint64_t height = pixels->shape.end()[-2], width = pixels->shape.back();
  const std::vector<uint32_t>& input_shape = shape.encoder->input_shape;
  if (height == 0 || width == 0 || height > most || width > most ||
      (height == input_shape[1] && width == input_shape[2]))
    return;
  if (!definition.set_picture_size(static_cast<uint32_t>(height), static_cast<uint32_t>(width)).ok()) return;
  load.picture_height = static_cast<uint32_t>(height);
  load.picture_width = static_cast<uint32_t>(width);
}

// The logits of each picture with each text.
std::vector<float> pair_logits(const SharedSpace& space, const EvalOutput& pictures,
                               const EvalOutput& texts) {
  const size_t columns = texts.entry().shape.back();
  std::vector<float> logits;
  for (size_t picture = 0; picture < pictures.values().size(); picture += columns) {
    for (size_t text = 0; text < texts.values().size(); text += columns) {
      double sum = 0;
      for (size_t i = 0; i < columns; ++i)
        sum += double{pictures.values()[picture + i]} * texts.values()[text + i];
      logits.push_back(static_cast<float>(space.scale * sum + space.bias));
    }
  }
  return logits;
}

constexpr const char* pair_output = "logits_per_image";

// The outputs of the tower of texts that --output asks for beside what is written anyway: of each tower that
// has inputs its vectors, and of both the logits. An error for an output that these inputs do not give.
Result<std::vector<std::string>> text_outputs(const EvalOptions& options, bool has_texts, bool has_pictures) {
  std::vector<std::string> names;
  for (const std::string& name : options.names) {
    const bool of_pictures = name == SharedSpace::picture || name == pair_output;
    const bool of_texts = name != SharedSpace::picture;
    if ((of_pictures && !has_pictures) || (of_texts && !has_texts)) {
      return Error{Code::invalid_argument,
                   fmt::format("--output {} needs '{}', and {} has none", name,
                               of_texts && !has_texts ? "input_ids" : "pixel_values", options.inputs)};
    }
    if (!of_pictures) names.push_back(name);
  }
  return names;
}

// Texts, pictures or both, as the inputs have them, in one space.
Status eval_shared_space(const EvalOptions& options, OpenedModel opened, const SafetensorsFile& inputs) {
  const ModelShape shape = opened.definition->shape();
  PUMICE_TRY(const std::unique_ptr<ModelDefinition> pictures,
             open_model_definition(opened.file, Tower::pictures));
  const bool has_tokens = inputs.find("input_ids"), has_pixels = inputs.find("pixel_values");
  std::optional<EvalBatch> text_batch, picture_batch;
  if (has_tokens || !has_pixels) {
    PUMICE_TRY(text_batch, read_batch(inputs, options.inputs, shape));
  }
  if (has_pixels) {
    PUMICE_TRY(picture_batch, read_batch(inputs, options.inputs, pictures->shape()));
  }
  PUMICE_TRY(const std::vector<std::string> asked,
             text_outputs(options, text_batch.has_value(), picture_batch.has_value()));
  PUMICE_TRY(const std::vector<std::string> names, output_names(asked, *opened.definition, opened.file));
  PUMICE_TRY(OpenedDevice device, open_device(options.device));
  std::unique_ptr<Evaluated> of_texts, of_pictures;
  std::vector<SafetensorsFile::Entry> entries;
  if (picture_batch) {
    PUMICE_TRY(ModelFile again, ModelFile::open(path_of(options.model)));
    LoadOptions load = options.size.load;
    load.tower = Tower::pictures;
    PUMICE_TRY(of_pictures, evaluate(options, device, std::move(again), load, *std::move(picture_batch),
                                     {SharedSpace::picture}));
    entries.push_back(of_pictures->outputs[0].entry());
  }
  if (text_batch) {
    PUMICE_TRY(of_texts, evaluate(options, device, std::move(opened), options.size.load,
                                  *std::move(text_batch), names));
    for (const EvalOutput& output : of_texts->outputs) entries.push_back(output.entry());
  }
  std::vector<float> logits;
  if (of_texts && of_pictures) {
    const EvalOutput &pixels = of_pictures->outputs[0], &words = of_texts->outputs[0];
    logits = pair_logits(*shape.shared_space, pixels, words);
    entries.push_back({pair_output,
                       "F32",
                       {pixels.entry().shape[0], words.entry().shape[0]},
                       std::as_bytes(std::span(logits))});
  }
  PUMICE_CHECK(write_outputs(options, device, entries));
  return device.save_pipelines();
}

Status eval(const EvalOptions& options) {
  PUMICE_TRY(OpenedModel opened, OpenedModel::open(path_of(options.model), options.size.load.settings));
  PUMICE_TRY(const SafetensorsFile inputs, SafetensorsFile::open(path_of(options.inputs)));
  if (opened.definition->shape().shared_space) return eval_shared_space(options, std::move(opened), inputs);
  LoadOptions load = options.size.load;
  for (const char* of_head : {"logits", "masked_logits", "sparse_embedding"}) { // others do without
    if (!opened.definition->shape().has_decoder() && std::ranges::count(options.names, of_head))
      load.readable.push_back(of_head);
  }
  set_picture_size(*opened.definition, inputs, load);
  const ModelShape shape = opened.definition->shape();
  PUMICE_TRY(EvalBatch batch, read_batch(inputs, options.inputs, shape));
  PUMICE_CHECK(pass_options(options, shape, batch));
  PUMICE_TRY(std::vector<std::string> names, output_names(options.names, *opened.definition, opened.file));
  PUMICE_TRY(const bool write_features, take_features(names, shape));
  PUMICE_TRY(OpenedDevice device, open_device(options.device));
  PUMICE_CHECK(show_pictures(options, device, inputs, opened.file, shape, batch));
  PUMICE_TRY(const std::unique_ptr<Evaluated> result,
             evaluate(options, device, std::move(opened), load, std::move(batch), std::move(names)));
  std::vector<SafetensorsFile::Entry> entries;
  for (const EvalOutput& output : result->outputs) entries.push_back(output.entry());
  std::optional<InputFeatures> features;
  if (write_features) features.emplace(*result->batch.encoder, *shape.encoder);
  if (features) entries.push_back(features->entry());
  PUMICE_CHECK(write_outputs(options, device, entries));
  return device.save_pipelines();
}

} // namespace

Subcommand add_eval(CLI::App& app) {
  CLI::App* sub = app.add_subcommand("eval", "Run a model once on tensors, and save its outputs.");
  auto options = std::make_shared<EvalOptions>();
  sub->add_option("MODEL", options->model, "A GGUF file or a Hugging Face folder")->required()->type_name("");
  sub->add_option(
         "--inputs", options->inputs,
         "A safetensors file with the inputs of the model. Text is 'input_ids' [batch, tokens], and if "
         "needed 'attention_mask' (0 is padding) and 'token_type_ids'. Pictures are 'pixel_values' "
         "[batch, channels, height, width]. Sound is 'input_features' [batch, mels, frames] or "
         "'audio_16khz' [batch, samples]; for a model of samples it is 'input_values' [batch, samples]. A "
         "model of texts and pictures in one space takes text, pictures or both; a decoder that sees takes "
         "pictures too, and 'input_ids' have a token for each of their rows. A model with an encoder and a "
         "decoder also needs 'decoder_input_ids'")
      ->type_name("FILE")
      ->required()
      ->group("Tensors");
  sub->add_option(
         "--outputs", options->outputs,
         "The safetensors file to write. For a decoder it has 'logits'. For an encoder it has "
         "'last_hidden_state' and, if the model has them, 'pooler_output' and 'logits'. For a model with "
         "both it has 'logits' and 'encoder_last_hidden_state'. For texts and pictures in one space it has "
         "'text_embeds', 'image_embeds' and, of both, 'logits_per_image'")
      ->type_name("FILE")
      ->required()
      ->group("Tensors");
  sub->add_option(
         "--output", options->names,
         "Another output to write: hidden_states.N, attentions.N or cross_attentions.N. Can be given more "
         "than "
         "once. An encoder also has sentence_embedding_mean and sentence_embedding_cls, and a masked "
         "language model "
         "logits. The encoder of a "
         "model "
         "with a decoder has the same names after 'encoder_'. A model of sound has input_features, which it "
         "makes of 'audio_16khz'")
      ->type_name("NAME")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->group("Tensors");
  sub->add_flag("--json", options->json,
                "Print one JSON object: path, tensors (name, type, shape), device, driver")
      ->group("Tensors");
  add_size_options(*sub, options->size, "f32");
  add_settings_options(*sub, options->size.load);
  add_device_options(*sub, options->device);
  add_stage_options(*sub, options->device);
  sub->footer(example("pumice eval model.gguf --inputs in.safetensors --outputs out.safetensors"));
  return {sub,
          [options] { return eval(*options); },
          {{"MODEL", "--inputs"}, {"--outputs"}},
          [options] { return serve_stage(options->model, options->device, options->size.load); },
          &options->device.timeout};
}

} // namespace pumice::command
