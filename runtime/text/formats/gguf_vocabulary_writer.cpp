#include "text/formats/gguf_vocabulary_writer.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "text/formats/gguf_splits.h"
#include "text/formats/gguf_token_type.h"
#include "text/formats/huggingface_parts.h"
#include "text/unicode/unicode.h"

namespace pumice::text {

namespace {

constexpr std::string_view kSpace = "▁";

// Lists the steps of a normalizer or pre-tokenizer without the Sequences around them.
Status flatten(const JsonField& field, std::string_view list, std::vector<JsonField>& steps) {
  if (field.is_null()) return {};
  PUMICE_TRY(std::string type, field.at("type").string());
  if (type != "Sequence") {
    steps.push_back(field);
    return {};
  }
  PUMICE_TRY(std::vector<JsonField> elements, field.at(list).elements());
  for (const JsonField& element : elements) PUMICE_CHECK(flatten(element, list, steps));
  return {};
}

bool has_string(const JsonField& field, std::string_view key, std::string_view value) {
  return field.at(key).value() == value;
}

class Writer {
public:
  Writer(const JsonDocument& document, const JsonField& root, const TokenizerParts& parts,
         GgufVocabularyTable& table)
      : document_(document), root_(root), model_(root.at("model")), parts_(parts), table_(table) {}

  Status write(uint32_t rows) {
    PUMICE_CHECK(check_model());
    PUMICE_TRY(bool byte_fallback, model_.boolean_or("byte_fallback", false));
    if (model_.has("unk_token")) {
      PUMICE_TRY(std::string name, model_.at("unk_token").string());
      table_.unknown = parts_.vocabulary.find(name);
    }
    if (has_string(model_, "type", "WordPiece")) {
      table_.model = "bert";
      PUMICE_CHECK(write_bert());
    } else {
      table_.model = byte_fallback ? "llama" : "gpt2";
      PUMICE_CHECK(byte_fallback ? write_llama() : write_gpt2());
    }
    PUMICE_CHECK(write_tokens(rows));
    if (byte_fallback) write_scores();
    return write_ends();
  }

private:
  Status check_model() const {
    if (has_string(model_, "type", "WordPiece")) {
      PUMICE_TRY(std::string mark, model_.string_or("continuing_subword_prefix", "##"));
      return mark == "##" ? Status()
                          : Status(model_.at("continuing_subword_prefix").unsupported("##, for GGUF"));
    }
    if (model_.has("type") && !has_string(model_, "type", "BPE")) return model_.at("type").unsupported("BPE");
    for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
      PUMICE_TRY(std::string text, model_.string_or(key, ""));
      if (!text.empty()) return model_.at(key).unsupported("none, because GGUF has no field for it");
    }
    return {};
  }

  // For "llama", SentencePiece's kind: the only normalization is that spaces become U+2581.
  Status write_llama() {
    table_.pre = "default";
    bool replaced = false;
    std::vector<JsonField> steps;
    PUMICE_CHECK(flatten(root_.at("normalizer"), "normalizers", steps));
    for (const JsonField& step : steps) {
      const bool prepends = has_string(step, "type", "Prepend") && has_string(step, "prepend", kSpace);
      const bool replaces = has_string(step, "type", "Replace") && has_string(step, "content", kSpace) &&
                            has_string(step.at("pattern"), "String", " ");
      if (!prepends && !replaces)
        return step.at("type").unsupported("a step that turns spaces into U+2581, for GGUF");
      table_.add_space_prefix |= prepends;
      replaced |= replaces;
    }
    steps.clear();
    PUMICE_CHECK(flatten(root_.at("pre_tokenizer"), "pretokenizers", steps));
    for (const JsonField& step : steps) {
      if (replaced && has_string(step, "type", "Split") && has_string(step.at("pattern"), "String", " ")) {
        continue; // no spaces are left
      }
      if (!has_string(step, "type", "Metaspace")) return step.at("type").unsupported("Metaspace, for GGUF");
      PUMICE_TRY(std::string replacement, read_character(step.at("replacement"), std::string(kSpace)));
      if (replacement != kSpace) return step.at("replacement").unsupported("U+2581, for GGUF");
      PUMICE_TRY(PrependScheme scheme, read_prepend_scheme(step));
      replaced = true;
      if (scheme == PrependScheme::never) continue;
      table_.add_space_prefix = true;
      note("GGUF puts a space before every text, this tokenizer only before one that does not begin with a "
           "space");
    }
    if (!replaced)
      return root_.at("normalizer").unsupported("a step that turns spaces into U+2581, for GGUF");
    return {};
  }

