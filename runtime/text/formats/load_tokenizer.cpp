// Where a tokenizer comes from: the readers of every format are below text/formats, and text/ knows none of
// them.
#include <new>

#include <fmt/format.h>

#include "text/formats/read_tokenizer.h"
#include "text/formats/tokenizer_folder.h"
#include "text/tokenizer.h"

namespace pumice {

Result<std::shared_ptr<const Tokenizer>> Tokenizer::load(const std::filesystem::path& at) try {
  PUMICE_TRY(auto parts, text::read_tokenizer(at));
  return std::shared_ptr<const Tokenizer>(new Tokenizer(std::move(parts)));
} catch (const std::bad_alloc&) {
  return Error{Code::out_of_memory, fmt::format("{}: not enough memory for the tokenizer", path_text(at))};
}

Result<std::shared_ptr<const Tokenizer>> Tokenizer::load(const ModelFolder& folder) try {
  PUMICE_TRY(auto parts, text::read_tokenizer(folder));
  return std::shared_ptr<const Tokenizer>(new Tokenizer(std::move(parts)));
} catch (const std::bad_alloc&) {
  return Error{Code::out_of_memory, fmt::format("{}: not enough memory for the tokenizer", folder.path())};
}

Result<std::shared_ptr<const Tokenizer>> Tokenizer::parse_json(std::string_view json, std::string file) try {
  PUMICE_TRY(auto parts, text::read_huggingface(json, file));
  return std::shared_ptr<const Tokenizer>(new Tokenizer(std::move(parts)));
} catch (const std::bad_alloc&) {
  return Error{Code::out_of_memory, fmt::format("{}: not enough memory for the tokenizer", file)};
}

Result<std::shared_ptr<const Tokenizer>> Tokenizer::from_gguf(const GgufVocabulary& vocabulary) try {
  PUMICE_TRY(auto parts, text::read_gguf(vocabulary));
  return std::shared_ptr<const Tokenizer>(new Tokenizer(std::move(parts)));
} catch (const std::bad_alloc&) {
  return Error{Code::out_of_memory, fmt::format("{}: not enough memory for the tokenizer", vocabulary.file)};
}

Result<std::shared_ptr<const Tokenizer>> Tokenizer::from_ranks(const RankedVocabulary& vocabulary) try {
  PUMICE_TRY(auto parts, text::read_ranked(vocabulary));
  return std::shared_ptr<const Tokenizer>(new Tokenizer(std::move(parts)));
} catch (const std::bad_alloc&) {
  return Error{Code::out_of_memory, fmt::format("{}: not enough memory for the tokenizer", vocabulary.file)};
}

} // namespace pumice
