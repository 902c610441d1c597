// Folders of translators of many languages with a SentencePiece model file and no tokenizer.json: M2M-100,
// NLLB-200, mBART and mBART-50; and PEGASUS.
#include <algorithm>

#include <fmt/format.h>

#include "text/formats/folder_sentence_piece.h"
#include "text/language_tokens.h"

namespace pumice::text {

namespace {

using nlohmann::json;
using PartsPtr = std::unique_ptr<TokenizerParts>;

// The language of the source, as the folder's settings have it. An error if the tokenizer does not have its
// token.
Result<uint32_t> source_language(const FolderSettings& settings, const std::vector<AddedToken>& added,
                                 const std::string& fallback, const std::string& around) {
  std::string code = fallback;
  if (const auto found = settings.tokenizer.find("src_lang");
      found != settings.tokenizer.end() && found->is_string()) {
    code = found->get<std::string>();
  }
  const auto found_token = std::ranges::find(added, around + code + around, &AddedToken::content);
  if (found_token != added.end()) return found_token->id;
  return Error{Code::invalid_file, fmt::format("{}: src_lang: expected a language of the model, found \"{}\"",
                                               settings.path("tokenizer_config.json"), code)};
}

Result<PartsPtr> read_m2m100(const FolderSettings& settings, const SentencePieceFile& file) {
  const std::string set = settings.tokenizer.value("language_codes", json("m2m100")).dump();
  if (set != "\"m2m100\"") {
    return Error{Code::unsupported, fmt::format("{}: language_codes: expected \"m2m100\", found {}",
                                                settings.path("tokenizer_config.json"), set)};
  }
  PUMICE_TRY(const std::string text, settings.contents("vocab.json"));
  const std::string path = settings.path("vocab.json");
  auto parts = std::make_unique<TokenizerParts>();
  PUMICE_TRY(parts->vocabulary, parse_vocabulary(text, path));
  std::vector<AddedToken> added;
  uint32_t ids[4];
  constexpr std::string_view names[] = {"<s>", "<pad>", "</s>", "<unk>"};
  for (size_t i = 0; i < std::size(names); ++i) {
    const std::optional<uint32_t> id = parts->vocabulary.find(names[i]);
    if (!id)
      return Error{Code::invalid_file,
                   fmt::format("{}: expected a token \"{}\", found none", path, names[i])};
    ids[i] = *id;
    added.push_back(make_added_token(std::string(names[i]), *id, true));
  }
  for (std::string_view code : m2m100_language_codes()) {
    const uint32_t id = parts->vocabulary.size();
    std::string token = fmt::format("__{}__", code);
    PUMICE_CHECK(parts->vocabulary.add_hidden(token, id, path));
    added.push_back(make_added_token(std::move(token), id, true));
  }
  PUMICE_TRY(const uint32_t source, source_language(settings, added, "en", "__"));
  parts->post_processor = PostProcessor::around({source}, {ids[2]});
  return finish_sentence_piece(std::move(parts), std::move(added), file, file, ids[3], false);
}

// The languages and the mask come after the file's pieces.
Result<PartsPtr> read_fairseq(const FolderSettings& settings, const SentencePieceFile& file,
                              const std::string& family) {
  const bool nllb = family == "nllb";
  std::vector<std::string> more;
  for (std::string_view code : nllb ? nllb_language_codes() : mbart_language_codes(family == "mbart50")) {
    more.emplace_back(code);
  }
  more.emplace_back("<mask>");
  PUMICE_TRY(FairseqVocabulary made, read_fairseq_vocabulary(file, more));
  made.added.back().left_strip = true;
  PUMICE_TRY(const uint32_t source, source_language(settings, made.added, nllb ? "eng_Latn" : "en_XX", ""));
  // The language comes after the text in mBART, and in NLLB where its folder asks for that.
  const bool after = nllb ? settings.flag("legacy_behaviour", false) : family == "mbart";
  made.parts->post_processor =
      after ? PostProcessor::around({}, {2, source}) : PostProcessor::around({source}, {2});
  return finish_sentence_piece(std::move(made.parts), std::move(made.added), file, file, 3, false);
}

// Padding, the end, two masks and tokens that were never trained come before the file's pieces.
Result<PartsPtr> read_pegasus(const FolderSettings& settings, const SentencePieceFile& file) {
  uint32_t offset = 103;
  if (const auto found = settings.tokenizer.find("offset"); found != settings.tokenizer.end()) {
    if (!found->is_number_unsigned() || found->get<uint64_t>() > 1024) {
      return Error{Code::invalid_file, fmt::format("{}: offset: expected a number up to 1024, found {}",
                                                   settings.path("tokenizer_config.json"), found->dump())};
    }
    offset = found->get<uint32_t>();
  }
  auto parts = std::make_unique<TokenizerParts>();
  Vocabulary::Builder builder;
  std::vector<AddedToken> added;
  std::vector<std::string> first = {"<pad>", "</s>"};
  if (offset > 0) first.insert(first.end(), {"<mask_1>", "<mask_2>"});
  for (uint32_t n = 2; n < offset; ++n) first.push_back(fmt::format("<unk_{}>", n));
  for (uint32_t id = 0; id < first.size(); ++id) {
    builder.add(first[id], id);
    added.push_back(make_added_token(first[id], id, true));
  }
  for (uint32_t id = 0; id < file.pieces.size(); ++id) {
    if (file.pieces[id].text == "<pad>" || file.pieces[id].text == "</s>") continue;
    builder.add(file.pieces[id].text, id + offset);
  }
  const uint32_t unknown = file.unknown + offset;
  added.push_back(make_added_token(std::string(file.pieces[file.unknown].text), unknown, true));
  PUMICE_TRY(parts->vocabulary, std::move(builder).build(Vocabulary::Repeated::is_error, file.file));
  parts->post_processor = PostProcessor::around({}, {1});
  return finish_sentence_piece(std::move(parts), std::move(added), file, file, unknown, false);
}

} // namespace

bool is_translator_family(const std::string& family) {
  constexpr std::string_view families[] = {"m2m100", "nllb", "mbart", "mbart50", "pegasus"};
  return std::ranges::find(families, family) != std::end(families);
}

Result<PartsPtr> read_translator_folder(const FolderSettings& settings, const char* model_file,
                                        const std::string& family) {
  PUMICE_TRY(std::string bytes, settings.contents(model_file));
  PUMICE_TRY(const std::unique_ptr<const SentencePieceFile> file,
             parse_sentence_piece(std::move(bytes), settings.path(model_file)));
  if (family == "m2m100") return read_m2m100(settings, *file);
  if (family == "pegasus") return read_pegasus(settings, *file);
  return read_fairseq(settings, *file, family);
}

} // namespace pumice::text
