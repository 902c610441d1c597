#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "counted.h"
#include "json_output.h"
#include "line_encoder.h"
#include "model/vocabulary.h"
#include "model_kind.h"
#include "open_device.h"
#include "picture_input.h"
#include "prompt.h"
#include "subcommand.h"
#include "terminal.h"
#include "writing.h"

namespace pumice::command {

namespace {

struct ClassifyOptions {
  std::string model;
  TextOptions inputs;
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

Status classify_pictures(ModelFile file, const ModelShape& shape, const ClassifyOptions& options,
                         const LabelPrinter& printer) {
  const std::vector<std::string>& pictures = options.inputs.texts;
  if (options.inputs.has_file()) {
    return wrong_kind(options.model, shape, "--file is for lines of text: name the pictures as arguments");
  }
  if (pictures.empty()) {
    return Error{Code::invalid_argument, "no picture was given: name at least one PNG or JPEG file"};
  }
  PUMICE_TRY(const PictureInput reader, PictureInput::open(file, *shape.encoder));
  PUMICE_CHECK(reader.read(pictures.front())); // an early error, before the model is loaded
  PUMICE_TRY(OpenedDevice device, open_device(options.device));
  PUMICE_TRY(std::shared_ptr<const Model> model, load_model(std::move(file), device, options.load));
  EncoderOptions encoder_options;
  const uint32_t at_a_time = std::max(batch_tokens(options.batch_tokens) / shape.encoder->context, 1u);
  encoder_options.inputs = static_cast<uint32_t>(std::min<size_t>(at_a_time, pictures.size()));
  encoder_options.tokens = encoder_options.inputs * shape.encoder->context;
  encoder_options.readable = {"logits"};
  PUMICE_TRY(std::unique_ptr<Encoder> encoder, Encoder::create(model, encoder_options));
  ProgressBar bar("classifying");
  const ComputeWatch stopwatch;
  for (size_t first = 0; first < pictures.size(); first += encoder_options.inputs) {
    if (!bar.update(first, pictures.size())) return interruption();
    const size_t count = std::min<size_t>(encoder_options.inputs, pictures.size() - first);
    std::vector<EncoderInput> inputs;
    const Status status = reader.read(std::span(pictures).subspan(first, count), inputs);
    PUMICE_CHECK(encoder->encode(inputs));
    bar.erase();
    for (size_t i = 0; i < inputs.size(); ++i) {
      PUMICE_TRY(std::vector<float> logits, encoder->read("logits", i));
      printer.print("image", pictures[first + i], std::move(logits));
    }
    PUMICE_CHECK(status);
  }
  print_figures(fmt::format("{} ({})\n{}{} in {:.3f} s\n", device.name(), device.driver(), compiled_text(),
                            counted(pictures.size(), "picture"), stopwatch.seconds()));
  return device.save_pipelines();
}

// The model's labels. Error if the model has no classification head.
Result<std::vector<std::string>> check_head(const ClassifyOptions& options, const ModelFile& file,
                                            const ModelDefinition& definition) {
  const ModelShape shape = definition.shape();
  if (shape.has_decoder()) return wrong_subcommand(options.model, shape);
  PUMICE_TRY(const EncoderGraph graph, definition.encoder_graph(file));
  if (!graph.readable.contains("logits")) {
    return wrong_kind(options.model, shape, "it has no classification head; use pumice embed");
  }
  return shape.encoder->labels;
}

Status classify(const ClassifyOptions& options) {
  PUMICE_TRY(ModelFile file, ModelFile::open(path_of(options.model)));
  PUMICE_TRY(std::unique_ptr<ModelDefinition> definition, open_model_definition(file));
  const ModelShape shape = definition->shape();
  PUMICE_TRY(const std::vector<std::string> labels, check_head(options, file, *definition));
  PUMICE_TRY(const Scoring how, scoring(file, labels.size()));
  const LabelPrinter printer(options, how, labels);
  if (shape.encoder->kind != InputKind::tokens) {
    return classify_pictures(std::move(file), shape, options, printer);
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