  // For "bert": BERT's own normalization and words, and one token on each side of a text.
  Status write_bert() {
    table_.pre = "default"; // which nothing reads of this kind
    const JsonField normalizer = root_.at("normalizer");
    if (!has_string(normalizer, "type", "BertNormalizer"))
      return normalizer.unsupported("BertNormalizer, for GGUF");
    PUMICE_TRY(table_.lowercase, normalizer.boolean_or("lowercase", true));
    PUMICE_TRY(bool strip, normalizer.boolean_or("strip_accents", *table_.lowercase));
    PUMICE_TRY(bool chinese, normalizer.boolean_or("handle_chinese_chars", true));
    PUMICE_TRY(bool clean, normalizer.boolean_or("clean_text", true));
    if (strip != *table_.lowercase || !chinese || !clean) {
      return normalizer.unsupported("a BertNormalizer that strips accents where it lowers case, cleans text "
                                    "and sets Chinese characters "
                                    "apart, for GGUF");
    }
    if (!has_string(root_.at("pre_tokenizer"), "type", "BertPreTokenizer"))
      return root_.at("pre_tokenizer").unsupported("BertPreTokenizer, for GGUF");
    if (parts_.post_processor.before().size() != 1 || parts_.post_processor.after().size() != 1)
      return root_.at("post_processor").unsupported("one token before a text and one after it, for GGUF");
    return {};
  }

  // llama.cpp's spelling: U+2581 at the start of a word, and nothing within it.
  static std::string bert_spelling(std::string piece) {
    if (piece.starts_with('[') && piece.ends_with(']')) return piece;
    return piece.starts_with("##") ? piece.substr(2) : std::string(kSpace) + piece;
  }

  Status write_gpt2() {
    std::vector<JsonField> steps;
    PUMICE_CHECK(flatten(root_.at("normalizer"), "normalizers", steps));
    for (const JsonField& step : steps) {
      if (!has_string(step, "type", "NFC"))
        return step.at("type").unsupported("no normalization, or NFC, for GGUF");
      note("GGUF has no field for normalization to NFC: text in another form is cut differently");
    }
    PUMICE_TRY(std::vector<std::string> patterns, read_patterns());
    PUMICE_TRY(bool ignore_merges, model_.boolean_or("ignore_merges", false));
    const GgufSplit* split = find_gguf_split(patterns, ignore_merges);
    if (!split) {
      return root_.at("pre_tokenizer").unsupported("a split that GGUF has a name for");
    }
    const GgufSplit* paired = find_gguf_split("roberta-bpe"); // the same split where the patterns are
    if (pairs_as_roberta() && std::ranges::equal(paired->patterns, split->patterns)) split = paired;
    table_.pre = split->name;
    const std::string_view text = document_.merges.text;
    for (const Merges::Merge& merge : document_.merges.list) {
      const std::string_view left = text.substr(merge.begin, merge.left);
      const std::string_view right = text.substr(merge.begin + merge.left, merge.right);
      if (left.find(' ') != left.npos || right.find(' ') != right.npos)
        return model_.at("merges").unsupported("byte-level tokens, which hold no spaces");
      table_.merges.push_back(fmt::format("{} {}", left, right));
    }
    return {};
  }

