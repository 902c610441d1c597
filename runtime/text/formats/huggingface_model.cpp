#include "text/formats/huggingface_parts.h"

#include "text/unigram.h"
#include "text/wordpiece.h"

namespace pumice::text {

namespace {

using Shape = JsonDocument::Shape;

// The function that reads a type of model, and the shape of its vocabulary.
struct ModelReader {
  Shape shape;
  Result<ModelPtr> (*read)(const JsonDocument&, const JsonField&, const Vocabulary&);
};

constexpr TypeRow<ModelReader> kTypes[] = {
    {"BPE", {Shape::map, read_bpe}},
    {"WordPiece", {Shape::map, read_wordpiece}},
    {"Unigram", {Shape::list, read_unigram}},
};

} // namespace

Status read_model(JsonDocument& document, const JsonField& field, TokenizerParts& parts) {
  PUMICE_CHECK(field.object());
  // Old files have no "type". If they have merges, the model is BPE.
  ModelReader reader = kTypes[0].read;
  if (field.has("type") || !document.has_merges) {
    PUMICE_TRY(reader, find_type<ModelReader>(field, kTypes));
  }
  if (document.vocabulary_shape != reader.shape) {
    std::string_view expected =
        reader.shape == Shape::map ? "an object {\"token\": id, ...}" : "a list [[\"token\", score], ...]";
    std::string_view found = document.vocabulary_shape == Shape::absent
                                 ? "nothing, or a value of another type"
                             : document.vocabulary_shape == Shape::map ? "an object"
                                                                       : "a list";
    return Error{Code::invalid_file,
                 fmt::format("{}: expected {}, found {}", field.at("vocab").where(), expected, found)};
  }
  const auto repeated =
      reader.shape == Shape::map ? Vocabulary::Repeated::is_error : Vocabulary::Repeated::last_wins;
  PUMICE_TRY(parts.vocabulary, std::move(document.vocabulary).build(repeated, field.at("vocab").where()));
  PUMICE_TRY(parts.model, reader.read(document, field, parts.vocabulary));
  return {};
}

Result<ModelPtr> read_wordpiece(const JsonDocument&, const JsonField& field, const Vocabulary& vocabulary) {
  WordPieceOptions options;
  PUMICE_TRY(std::string unknown, field.string_or("unk_token", "[UNK]"));
  const std::optional<uint32_t> id = vocabulary.find(unknown);
  if (!id)
    return field.at("unk_token").expected(fmt::format("a token of model.vocab (\"{}\" is none)", unknown));
  options.unknown = *id;
  PUMICE_TRY(options.continuing_prefix, field.string_or("continuing_subword_prefix", "##"));
  if (field.has("max_input_chars_per_word")) {
    PUMICE_TRY(options.max_characters, field.at("max_input_chars_per_word").whole_number());
  }
  return make_wordpiece(vocabulary, std::move(options));
}

Result<ModelPtr> read_unigram(const JsonDocument& document, const JsonField& field,
                              const Vocabulary& vocabulary) {
  UnigramOptions options;
  PUMICE_TRY(options.byte_fallback, field.boolean_or("byte_fallback", false));
  if (field.has("unk_id")) {
    PUMICE_TRY(options.unknown, field.at("unk_id").whole_number());
    if (!vocabulary.has(*options.unknown)) return field.at("unk_id").expected("an id of model.vocab");
  }
  return make_unigram(vocabulary, document.scores, options);
}

Result<ModelPtr> read_bpe(const JsonDocument& document, const JsonField& field,
                          const Vocabulary& vocabulary) {
  if (!document.has_merges) return field.at("merges").expected("a list of merges");
  BpeOptions options;
  PUMICE_TRY(options.byte_fallback, field.boolean_or("byte_fallback", false));
  PUMICE_TRY(options.fuse_unknown, field.boolean_or("fuse_unk", false));
  PUMICE_TRY(options.ignore_merges, field.boolean_or("ignore_merges", false));
  PUMICE_TRY(options.continuing_prefix, field.string_or("continuing_subword_prefix", ""));
  PUMICE_TRY(options.word_suffix, field.string_or("end_of_word_suffix", ""));
  if (field.has("unk_token")) {
    PUMICE_TRY(std::string unknown, field.at("unk_token").string());
    options.unknown = vocabulary.find(unknown);
    if (!options.unknown) return field.at("unk_token").expected("a token of model.vocab");
  }
  return make_bpe(vocabulary, document.merges, std::move(options), field.at("merges").where());
}

} // namespace pumice::text
