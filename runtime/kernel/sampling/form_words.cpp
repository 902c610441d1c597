#include "kernel/sampling/form_words.h"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>

#include "shaders/sampling/sampling.params.h"

namespace pumice {

namespace {

constexpr uint32_t unused = UINT32_MAX;
// Gaps that are tried for a row before it comes behind all others.
constexpr int most_tries = 2000;

using Row = std::vector<FormTable::Step>;
using Page = std::array<uint32_t, SAMPLING_FORM_PAGE>;

struct Pages {
  std::vector<uint32_t> of_blocks; // two numbers in each
  std::vector<Page> pages;
};

// Blocks whose tokens have the same classes share a page: most of them where few tokens may ever follow.
Pages pages_of(const std::vector<uint16_t>& classes) {
  Pages result;
  const size_t blocks = (classes.size() + SAMPLING_BLOCK - 1) / SAMPLING_BLOCK;
  result.of_blocks.resize((blocks + 1) / 2);
  std::map<Page, uint32_t> known;
  for (size_t block = 0; block < blocks; ++block) {
    Page page = {};
    const size_t first = block * SAMPLING_BLOCK, end = std::min(first + SAMPLING_BLOCK, classes.size());
    for (size_t token = first; token < end; ++token)
      page[(token - first) / 2] |= uint32_t{classes[token]} << token % 2 * 16;
    const auto [at, added] = known.try_emplace(page, static_cast<uint32_t>(result.pages.size()));
    if (added) result.pages.push_back(page);
    result.of_blocks[block / 2] |= at->second << block % 2 * 16;
  }
  return result;
}

// Rows that lie in each other's gaps.
struct Rows {
  std::vector<uint32_t> begins; // of each place
  std::vector<uint32_t> words;
};

bool fits(const Rows& rows, const Row& row, size_t begin) {
  return std::ranges::none_of(row, [&](const FormTable::Step& step) {
    const size_t at = begin + step.token_class;
    return at < rows.words.size() && rows.words[at] != unused;
  });
}

Rows rows_of(const FormTable& table) {
  Rows result;
  result.begins.resize(table.places.size());
  std::vector<uint32_t> order(table.places.size());
  std::iota(order.begin(), order.end(), 0U);
  std::ranges::stable_sort(order, std::greater(), [&](uint32_t place) { return table.places[place].size(); });
  size_t gap = 0; // the first word that is not used
  for (const uint32_t place : order) {
    const Row& row = table.places[place];
    if (row.empty()) continue;
    size_t begin = gap > row[0].token_class ? gap - row[0].token_class : 0;
    for (int tries = 0; !fits(result, row, begin); ++begin) {
      if (++tries < most_tries) continue;
      begin = result.words.size();
      break;
    }
    result.begins[place] = static_cast<uint32_t>(begin);
    const size_t end = begin + row.back().token_class + 1;
    if (result.words.size() < end) result.words.resize(end, unused);
    for (const FormTable::Step& step : row) result.words[begin + step.token_class] = place << 16 | step.to;
    while (gap < result.words.size() && result.words[gap] != unused) ++gap;
  }
  // Every class can be looked up in every row.
  const size_t most = *std::ranges::max_element(result.begins);
  result.words.resize(std::max(result.words.size(), most + table.class_count), unused);
  return result;
}

} // namespace

std::vector<uint32_t> form_words(const FormTable& table) {
  const Pages pages = pages_of(table.classes);
  Rows rows = rows_of(table);
  const size_t begins = SAMPLING_FORM_HEADER + pages.of_blocks.size();
  const size_t first_page = begins + rows.begins.size();
  const size_t first_row = first_page + pages.pages.size() * SAMPLING_FORM_PAGE;
  std::vector<uint32_t> words(SAMPLING_FORM_HEADER);
  words[SAMPLING_FORM_ROWS] = static_cast<uint32_t>(begins);
  words[SAMPLING_FORM_PAGES] = static_cast<uint32_t>(first_page);
  words.insert(words.end(), pages.of_blocks.begin(), pages.of_blocks.end());
  for (const uint32_t begin : rows.begins) words.push_back(static_cast<uint32_t>(first_row) + begin);
  for (const Page& page : pages.pages) words.insert(words.end(), page.begin(), page.end());
  words.insert(words.end(), rows.words.begin(), rows.words.end());
  return words;
}

} // namespace pumice
