// Folders with SentencePiece model files: spiece.model (T5), sentencepiece.bpe.model (XLM-RoBERTa), spm.model
// (DeBERTa V2 and V3), and Marian's source.spm and target.spm with vocab.json.
#include <fmt/format.h>

#include "text/formats/folder_sentence_piece.h"
#include "text/formats/sentence_piece.h"
#include "text/formats/tokenizer_folder.h"
#include "text/unicode/space_marks.h"

namespace pumice::text {

namespace {

using nlohmann::json;
using PartsPtr = std::unique_ptr<TokenizerParts>;
using FilePtr = std::unique_ptr<const SentencePieceFile>;
using Type = SentencePieceFile::Type;

constexpr uint32_t kMaxExtraIds = 1u << 16;

Result<FilePtr> open(const FolderSettings& settings, const char* name) {
  PUMICE_TRY(std::string bytes, settings.contents(name));
  return parse_sentence_piece(std::move(bytes), settings.path(name));
}

// The control, unknown and user-defined pieces of a file as added tokens, with the ids that `id_of` gives.
template <class IdOf>
std::vector<AddedToken> special_pieces(const SentencePieceFile& file, const IdOf& id_of) {
  std::vector<AddedToken> added;
  for (uint32_t id = 0; id < file.pieces.size(); ++id) {
    const SentencePieceFile::Piece& piece = file.pieces[id];
    if (piece.type == Type::control || piece.type == Type::unknown || piece.type == Type::user_defined)
      added.push_back(make_added_token(std::string(piece.text), id_of(id), piece.type != Type::user_defined));
  }
  return added;
}

Error no_token(const FolderSettings& settings, const char* name, std::string_view token) {
  return {Code::invalid_file,
          fmt::format("{}: expected a token \"{}\", found none", settings.path(name), token)};
}

// The ids are those of the file. After them come the sentinel tokens, <extra_id_0> last.
Result<PartsPtr> read_t5(const FolderSettings& settings, const char* name) {
  PUMICE_TRY(FilePtr file, open(settings, name));
  auto parts = std::make_unique<TokenizerParts>();
  Vocabulary::Builder builder;
  for (uint32_t id = 0; id < file->pieces.size(); ++id) builder.add(file->pieces[id].text, id);
  PUMICE_TRY(parts->vocabulary, std::move(builder).build(Vocabulary::Repeated::is_error, file->file));
  std::vector<AddedToken> added = special_pieces(*file, [](uint32_t id) { return id; });
  const json wanted = settings.tokenizer.value("extra_ids", json(100u));
  if (!wanted.is_number_unsigned() || wanted.get<uint64_t>() > kMaxExtraIds) {
    return Error{Code::invalid_file,
                 fmt::format("{}: extra_ids: expected a number up to {}, found {}",
                             settings.path("tokenizer_config.json"), kMaxExtraIds, wanted.dump())};
  }
  const uint32_t extra = parts->vocabulary.find("<extra_id_0>") ? 0 : wanted.get<uint32_t>();
  for (uint32_t i = 0; i < extra; ++i) {
    const auto id = static_cast<uint32_t>(file->pieces.size()) + i;
    std::string token = fmt::format("<extra_id_{}>", extra - 1 - i);
    PUMICE_CHECK(parts->vocabulary.add_hidden(token, id, file->file));
    added.push_back(make_added_token(std::move(token), id, true));
  }
  const std::string end = settings.role("eos_token", "</s>");
  const std::optional<uint32_t> eos = parts->vocabulary.find(end);
  if (!eos) return no_token(settings, name, end);
  parts->post_processor = PostProcessor::around({}, {*eos});
  return finish_sentence_piece(std::move(parts), std::move(added), *file, *file, file->unknown, false);
}

// The mask comes after the file's pieces.
Result<PartsPtr> read_xlm_roberta(const FolderSettings& settings, const char* name) {
  PUMICE_TRY(FilePtr file, open(settings, name));
  PUMICE_TRY(FairseqVocabulary made, read_fairseq_vocabulary(*file, {"<mask>"}));
  made.added.back().left_strip = true;
  made.parts->post_processor = PostProcessor::roberta(0, 2);
  return finish_sentence_piece(std::move(made.parts), std::move(made.added), *file, *file, 3, false);
}

// The ids are those of the file; the mask token may follow it. [CLS] and [SEP] are among its pieces.
Result<PartsPtr> read_deberta(const FolderSettings& settings, const char* name) {
  for (const char* changed : {"do_lower_case", "split_by_punct"}) {
    if (!settings.flag(changed, false)) continue;
    return Error{Code::unsupported, fmt::format("{}: {}: expected false, found true",
                                                settings.path("tokenizer_config.json"), changed)};
  }
  PUMICE_TRY(FilePtr file, open(settings, name));
  auto parts = std::make_unique<TokenizerParts>();
  Vocabulary::Builder builder;
  for (uint32_t id = 0; id < file->pieces.size(); ++id) builder.add(file->pieces[id].text, id);
  PUMICE_TRY(parts->vocabulary, std::move(builder).build(Vocabulary::Repeated::is_error, file->file));
  std::vector<AddedToken> added = special_pieces(*file, [](uint32_t id) { return id; });
  if (const std::string mask = settings.role("mask_token", "[MASK]"); !parts->vocabulary.find(mask)) {
    const auto id = static_cast<uint32_t>(file->pieces.size());
    PUMICE_CHECK(parts->vocabulary.add_hidden(mask, id, file->file));
    added.push_back(make_added_token(mask, id, true));
  }
  std::optional<uint32_t> ends[2];
  constexpr std::pair<const char*, const char*> kRoles[] = {{"cls_token", "[CLS]"}, {"sep_token", "[SEP]"}};
  for (size_t i = 0; i < std::size(kRoles); ++i) {
    const std::string token = settings.role(kRoles[i].first, kRoles[i].second);
    ends[i] = parts->vocabulary.find(token);
    if (!ends[i]) return no_token(settings, name, token);
  }
  parts->post_processor = PostProcessor::bert(*ends[0], *ends[1]);
  return finish_sentence_piece(std::move(parts), std::move(added), *file, *file, file->unknown, false);
}

} // namespace

AddedToken make_added_token(std::string content, uint32_t id, bool special) {
  AddedToken token;
  token.content = std::move(content);
  token.id = id;
  token.special = special;
  return token;
}

Result<PartsPtr> finish_sentence_piece(PartsPtr parts, std::vector<AddedToken> added,
                                       const SentencePieceFile& encoding, const SentencePieceFile& decoding,
                                       uint32_t unknown, bool language_codes) {
  PUMICE_TRY(SentencePiecePtr pieces, make_sentence_piece(encoding));
  parts->added_tokens = AddedTokens(std::move(added), nullptr);
  parts->model = make_sentence_piece_model(std::move(pieces), parts->vocabulary, unknown, language_codes);
  append_space_decoders(parts->decoders, decoding.add_prefix);
  const std::vector<uint32_t> before = parts->post_processor.before(), after = parts->post_processor.after();
  if (!before.empty()) parts->bos = before.front();
  if (!after.empty()) parts->eos = after.back();
  return parts;
}

Result<FairseqVocabulary> read_fairseq_vocabulary(const SentencePieceFile& file,
                                                  const std::vector<std::string>& more) {
  constexpr uint32_t kSpecialPieces = 3; // <unk>, <s>, </s> in the file
  constexpr std::string_view kSpecialTokens[] = {"<s>", "<pad>", "</s>", "<unk>"};
  FairseqVocabulary made{std::make_unique<TokenizerParts>(), {}};
  Vocabulary::Builder builder;
  uint32_t next = 0;
  const auto add_special = [&](std::string_view token) {
    made.added.push_back(make_added_token(std::string(token), next, true));
    builder.add(token, next++);
  };
  for (std::string_view token : kSpecialTokens) add_special(token);
  for (uint32_t id = kSpecialPieces; id < file.pieces.size(); ++id) builder.add(file.pieces[id].text, next++);
  for (const std::string& token : more) add_special(token);
  PUMICE_TRY(made.parts->vocabulary, std::move(builder).build(Vocabulary::Repeated::is_error, file.file));
  return made;
}

Result<PartsPtr> read_sentence_piece_folder(const FolderSettings& settings, const char* model_file) {
  const std::string family = settings.family();
  if (family.empty() || family == "t5" || family == "mt5" || family == "umt5") {
    if (std::string_view(model_file) == "spiece.model") return read_t5(settings, model_file);
  }
  if (std::string_view(model_file) == "spm.model" &&
      (family.empty() || family == "deberta-v2" || family == "debertav2"))
    return read_deberta(settings, model_file);
  if (is_translator_family(family)) return read_translator_folder(settings, model_file, family);
  if (family == "xlm-roberta" || family == "xlmroberta") return read_xlm_roberta(settings, model_file);
  return Error{
      Code::unsupported,
      fmt::format("{}: expected a model of T5's, XLM-RoBERTa's, DeBERTa V2's, M2M-100's, NLLB's, mBART's "
                  "or PEGASUS's family, found \"{}\": the file alone does not say which ids its pieces "
                  "have",
                  settings.path(model_file), family)};
}

// One vocabulary for both languages. The source's file says how text is cut, the target's how pieces are
// joined.
Result<PartsPtr> read_marian_folder(const FolderSettings& settings) {
  if (settings.flag("separate_vocabs", false)) {
    return Error{Code::unsupported,
                 fmt::format("{}: separate_vocabs: expected one vocabulary for both languages",
                             settings.path("tokenizer_config.json"))};
  }
  PUMICE_TRY(FilePtr source, open(settings, "source.spm"));
  PUMICE_TRY(FilePtr read, open(settings, "target.spm"));
  const std::shared_ptr<const SentencePieceFile> target = std::move(read);
  PUMICE_TRY(std::string text, settings.contents("vocab.json"));
  auto parts = std::make_unique<TokenizerParts>();
  PUMICE_TRY(parts->vocabulary, parse_vocabulary(text, settings.path("vocab.json")));
  std::vector<AddedToken> added;
  std::optional<uint32_t> ids[3];
  constexpr std::pair<const char*, const char*> kRoles[] = {
      {"unk_token", "<unk>"}, {"eos_token", "</s>"}, {"pad_token", "<pad>"}};
  for (size_t i = 0; i < std::size(kRoles); ++i) {
    const std::string token = settings.role(kRoles[i].first, kRoles[i].second);
    ids[i] = parts->vocabulary.find(token);
    if (!ids[i]) return no_token(settings, "vocab.json", token);
    added.push_back(make_added_token(token, *ids[i], true));
  }
  parts->post_processor = PostProcessor::around({}, {*ids[1]});
  const Vocabulary& vocabulary = parts->vocabulary; // the parts do not move
  parts->target_model =
      std::make_unique<LazyModel>([target, &vocabulary, unknown = *ids[0]]() -> Result<ModelPtr> {
        PUMICE_TRY(SentencePiecePtr pieces, make_sentence_piece(*target));
        return make_sentence_piece_model(std::move(pieces), vocabulary, unknown, true);
      });
  return finish_sentence_piece(std::move(parts), std::move(added), *source, *target, *ids[0], true);
}

} // namespace pumice::text
