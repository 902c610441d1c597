#include "text/language_tokens.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/ascii.h"

namespace pumice {

namespace {

struct KnownLanguage {
  std::string_view name;
  std::array<std::string_view, 3> codes; // M2M-100's, mBART's and NLLB-200's; empty: none
};

constexpr KnownLanguage known_languages[] = {
#define LANGUAGE(name, m2m100, mbart, nllb) {name, {m2m100, mbart, nllb}},
#include "text/languages.def"
#undef LANGUAGE
};

// mBART-50's languages after mBART's own 25, which are in the order of their codes.
constexpr std::string_view mbart_first[] = {"ar_AR", "cs_CZ", "de_DE", "en_XX", "es_XX", "et_EE", "fi_FI",
                                            "fr_XX", "gu_IN", "hi_IN", "it_IT", "ja_XX", "kk_KZ", "ko_KR",
                                            "lt_LT", "lv_LV", "my_MM", "ne_NP", "nl_XX", "ro_RO", "ru_RU",
                                            "si_LK", "tr_TR", "vi_VN", "zh_CN"};
constexpr std::string_view mbart_later[] = {"af_ZA", "az_AZ", "bn_IN", "fa_IR", "he_IL", "hr_HR", "id_ID",
                                            "ka_GE", "km_KH", "mk_MK", "ml_IN", "mn_MN", "mr_IN", "pl_PL",
                                            "ps_AF", "pt_XX", "sv_SE", "sw_KE", "ta_IN", "te_IN", "th_TH",
                                            "tl_XX", "uk_UA", "ur_PK", "xh_ZA", "gl_ES", "sl_SI"};

// The part of a code before its country or its script.
std::string_view language_part(std::string_view code) {
  return code.substr(0, code.find('_'));
}

bool is_known(std::string_view code) {
  return std::ranges::any_of(known_languages, [&](const KnownLanguage& each) {
    return std::ranges::find(each.codes, code) != each.codes.end();
  });
}

// The code in a token that names a language; nothing if it is another token. `marian`: whether it is one of
// Marian's.
std::optional<std::string_view> code_of(std::string_view piece, bool special, bool& marian) {
  const auto inner = [&](std::string_view before, std::string_view after) -> std::optional<std::string_view> {
    if (piece.size() <= before.size() + after.size() || !piece.starts_with(before) ||
        !piece.ends_with(after)) {
      return std::nullopt;
    }
    return piece.substr(before.size(), piece.size() - before.size() - after.size());
  };
  if (const auto code = inner(">>", "<<")) {
    marian = true;
    return code;
  }
  if (const auto code = inner("__", "__"); code && is_known(*code)) return code;
  if (special && piece.find('_') != std::string_view::npos && is_known(piece)) return piece;
  return std::nullopt;
}

} // namespace

LanguageTokens::LanguageTokens(const Tokenizer& tokenizer) {
  for (uint32_t id = 0; id < tokenizer.vocabulary_size(); ++id) {
    if (const auto code = code_of(tokenizer.piece(id), tokenizer.is_special(id), in_source_)) {
      languages_.push_back({std::string(*code), id});
    }
  }
}

bool LanguageTokens::is_language(uint32_t id) const {
  return std::ranges::find(languages_, id, &Language::id) != languages_.end();
}

Result<uint32_t> LanguageTokens::find(std::string_view name) const {
  const std::string wanted = lower_case(name);
  for (const Language& each : languages_) {
    if (lower_case(each.code) == wanted) return each.id;
  }
  // A name, or another model's code, stands for all codes of that language.
  for (const KnownLanguage& known : known_languages) {
    const auto spells = [&](std::string_view code) {
      return lower_case(code) == wanted || language_part(code) == wanted;
    };
    if (lower_case(known.name) != wanted && !std::ranges::any_of(known.codes, spells)) continue;
    for (const Language& each : languages_) {
      if (std::ranges::find(known.codes, each.code) != known.codes.end()) return each.id;
      if (in_source_ && language_part(known.codes[2]) == each.code) return each.id;
    }
  }
  std::vector<std::string_view> codes;
  for (const Language& each : languages_) codes.push_back(each.code);
  if (codes.empty()) {
    return Error{Code::invalid_argument,
                 fmt::format("language '{}': the model has no tokens for languages", name)};
  }
  return Error{Code::invalid_argument, fmt::format("language '{}': the model does not have it; it has {}",
                                                   name, fmt::join(codes, ", "))};
}

void LanguageTokens::set_source(std::vector<uint32_t>& tokens, uint32_t language, size_t room) const {
  if (!tokens.empty() && is_language(tokens.front())) {
    tokens.front() = language;
  } else if (!tokens.empty() && is_language(tokens.back())) {
    tokens.back() = language;
  } else if (tokens.size() < room) {
    tokens.insert(tokens.begin(), language);
  }
}

std::string_view language_code(std::string_view name) {
  const std::string wanted = lower_case(name);
  for (const KnownLanguage& known : known_languages) {
    if (lower_case(known.name) == wanted) return known.codes[0];
  }
  return {};
}

std::vector<std::string_view> m2m100_language_codes() {
  std::vector<std::string_view> codes;
  for (const KnownLanguage& each : known_languages) {
    if (!each.codes[0].empty()) codes.push_back(each.codes[0]);
  }
  std::ranges::sort(codes);
  return codes;
}

std::vector<std::string_view> mbart_language_codes(bool fifty) {
  std::vector<std::string_view> codes(std::begin(mbart_first), std::end(mbart_first));
  if (fifty) codes.insert(codes.end(), std::begin(mbart_later), std::end(mbart_later));
  return codes;
}

std::vector<std::string_view> nllb_language_codes() {
  std::vector<std::string_view> codes;
  for (const KnownLanguage& each : known_languages) {
    if (!each.codes[2].empty()) codes.push_back(each.codes[2]);
  }
  return codes;
}

} // namespace pumice
