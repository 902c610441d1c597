#include <cstring>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "input/input_stream.h"
#include "model/vocabulary.h"
#include "options/prompt.h"
#include "options/subcommand.h"
#include "output/json_output.h"
#include "terminal/terminal.h"

namespace pumice::command {

namespace {

struct TokenizeOptions {
  std::string source;
  CLI::Option* ids = nullptr;
  std::vector<std::string> texts; // or else a file
  std::string file = "-";
  bool no_special = false;
  bool json = false;
};

bool is_gguf(const std::filesystem::path& path) {
  if (path.extension() == ".gguf") return true;
  Result<MappedFile> file = MappedFile::open(path);
  return file.ok() && file->bytes().size() >= 4 && std::memcmp(file->bytes().data(), "GGUF", 4) == 0;
}

Result<std::shared_ptr<const Tokenizer>> open_tokenizer(const std::filesystem::path& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored) || !is_gguf(path)) return Tokenizer::load(path);
  PUMICE_TRY(ModelFile file, ModelFile::open(path));
  return load_tokenizer(file);
}

Status decode(const Tokenizer& tokenizer, const TokenizeOptions& options) {
  PUMICE_TRY(std::vector<uint32_t> ids, parse_ids(options.ids->as<std::string>(), "--ids"));
  for (uint32_t id : ids) {
    if (id < tokenizer.vocabulary_size()) continue;
    return Error{Code::invalid_argument, fmt::format("--ids: there is no token {}: the ids of {} are 0 to {}",
                                                     id, options.source, tokenizer.vocabulary_size() - 1)};
  }
  const std::string text = tokenizer.decode(ids, !options.no_special);
  if (options.json) {
    print_json({{"ids", ids}, {"decoded", text}});
  } else {
    print_result(text + "\n");
  }
  return {};
}

Status encode(const Tokenizer& tokenizer, const TokenizeOptions& options, const std::string& text,
              const std::string& name) {
  PUMICE_CHECK(check_utf8(text, name));
  const std::vector<uint32_t> ids = tokenizer.encode(text, !options.no_special);
  if (!options.json) {
    print_result(fmt::format("{}\n", fmt::join(ids, ",")));
    return {};
  }
  // "decoded" leaves out the special tokens, so that it can be compared with the text.
  print_json({{"ids", ids}, {"decoded", tokenizer.decode(tokenizer.encode(text, false), true)}});
  return {};
}

Status tokenize(const TokenizeOptions& options) {
  PUMICE_TRY(std::shared_ptr<const Tokenizer> tokenizer, open_tokenizer(path_of(options.source)));
  if (options.ids->count()) return decode(*tokenizer, options);
  if (options.texts.empty()) {
    InputStream stream(options.file);
    PUMICE_TRY(const std::string text, read_all(stream)); // every byte counts
    return encode(*tokenizer, options, text, stream.name());
  }
  for (size_t i = 0; i < options.texts.size(); ++i) {
    const std::string name = options.texts.size() > 1 ? fmt::format("TEXT {}", i + 1) : "TEXT";
    const Status status = encode(*tokenizer, options, options.texts[i], name);
    if (!status.ok() && options.texts.size() == 1) return status;
    if (status.ok()) continue;
    print_part_error(status.error().text()); // the others have their lines
    print_result(options.json ? json_text({{"error", status.error().text()}}) : "\n");
  }
  return {};
}

} // namespace

Subcommand add_tokenize(CLI::App& app) {
  CLI::App* sub = app.add_subcommand("tokenize", "Turn text into token ids, or token ids into text.");
  auto options = std::make_shared<TokenizeOptions>();
  sub->add_option("MODEL_OR_TOKENIZER", options->source,
                  "A GGUF file, a tokenizer.json, or a folder with a tokenizer. Of a folder, tokenizer.json, "
                  "vocab.txt, vocab.json with merges.txt, or SentencePiece files are read")
      ->required()
      ->type_name("");
  CLI::Option* texts = sub->add_option("TEXT", options->texts,
                                       "The texts, each with a line of its own in the output; without TEXT, "
                                       "standard input as one text")
                           ->type_name("");
  options->ids = sub->add_option("--ids", "Turn these token ids into text, and do not read standard input")
                     ->type_name("ID,...")
                     ->group("Tokens")
                     ->excludes(texts);
  sub->add_option("-f,--file", options->file, "Read the text from this file")
      ->type_name("FILE")
      ->group("Tokens")
      ->excludes(texts)
      ->excludes(options->ids);
  sub->add_flag("--no-special", options->no_special,
                "Do not add special tokens to the ids. With --ids, leave them out of the text")
      ->group("Tokens");
  sub->add_flag("--json", options->json,
                "Print one JSON object. Its fields: ids, and decoded (the text that the ids stand for)")
      ->group("Tokens");
  sub->footer(
      "Every byte of the text counts, the final newline of a file too, so that the ids can be compared. "
      "'run' and 'generate' leave it out.\n\n" +
      example("pumice tokenize model.gguf \"Once upon a time\" --json\n"
              "  printf 'Once upon a time' | pumice tokenize model.gguf --json"));
  return {sub, [options] { return tokenize(*options); }};
}

} // namespace pumice::command
