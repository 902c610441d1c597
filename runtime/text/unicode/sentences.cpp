#include "text/unicode/sentences.h"

#include <algorithm>
#include <cstdint>
#include <iterator>

#include <utf8proc.h>

#include "text/unicode/unicode.h"

namespace pumice {

namespace {

// Sentence_Break.
enum class Break : uint8_t {
  other,
  cr,
  lf,
  separator,
  extend, // with Format: rule SB5 treats both alike
  space,
  lower,
  upper,
  letter,
  numeric,
  full_stop, // ATerm
  continues, // SContinue
  terminal,  // STerm
  close,
};

struct Range {
  char32_t first, last;
};

constexpr Range continuing[] = {{0x2C, 0x2D},     {0x3A, 0x3A},     {0x55D, 0x55D},   {0x60C, 0x60D},
                                {0x7F8, 0x7F8},   {0x1802, 0x1802}, {0x1808, 0x1808}, {0x2013, 0x2014},
                                {0x3001, 0x3001}, {0xFE10, 0xFE11}, {0xFE13, 0xFE13}, {0xFE31, 0xFE32},
                                {0xFE50, 0xFE51}, {0xFE55, 0xFE55}, {0xFE58, 0xFE58}, {0xFE63, 0xFE63},
                                {0xFF0C, 0xFF0D}, {0xFF1A, 0xFF1A}, {0xFF64, 0xFF64}};

// Sentence_Terminal without the full stops.
constexpr Range terminals[] = {
    {0x21, 0x21},       {0x3F, 0x3F},       {0x589, 0x589},     {0x61D, 0x61F},     {0x6D4, 0x6D4},
    {0x700, 0x702},     {0x7F9, 0x7F9},     {0x837, 0x837},     {0x839, 0x839},     {0x83D, 0x83E},
    {0x964, 0x965},     {0x104A, 0x104B},   {0x1362, 0x1362},   {0x1367, 0x1368},   {0x166E, 0x166E},
    {0x1735, 0x1736},   {0x17D4, 0x17D5},   {0x1803, 0x1803},   {0x1809, 0x1809},   {0x1944, 0x1945},
    {0x1AA8, 0x1AAB},   {0x1B5A, 0x1B5B},   {0x1B5E, 0x1B5F},   {0x1B7D, 0x1B7E},   {0x1C3B, 0x1C3C},
    {0x1C7E, 0x1C7F},   {0x203C, 0x203D},   {0x2047, 0x2049},   {0x2E2E, 0x2E2E},   {0x2E3C, 0x2E3C},
    {0x2E53, 0x2E54},   {0x3002, 0x3002},   {0xA4FF, 0xA4FF},   {0xA60E, 0xA60F},   {0xA6F3, 0xA6F3},
    {0xA6F7, 0xA6F7},   {0xA876, 0xA877},   {0xA8CE, 0xA8CF},   {0xA92F, 0xA92F},   {0xA9C8, 0xA9C9},
    {0xAA5D, 0xAA5F},   {0xAAF0, 0xAAF1},   {0xABEB, 0xABEB},   {0xFE56, 0xFE57},   {0xFF01, 0xFF01},
    {0xFF1F, 0xFF1F},   {0xFF61, 0xFF61},   {0x10A56, 0x10A57}, {0x10F55, 0x10F59}, {0x10F86, 0x10F89},
    {0x11047, 0x11048}, {0x110BE, 0x110C1}, {0x11141, 0x11143}, {0x111C5, 0x111C6}, {0x111CD, 0x111CD},
    {0x111DE, 0x111DF}, {0x11238, 0x11239}, {0x1123B, 0x1123C}, {0x112A9, 0x112A9}, {0x1144B, 0x1144C},
    {0x115C2, 0x115C3}, {0x115C9, 0x115D7}, {0x11641, 0x11642}, {0x1173C, 0x1173E}, {0x11944, 0x11944},
    {0x11946, 0x11946}, {0x11A42, 0x11A43}, {0x11A9B, 0x11A9C}, {0x11C41, 0x11C42}, {0x11EF7, 0x11EF8},
    {0x11F43, 0x11F44}, {0x16A6E, 0x16A6F}, {0x16AF5, 0x16AF5}, {0x16B37, 0x16B38}, {0x16B44, 0x16B44},
    {0x16E98, 0x16E98}, {0x1BC9F, 0x1BC9F}, {0x1DA88, 0x1DA88}};

// Quotation marks (Line_Break) that are neither initial nor final punctuation, and marks of letters that are
// symbols.
constexpr Range quotation_marks[] = {{0x22, 0x22}, {0x27, 0x27}, {0x275B, 0x2760}, {0x1F676, 0x1F678}};
constexpr Range lower_symbols[] = {{0xAA, 0xAA},     {0xBA, 0xBA},     {0x2B0, 0x2B8},   {0x2C0, 0x2C1},
                                   {0x2E0, 0x2E4},   {0x37A, 0x37A},   {0x1D2C, 0x1D6A}, {0x1D78, 0x1D78},
                                   {0x1D9B, 0x1DBF}, {0x2071, 0x2071}, {0x207F, 0x207F}, {0x2090, 0x209C},
                                   {0x2170, 0x217F}, {0x24D0, 0x24E9}, {0x2C7C, 0x2C7D}, {0xA69C, 0xA69D},
                                   {0xA770, 0xA770}, {0xA7F8, 0xA7F9}, {0xAB5C, 0xAB5F}};
constexpr Range upper_symbols[] = {
    {0x2160, 0x216F}, {0x24B6, 0x24CF}, {0x1F130, 0x1F149}, {0x1F150, 0x1F169}, {0x1F170, 0x1F189}};

template <size_t count>
bool is_in(char32_t value, const Range (&ranges)[count]) {
  const Range* found = std::ranges::lower_bound(ranges, value, {}, &Range::last);
  return found != std::end(ranges) && value >= found->first;
}

// A letter of a script that has cases only on paper: Georgian's Mkhedruli.
bool is_georgian(char32_t value) {
  return (value >= 0x10D0 && value <= 0x10FA) || (value >= 0x10FD && value <= 0x10FF);
}

Break letter_break(char32_t value, utf8proc_category_t category) {
  if ((category == UTF8PROC_CATEGORY_LL && !is_georgian(value)) || is_in(value, lower_symbols))
    return Break::lower;
  if (category == UTF8PROC_CATEGORY_LU || category == UTF8PROC_CATEGORY_LT || is_in(value, upper_symbols)) {
    return Break::upper;
  }
  switch (category) {
  case UTF8PROC_CATEGORY_LL:
  case UTF8PROC_CATEGORY_LM:
  case UTF8PROC_CATEGORY_LO:
  case UTF8PROC_CATEGORY_NL:
    return Break::letter;
  case UTF8PROC_CATEGORY_ND:
    return Break::numeric;
  case UTF8PROC_CATEGORY_PS:
  case UTF8PROC_CATEGORY_PE:
  case UTF8PROC_CATEGORY_PI:
  case UTF8PROC_CATEGORY_PF:
    return Break::close;
  default:
    return is_in(value, quotation_marks) ? Break::close : Break::other;
  }
}

Break break_of(char32_t value) {
  switch (value) {
  case 0x0D:
    return Break::cr;
  case 0x0A:
    return Break::lf;
  case 0x85:
  case 0x2028:
  case 0x2029:
    return Break::separator;
  case 0x2E:
  case 0x2024:
  case 0xFE52:
  case 0xFF0E:
    return Break::full_stop;
  case 0x66B:
  case 0x66C:
    return Break::numeric;
  case 0x5F3:
    return Break::letter;
  case 0x200C:
  case 0x200D:
  case 0xFF9E:
  case 0xFF9F:
    return Break::extend;
  default:
    break;
  }
  if (value > 0x10FFFF || text::escaped_byte(value)) return Break::letter;
  if (text::is_white_space(value)) return Break::space;
  if (is_in(value, continuing)) return Break::continues;
  if (is_in(value, terminals)) return Break::terminal;
  const utf8proc_category_t category = utf8proc_category(static_cast<utf8proc_int32_t>(value));
  if (category == UTF8PROC_CATEGORY_MN || category == UTF8PROC_CATEGORY_MC ||
      category == UTF8PROC_CATEGORY_ME || category == UTF8PROC_CATEGORY_CF) {
    return Break::extend;
  }
  return letter_break(value, category);
}

bool is_paragraph_end(Break kind) {
  return kind == Break::cr || kind == Break::lf || kind == Break::separator;
}
bool is_sentence_end(Break kind) {
  return kind == Break::full_stop || kind == Break::terminal;
}

// A character and the marks after it (SB5).
struct Unit {
  Break kind;
  size_t begin;
};

std::vector<Unit> units_of(std::string_view text) {
  std::vector<Unit> units;
  for (size_t at = 0; at < text.size();) {
    const std::string_view rest = text.substr(at);
    const text::Utf8Head head = text::utf8_head(rest);
    const bool whole = head.kind == text::Utf8::whole;
    const Break kind = whole ? break_of(text::first_code_point(rest).value) : Break::letter;
    const bool joins = kind == Break::extend && !units.empty() && !is_paragraph_end(units.back().kind);
    if (!joins) units.push_back({kind == Break::extend ? Break::other : kind, at});
    at += whole ? head.length : 1;
  }
  return units;
}

// SB8: after a full stop, a small letter goes on with the sentence, whatever is before it but other letters
// and ends.
bool goes_on_small(const std::vector<Unit>& units, size_t at) {
  for (; at < units.size(); ++at) {
    const Break kind = units[at].kind;
    if (kind == Break::lower) return true;
    if (kind == Break::letter || kind == Break::upper || is_paragraph_end(kind) || is_sentence_end(kind))
      return false;
  }
  return false;
}

// The end of a sentence that the units before the current one may have: an end, then closing marks, then
// spaces.
struct End {
  bool found = false;
  bool full_stop = false;
  bool after_case = false; // the full stop comes right after a letter with a case
  bool closed = false;     // there are closing marks or spaces
  bool spaced = false;     // there are spaces

