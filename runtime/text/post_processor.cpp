#include "text/post_processor.h"

#include <algorithm>

namespace pumice::text {

namespace {

using Part = PostProcessor::Part;
using Parts = PostProcessor::Parts;
using Kind = Part::Kind;

auto is_text(const Part& part) {
  return part.kind != Part::Kind::token;
}

// `outer` with `inner` in the place of its text.
Parts nested(const Parts& outer, const Parts& inner) {
  Parts parts;
  for (const Part& part : outer) {
    if (is_text(part)) {
      parts.insert(parts.end(), inner.begin(), inner.end());
    } else {
      parts.push_back(part);
    }
  }
  return parts;
}

bool adds_nothing(const Parts& parts) {
  return std::all_of(parts.begin(), parts.end(), is_text);
}

} // namespace

std::vector<uint32_t> PostProcessor::before() const {
  std::vector<uint32_t> ids;
  for (auto part = single.begin(); part != single.end() && !is_text(*part); ++part)
    ids.push_back(part->token);
  return ids;
}

std::vector<uint32_t> PostProcessor::after() const {
  std::vector<uint32_t> ids;
  for (auto part = single.rbegin(); part != single.rend() && !is_text(*part); ++part)
    ids.push_back(part->token);
  std::reverse(ids.begin(), ids.end());
  return ids;
}

void PostProcessor::then(PostProcessor outer) {
  const bool is_plain = adds_nothing(single) && adds_nothing(pair);
  if (is_plain) {
    *this = std::move(outer);
    return;
  }
  pair = nested(outer.single, pair);
  single = nested(outer.single, single);
}

PostProcessor PostProcessor::bert(uint32_t cls, uint32_t sep) {
  const Part begin = {Kind::token, cls}, middle = {Kind::token, sep}, end = {Kind::token, sep, 1};
  return {.single = {begin, {Kind::first}, middle},
          .pair = {begin, {Kind::first}, middle, {Kind::second, 0, 1}, end}};
}

PostProcessor PostProcessor::roberta(uint32_t cls, uint32_t sep) {
  const Part begin = {Kind::token, cls}, end = {Kind::token, sep};
  return {.single = {begin, {Kind::first}, end},
          .pair = {begin, {Kind::first}, end, end, {Kind::second}, end}};
}

PostProcessor PostProcessor::around(const std::vector<uint32_t>& before, const std::vector<uint32_t>& after) {
  PostProcessor made = {.single = {}, .pair = {}};
  for (uint32_t token : before) made.single.push_back({Kind::token, token});
  made.single.push_back({Kind::first});
  for (uint32_t token : after) made.single.push_back({Kind::token, token});
  made.pair = made.single;
  made.pair.push_back({Kind::second});
  for (uint32_t token : after) made.pair.push_back({Kind::token, token});
  return made;
}

} // namespace pumice::text
