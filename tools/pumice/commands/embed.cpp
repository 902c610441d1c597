#include <algorithm>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "io/formats/vector_file.h"
#include "loading/task_inputs.h"
#include "options/option_text.h"
#include "options/prompt.h"
#include "options/subcommand.h"
#include "output/json_output.h"
#include "process/replicas.h"
#include "task/embedder.h"
#include "terminal/terminal.h"

namespace pumice::command {

namespace {

struct EmbedOptions {
  LineOptions lines;
  std::vector<std::string> ids;
  TextOptions texts;
  std::vector<std::string> pictures;
  EmbedderOptions vectors;
  std::string normalize;
  std::string output;
  bool json = false;

  EmbedderOptions embedder() const {
    EmbedderOptions all = vectors;
    if (!normalize.empty()) all.normalize = normalize == "yes";
    all.run = lines.run;
    all.run.inputs = static_cast<uint32_t>(pictures.size());
    all.run.ids = !ids.empty();
    return all;
  }
};

// Prints each vector, or writes it to the file.
class VectorOutput {
public:
  VectorOutput(const EmbedOptions& options, const Embedder& embedder)
      : options_(options), tokenizer_(embedder.plan().model.tokenizer.get()), sparse_(embedder.plan().sparse),
        columns_(embedder.columns()) {}

  Status open() {
    return options_.output.empty() ? Status() : file_.open(path_of(options_.output), columns_);
  }
  // `kind` is the name of the input's JSON field.
  Status take(const char* kind, const std::string& input, const std::vector<float>& values) {
    if (sparse_) {
      print_weights(kind, input, values);
      return {};
    }
    if (!options_.output.empty()) {
      if (!saved_) saved_.emplace();
      return file_.write(values);
    }
    if (options_.json) {
      print_json({{kind, input}, {"embedding", values}});
    } else {
      print_result(fmt::format("{}\n", fmt::join(values, " ")));
    }
    return {};
  }
  // What is printed in the place of an input's vector, so that the others stay where they belong; a row of
  // the file does the same there.
  std::string missing(const char* kind, const std::string& input, const Error& error) {
    if (options_.json) return json_text({{kind, input}, {"error", error.text()}});
    const bool alone = options_.texts.texts.size() + options_.ids.size() + options_.pictures.size() == 1;
    if (options_.output.empty()) return alone ? "" : "\n";
    if (const Status status = file_.write_missing(); failed_.ok()) failed_ = status;
    return {};
  }
  // `status`: of what gives the vectors. Where it fails, those that came are kept.
  Status finish(Status status) {
    if (options_.output.empty()) return status;
    if (status.ok()) status = failed_;
    if (status.ok()) return file_.finish();
    PUMICE_TRY(const std::filesystem::path kept, file_.finish_partial());
    if (!kept.empty()) print_note(fmt::format("{} has the vectors that were there by then", path_text(kept)));
    return status;
  }

private:
  // Of a sparse vector: what is not 0, the largest first.
  void print_weights(const char* kind, const std::string& input, const std::vector<float>& values) const {
    std::vector<uint32_t> tokens;
    for (uint32_t id = 0; id < values.size(); ++id) {
      if (values[id] > 0) tokens.push_back(id);
    }
    std::ranges::stable_sort(tokens, [&](uint32_t a, uint32_t b) { return values[a] > values[b]; });
    Json json = {{kind, input}, {"weights", Json::array()}};
    std::vector<std::string> pairs;
    for (uint32_t id : tokens) {
      const std::string_view word = tokenizer_ ? tokenizer_->piece(id) : "";
      json["weights"].push_back({{"id", id}, {"token", word}, {"weight", values[id]}});
      pairs.push_back(fmt::format("{}:{}", id, values[id]));
    }
    if (options_.json) return print_json(json);
    print_result(fmt::format("{}\n", fmt::join(pairs, " ")));
  }

