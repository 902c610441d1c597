#include <fmt/format.h>

#include "loading/task_inputs.h"
#include "options/option_text.h"
#include "options/prompt.h"
#include "options/subcommand.h"
#include "output/json_output.h"
#include "task/search/text_index.h"
#include "terminal/counted.h"
#include "terminal/terminal.h"

namespace pumice::command {

namespace {

namespace fs = std::filesystem;

struct SearchOptions {
  LineOptions lines;
  std::string folder, index;
  TextOptions queries;
  TextIndexOptions vectors;
  uint32_t top = 5;
  bool rebuild = false;
  bool json = false;
};

void print(const SearchOptions& options, const std::string& query,
           const std::vector<TextIndex::Found>& found) {
  for (const TextIndex::Found& each : found) {
    if (options.json) {
      print_json({{"query", query},
                  {"score", each.score},
                  {"file", *each.file},
                  {"line", each.passage->line},
                  {"text", each.passage->text}});
    } else {
      print_result(
          fmt::format("{:.4f}\t{}:{}\t{}\n", each.score, *each.file, each.passage->line, each.passage->text));
    }
  }
}

Status search(const SearchOptions& options) {
  PUMICE_CHECK(check_utf8(options.vectors.query_prefix, "--query-prefix"));
  PUMICE_CHECK(check_utf8(options.vectors.text_prefix, "--text-prefix"));
  const fs::path folder = path_of(options.index.empty() ? options.folder + ".index" : options.index);
  PUMICE_TRY(ModelFile file, ModelFile::open(path_of(options.lines.model)));
  TextIndexOptions all = options.vectors;
  all.run = options.lines.run;
  PUMICE_TRY(TextIndexPlan plan, TextIndexPlan::of(file, all));
  PUMICE_TRY(const OpenedDevice device, open_device(options.lines.device));
  PUMICE_TRY(std::shared_ptr<const Model> model,
             load_model(std::move(file), device, plan.embedder.model.load(options.lines.load)));
  PUMICE_TRY(const std::unique_ptr<TextIndex> index,
             TextIndex::create(std::move(model), std::move(plan), path_of(options.folder), folder));
  TaskInputs inputs(device, index->runner());
  PUMICE_CHECK(inputs.watch("encoding", [&](ProgressBar& bar) {
    const SavedWork saved; // what was encoded until Ctrl-C
    const auto tell = [&](size_t passages, size_t added) {
      print_note(
          fmt::format("{}: {}, of which {} new", path_text(folder), counted(passages, "passage"), added));
    };
    return index->update(options.rebuild, tell, bar.callback());
  }));
  for (const Error& error : index->left_out()) print_part_error(error.text());
  if (const uint64_t unknown = index->runner().figures().unknown) {
    print_note(fmt::format("{}: the model's vocabulary lacks most of {}, which will hardly be found",
                           options.folder, counted(unknown, "new passage")));
  }
  WaitingLines queries(options.queries);
  queries.answer_bad_with([&](const Line& line, const Error& error) {
    return options.json ? json_text({{"query", line.text}, {"error", error.text()}}) : std::string();
  });
  PUMICE_CHECK(inputs.run(
      queries, [&](const std::string& text, const std::string& name) { return index->read(text, name); },
      [&](const Line& line, std::vector<float> row) -> Status {
        PUMICE_TRY(const std::vector<TextIndex::Found> found, index->find(std::move(row), options.top));
        print(options, line.text, found);
        return {};
      }));
  return inputs.finish();
}

} // namespace

Subcommand add_search(CLI::App& app) {
  CLI::App* sub = app.add_subcommand("search", "Find the passages of texts that fit a query best.");
  auto options = std::make_shared<SearchOptions>();
  add_line_options(*sub, options->lines);
  sub->add_option("FOLDER", options->folder, "A folder with text files: all below it that are UTF-8")
      ->required()
      ->type_name("");
  add_text_options(*sub, options->queries, "QUERY",
                   "The queries; without QUERY, the lines of standard input");
  sub->add_option("--index", options->index,
                  "Keep the texts' vectors in this folder (default: FOLDER.index). Only files that have "
                  "changed since are read again")
      ->type_name("FOLDER")
      ->group("Index");
  sub->add_flag("--rebuild", options->rebuild, "Make the index again, of all files")->group("Index");
  sub->add_option("--pooling", options->vectors.pooling, "As of pumice embed")
      ->type_name("HOW")
      ->transform(one_of({"mean", "cls", "last"}))
      ->group(more_of("Vectors"));
  sub->add_option("--dimensions", options->vectors.dimensions, "As of pumice embed")
      ->type_name("N")
      ->check(within(1u, 1u << 20))
      ->group(more_of("Vectors"));
  sub->add_flag(
         "--sparse", options->vectors.sparse,
         "Compare the sparse vectors of a masked language model trained for them (SPLADE), as of pumice "
         "embed: the score is their product, and passages without any of the query's tokens are left out")
      ->group(more_of("Vectors"))
      ->excludes("--pooling")
      ->excludes("--dimensions");
  sub->add_option("--query-prefix", options->vectors.query_prefix,
                  "Put this before each query (default: the model's prompt 'query')")
      ->type_name("TEXT")
      ->group("Text");
  sub->add_option("--text-prefix", options->vectors.text_prefix,
                  "Put this before each passage (default: the model's prompt 'document' or 'passage')")
      ->type_name("TEXT")
      ->group("Text");
  sub->add_option("--top", options->top, "Number of passages to print for each query, best first")
      ->type_name("N")
      ->check(within(1u, 1u << 20))
      ->capture_default_str()
      ->group("Output");
  sub->add_flag("--json", options->json,
                "Print one JSON object for each passage. Its fields: query, score, file, line, text. A query "
                "that cannot be read has query and error")
      ->group("Output");
  sub->footer(
      "Prints 'SCORE<tab>FILE:LINE<tab>TEXT'. A passage is a paragraph, or 1200 bytes of a long one; the "
      "score is the cosine, or of ColBERT's vectors of tokens the sum that rerank prints. The search is "
      "exact "
      "and reads every vector: beyond some millions an approximate index, which Pumice lacks, would answer "
      "faster.\n\n" +
      example("pumice search all-MiniLM-L6-v2 notes 'how do I reset the router?'"));
  return {sub, [options] { return search(*options); }, {{"MODEL", "--file"}, {}}};
}

} // namespace pumice::command
