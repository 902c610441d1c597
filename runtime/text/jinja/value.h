#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "text/jinja/budget.h"
#include "text/jinja/integer.h"

// The values of templates, with the meaning that Python gives them. Strings are valid UTF-8 and are counted
// in code points.
namespace pumice::text::jinja {

class Value;
class Dict;
struct Sequence;
struct Object;

using Items = std::vector<Value>;

struct Undefined {
  std::shared_ptr<const std::string> reason; // a sentence for whoever uses the value
};
struct None {};

struct Text {
  std::shared_ptr<const std::string> held;
  bool markup = false; // made by the filters safe and escape: what is joined to it is escaped
};

class Value {
public:
  using Variant = std::variant<Undefined, None, bool, Integer, double, Text, std::shared_ptr<Sequence>,
                               std::shared_ptr<const Dict>, std::shared_ptr<Object>>;

  Value() : held_(None{}) {}
  Value(None) : held_(None{}) {}
  Value(Undefined value) : held_(std::move(value)) {}
  Value(bool value) : held_(value) {}
  Value(int value) : held_(Integer(value)) {}
  Value(size_t value) : held_(Integer(value)) {}
  Value(Integer value) : held_(value) {}
  Value(double value) : held_(value) {}
  Value(std::string value) : held_(Text{std::make_shared<const std::string>(std::move(value))}) {
    charge_text(text()->size());
  }
  Value(std::string_view value) : Value(std::string(value)) {}
  Value(const char* value) : Value(std::string(value)) {}
  Value(Text value) : held_(std::move(value)) {}
  Value(std::shared_ptr<Sequence> value) : held_(std::move(value)) {}
  Value(std::shared_ptr<const Dict> value) : held_(std::move(value)) {}
  Value(std::shared_ptr<Object> value) : held_(std::move(value)) {}

  bool is_undefined() const { return std::holds_alternative<Undefined>(held_); }
  bool is_none() const { return std::holds_alternative<None>(held_); }
  // Null unless the value is of that type.
  const bool* boolean() const { return std::get_if<bool>(&held_); }
  const double* real() const { return std::get_if<double>(&held_); }
  const std::string* text() const {
    const Text* text = std::get_if<Text>(&held_);
    return text ? text->held.get() : nullptr;
  }
  bool is_markup() const {
    const Text* text = std::get_if<Text>(&held_);
    return text && text->markup;
  }
  Sequence* sequence() const { return pointer<std::shared_ptr<Sequence>>(); }
  const Dict* dict() const { return pointer<std::shared_ptr<const Dict>>(); }
  Object* object() const { return pointer<std::shared_ptr<Object>>(); }
  std::optional<Integer> integer() const; // of a bool too, as in Python
  std::optional<double> number() const;   // of a bool and an integer too

  const Variant& variant() const { return held_; }

private:
  template <class Pointer>
  typename Pointer::element_type* pointer() const {
    const Pointer* held = std::get_if<Pointer>(&held_);
    return held ? held->get() : nullptr;
  }
  Variant held_;
};

Value undefined(std::string reason);
Value make_markup(std::string text);
// The same text as markup, or as plain text.
Value with_markup(const Value& text, bool markup);

// What has elements in an order.
struct Sequence {
  // A generator can be read once. Keys, values and items are views of a dict. A group is the tuple that
  // groupby makes.
  enum class Kind { list, tuple, group, generator, keys, values, items, range };
  Kind kind;
  Items items;
  int height = 1;                        // as height_of()
  Integer start = 0, stop = 0, step = 1; // of a range, for its text

  bool is_tuple() const { return kind == Kind::tuple || kind == Kind::group; }
  bool is_generator() const { return kind == Kind::generator; }
  bool is_view() const { return kind == Kind::keys || kind == Kind::values || kind == Kind::items; }
};

Value make_sequence(Sequence::Kind kind, Items items);
inline Value make_list(Items items) {
  return make_sequence(Sequence::Kind::list, std::move(items));
}
inline Value make_tuple(Items items) {
  return make_sequence(Sequence::Kind::tuple, std::move(items));
}
inline Value make_generator(Items items) {
  return make_sequence(Sequence::Kind::generator, std::move(items));
}

struct HashValue {
  size_t operator()(const Value& value) const; // fails for what Python cannot hash
};
struct SameKey {
  bool operator()(const Value& left, const Value& right) const;
};

// A dictionary that keeps the order of its keys.
class Dict {
public:
  using Entry = std::pair<Value, Value>;

  void set(const Value& key, Value value);
  const Value* find(const Value& key) const; // null if there is none
  const std::vector<Entry>& entries() const { return entries_; }
  size_t size() const { return entries_.size(); }
  int height() const { return height_; }

private:
  std::vector<Entry> entries_;
  std::unordered_map<Value, size_t, HashValue, SameKey> places_;
  int height_ = 1;
};

inline Value make_dict(Dict dict) {
  return Value(std::make_shared<const Dict>(std::move(dict)));
}

struct Arguments {
  Items positional;
  std::vector<std::pair<std::string, Value>> named;
};

class Interpreter;

// What is more than data: functions, methods, macros, namespaces, loops.
struct Object {
  int height = 0; // of the values that it holds for good

  virtual ~Object() = default;
  virtual std::string type() const = 0; // Python's name for it
  virtual bool callable() const { return false; }
  virtual Value call(Interpreter& interpreter, const Arguments& arguments);
  virtual std::optional<Value> attribute(std::string_view name);
  virtual std::optional<size_t> length() { return std::nullopt; }
};

// How deep containers nest in a value: 0 for what holds no values. above() fails where that is too deep, so
// that nothing recurses without bound.
int height_of(const Value& value);
int above(int height);

bool is_true(const Value& value);
bool equal(const Value& left, const Value& right);
// Fails, naming the operator, if Python cannot order the two.
bool less(const Value& left, const Value& right, std::string_view operation = "<");
// As type(value).__name__ has it.
std::string type_name(const Value& value);
// Fails with the reason of an undefined value; does nothing for all others.
void need_defined(const Value& value);
std::optional<size_t> length_of(const Value& value);
// The elements, as a loop sees them: of a dict its keys, of a string its characters. Empties a generator.
Items iterate(const Value& value);

} // namespace pumice::text::jinja