  const EmbedOptions& options_;
  const Tokenizer* tokenizer_ = nullptr; // of a sparse vector's tokens
  bool sparse_;
  uint32_t columns_;
  VectorFile file_;
  Status failed_;                  // to write in the place of a vector
  std::optional<SavedWork> saved_; // the vectors until Ctrl-C
};

Status embed_pictures(const EmbedOptions& options) {
  if (options.texts.has_file() || !options.texts.texts.empty()) {
    return Error{Code::invalid_argument,
                 "--image is for pictures alone: embed texts by a command of their own"};
  }
  PUMICE_TRY(ModelFile file, ModelFile::open(path_of(options.lines.model)));
  PUMICE_TRY(EmbedderPlan plan, EmbedderPlan::of_pictures(file, options.embedder()));
  PUMICE_CHECK(check_any(plan.model, options.pictures));
  PUMICE_TRY(const OpenedDevice device, open_device(options.lines.device));
  PUMICE_TRY(std::shared_ptr<const Model> model,
             load_model(std::move(file), device, plan.model.load(options.lines.load)));
  PUMICE_TRY(const std::unique_ptr<Embedder> embedder, Embedder::create(std::move(model), std::move(plan)));
  VectorOutput output(options, *embedder);
  PUMICE_CHECK(output.open());
  TaskInputs inputs(device, embedder->runner());
  PUMICE_CHECK(output.finish(inputs.run(
      options.pictures, "encoding",
      [&](size_t i, std::vector<float> row) {
        return output.take("image", options.pictures[i], embedder->vector(std::move(row)));
      },
      [&](size_t i, const Error& error) -> Status {
        print_result(output.missing("image", options.pictures[i], error));
        return {};
      })));
  print_figures(fmt::format("{} ({})\n{}", device.name(), device.driver(), compiled_text()));
  return device.save_pipelines();
}

// Options that only other vectors have, with a model whose own settings say that its are sparse.
Status check_sparse(const EmbedderPlan& plan, const EmbedOptions& options) {
  if (!plan.sparse) return {};
  for (const auto& [given, name] : {std::pair(!options.output.empty(), "--output"),
                                    {options.vectors.dimensions > 0, "--dimensions"},
                                    {!options.normalize.empty(), "--normalize"}}) {
    if (given) {
      return Error{Code::invalid_argument, fmt::format("{} is not for sparse vectors, which modules.json "
                                                       "says {} has: leave it out, or choose --pooling",
                                                       name, options.lines.model)};
    }
  }
  return {};
}

Status embed(const EmbedOptions& options) {
  if (is_replica() && (!options.pictures.empty() || !options.output.empty())) {
    return Error{
        Code::invalid_argument,
        "--replicas divides lines of text, whose vectors are printed: leave --image and --output out"};
  }
  if (!options.pictures.empty()) return embed_pictures(options);
  PUMICE_CHECK(check_utf8(options.vectors.prefix, "--prefix"));
  PUMICE_TRY(ModelFile file, ModelFile::open(path_of(options.lines.model)));
  PUMICE_TRY(EmbedderPlan plan, EmbedderPlan::of_texts(file, options.embedder()));
  PUMICE_CHECK(check_sparse(plan, options));
  PUMICE_TRY(const OpenedDevice device, open_device(options.lines.device));
  PUMICE_TRY(std::shared_ptr<const Model> model,
             load_model(std::move(file), device, plan.model.load(options.lines.load)));
  PUMICE_TRY(const std::unique_ptr<Embedder> embedder, Embedder::create(std::move(model), std::move(plan)));
  VectorOutput output(options, *embedder);
  PUMICE_CHECK(output.open());
  TextOptions texts = options.texts;
  if (!options.ids.empty()) texts.texts = options.ids;
  WaitingLines lines(texts);
  TaskInputs inputs(device, embedder->runner());
  const TaskInputs::Read read_text = [&](const std::string& text, const std::string& name) {
    return embedder->read(text, name);
  };
  const char* kind = options.ids.empty() ? "text" : "ids";
  lines.answer_bad_with(
      [&](const Line& line, const Error& error) { return output.missing(kind, line.text, error); });
  PUMICE_CHECK(output.finish(inputs.run(lines, options.ids.empty() ? read_text : inputs.ids(),
                                        [&](const Line& line, std::vector<float> row) -> Status {
                                          PUMICE_CHECK(
                                              output.take(kind, line.text, embedder->vector(std::move(row))));
                                          return end_line(line.number);
                                        })));
  return inputs.finish();
}

void add_vector_options(CLI::App& sub, EmbedOptions& options) {
  sub.add_option(
         "--pooling", options.vectors.pooling,
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
  sub.add_option("--dimensions", options.vectors.dimensions,
                 "Keep only the first N numbers of each vector, for models trained for that (Matryoshka)")
      ->type_name("N")
      ->check(within(1u, 1u << 20))
      ->group("Vectors");
  CLI::Option* prompt =
      sub.add_option("--prompt", options.vectors.prompt,
                     "Put the model's prompt of this name before each text, such as query (default: the one "
                     "that its settings name)")
          ->type_name("NAME")
          ->group("Text");
  sub.add_option("--prefix", options.vectors.prefix, "Put this before each text, in place of a prompt")
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
  add_ids_option(*sub, options->ids);
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
  sub->add_flag("--json", options->json,
                "Print one JSON object for each text. Its fields: text, and embedding or error")
      ->group("Output")
      ->excludes(output);
  sub->add_flag("--sparse", options->vectors.sparse,
                "Of a masked language model trained for it (SPLADE): print the weights of tokens, ID:WEIGHT, "
                "largest "
                "first, without those that are 0. With --json 'weights' (a list of id, token, weight)")
      ->group(more_of("Vectors"))
      ->excludes("--pooling")
      ->excludes("--normalize")
      ->excludes("--dimensions")
      ->excludes("--image")
      ->excludes(output);
  sub->get_option("--ids")->excludes("TEXT")->excludes("--file")->excludes("--image")->excludes("--prefix");
  sub->get_option("--resume")->excludes("--image")->excludes("--output");
  sub->footer(
      "Prints one vector on each line, in the order of the texts: numbers separated by spaces. A text "
      "that is longer than the model reads is cut. For one that cannot be read, the line is empty, and a row "
      "of a file has NaN.\n\n" +
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
