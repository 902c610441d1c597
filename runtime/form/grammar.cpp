#include "form/grammar.h"

#include <algorithm>
#include <utility>

#include "text/unicode/unicode.h"

namespace pumice::form {

Part Grammar::add(Node node) {
  for (const Part each : node.parts) node.depth = std::max(node.depth, parts[each].depth + 1);
  too_deep = too_deep || node.depth > most_part_depth;
  parts.push_back(std::move(node));
  return static_cast<Part>(parts.size() - 1);
}

Part Grammar::one_of(Characters characters) {
  if (characters.empty()) return never();
  return add({.kind = Kind::characters, .characters = std::move(characters)});
}

Part Grammar::sequence(std::vector<Part> all) {
  if (all.size() == 1) return all[0];
  if (std::ranges::any_of(all, [&](Part part) { return parts[part].kind == Kind::never; })) return never();
  return add({.kind = Kind::sequence, .parts = std::move(all)});
}

Part Grammar::choice(std::vector<Part> all) {
  std::erase_if(all, [&](Part part) { return parts[part].kind == Kind::never; });
  if (all.empty()) return never();
  if (all.size() == 1) return all[0];
  return add({.kind = Kind::choice, .parts = std::move(all)});
}

Part Grammar::repeat(Part part, uint32_t least, uint32_t most) {
  if (most == 0) return text("");
  if (parts[part].kind == Kind::never) return least == 0 ? text("") : part;
  if (least == 1 && most == 1) return part;
  return add({.kind = Kind::repeat, .parts = {part}, .least = least, .most = most});
}

Part Grammar::list(Part separator, std::vector<Part> all) {
  if (std::ranges::any_of(all, [&](Part part) { return parts[part].kind == Kind::never; })) return never();
  all.insert(all.begin(), separator);
  return add({.kind = Kind::list, .parts = std::move(all)});
}

uint32_t Grammar::add_rule(std::string name, Part part, bool separate) {
  return add_rule(std::move(name), std::vector<Term>{{part, false}}, separate);
}

uint32_t Grammar::add_rule(std::string name, std::vector<Term> terms, bool separate) {
  rules.push_back({std::move(name), std::move(terms), separate});
  return static_cast<uint32_t>(rules.size() - 1);
}

Result<Grammar> parse_choices(const std::vector<std::string>& choices) {
  Grammar grammar;
  std::vector<Part> all;
  size_t bytes = 0;
  for (const std::string& choice : choices) {
    bytes += choice.size();
    if (choice.empty()) return Error{Code::invalid_argument, "a choice is empty: each must have some text"};
    if (!text::is_valid_utf8(choice)) return Error{Code::invalid_argument, "a choice is not valid UTF-8"};
    all.push_back(grammar.text(choice));
  }
  if (all.empty()) return Error{Code::invalid_argument, "there are no choices: give at least one"};
  if (bytes > most_source_bytes) return Error{Code::invalid_argument, "the choices have more than a MiB"};
  grammar.root = grammar.add_rule("choices", grammar.choice(std::move(all)));
  return grammar;
}

} // namespace pumice::form
