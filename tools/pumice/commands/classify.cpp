#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "base/lines.h"
#include "io/mapped_file.h"
#include "loading/line_encoder.h"
#include "loading/model_kind.h"
#include "loading/open_device.h"
#include "loading/picture_encoder.h"
#include "model/vocabulary.h"
#include "options/prompt.h"
#include "options/subcommand.h"
#include "output/json_output.h"
#include "terminal/counted.h"
#include "terminal/terminal.h"
#include "terminal/writing.h"

namespace pumice::command {

namespace {

struct ClassifyOptions {
  std::string model;
  TextOptions inputs;
  std::string labels; // a file
  std::string sentence = "This is a photo of {}.";
  uint32_t top = 5;
  uint32_t batch_tokens = 0;
  bool json = false;
  DeviceOptions device;
  LoadOptions load;
};

// How a model's logits become the numbers that are printed.
enum class Scoring {
  softmax, // one label applies: the probabilities sum to 1
  sigmoid, // each label applies or not: each has its own probability
  raw,     // regression: the logits are the results
};

Result<Scoring> scoring(const ModelFile& file, size_t labels) {
  PUMICE_TRY(const std::string problem, file.fields().string_or("problem_type", ""));
  if (problem == "regression") return Scoring::raw;
  return problem == "multi_label_classification" || labels == 1 ? Scoring::sigmoid : Scoring::softmax;
}

std::vector<float> scores_of(std::vector<float> logits, Scoring scoring) {
  if (scoring == Scoring::sigmoid) {
    for (float& logit : logits) logit = 1 / (1 + std::exp(-logit));
  } else if (scoring == Scoring::softmax) {
    const float largest = *std::ranges::max_element(logits);
    float sum = 0;
    for (float& logit : logits) sum += logit = std::exp(logit - largest);
    for (float& logit : logits) logit /= sum;
  }
  return logits;
}

// Prints the most probable labels of each input.
class LabelPrinter {
public:
  LabelPrinter(const ClassifyOptions& options, Scoring scoring, std::vector<std::string> labels)
      : options_(options), scoring_(scoring), labels_(std::move(labels)) {}

