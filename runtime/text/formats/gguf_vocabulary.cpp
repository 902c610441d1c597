#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "text/bpe.h"
#include "text/formats/gguf_splits.h"
#include "text/formats/gguf_token_type.h"
#include "text/formats/read_tokenizer.h"
#include "text/scored_bpe.h"
#include "text/unicode/space_marks.h"
#include "text/unicode/unicode.h"
#include "text/unigram.h"
#include "text/wordpiece.h"

namespace pumice::text {

namespace {

using Gguf = Tokenizer::GgufVocabulary;

constexpr size_t kMaxText = size_t{1} << 30; // of all merges

Error bad(const Gguf& gguf, std::string_view field, const std::string& what) {
  return {Code::invalid_file, fmt::format("{}: tokenizer.ggml.{}: {}", gguf.file, field, what)};
}

Status check_length(const Gguf& gguf, std::string_view field, size_t length, bool may_be_absent) {
  if (length == gguf.tokens.size() || (length == 0 && may_be_absent)) return {};
  return bad(gguf, field,
             fmt::format("expected one for each of {} tokens, found {}", gguf.tokens.size(), length));
}

Status check(const Gguf& gguf) {
  PUMICE_CHECK(check_length(gguf, "scores", gguf.scores.size(), gguf.model != "llama" && gguf.model != "t5"));
  PUMICE_CHECK(check_length(gguf, "token_type", gguf.types.size(), true));
  for (size_t i = 0; i < gguf.scores.size(); ++i) {
    if (std::isnan(gguf.scores[i]))
      return bad(gguf, fmt::format("scores[{}]", i), "expected a number, found NaN");
  }
  for (size_t i = 0; i < gguf.types.size(); ++i) {
    // 0 is "undefined" and taken for a normal token, as writers of it mean it.
    if (gguf.types[i] < 0 || gguf.types[i] > gguf_token::byte) {
      return bad(gguf, fmt::format("token_type[{}]", i),
                 fmt::format("expected 1 to 6, found {}", gguf.types[i]));
    }
  }
  std::pair<std::string_view, std::optional<uint32_t>> named[] = {
      {"bos_token_id", gguf.bos},
      {"eos_token_id", gguf.eos},
      {"unknown_token_id", gguf.unknown},
      {"seperator_token_id", gguf.separator}}; // the specification's spelling
  for (auto [field, id] : named) {
    if (id && *id >= gguf.tokens.size()) {
      return bad(gguf, field, fmt::format("expected an id below {}, found {}", gguf.tokens.size(), *id));
    }
  }
  if (gguf.model == "bert") return {}; // it always has [CLS] and [SEP] around a text
  if (gguf.add_eos.value_or(false) && !gguf.eos)
    return bad(gguf, "add_eos_token", "expected eos_token_id with it, found none");
  return {};
}

// llama.cpp spells BERT's tokens in another way: U+2581 at the start of a word and nothing within it. This
// returns BERT's own spelling.
std::string bert_spelling(std::string_view token) {
  if (token.starts_with('[') && token.ends_with(']')) return std::string(token);
  if (token.starts_with("▁")) return std::string(token.substr(std::string_view("▁").size()));
  return "##" + std::string(token);
}

Result<Vocabulary> build_vocabulary(const Gguf& gguf) {
  Vocabulary::Builder builder;
  size_t bytes = 0;
  for (std::string_view token : gguf.tokens) bytes += token.size();
  if (bytes <= kMaxText) builder.reserve(gguf.tokens.size(), bytes);
  const bool respell = gguf.model == "bert";
  for (size_t i = 0; i < gguf.tokens.size(); ++i) {
    const auto id = static_cast<uint32_t>(i);
    if (respell) {
      builder.add(bert_spelling(gguf.tokens[i]), id);
    } else {
      builder.add(gguf.tokens[i], id);
    }
  }
  return std::move(builder).build(Vocabulary::Repeated::last_wins, gguf.file + ": tokenizer.ggml.tokens");
}

constexpr std::string_view kBertMarks[] = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};

// The tokens to search for in the text: control tokens, the unknown token and user-defined tokens. The first
// two are special. Some files do not mark BERT's special tokens as control tokens.
std::vector<AddedToken> added_tokens(const Gguf& gguf) {
  std::vector<AddedToken> added;
  for (size_t i = 0; i < gguf.tokens.size(); ++i) {
    int32_t type = i < gguf.types.size() ? gguf.types[i] : gguf_token::normal;
    if (gguf.model == "bert" && std::ranges::find(kBertMarks, gguf.tokens[i]) != std::end(kBertMarks))
      type = gguf_token::control;
    if ((type != gguf_token::control && type != gguf_token::unknown && type != gguf_token::user_defined) ||
        gguf.tokens[i].empty())
      continue;
    AddedToken token;
    token.content = escape_bytes(gguf.tokens[i]);
    token.id = static_cast<uint32_t>(i);
    token.special = type != gguf_token::user_defined;
    added.push_back(std::move(token));
  }
  return added;
}

Status fill_llama(const Gguf& gguf, TokenizerParts& parts) {
  std::vector<NormalizerPtr> normalizers;
  if (gguf.add_space_prefix) normalizers.push_back(make_prepend(" "));
  normalizers.push_back(make_replace(" ", "▁"));
  parts.normalizer = make_sequence(std::move(normalizers));
  parts.model = make_scored_bpe(parts.vocabulary, gguf.scores, {.unknown = gguf.unknown});
  append_space_decoders(parts.decoders, gguf.add_space_prefix);
  return {};
}

Result<Merges> read_merges(const Gguf& gguf) {
  Merges merges;
  for (size_t i = 0; i < gguf.merges.size(); ++i) {
    std::string_view merge = gguf.merges[i];
    size_t space = merge.find(' ', 1); // a token may begin with a space; byte-level tokens hold no other
    if (space == std::string_view::npos) {
      return bad(gguf, fmt::format("merges[{}]", i), fmt::format("expected \"a b\", found \"{}\"", merge));
    }
    if (merges.text.size() + merge.size() > kMaxText)
      return bad(gguf, "merges", "expected at most 1 GiB of text, found more");
    merges.add(merge.substr(0, space), merge.substr(space + 1));
  }
  return merges;
}

Result<const GgufSplit*> split_of(const Gguf& gguf) {
  if (const GgufSplit* split = find_gguf_split(gguf.model == "gemma4" ? gguf.model : gguf.pre)) return split;
  return Error{Code::unsupported,
               fmt::format("{}: tokenizer.ggml.pre: the pre-tokenizer \"{}\" is not one of the {} that are "
                           "known here",
                           gguf.file, gguf.pre, gguf_splits().size())};
}

Status fill_gpt2(const Gguf& gguf, TokenizerParts& parts) {
  PUMICE_TRY(const GgufSplit* split, split_of(gguf));
  PUMICE_TRY(parts.pre_tokenizer, make_gguf_split(*split));
  PUMICE_TRY(Merges merges, read_merges(gguf));
  BpeOptions options;
  options.ignore_merges = split->ignore_merges;
  options.unknown = gguf.unknown;
  switch (split->spelling) {
  case GgufSpelling::bytes:
    parts.decoders.push_back(make_byte_level_decoder());
    break;
  case GgufSpelling::marked_spaces:
    parts.normalizer = make_replace(" ", "▁");
    options.byte_fallback = true;
    append_space_decoders(parts.decoders, /*strip=*/false);
    break;
  case GgufSpelling::words:
    if (gguf.lowercase.value_or(false)) parts.normalizer = make_lowercase();
    parts.decoders.push_back(make_fuse_decoder());
    break;
  }
  PUMICE_TRY(parts.model, make_bpe(parts.vocabulary, merges, options, gguf.file + ": tokenizer.ggml.merges"));
  return {};
}

// A vocabulary with capital letters belongs to a model that distinguishes upper and lower case.
bool has_capitals(const Gguf& gguf) {
  return std::any_of(gguf.tokens.begin(), gguf.tokens.end(), [](std::string_view token) {
    return !token.starts_with('[') &&
           std::any_of(token.begin(), token.end(), [](char c) { return c >= 'A' && c <= 'Z'; });
  });
}

Status fill_bert(const Gguf& gguf, TokenizerParts& parts) {
  auto named = [&](std::optional<uint32_t> id, std::string_view name) {
    return id ? id : parts.vocabulary.find(name);
  };
  const auto cls = named(gguf.bos, "[CLS]"), sep = named(gguf.separator, "[SEP]");
  const auto unknown_id = named(gguf.unknown, "[UNK]");
  if (!cls) return bad(gguf, "bos_token_id", "expected it or a token \"[CLS]\", found neither");
  if (!sep) return bad(gguf, "seperator_token_id", "expected it or a token \"[SEP]\", found neither");
  if (!unknown_id) return bad(gguf, "unknown_token_id", "expected it or a token \"[UNK]\", found neither");
  BertNormalizerOptions options;
  options.lowercase = options.strip_accents = gguf.lowercase.value_or(!has_capitals(gguf));
  parts.normalizer = make_bert_normalizer(options);
  parts.pre_tokenizer = make_bert_split();
  parts.model = make_wordpiece(parts.vocabulary, {.unknown = *unknown_id});
  parts.post_processor = PostProcessor::bert(*cls, *sep);
  parts.bos = cls;
  parts.eos = sep;
  parts.decoders.push_back(make_wordpiece_decoder("##", /*cleanup=*/true));
  return {};
}

Status fill_t5(const Gguf& gguf, TokenizerParts& parts) {
  PUMICE_TRY(parts.normalizer,
             make_space_normalizer(gguf.character_map, gguf.add_space_prefix, gguf.remove_extra_whitespaces,
                                   gguf.file + ": tokenizer.ggml.precompiled_charsmap"));
  UnigramOptions options;
  options.unknown = gguf.unknown;
  std::vector<double> scores(gguf.scores.begin(), gguf.scores.end());
  for (size_t i = 0; i < gguf.types.size(); ++i) {
    const int32_t type = gguf.types[i];
    options.left_out.push_back(type == gguf_token::control || type == gguf_token::unknown ||
                               type == gguf_token::byte);
    options.byte_fallback |= type == gguf_token::byte;
    if (type == gguf_token::user_defined) scores[i] = 0;
  }
  parts.model = make_unigram(parts.vocabulary, std::move(scores), options);
  append_space_decoders(parts.decoders, gguf.add_space_prefix);
  return {};
}

// The tokens around a text where the file does not say.
struct Ends {
  bool bos, eos;
};

Ends gpt2_ends(const Gguf& gguf) {
  const Result<const GgufSplit*> split = split_of(gguf);
  return {split.ok() && (*split)->add_bos, false};
}

// The kinds of vocabularies. BERT's ends are fixed, so it has no function for them.
struct VocabularyKind {
  std::string_view model;
  Status (*fill)(const Gguf&, TokenizerParts&);
  Ends (*usual_ends)(const Gguf&);
};
constexpr VocabularyKind kKinds[] = {{"llama", fill_llama,
                                      [](const Gguf&) -> Ends {
                                        return {true, false};
                                      }},
                                     {"gpt2", fill_gpt2, gpt2_ends},
                                     {"gemma4", fill_gpt2, gpt2_ends},
                                     {"bert", fill_bert, nullptr},
                                     {"t5", fill_t5, [](const Gguf&) -> Ends {
                                        return {false, true};
                                      }}};

// Whether a pair of texts is <s> A </s></s> B </s>.
bool pairs_as_roberta(const Gguf& gguf) {
  if (gguf.model == "t5") return true;
  const Result<const GgufSplit*> split = split_of(gguf);
  return gguf.model == "gpt2" && split.ok() && (*split)->pairs_as_roberta;
}

} // namespace