  // Whether a pair of texts is <s> A </s></s> B </s>.
  bool pairs_as_roberta() const {
    using Kind = PostProcessor::Element::Kind;
    std::vector<Kind> kinds;
    for (const PostProcessor::Element& each : parts_.post_processor.pair) kinds.push_back(each.kind);
    return kinds ==
           std::vector{Kind::token, Kind::first, Kind::token, Kind::token, Kind::second, Kind::token};
  }

  // The pattern of a Split whose matches become pieces. To remove everything except the matches gives the
  // same result if the pattern matches every character.
  Result<std::string> read_split(const JsonField& step) const {
    PUMICE_TRY(std::string pattern, step.at("pattern").at("Regex").string());
    PUMICE_TRY(bool invert, step.boolean_or("invert", false));
    const bool isolates = has_string(step, "behavior", "Isolated") && !invert;
    const bool keeps = has_string(step, "behavior", "Removed") && invert && pattern.ends_with(R"(|\s+)");
    if (!isolates && !keeps) return step.at("behavior").unsupported("Isolated, for GGUF");
    return pattern;
  }

  // The patterns that cut the text, in order. The last step must write bytes as characters (ByteLevel).
  Result<std::vector<std::string>> read_patterns() const {
    std::vector<JsonField> steps;
    PUMICE_CHECK(flatten(root_.at("pre_tokenizer"), "pretokenizers", steps));
    std::vector<std::string> patterns;
    bool byte_level = false;
    for (const JsonField& step : steps) {
      if (byte_level) return step.at("type").unsupported("nothing after ByteLevel, for GGUF");
      if (has_string(step, "type", "ByteLevel")) {
        PUMICE_TRY(bool prefix, step.boolean_or("add_prefix_space", true));
        if (prefix) return step.at("add_prefix_space").unsupported("false, for GGUF");
        PUMICE_TRY(bool use_regex, step.boolean_or("use_regex", true));
        if (use_regex) patterns.emplace_back(kGpt2Pattern);
        byte_level = true;
      } else if (has_string(step, "type", "Split")) {
        PUMICE_TRY(std::string pattern, read_split(step));
        patterns.push_back(std::move(pattern));
      } else if (has_string(step, "type", "Digits")) {
        PUMICE_TRY(bool individual, step.boolean_or("individual_digits", false));
        patterns.emplace_back(individual ? R"(\p{N})" : R"(\p{N}+)");
      } else {
        return step.at("type").unsupported("ByteLevel, Digits or Split, for GGUF");
      }
    }
    if (!byte_level) return root_.at("pre_tokenizer").unsupported("one with ByteLevel, for GGUF");
    return patterns;
  }

  bool is_byte(std::string_view piece) const {
    return table_.model == "llama" && piece.size() == 6 && piece.starts_with("<0x") && piece.back() == '>';
  }

  Status write_tokens(uint32_t rows) {
    std::unordered_map<uint32_t, bool> added; // id to whether it is special
    PUMICE_TRY(std::vector<JsonField> elements,
               root_.has("added_tokens") ? root_.at("added_tokens").elements() : std::vector<JsonField>());
    for (const JsonField& element : elements) {
      PUMICE_TRY(uint32_t id, element.at("id").whole_number());
      PUMICE_TRY(added[id], element.boolean_or("special", false));
    }
    size_t left_out = 0;
    for (uint32_t id = rows; id < parts_.vocabulary.size(); ++id) {
      if (!parts_.vocabulary.has(id)) continue;
      if (!added.contains(id)) {
        return model_.at("vocab").unsupported(
            fmt::format("ids below {}, the size of the model's vocabulary (there is {})", rows, id));
      }
      ++left_out;
    }
    if (left_out > 0)
      note(fmt::format("the model has no rows for {} added tokens, which are left out", left_out));
    for (uint32_t id = 0; id < rows; ++id) add_token(id, added);
    return {};
  }