  // `kind` is the name of the input's JSON field: "image" or "text".
  void print(const char* kind, const std::string& input, std::vector<float> logits) const {
    const std::vector<float> scores = scores_of(std::move(logits), scoring_);
    std::vector<size_t> order(scores.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::ranges::stable_sort(order, [&](size_t a, size_t b) { return scores[a] > scores[b]; });
    order.resize(std::min<size_t>(order.size(), options_.top));
    if (options_.json) {
      Json json = {{kind, input}, {"labels", Json::array()}};
      const char* value = scoring_ == Scoring::raw ? "score" : "probability";
      for (size_t i : order) json["labels"].push_back({{"label", labels_[i]}, {value, scores[i]}});
      print_json(json);
      return;
    }
    const std::string name = options_.inputs.texts.size() == 1 ? "" : input + "\t";
    std::string lines;
    for (size_t i : order) lines += fmt::format("{}{:.4f}\t{}\n", name, scores[i], labels_[i]);
    print_result(lines);
  }

private:
  const ClassifyOptions& options_;
  Scoring scoring_;
  std::vector<std::string> labels_;
};

Status classify_texts(TextEncoder model, const ClassifyOptions& options, const LabelPrinter& printer) {
  const LineOptions line_options{options.model, options.batch_tokens, 0, options.device, options.load};
  const std::shared_ptr<const Tokenizer> tokenizer = model.tokenizer;
  PUMICE_TRY(std::unique_ptr<LineEncoder> encoder,
             LineEncoder::create(std::move(model), line_options, "logits"));
  WaitingLines lines(options.inputs);
  const auto encode = [&](const std::string& line, size_t limit) {
    return tokenizer->encode_limited(line, limit);
  };
  const auto take = [&](const Line& line, std::vector<float> logits) -> Status {
    printer.print("text", line.text, std::move(logits));
    return {};
  };
  PUMICE_CHECK(encoder->run(lines, encode, take));
  return encoder->finish();
}

Status check_pictures(const ClassifyOptions& options, const ModelShape& shape) {
  if (options.inputs.has_file()) {
    return wrong_kind(options.model, shape, "--file is for lines of text: name the pictures as arguments");
  }
  if (!options.inputs.texts.empty()) return {};
  return Error{Code::invalid_argument, "no picture was given: name at least one PNG or JPEG file"};
}

void print_picture_figures(const OpenedDevice& device, size_t pictures, double seconds) {
  print_figures(fmt::format("{} ({})\n{}{} in {:.3f} s\n", device.name(), device.driver(), compiled_text(),
                            counted(pictures, "picture"), seconds));
}

Status classify_pictures(const ModelShape& shape, const ClassifyOptions& options,
                         const LabelPrinter& printer) {
  PUMICE_CHECK(check_pictures(options, shape));
  const std::vector<std::string>& pictures = options.inputs.texts;
  PUMICE_TRY(PictureModel model, PictureModel::open(options.model));
  PUMICE_TRY(const PictureInput reader, PictureInput::open(model.file, model.shape));
  PUMICE_CHECK(reader.read(pictures.front())); // an early error, before the model is loaded
  PUMICE_TRY(OpenedDevice device, open_device(options.device));
  PUMICE_TRY(const std::unique_ptr<PictureEncoder> encoder,
             PictureEncoder::create(std::move(model), device, options.load, options.batch_tokens,
                                    pictures.size(), "logits"));
  const ComputeWatch stopwatch;
  PUMICE_CHECK(encoder->run(pictures, "classifying", [&](size_t i, std::vector<float> logits) -> Status {
    printer.print("image", pictures[i], std::move(logits));
    return {};
  }));
  print_picture_figures(device, pictures.size(), stopwatch.seconds());
  return device.save_pipelines();
}

// The lines of a file that are not empty.
Result<std::vector<std::string>> read_label_file(const std::string& path) {
  PUMICE_TRY(const MappedFile file, MappedFile::open(path_of(path)));
  const std::string_view text(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
  std::vector<std::string> labels;
  for (std::string_view line : split_lines(text)) {
    while (line.ends_with('\r') || line.ends_with(' ')) line.remove_suffix(1);
    if (!line.empty()) labels.emplace_back(line);
  }
  if (!labels.empty()) return labels;
  return Error{Code::invalid_file, fmt::format("{}: expected a label on each line; found none", path)};
}

// The label in the sentence that stands for it.
std::string sentence_of(const std::string& sentence, const std::string& label) {
  const size_t at = sentence.find("{}");
  return sentence.substr(0, at) + label + sentence.substr(at + 2);
}

// Each label's vector, one after the other.
Result<std::vector<float>> embed_labels(const ClassifyOptions& options, const OpenedDevice& device,
                                        ModelFile file, const std::vector<std::string>& labels) {
  PUMICE_TRY(const std::shared_ptr<const Tokenizer> tokenizer, load_tokenizer(file));
  PUMICE_TRY(std::shared_ptr<const Model> model, load_model(std::move(file), device, options.load));
  EncoderOptions encoder_options;
  encoder_options.tokens = std::max(batch_tokens(options.batch_tokens), model->shape().encoder->context);
  encoder_options.inputs = static_cast<uint32_t>(std::min<size_t>(labels.size(), encoder_options.tokens / 4));
  encoder_options.readable = {SharedSpace::text};
  PUMICE_TRY(const std::unique_ptr<Encoder> encoder, Encoder::create(std::move(model), encoder_options));
  std::vector<EncoderInput> inputs;
  for (const std::string& label : labels) {
    const std::string text = sentence_of(options.sentence, label);
    Tokenizer::Encoding encoding = tokenizer->encode_limited(text, encoder->shape().context);
    PUMICE_CHECK(check_ids(encoding.ids, encoder->shape().vocabulary, "--labels"));
    pad(encoder->shape(), encoding.ids);
    inputs.push_back({std::move(encoding.ids), {}, {}});
  }
  std::vector<float> all;
  for (std::span<const EncoderInput> rest(inputs); !rest.empty();) {
    const size_t count = std::max<size_t>(encoder->fitting(rest), 1);
    PUMICE_CHECK(encoder->encode(rest.first(count)));
    for (size_t i = 0; i < count; ++i) {
      PUMICE_TRY(const std::vector<float> values, encoder->read(SharedSpace::text, i));
      all.insert(all.end(), values.begin(), values.end());
    }
    rest = rest.subspan(count);
  }
  return all;
}

// Without a head: the labels are texts in the pictures' space.
Status classify_by_labels(ModelFile file, const ModelShape& shape, const ClassifyOptions& options) {
  PUMICE_CHECK(check_pictures(options, shape));
  if (options.sentence.find("{}") == std::string::npos) {
    return Error{Code::invalid_argument,
                 fmt::format("--sentence '{}': expected {{}} where the label goes", options.sentence)};
  }
  PUMICE_TRY(const std::vector<std::string> labels, read_label_file(options.labels));
  const std::vector<std::string>& pictures = options.inputs.texts;
  PUMICE_TRY(PictureModel model, PictureModel::open(options.model));
  PUMICE_TRY(const PictureInput reader, PictureInput::open(model.file, model.shape));
  PUMICE_CHECK(reader.read(pictures.front()));
  PUMICE_TRY(OpenedDevice device, open_device(options.device));
  PUMICE_TRY(const std::vector<float> texts, embed_labels(options, device, std::move(file), labels));
  PUMICE_TRY(const std::unique_ptr<PictureEncoder> encoder,
             PictureEncoder::create(std::move(model), device, options.load, options.batch_tokens,
                                    pictures.size(), SharedSpace::picture));
  const SharedSpace& space = *shape.shared_space;
  const LabelPrinter printer(options, space.each_by_itself ? Scoring::sigmoid : Scoring::softmax, labels);
  const ComputeWatch stopwatch;
  PUMICE_CHECK(encoder->run(pictures, "classifying", [&](size_t i, std::vector<float> values) -> Status {
    std::vector<float> logits(labels.size());
    for (size_t label = 0; label < labels.size(); ++label) {
      const auto text = texts.begin() + static_cast<ptrdiff_t>(label * values.size());
      const double cosine = std::inner_product(values.begin(), values.end(), text, 0.0);
      logits[label] = static_cast<float>(space.scale * cosine + space.bias);
    }
    printer.print("image", pictures[i], std::move(logits));
    return {};
  }));
  print_picture_figures(device, pictures.size(), stopwatch.seconds());
  return device.save_pipelines();
}

// The model's labels. Error if the model has no classification head.
Result<std::vector<std::string>> check_head(const ClassifyOptions& options, const ModelFile& file,
                                            const ModelDefinition& definition) {
  const ModelShape shape = definition.shape();
  if (shape.has_decoder()) return wrong_subcommand(options.model, shape);
  PUMICE_TRY(const EncoderGraph graph, definition.encoder_graph(file));
  if (!graph.readable.contains("logits") || shape.encoder->labels.empty()) {
    return wrong_kind(options.model, shape, "it has no classification head; use pumice embed");
  }
  return shape.encoder->labels;
}

Status classify(const ClassifyOptions& options) {
  PUMICE_TRY(ModelFile file, ModelFile::open(path_of(options.model)));
  PUMICE_TRY(std::unique_ptr<ModelDefinition> definition, open_model_definition(file));
  const ModelShape shape = definition->shape();
  if (shape.shared_space) {
    if (options.labels.empty()) {
      return wrong_kind(options.model, shape,
                        "it has no labels of its own: name a file of them with --labels");
    }
    return classify_by_labels(std::move(file), shape, options);
  }
  if (!options.labels.empty()) {
    return wrong_kind(options.model, shape,
                      "--labels is for models of texts and pictures in one space, such as CLIP");
  }
  PUMICE_TRY(const std::vector<std::string> labels, check_head(options, file, *definition));
  PUMICE_TRY(const Scoring how, scoring(file, labels.size()));
  const LabelPrinter printer(options, how, labels);
  if (shape.encoder->kind != InputKind::tokens) {
    return classify_pictures(shape, options, printer);
  }
  PUMICE_TRY(std::shared_ptr<const Tokenizer> tokenizer, load_tokenizer(file));
  return classify_texts({std::move(file), std::move(definition), std::move(tokenizer)}, options, printer);
}

} // namespace

Subcommand add_classify(CLI::App& app) {
  CLI::App* sub = app.add_subcommand("classify", "Find the most probable labels of pictures or texts.");
  auto options = std::make_shared<ClassifyOptions>();
  sub->add_option("MODEL", options->model,
                  "A Hugging Face folder of an encoder with a classification head (ViT, BERT, RoBERTa ...)")
      ->required()
      ->type_name("");
  add_text_options(
      *sub, options->inputs, "INPUT",
      "PNG or JPEG files for a model of pictures, texts for a model of texts. Without INPUT, each line of "
      "standard input is a text. Prints lines of a probability, a tab and a label. Unless exactly one INPUT "
      "is given, the input and a tab come first");
  sub->add_option("--labels", options->labels,
                  "A file with a label on each line, for a model of texts and pictures in one space (CLIP, "
                  "SigLIP), which has none of its own")
      ->type_name("FILE")
      ->group("Labels");
  sub->add_option("--sentence", options->sentence, "The text that stands for a label, with {} in its place")
      ->type_name("TEXT")
      ->capture_default_str()
      ->group("Labels");
  sub->add_option("--top", options->top, "Number of labels to print for each input, most probable first")
      ->type_name("N")
      ->check(within(1u, 1u << 24))
      ->capture_default_str()
      ->group("Output");
  sub->add_flag(
         "--json", options->json,
         "Print one JSON object for each input. Its fields: image or text, and labels (a list of label and "
         "probability, or score for a regression model)")
      ->group("Output");
  add_batch_option(*sub, options->batch_tokens, device_group);
  add_weights_option(*sub, options->load);
  add_device_options(*sub, options->device);
  sub->footer(example("pumice classify vit-base-patch16-224 photo.jpg --top 3"));
  return {sub, [options] { return classify(*options); }};
}

} // namespace pumice::command