Result<std::unique_ptr<TokenizerParts>> read_gguf(const Gguf& gguf) {
  for (const VocabularyKind& kind : kKinds) {
    if (kind.model != gguf.model) continue;
    PUMICE_CHECK(check(gguf));
    auto parts = std::make_unique<TokenizerParts>();
    PUMICE_TRY(parts->vocabulary, build_vocabulary(gguf));
    parts->added_tokens = AddedTokens(added_tokens(gguf), nullptr);
    PUMICE_CHECK(kind.fill(gguf, *parts));
    if (!kind.usual_ends) return parts;
    const Ends usual = kind.usual_ends(gguf);
    // Early files of Gemma 4 say false, and without it the models fail.
    const bool add_bos = gguf.bos && (gguf.model == "gemma4" || gguf.add_bos.value_or(usual.bos));
    const bool add_eos = gguf.eos && gguf.add_eos.value_or(usual.eos);
    std::vector<uint32_t> before, after;
    if (add_bos) before.push_back(*gguf.bos);
    if (add_eos) after.push_back(*gguf.eos);
    parts->post_processor = add_bos && add_eos && pairs_as_roberta(gguf)
                                ? PostProcessor::roberta(*gguf.bos, *gguf.eos)
                                : PostProcessor::around(before, after);
    parts->bos = gguf.bos;
    parts->eos = gguf.eos;
    return parts;
  }
  return Error{Code::unsupported,
               fmt::format("{}: tokenizer.ggml.model: expected \"llama\", \"gpt2\", \"gemma4\", \"bert\" or "
                           "\"t5\", found \"{}\"",
                           gguf.file, gguf.model)};
}

} // namespace pumice::text