  void take(Break kind, Break before) {
    if (is_sentence_end(kind)) {
      *this = {true, kind == Break::full_stop, before == Break::upper || before == Break::lower, false,
               false};
    } else if (found && kind == Break::close && !spaced) {
      closed = true;
    } else if (found && kind == Break::space) {
      closed = spaced = true;
    } else {
      found = false;
    }
  }

  // Whether a sentence begins with unit `at`: SB6 to SB11.
  bool is_before(const std::vector<Unit>& units, size_t at) const {
    const Break kind = units[at].kind;
    if (!found) return false;
    if (full_stop && !closed && kind == Break::numeric) return false;
    if (full_stop && !closed && after_case && kind == Break::upper) return false;
    if (full_stop && goes_on_small(units, at)) return false;
    if (kind == Break::continues || is_sentence_end(kind)) return false;
    if (!spaced && kind == Break::close) return false;
    return kind != Break::space && !is_paragraph_end(kind);
  }
};

} // namespace

std::vector<std::string_view> split_sentences(std::string_view text) {
  const std::vector<Unit> units = units_of(text);
  std::vector<std::string_view> sentences;
  size_t begin = 0;
  End end;
  for (size_t at = 0; at < units.size(); ++at) {
    const Break kind = units[at].kind, before = at > 0 ? units[at - 1].kind : Break::other;
    const bool after_paragraph = is_paragraph_end(before) && !(before == Break::cr && kind == Break::lf);
    if (at > 0 && (after_paragraph || end.is_before(units, at))) {
      sentences.push_back(text.substr(begin, units[at].begin - begin));
      begin = units[at].begin;
      end = {};
    }
    end.take(kind, before);
  }
  if (begin < text.size()) sentences.push_back(text.substr(begin));
  return sentences;
}

} // namespace pumice
