#include <cmath>

#include <fmt/format.h>

#include "text/bpe.h"
#include "text/gguf_splits.h"
#include "text/scored_bpe.h"
#include "text/tokenizer_parts.h"
#include "text/unicode.h"

namespace pumice::text {

namespace {

using Gguf = Tokenizer::GgufVocabulary;

constexpr size_t kMaxText = size_t{1} << 30; // of all merges

// tokenizer.ggml.token_type
enum TokenType : int32_t { normal = 1, unknown = 2, control = 3, user_defined = 4, unused = 5, byte = 6 };

Error bad(const Gguf& gguf, std::string_view field, const std::string& what) {
  return {Code::invalid_file, fmt::format("{}: tokenizer.ggml.{}: {}", gguf.file, field, what)};
}

Status check_length(const Gguf& gguf, std::string_view field, size_t length, bool may_be_absent) {
  if (length == gguf.tokens.size() || (length == 0 && may_be_absent)) return {};
  return bad(gguf, field,
             fmt::format("expected one for each of {} tokens, found {}", gguf.tokens.size(), length));
}

Status check(const Gguf& gguf) {
  PUMICE_CHECK(check_length(gguf, "scores", gguf.scores.size(), gguf.model != "llama"));
  PUMICE_CHECK(check_length(gguf, "token_type", gguf.types.size(), true));
  for (size_t i = 0; i < gguf.scores.size(); ++i) {
    if (std::isnan(gguf.scores[i]))
      return bad(gguf, fmt::format("scores[{}]", i), "expected a number, found NaN");
  }
  for (size_t i = 0; i < gguf.types.size(); ++i) {
    // 0 is "undefined" and taken for a normal token, as writers of it mean it.
    if (gguf.types[i] < 0 || gguf.types[i] > byte) {
      return bad(gguf, fmt::format("token_type[{}]", i),
                 fmt::format("expected 1 to 6, found {}", gguf.types[i]));
    }
  }
  std::pair<std::string_view, std::optional<uint32_t>> named[] = {
      {"bos_token_id", gguf.bos}, {"eos_token_id", gguf.eos}, {"unknown_token_id", gguf.unknown}};
  for (auto [field, id] : named) {
    if (id && *id >= gguf.tokens.size()) {
      return bad(gguf, field, fmt::format("expected an id below {}, found {}", gguf.tokens.size(), *id));
    }
  }
  if (gguf.add_bos && !gguf.bos)
    return bad(gguf, "add_bos_token", "expected bos_token_id with it, found none");
  if (gguf.add_eos && !gguf.eos)
    return bad(gguf, "add_eos_token", "expected eos_token_id with it, found none");
  return {};
}

Result<Vocabulary> build_vocabulary(const Gguf& gguf) {
  Vocabulary::Builder builder;
  size_t bytes = 0;
  for (std::string_view token : gguf.tokens) bytes += token.size();
  if (bytes <= kMaxText) builder.reserve(gguf.tokens.size(), bytes);
  for (size_t i = 0; i < gguf.tokens.size(); ++i) builder.add(gguf.tokens[i], static_cast<uint32_t>(i));
  return std::move(builder).build(Vocabulary::Repeated::last_wins, gguf.file + ": tokenizer.ggml.tokens");
}

// Tokens to look for in the text: control tokens, the unknown token and the user's. The first two are marks,
// not text.
std::vector<AddedToken> added_tokens(const Gguf& gguf) {
  std::vector<AddedToken> added;
  for (size_t i = 0; i < gguf.types.size(); ++i) {
    int32_t type = gguf.types[i];
    if ((type != control && type != unknown && type != user_defined) || gguf.tokens[i].empty()) continue;
    AddedToken token;
    token.content = escape_bytes(gguf.tokens[i]);
    token.id = static_cast<uint32_t>(i);
    token.special = type != user_defined;
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
  parts.decoders.push_back(make_replace_decoder("▁", " "));
  parts.decoders.push_back(make_byte_fallback_decoder());
  parts.decoders.push_back(make_fuse_decoder());
  if (gguf.add_space_prefix) parts.decoders.push_back(make_strip_decoder(' ', 1, 0));
  return {};
}

Result<Merges> read_merges(const Gguf& gguf) {
  Merges merges;
  for (size_t i = 0; i < gguf.merges.size(); ++i) {
    std::string_view merge = gguf.merges[i];
    size_t space = merge.find(' ', 1); // a token may begin with a space, but byte-level ones hold none
    if (space == std::string_view::npos) {
      return bad(gguf, fmt::format("merges[{}]", i), fmt::format("expected \"a b\", found \"{}\"", merge));
    }
    if (merges.text.size() + merge.size() > kMaxText)
      return bad(gguf, "merges", "the text of it is too long");
    merges.add(merge.substr(0, space), merge.substr(space + 1));
  }
  return merges;
}

Status fill_gpt2(const Gguf& gguf, TokenizerParts& parts) {
  const GgufSplit* split = find_gguf_split(gguf.pre);
  if (!split) {
    return Error{Code::unsupported, fmt::format("{}: tokenizer.ggml.pre: expected one of {}, found \"{}\"",
                                                gguf.file, known_gguf_splits(), gguf.pre)};
  }
  std::vector<PreTokenizerPtr> steps;
  for (std::string_view pattern : split->patterns) {
    PUMICE_TRY(Regex regex, Regex::compile(pattern));
    steps.push_back(make_split(std::move(regex), SplitBehavior::isolated, false));
  }
  steps.push_back(make_byte_level(false, std::nullopt));
  parts.pre_tokenizer = make_sequence(std::move(steps));
  PUMICE_TRY(Merges merges, read_merges(gguf));
  BpeOptions options;
  options.ignore_merges = split->ignore_merges;
  options.unknown = gguf.unknown;
  PUMICE_TRY(parts.model, make_bpe(parts.vocabulary, merges, options, gguf.file + ": tokenizer.ggml.merges"));
  parts.decoders.push_back(make_byte_level_decoder());
  return {};
}

// The kinds of vocabulary there are. One more (bert, t5) is one more line.
struct Kind {
  std::string_view model;
  Status (*fill)(const Gguf&, TokenizerParts&);
};
constexpr Kind kKinds[] = {{"llama", fill_llama}, {"gpt2", fill_gpt2}};

} // namespace

Result<std::unique_ptr<TokenizerParts>> read_gguf(const Gguf& gguf) {
  for (const Kind& kind : kKinds) {
    if (kind.model != gguf.model) continue;
    PUMICE_CHECK(check(gguf));
    auto parts = std::make_unique<TokenizerParts>();
    PUMICE_TRY(parts->vocabulary, build_vocabulary(gguf));
    parts->added_tokens = AddedTokens(added_tokens(gguf), nullptr);
    PUMICE_CHECK(kind.fill(gguf, *parts));
    if (gguf.add_bos) parts->post_processor.before.push_back(*gguf.bos);
    if (gguf.add_eos) parts->post_processor.after.push_back(*gguf.eos);
    parts->bos = gguf.bos;
    parts->eos = gguf.eos;
    return parts;
  }
  return Error{Code::unsupported,
               fmt::format("{}: tokenizer.ggml.model: expected \"llama\" or \"gpt2\", found \"{}\"",
                           gguf.file, gguf.model)};
}

} // namespace pumice::text