  void add_token(uint32_t id, const std::unordered_map<uint32_t, bool>& added) {
    std::string piece(parts_.vocabulary.piece(id));
    gguf_token::Type type = gguf_token::normal;
    const auto found = added.find(id);
    if (!parts_.vocabulary.has(id)) {
      type = gguf_token::unused;
      piece = fmt::format("[PAD{}]", id);
    } else if (is_byte(piece)) {
      type = gguf_token::byte;
    } else if (table_.model == "llama" && id == table_.unknown) {
      type = gguf_token::unknown;
    } else if (found != added.end()) {
      type = found->second ? gguf_token::control : gguf_token::user_defined;
      // They are looked for in the text as it is, and shown as they are.
      if (type == gguf_token::user_defined && table_.model == "llama")
        piece = replace_all(piece, kSpace, " ");
    }
    if (table_.model == "bert" && type != gguf_token::unused) piece = bert_spelling(std::move(piece));
    table_.tokens.push_back(std::move(piece));
    table_.types.push_back(type);
  }

  // "llama" joins the pair of neighbours whose token has the highest score, so a token's score is the
  // negative rank of its first merge.
  void write_scores() {
    const float worst = -static_cast<float>(document_.merges.list.size() + 1);
    table_.scores.assign(table_.tokens.size(), worst);
    std::unordered_set<std::string> listed;
    float rank = 0;
    for (const Merges::Merge& merge : document_.merges.list) {
      const std::string_view both =
          std::string_view(document_.merges.text).substr(merge.begin, merge.left + merge.right);
      const std::string_view left = both.substr(0, merge.left), right = both.substr(merge.left);
      const auto id = parts_.vocabulary.find(both);
      rank -= 1;
      if (id && *id < table_.scores.size() && table_.scores[*id] == worst) table_.scores[*id] = rank;
      listed.insert(fmt::format("{} {}", left, right));
    }
    size_t missing = 0;
    for (size_t id = 0; id < table_.tokens.size(); ++id) {
      if (table_.types[id] == gguf_token::normal)
        missing += pairs_that_are_no_merge(parts_.vocabulary.piece(id), listed);
    }
    if (missing > 0) {
      note(fmt::format(
          "GGUF joins any two tokens that make a third; this tokenizer has {} pairs that do and are no "
          "merges: a few texts may be cut differently",
          missing));
    }
  }

  size_t pairs_that_are_no_merge(std::string_view piece,
                                 const std::unordered_set<std::string>& listed) const {
    size_t count = 0;
    if (piece.empty()) return count;
    for (size_t at = 0; (at += first_code_point(piece.substr(at)).length) < piece.size();) {
      const std::string_view left = piece.substr(0, at), right = piece.substr(at);
      if (parts_.vocabulary.find(left) && parts_.vocabulary.find(right) &&
          !listed.contains(fmt::format("{} {}", left, right)))
        ++count;
    }
    return count;
  }

  Status write_ends() {
    const size_t before = parts_.post_processor.before().size(), after = parts_.post_processor.after().size();
    if (before > 1 || after > 1)
      return root_.at("post_processor")
          .unsupported("at most one token before a text and one after it, for GGUF");
    table_.add_bos = before > 0;
    table_.add_eos = after > 0;
    table_.bos = parts_.bos;
    table_.eos = parts_.eos;
    return {};
  }

  void note(std::string sentence) { table_.notes.push_back(std::move(sentence)); }

  const JsonDocument& document_;
  const JsonField& root_;
  const JsonField model_;
  const TokenizerParts& parts_;
  GgufVocabularyTable& table_;
};

} // namespace

Result<GgufVocabularyTable> gguf_vocabulary(std::string_view tokenizer_json, const std::string& file,
                                            uint32_t rows) {
  PUMICE_TRY(std::unique_ptr<TokenizerParts> parts, read_huggingface(tokenizer_json, file));
  PUMICE_TRY(JsonDocument document, parse_document(tokenizer_json, file));
  const JsonField root(document.tree, file);
  GgufVocabularyTable table;
  PUMICE_CHECK(Writer(document, root, *parts, table).write(rows));
  return table;
}

} // namespace pumice::text
