#include "task/translation/glossary.h"

#include <algorithm>
#include <functional>

#include <fmt/format.h>

#include "base/lines.h"
#include "text/unicode/unicode.h"

namespace pumice {

namespace {

std::string_view without_spaces(std::string_view text) {
  const size_t first = text.find_first_not_of(" \r");
  return first == std::string_view::npos ? "" : text.substr(first, text.find_last_not_of(" \r") + 1 - first);
}

// Whether a word could go on across a place between two characters. Chinese words have no ends that show.
bool within_word(char32_t before, char32_t after) {
  const auto joins = [](char32_t each) { return text::is_word(each) && !text::is_chinese(each); };
  return joins(before) && joins(after);
}

// Whether `length` bytes of a text from `at` on are whole words.
bool are_words(std::string_view text, size_t at, size_t length) {
  const std::string_view term = text.substr(at, length), before = text.substr(0, at),
                         after = text.substr(at + length);
  if (!before.empty() && within_word(text::last_code_point(before).value, text::first_code_point(term).value))
    return false;
  return after.empty() ||
         !within_word(text::last_code_point(term).value, text::first_code_point(after).value);
}

} // namespace

Result<Glossary> Glossary::read(const GlossaryText& text, const Tokenizer& tokenizer, uint32_t vocabulary) {
  Glossary glossary;
  size_t number = 0;
  for (const std::string_view line : split_lines(text.text)) {
    ++number;
    if (!without_spaces(line).empty())
      PUMICE_CHECK(glossary.add(line, number, text.name, tokenizer, vocabulary));
  }
  if (glossary.entries_.empty()) {
    return Error{
        Code::invalid_file,
        fmt::format("{}: expected a term, a tab and its translation on each line; found none", text.name)};
  }
  std::ranges::stable_sort(glossary.entries_, std::greater(),
                           [](const Entry& entry) { return entry.source.size(); });
  return glossary;
}

Status Glossary::add(std::string_view line, size_t number, const std::string& name,
                     const Tokenizer& tokenizer, uint32_t vocabulary) {
  const auto wrong = [&](const std::string& what) {
    return Error{Code::invalid_file, fmt::format("{}: line {}: {}", name, number, what)};
  };
  const auto tabs = static_cast<size_t>(std::ranges::count(line, '\t'));
  if (tabs != 1) {
    return wrong(fmt::format(
        "expected 2 fields, a term and its translation with a tab between them; found {}", tabs + 1));
  }
  const size_t tab = line.find('\t');
  const std::string source(without_spaces(line.substr(0, tab))), target(without_spaces(line.substr(tab + 1)));
  if (source.empty()) return wrong("field 1, the term, is empty");
  if (target.empty()) return wrong("field 2, the translation, is empty");
  for (const Entry& entry : entries_) {
    if (entry.source == source) {
      return wrong(fmt::format("field 1: '{}' stands on line {} already: a term has one translation", source,
                               entry.line));
    }
  }
  PUMICE_TRY(const Term tokens, tokenizer.encode_within(target));
  const std::string written = tokenizer.decode(tokens, false);
  const bool known = std::ranges::all_of(tokens, [&](uint32_t token) { return token < vocabulary; });
  if (!known || without_spaces(written) != target) {
    return wrong(fmt::format("field 2: the model cannot write '{}': its vocabulary makes '{}' of it", target,
                             without_spaces(written)));
  }
  entries_.push_back({source, tokens, number});
  return {};
}

std::vector<Term> Glossary::terms_in(std::string_view text) const {
  std::vector<bool> found(entries_.size());
  std::vector<Term> terms;
  for (size_t at = 0; at < text.size();) {
    size_t length = text::first_code_point(text.substr(at)).length;
    for (size_t i = 0; i < entries_.size(); ++i) {
      const std::string& source = entries_[i].source;
      if (!text.substr(at).starts_with(source) || !are_words(text, at, source.size())) continue;
      if (!found[i]) terms.push_back(entries_[i].target);
      found[i] = true;
      length = source.size();
      break;
    }
    at += length;
  }
  return terms;
}

} // namespace pumice
