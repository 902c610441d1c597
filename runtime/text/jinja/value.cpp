#include "text/jinja/value.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "text/jinja/characters.h"
#include "text/jinja/failure.h"

namespace pumice::text::jinja {

namespace {

constexpr int largest_height = 400;

bool equal_items(const Items& left, const Items& right) {
  return std::equal(left.begin(), left.end(), right.begin(), right.end(), equal);
}

bool equal_sequences(const Sequence& left, const Sequence& right) {
  if (&left == &right) return true;
  using Kind = Sequence::Kind;
  if (left.is_tuple() ? !right.is_tuple() : left.kind != right.kind) return false;
  if (left.is_generator() || left.kind == Kind::values) return false; // Python compares their identity
  return equal_items(left.items, right.items);
}

bool equal_dicts(const Dict& left, const Dict& right) {
  if (left.size() != right.size()) return false;
  return std::all_of(left.entries().begin(), left.entries().end(), [&](const Dict::Entry& entry) {
    const Value* other = right.find(entry.first);
    return other && equal(entry.second, *other);
  });
}

bool less_items(const Items& left, const Items& right, std::string_view operation) {
  const size_t shorter = std::min(left.size(), right.size());
  for (size_t i = 0; i < shorter; ++i) {
    if (!equal(left[i], right[i])) return less(left[i], right[i], operation);
  }
  return left.size() < right.size();
}

} // namespace

int height_of(const Value& value) {
  if (const Sequence* sequence = value.sequence()) return sequence->height;
  if (const Dict* dict = value.dict()) return dict->height();
  if (const Object* object = value.object()) return object->height;
  return 0;
}

int above(int height) {
  if (height >= largest_height) fail("lists and dicts are nested more than {} deep", largest_height);
  return height + 1;
}

std::optional<Integer> Value::integer() const {
  if (const bool* held = boolean()) return Integer(*held);
  if (const Integer* held = std::get_if<Integer>(&held_)) return *held;
  return std::nullopt;
}

std::optional<double> Value::number() const {
  if (const double* held = real()) return *held;
  if (const std::optional<Integer> held = integer()) return static_cast<double>(*held);
  return std::nullopt;
}

Value undefined(std::string reason) {
  return Value(Undefined{std::make_shared<const std::string>(std::move(reason))});
}

Value make_markup(std::string text) {
  return with_markup(Value(std::move(text)), true);
}

Value with_markup(const Value& text, bool markup) {
  return Value(Text{std::get<Text>(text.variant()).held, markup});
}

Value make_sequence(Sequence::Kind kind, Items items) {
  charge(4 + items.size());
  int highest = 0;
  for (const Value& item : items) highest = std::max(highest, height_of(item));
  return Value(std::make_shared<Sequence>(Sequence{kind, std::move(items), above(highest)}));
}

size_t HashValue::operator()(const Value& value) const {
  charge(1);
  if (const std::string* text = value.text()) {
    charge_text(text->size());
    return std::hash<std::string>()(*text);
  }
  if (const std::optional<double> number = value.number()) return std::hash<double>()(*number);
  if (value.is_none()) return 1;
  if (value.is_undefined()) return 2;
  if (Object* object = value.object()) return std::hash<Object*>()(object);
  const Sequence* sequence = value.sequence();
  if (!sequence || !(sequence->is_tuple() || sequence->is_generator()))
    fail("unhashable type: '{}'", type_name(value));
  size_t hash = 3;
  if (sequence->is_tuple()) {
    for (const Value& item : sequence->items) hash = hash * 31 + (*this)(item);
  }
  return hash;
}

bool SameKey::operator()(const Value& left, const Value& right) const {
  return equal(left, right);
}

void Dict::set(const Value& key, Value value) {
  charge(4);
  height_ = std::max({height_, above(height_of(value)), above(height_of(key))});
  const auto [place, added] = places_.try_emplace(key, entries_.size());
  if (added) {
    entries_.emplace_back(key, std::move(value));
  } else {
    entries_[place->second].second = std::move(value);
  }
}

const Value* Dict::find(const Value& key) const {
  const auto place = places_.find(key);
  return place == places_.end() ? nullptr : &entries_[place->second].second;
}

Value Object::call(Interpreter&, const Arguments&) {
  fail("'{}' object is not callable", type());
}

std::optional<Value> Object::attribute(std::string_view) {
  return std::nullopt;
}

bool is_true(const Value& value) {
  if (value.is_none() || value.is_undefined()) return false;
  if (const std::string* text = value.text()) return !text->empty();
  if (const std::optional<double> number = value.number()) return *number != 0;
  if (const Sequence* sequence = value.sequence(); sequence && sequence->is_generator()) return true;
  const std::optional<size_t> length = length_of(value);
  return !length || *length != 0;
}

bool equal(const Value& left, const Value& right) {
  charge(1);
  const std::optional<Integer> a = left.integer(), b = right.integer();
  if (a && b) return *a == *b;
  if (left.number() && right.number()) return *left.number() == *right.number();
  if (left.text() && right.text()) {
    charge_text(std::min(left.text()->size(), right.text()->size()));
    return *left.text() == *right.text();
  }
  if (left.sequence() && right.sequence()) return equal_sequences(*left.sequence(), *right.sequence());
  if (left.dict() && right.dict()) return equal_dicts(*left.dict(), *right.dict());
  if (left.object() && right.object()) return left.object() == right.object();
  return (left.is_none() && right.is_none()) || (left.is_undefined() && right.is_undefined());
}

bool less(const Value& left, const Value& right, std::string_view operation) {
  charge(1);
  const std::optional<Integer> a = left.integer(), b = right.integer();
  if (a && b) return *a < *b;
  if (left.number() && right.number()) return *left.number() < *right.number();
  if (left.text() && right.text()) {
    charge_text(std::min(left.text()->size(), right.text()->size()));
    return *left.text() < *right.text(); // UTF-8 keeps the order of code points
  }
  need_defined(left);
  need_defined(right);
  const Sequence *first = left.sequence(), *second = right.sequence();
  const bool lists = first && second && first->kind == Sequence::Kind::list && second->kind == first->kind;
  if (lists || (first && second && first->is_tuple() && second->is_tuple()))
    return less_items(first->items, second->items, operation);
  fail("'{}' not supported between instances of '{}' and '{}'", operation, type_name(left), type_name(right));
}

std::string type_name(const Value& value) {
  if (value.is_undefined()) return "Undefined";
  if (value.is_none()) return "NoneType";
  if (value.boolean()) return "bool";
  if (value.integer()) return "int";
  if (value.real()) return "float";
  if (value.text()) return value.is_markup() ? "Markup" : "str";
  if (value.dict()) return "dict";
  if (Object* object = value.object()) return object->type();
  switch (value.sequence()->kind) {
  case Sequence::Kind::list:
    return "list";
  case Sequence::Kind::tuple:
    return "tuple";
  case Sequence::Kind::group:
    return "_GroupTuple";
  case Sequence::Kind::generator:
    return "generator";
  case Sequence::Kind::keys:
    return "dict_keys";
  case Sequence::Kind::values:
    return "dict_values";
  case Sequence::Kind::items:
    return "dict_items";
  case Sequence::Kind::range:
    return "range";
  }
  return "object";
}

void need_defined(const Value& value) {
  if (const Undefined* missing = std::get_if<Undefined>(&value.variant())) fail("{}", *missing->reason);
}

std::optional<size_t> length_of(const Value& value) {
  if (value.is_undefined()) return 0;
  if (const std::string* text = value.text()) return count_characters(*text);
  if (const Dict* dict = value.dict()) return dict->size();
  if (Object* object = value.object()) return object->length();
  const Sequence* sequence = value.sequence();
  if (!sequence || sequence->is_generator()) return std::nullopt;
  return sequence->items.size();
}

Items iterate(const Value& value) {
  if (value.is_undefined()) return {};
  if (Sequence* sequence = value.sequence()) {
    charge(sequence->items.size());
    return sequence->is_generator() ? std::exchange(sequence->items, {}) : sequence->items;
  }
  Items items;
  if (const std::string* text = value.text()) {
    for (std::string_view character : characters_of(*text))
      items.push_back(with_markup(Value(character), value.is_markup()));
    return items;
  }
  if (const Dict* dict = value.dict()) {
    charge(dict->size());
    for (const Dict::Entry& entry : dict->entries()) items.push_back(entry.first);
    return items;
  }
  fail("'{}' object is not iterable", type_name(value));
}

} // namespace pumice::text::jinja
