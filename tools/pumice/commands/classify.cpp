#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "base/lines.h"
#include "io/mapped_file.h"
#include "loading/task_inputs.h"
#include "options/prompt.h"
#include "options/subcommand.h"
#include "output/span_json.h"
#include "task/classifier.h"
#include "task/model_kind.h"
#include "task/spans/tagger.h"
#include "terminal/counted.h"
#include "terminal/terminal.h"

namespace pumice::command {

namespace {

struct ClassifyOptions {
  std::string model;
  TextOptions inputs;
  std::vector<std::string> ids;
  std::string labels; // a file
  bool tokens = false;
  ClassifierOptions scores;
  uint32_t top = 5;
  bool json = false;
  DeviceOptions device;
  LoadOptions load;
};

// Prints the most probable labels of each input.
class LabelPrinter {
public:
  LabelPrinter(const ClassifyOptions& options, const Classifier& classifier)
      : options_(options), classifier_(classifier) {}

  // What is printed of an input that cannot be read.
  std::string missing(const char* kind, const std::string& input, const Error& error) const {
    return options_.json ? json_text({{kind, input}, {"error", error.text()}}) : std::string();
  }

  // `kind` is the name of the input's JSON field: "image" or "text".
  void print(const char* kind, const std::string& input, std::vector<float> row) const {
    const std::vector<std::string>& labels = classifier_.labels();
    const std::vector<float> scores = classifier_.scores(std::move(row));
    std::vector<size_t> order(scores.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::ranges::stable_sort(order, [&](size_t a, size_t b) { return scores[a] > scores[b]; });
    order.resize(std::min<size_t>(order.size(), options_.top));
    if (options_.json) {
      Json json = {{kind, input}, {"labels", Json::array()}};
      const char* value = classifier_.scoring() == Scoring::raw ? "score" : "probability";
      for (size_t i : order) json["labels"].push_back({{"label", labels[i]}, {value, scores[i]}});
      print_json(json);
      return;
    }
    const size_t given = options_.ids.empty() ? options_.inputs.texts.size() : options_.ids.size();
    const std::string name = given == 1 ? "" : input + "\t";
    std::string lines;
    for (size_t i : order) lines += fmt::format("{}{:.4f}\t{}\n", name, scores[i], labels[i]);
    print_result(lines);
  }

private:
  const ClassifyOptions& options_;
  const Classifier& classifier_;
};

Status classify_texts(Classifier& classifier, const ClassifyOptions& options, const OpenedDevice& device) {
  const LabelPrinter printer(options, classifier);
  TextOptions texts = options.inputs;
  if (!options.ids.empty()) texts.texts = options.ids;
  WaitingLines lines(texts);
  TaskInputs inputs(device, classifier.runner());
  const TaskInputs::Read read_text = [&](const std::string& text, const std::string& name) {
    return classifier.runner().read(text, name);
  };
  const char* kind = options.ids.empty() ? "text" : "ids";
  lines.answer_bad_with(
      [&](const Line& line, const Error& error) { return printer.missing(kind, line.text, error); });
  PUMICE_CHECK(inputs.run(lines, options.ids.empty() ? read_text : inputs.ids(),
                          [&](const Line& line, std::vector<float> row) -> Status {
                            printer.print(kind, line.text, std::move(row));
                            return {};
                          }));
  return inputs.finish();
}

void print_spans(const ClassifyOptions& options, const std::string& text,
                 const std::vector<TextSpan>& spans) {
  Json json = {{"text", text}, {"spans", Json::array()}};
  const std::string name = options.inputs.texts.size() == 1 ? "" : text + "\t";
  std::string lines;
  for (const TextSpan& span : spans) {
    Json each = {{"label", span.label}};
    add_span(each, text, span);
    lines += fmt::format("{}{}\t{:.4f}\t{}\t{}\t{}\n", name, span.label, span.score, each["start"].dump(),
                         each["end"].dump(), span.of(text));
    json["spans"].push_back(std::move(each));
  }
  if (options.json) return print_json(json);
  print_result(lines);
}

Status classify_tokens(const ClassifyOptions& options, ModelFile file) {
  PUMICE_TRY(TaggerPlan plan, TaggerPlan::of(file, options.scores.run));
  if (!options.ids.empty() || !options.labels.empty()) {
    return wrong_kind(options.model, plan.model.definition->shape(),
                      "it labels the tokens of texts, and takes neither --ids nor --labels");
  }
  PUMICE_TRY(const OpenedDevice device, open_device(options.device));
  PUMICE_TRY(std::shared_ptr<const Model> model,
             load_model(std::move(file), device, plan.model.load(options.load)));
  PUMICE_TRY(const std::unique_ptr<Tagger> tagger, Tagger::create(std::move(model), std::move(plan)));
  WaitingLines lines(options.inputs);
  lines.answer_bad_with([&](const Line& line, const Error& error) {
    return options.json ? json_text({{"text", line.text}, {"error", error.text()}}) : std::string();
  });
  TaskInputs inputs(device, tagger->runner());
  PUMICE_CHECK(inputs.run_parts(
      lines, [&](const std::string& text, const std::string& name) { return tagger->read(text, name); },
      [&](const Line& line, const std::vector<float>& rows) -> Status {
        print_spans(options, line.text, tagger->spans(line.text, rows));
        return {};
      }));
  return inputs.finish();
}

Status classify_pictures(Classifier& classifier, const ClassifyOptions& options, const OpenedDevice& device) {
  const std::vector<std::string>& pictures = options.inputs.texts;
  const LabelPrinter printer(options, classifier);
  const ComputeWatch stopwatch;
  TaskInputs inputs(device, classifier.runner());
  PUMICE_CHECK(inputs.run(
      pictures, "classifying",
      [&](size_t i, std::vector<float> row) -> Status {
        printer.print("image", pictures[i], std::move(row));
        return {};
      },
      [&](size_t i, const Error& error) -> Status {
        print_result(printer.missing("image", pictures[i], error));
        return {};
      }));
  print_figures(fmt::format("{} ({})\n{}{} in {:.3f} s\n", device.name(), device.driver(), compiled_text(),
                            counted(pictures.size(), "picture"), stopwatch.seconds()));
  return device.save_pipelines();
}

Status check_pictures(const ClassifyOptions& options, const TaskModel& model) {
  if (!options.ids.empty())
    return wrong_kind(options.model, model.definition->shape(), "--ids is for a model of texts");
  if (options.inputs.has_file()) {
    return wrong_kind(options.model, model.definition->shape(),
                      "--file is for lines of text: name the pictures as arguments");
  }
  if (!options.inputs.texts.empty()) return check_any(model, options.inputs.texts);
  return Error{Code::invalid_argument, "no picture was given: name at least one PNG or JPEG file"};
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

// The vectors of labels in a space, by a model that is only loaded for them.
Result<std::vector<float>> embed_labels(const ClassifyOptions& options, const ClassifierPlan& plan,
                                        const OpenedDevice& device) {
  if (!plan.texts) return std::vector<float>();
  PUMICE_TRY(ModelFile file, ModelFile::open(path_of(options.model)));
  PUMICE_TRY(std::shared_ptr<const Model> model,
             load_model(std::move(file), device, plan.texts->load(options.load)));
  return plan.embed_labels(std::move(model));
}

Status classify(const ClassifyOptions& options) {
  ClassifierOptions all = options.scores;
  all.run.ids = !options.ids.empty();
  if (!options.labels.empty()) {
    PUMICE_TRY(all.labels, read_label_file(options.labels));
  }
  PUMICE_TRY(ModelFile file, ModelFile::open(path_of(options.model)));
  if (options.tokens || TaggerPlan::of(file, all.run).ok()) return classify_tokens(options, std::move(file));
  PUMICE_TRY(ClassifierPlan plan, ClassifierPlan::of(file, all));
  if (plan.named) {
    print_note(
        fmt::format("{}: its head has {}, and config.json names {} ('id2label'): the head's rows count",
                    options.model, counted(plan.labels.size(), "label"), *plan.named));
  }
  const bool of_pictures = plan.model.reads_pictures();
  if (of_pictures) {
    PUMICE_CHECK(check_pictures(options, plan.model));
    plan.run.inputs = static_cast<uint32_t>(options.inputs.texts.size());
  }
  PUMICE_TRY(const OpenedDevice device, open_device(options.device));
  PUMICE_TRY(std::vector<float> label_vectors, embed_labels(options, plan, device));
  PUMICE_TRY(std::shared_ptr<const Model> model,
             load_model(std::move(file), device, plan.model.load(options.load)));
  PUMICE_TRY(const std::unique_ptr<Classifier> classifier,
             Classifier::create(std::move(model), std::move(plan), std::move(label_vectors)));
  return of_pictures ? classify_pictures(*classifier, options, device)
                     : classify_texts(*classifier, options, device);
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
  add_ids_option(*sub, options->ids);
  sub->get_option("--ids")->excludes("INPUT")->excludes("--file");
  sub->add_flag(
         "--tokens", options->tokens,
         "Find the parts of texts that have a label, such as names, with a model that labels each token "
         "(BertForTokenClassification); such a model does so without this option too. Prints lines of "
         "a label, its probability, where the part begins and ends (in characters), and the part, with "
         "tabs between them")
      ->group("Labels");
  sub->add_option("--labels", options->labels,
                  "A file with a label on each line, for a model of texts and pictures in one space (CLIP, "
                  "SigLIP), which has none of its own")
      ->type_name("FILE")
      ->group("Labels");
  sub->add_option("--sentence", options->scores.sentence,
                  "The text that stands for a label, with {} in its place")
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
         "probability, or score for a regression model), or of tokens spans (a list of label, score, start, "
         "end and text), or error")
      ->group("Output");
  add_batch_option(*sub, options->scores.run.batch_tokens, device_group);
  add_weights_option(*sub, options->load);
  add_device_options(*sub, options->device);
  sub->footer(example("pumice classify vit-base-patch16-224 photo.jpg --top 3"));
  return {sub, [options] { return classify(*options); }};
}

} // namespace pumice::command
