// Filters of lists and dicts.
#include <algorithm>
#include <unordered_set>

#include "text/jinja/characters.h"
#include "text/jinja/failure.h"
#include "text/jinja/filters.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/numbers.h"
#include "text/jinja/operations.h"
#include "text/jinja/write.h"

namespace pumice::text::jinja {

namespace {

// An element by a path such as "function.name" or 0; the value itself for none.
Value at_path(const Value& value, const Value& path) {
  if (path.is_none()) return value;
  if (!path.text()) return element(value, path);
  Value reached = value;
  for (const Value& part : split(*path.text(), ".", -1)) {
    const std::string& name = *part.text();
    const bool digits =
        !name.empty() && std::all_of(name.begin(), name.end(), [](char c) { return c >= '0' && c <= '9'; });
    const std::optional<Integer> index = digits ? read_integer(name, 10) : std::nullopt;
    reached = element(reached, index ? Value(*index) : part);
  }
  return reached;
}

Value without_case(const Value& value) {
  return value.text() ? Value(lower(*value.text())) : value;
}

Value sort_key(const Value& value, bool case_sensitive) {
  return case_sensitive ? value : without_case(value);
}

Items sorted(const Items& items, const Items& keys, bool reverse) {
  std::vector<size_t> order(items.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](size_t left, size_t right) {
    charge(1);
    return reverse ? less(keys[right], keys[left]) : less(keys[left], keys[right]);
  });
  Items made;
  for (size_t i : order) made.push_back(items[i]);
  return made;
}

Value length(Interpreter&, const Value& value, const Arguments& arguments) {
  const Bound given("length", arguments, {});
  if (const std::optional<size_t> count = length_of(value)) return Value(*count);
  fail("object of type '{}' has no len()", type_name(value));
}

Value list(Interpreter&, const Value& value, const Arguments& arguments) {
  const Bound given("list", arguments, {});
  Items items = iterate(value);
  charge(items.size());
  return make_list(std::move(items));
}

Value items(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  const Bound given("items", arguments, {});
  if (value.is_undefined()) return make_generator({});
  if (!value.dict()) fail("Can only get item pairs from a mapping.");
  return make_generator(iterate(interpreter.call(*method(value, "items"), {})));
}

Value first(Interpreter&, const Value& value, const Arguments& arguments) {
  const Bound given("first", arguments, {});
  if (Sequence* sequence = value.sequence(); sequence && !sequence->items.empty()) {
    const Value taken = sequence->items.front();
    charge(sequence->items.size() / 16);
    if (sequence->is_generator()) sequence->items.erase(sequence->items.begin());
    return taken;
  }
  const Items all = iterate(value);
  return all.empty() ? undefined("No first item, sequence was empty.") : all.front();
}

Value last(Interpreter&, const Value& value, const Arguments& arguments) {
  const Bound given("last", arguments, {});
  need_defined(value);
  const Sequence* sequence = value.sequence();
  if (sequence && sequence->is_generator()) fail("'generator' object is not reversible");
  const Items all = iterate(value);
  return all.empty() ? undefined("No last item, sequence was empty.") : all.back();
}

Value reverse(Interpreter&, const Value& value, const Arguments& arguments) {
  const Bound given("reverse", arguments, {});
  need_defined(value);
  Items all = iterate(value);
  charge(all.size());
  std::reverse(all.begin(), all.end());
  if (value.text()) {
    std::string text;
    for (const Value& character : all) text += *character.text();
    return Value(std::move(text));
  }
  const bool generator = value.sequence() && value.sequence()->is_generator();
  return generator ? make_list(std::move(all)) : make_generator(std::move(all));
}

Value join(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  const Bound given("join", arguments, {"d", "attribute"});
  const std::string separator = given.has(0) ? str(given[0]) : "";
  std::string joined;
  bool first_one = true;
  for (const Value& item : iterate(value)) {
    if (!std::exchange(first_one, false)) joined += separator;
    const std::string text = str(at_path(item, given[1]));
    charge_text(separator.size() + text.size());
    joined += text;
  }
  return interpreter.text(std::move(joined));
}

Value map(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  Items made;
  if (arguments.positional.empty()) {
    const Bound given("map", arguments, {"attribute", "default"}, 1);
    for (const Value& item : iterate(value)) {
      Value found = at_path(item, given[0]);
      if (found.is_undefined() && !given[1].is_none()) found = given[1];
      made.push_back(std::move(found));
      charge(1);
    }
    return make_generator(std::move(made));
  }
  const std::string* name = arguments.positional[0].text();
  if (!name) fail("map requires the name of a filter");
  const Arguments rest{{arguments.positional.begin() + 1, arguments.positional.end()}, arguments.named};
  for (const Value& item : iterate(value)) made.push_back(interpreter.filter(*name, item, rest));
  return make_generator(std::move(made));
}

// select and reject; selectattr and rejectattr test an attribute.
template <bool wanted, bool by_attribute>
Value select(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  if (!is_true(value)) return make_generator({});
  Arguments rest = arguments;
  const auto take = [&] {
    Value taken = rest.positional.front();
    rest.positional.erase(rest.positional.begin());
    return taken;
  };
  if (by_attribute && rest.positional.empty()) fail("Missing parameter for attribute name");
  const Value path = by_attribute ? take() : Value();
  const Value name = rest.positional.empty() ? Value() : take();
  if (!name.is_none() && !name.text()) fail("the name of a test must be a string");
  Items made;
  for (const Value& item : iterate(value)) {
    charge(1);
    const Value tested = at_path(item, path);
    const bool passes = name.text() ? interpreter.test(*name.text(), tested, rest) : is_true(tested);
    if (passes == wanted) made.push_back(item);
  }
  return make_generator(std::move(made));
}

Value unique(Interpreter&, const Value& value, const Arguments& arguments) {
  const Bound given("unique", arguments, {"case_sensitive", "attribute"});
  std::unordered_set<Value, HashValue, SameKey> seen;
  Items made;
  for (const Value& item : iterate(value)) {
    charge(1);
    if (seen.insert(sort_key(at_path(item, given[1]), given.is_true(0, false))).second) made.push_back(item);
  }
  return make_generator(std::move(made));
}

Value sort(Interpreter&, const Value& value, const Arguments& arguments) {
  const Bound given("sort", arguments, {"reverse", "case_sensitive", "attribute"});
  const Items paths = given[2].text() ? split(*given[2].text(), ",", -1) : Items{given[2]};
  const Items all = iterate(value);
  Items keys;
  for (const Value& item : all) {
    Items parts;
    for (const Value& path : paths) parts.push_back(sort_key(at_path(item, path), given.is_true(1, false)));
    keys.push_back(make_list(std::move(parts)));
  }
  return make_list(sorted(all, keys, given.is_true(0, false)));
}

Value dictsort(Interpreter&, const Value& value, const Arguments& arguments) {
  const Bound given("dictsort", arguments, {"case_sensitive", "by", "reverse"});
  need_defined(value);
  if (!value.dict()) fail("dictsort needs a dict, not {}", type_name(value));
  const std::string by = given.has(1) ? given.text(1) : "key";
  if (by != "key" && by != "value") fail("You can only sort by either \"key\" or \"value\"");
  Items pairs, keys;
  for (const auto& [key, item] : value.dict()->entries()) {
    pairs.push_back(make_tuple({key, item}));
    keys.push_back(sort_key(by == "key" ? key : item, given.is_true(0, false)));
  }
  return make_list(sorted(pairs, keys, given.is_true(2, false)));
}

Value groupby(Interpreter&, const Value& value, const Arguments& arguments) {
  const Bound given("groupby", arguments, {"attribute", "default", "case_sensitive"}, 1);
  const auto key_of = [&](const Value& item) {
    const Value found = at_path(item, given[0]);
    return found.is_undefined() && !given[1].is_none() ? given[1] : found;
  };
  const auto folded = [&](const Value& item) { return sort_key(key_of(item), given.is_true(2, false)); };
  const Items all = iterate(value);
  Items keys;
  for (const Value& item : all) keys.push_back(folded(item));
  Items groups, members;
  for (const Value& item : sorted(all, keys, false)) {
    if (!members.empty() && !equal(folded(members.back()), folded(item))) {
      const Value key = key_of(members.front());
      groups.push_back(make_sequence(Sequence::Kind::group, {key, make_list(std::exchange(members, {}))}));
    }
    members.push_back(item);
  }
  if (!members.empty()) {
    const Value key = key_of(members.front());
    groups.push_back(make_sequence(Sequence::Kind::group, {key, make_list(std::move(members))}));
  }
  return make_list(std::move(groups));
}

template <bool largest>
Value extreme(Interpreter&, const Value& value, const Arguments& arguments) {
  const Bound given("min", arguments, {"case_sensitive", "attribute"});
  const Items all = iterate(value);
  if (all.empty()) return undefined("No aggregated item, sequence was empty.");
  const auto key_of = [&](const Value& item) {
    return sort_key(at_path(item, given[1]), given.is_true(0, false));
  };
  const Value* best = &all[0];
  for (const Value& item : all) {
    charge(1);
    if (largest ? less(key_of(*best), key_of(item)) : less(key_of(item), key_of(*best))) best = &item;
  }
  return *best;
}

Value sum(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  const Bound given("sum", arguments, {"attribute", "start"});
  Value total = given.has(1) ? given[1] : Value(0);
  if (total.text()) fail("sum() can't sum strings");
  for (const Value& item : iterate(value)) total = binary(interpreter, "+", total, at_path(item, given[0]));
  return total;
}

Value batch(Interpreter&, const Value& value, const Arguments& arguments) {
  const Bound given("batch", arguments, {"linecount", "fill_with"}, 1);
  const Integer count = given.integer(0, 1);
  if (count < 1 || count > 100'000) fail("batch needs a count from 1 to 100000");
  const auto size = static_cast<size_t>(count);
  Items rows, row;
  for (const Value& item : iterate(value)) {
    charge(1);
    if (row.size() == size) rows.push_back(make_list(std::exchange(row, {})));
    row.push_back(item);
  }
  if (!row.empty()) {
    if (!given[1].is_none()) row.resize(size, given[1]);
    rows.push_back(make_list(std::move(row)));
  }
  return make_generator(std::move(rows));
}

Value slices(Interpreter&, const Value& value, const Arguments& arguments) {
  const Bound given("slice", arguments, {"slices", "fill_with"}, 1);
  const Integer count = given.integer(0, 1);
  if (count < 1 || count > 100'000) fail("slice needs a count from 1 to 100000");
  const Items all = iterate(value);
  const auto number = static_cast<size_t>(count);
  const size_t each = all.size() / number, longer = all.size() % number;
  charge(all.size() + number);
  Items made;
  size_t at = 0;
  for (size_t i = 0; i < number; ++i) {
    const size_t size = each + (i < longer ? 1 : 0);
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(at);
    Items part(begin, begin + static_cast<std::ptrdiff_t>(size));
    if (!given[1].is_none() && i >= longer) part.push_back(given[1]);
    made.push_back(make_list(std::move(part)));
    at += size;
  }
  return make_generator(std::move(made));
}

Value attribute_filter(Interpreter&, const Value& value, const Arguments& arguments) {
  const Bound given("attr", arguments, {"name"}, 1);
  need_defined(value);
  // Unlike value.name, never an element.
  if (Object* object = value.object()) {
    if (std::optional<Value> found = object->attribute(given.text(0))) return *std::move(found);
  } else if (std::optional<Value> found = method(value, given.text(0))) {
    return *std::move(found);
  }
  return undefined(fmt::format("'{} object' has no attribute '{}'", type_name(value), given.text(0)));
}

} // namespace

const Filters& sequence_filters() {
  static const Filters filters = {
      {"length", length},
      {"count", length},
      {"list", list},
      {"items", items},
      {"first", first},
      {"last", last},
      {"reverse", reverse},
      {"join", join},
      {"map", map},
      {"select", select<true, false>},
      {"reject", select<false, false>},
      {"selectattr", select<true, true>},
      {"rejectattr", select<false, true>},
      {"unique", unique},
      {"sort", sort},
      {"dictsort", dictsort},
      {"groupby", groupby},
      {"min", extreme<false>},
      {"max", extreme<true>},
      {"sum", sum},
      {"batch", batch},
      {"slice", slices},
      {"attr", attribute_filter},
  };
  return filters;
}

} // namespace pumice::text::jinja
