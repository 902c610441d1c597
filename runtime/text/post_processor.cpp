#include "text/post_processor.h"

#include <algorithm>

namespace pumice::text {

namespace {

using Element = PostProcessor::Element;
using Template = PostProcessor::Template;
using Kind = Element::Kind;

auto is_text(const Element& element) {
  return element.kind != Element::Kind::token;
}

// `outer` with its text replaced by `inner`.
Template nested(const Template& outer, const Template& inner) {
  Template elements;
  for (const Element& element : outer) {
    if (is_text(element)) {
      elements.insert(elements.end(), inner.begin(), inner.end());
    } else {
      elements.push_back(element);
    }
  }
  return elements;
}

bool adds_nothing(const Template& elements) {
  return std::all_of(elements.begin(), elements.end(), is_text);
}

} // namespace

std::vector<uint32_t> PostProcessor::before() const {
  std::vector<uint32_t> ids;
  for (auto element = single.begin(); element != single.end() && !is_text(*element); ++element)
    ids.push_back(element->token);
  return ids;
}

std::vector<uint32_t> PostProcessor::after() const {
  std::vector<uint32_t> ids;
  for (auto element = single.rbegin(); element != single.rend() && !is_text(*element); ++element)
    ids.push_back(element->token);
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
  const Element begin = {Kind::token, cls}, middle = {Kind::token, sep}, end = {Kind::token, sep, 1};
  return {.single = {begin, {Kind::first}, middle},
          .pair = {begin, {Kind::first}, middle, {Kind::second, 0, 1}, end}};
}

PostProcessor PostProcessor::roberta(uint32_t cls, uint32_t sep) {
  const Element begin = {Kind::token, cls}, end = {Kind::token, sep};
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
