#include "text/jinja/operations.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "text/jinja/characters.h"
#include "text/jinja/failure.h"
#include "text/jinja/formatting.h"
#include "text/jinja/function.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/numbers.h"
#include "text/jinja/write.h"

namespace pumice::text::jinja {

namespace {

[[noreturn]] void fail_operands(std::string_view operation, const Value& left, const Value& right) {
  fail("unsupported operand type(s) for {}: '{}' and '{}'", operation, type_name(left), type_name(right));
}

Integer floor_divide(Integer left, Integer right) {
  const Integer quotient = left / right;
  return left % right != 0 && (left < 0) != (right < 0) ? quotient - 1 : quotient;
}

double floor_remainder(double left, double right) {
  const double rest = std::fmod(left, right);
  if (rest != 0 && (right < 0) != (rest < 0)) return rest + right;
  return rest == 0 ? std::copysign(0.0, right) : rest;
}

double floor_quotient(double left, double right) {
  const double quotient = (left - floor_remainder(left, right)) / right;
  if (quotient == 0) return std::copysign(0.0, left / right);
  const double lower = std::floor(quotient);
  return quotient - lower > 0.5 ? lower + 1 : lower;
}

Integer power(Integer base, Integer exponent) {
  Integer result = 1;
  if (base == 1 || base == 0 || base == -1)
    exponent = base == -1 ? exponent % 2 : std::min<Integer>(exponent, 1);
  for (Integer i = 0; i < exponent; ++i) {
    charge(1);
    result = multiply(result, base);
  }
  return result;
}

Value of_integers(std::string_view operation, Integer left, Integer right) {
  if (operation == "+") return Value(add(left, right));
  if (operation == "-") return Value(subtract(left, right));
  if (operation == "*") return Value(multiply(left, right));
  if (operation == "**") {
    if (right >= 0) return Value(power(left, right));
    return Value(std::pow(static_cast<double>(left), static_cast<double>(right)));
  }
  if (right == 0) fail("{}", operation == "/" ? "division by zero" : "integer division or modulo by zero");
  if (operation == "/") return Value(static_cast<double>(left) / static_cast<double>(right));
  const Integer quotient = floor_divide(left, right);
  return Value(operation == "//" ? quotient : subtract(left, multiply(quotient, right)));
}

Value of_numbers(std::string_view operation, double left, double right) {
  if (operation == "+") return Value(left + right);
  if (operation == "-") return Value(left - right);
  if (operation == "*") return Value(left * right);
  if (operation == "**") return Value(std::pow(left, right));
  if (right == 0) fail("float division by zero");
  if (operation == "/") return Value(left / right);
  return Value(operation == "//" ? floor_quotient(left, right) : floor_remainder(left, right));
}

bool is_list(const Value& value) {
  return value.sequence() && value.sequence()->kind == Sequence::Kind::list;
}
bool is_tuple(const Value& value) {
  return value.sequence() && value.sequence()->is_tuple();
}

Value repeated(Interpreter& interpreter, const Value& value, Integer times) {
  const size_t size = value.text() ? value.text()->size() : value.sequence()->items.size();
  constexpr Integer most = Integer(1) << 40; // beyond every limit, and far from an overflow
  times = size == 0 ? 0 : std::clamp<Integer>(times, 0, most);
  const auto made = static_cast<size_t>(std::min(times * static_cast<Integer>(size), most));
  if (value.text()) {
    charge_text(made);
    std::string text;
    for (Integer i = 0; i < times; ++i) text += *value.text();
    return with_markup(interpreter.text(std::move(text)), value.is_markup());
  }
  charge(made);
  Items items;
  for (Integer i = 0; i < times; ++i) {
    items.insert(items.end(), value.sequence()->items.begin(), value.sequence()->items.end());
  }
  return make_sequence(is_list(value) ? Sequence::Kind::list : Sequence::Kind::tuple, std::move(items));
}

Value joined(Interpreter& interpreter, const Value& left, const Value& right) {
  if (left.text() && right.text()) {
    const bool markup = left.is_markup() || right.is_markup();
    const auto part = [&](const Value& text) { return markup ? escaped(text) : text; };
    charge_text(left.text()->size() + right.text()->size());
    return with_markup(interpreter.text(*part(left).text() + *part(right).text()), markup);
  }
  if (!(is_list(left) && is_list(right)) && !(is_tuple(left) && is_tuple(right))) {
    if (left.text()) fail("can only concatenate str (not \"{}\") to str", type_name(right));
    fail_operands("+", left, right);
  }
  charge(left.sequence()->items.size() + right.sequence()->items.size());
  Items items = left.sequence()->items;
  items.insert(items.end(), right.sequence()->items.begin(), right.sequence()->items.end());
  return make_sequence(is_list(left) ? Sequence::Kind::list : Sequence::Kind::tuple, std::move(items));
}

// What stands at an index, counted from the end if it is negative; null if there is nothing.
const Value* at(const Items& items, Integer index) {
  const auto size = static_cast<Integer>(items.size());
  if (index < 0) index += size;
  return index < 0 || index >= size ? nullptr : &items[static_cast<size_t>(index)];
}

std::optional<Value> character_at(std::string_view text, Integer index) {
  if (index < 0) index += static_cast<Integer>(count_characters(text));
  if (index < 0 || index >= static_cast<Integer>(text.size())) return std::nullopt;
  const size_t begin = byte_of_character(text, static_cast<size_t>(index));
  if (begin == text.size()) return std::nullopt;
  return Value(text.substr(begin, byte_of_character(text.substr(begin), 1)));
}

bool is_hashable(const Value& key) {
  if (key.dict()) return false;
  const Sequence* sequence = key.sequence();
  if (!sequence) return true;
  return sequence->is_tuple() && std::all_of(sequence->items.begin(), sequence->items.end(), is_hashable);
}

std::optional<Value> own_element(const Value& value, const Value& key) {
  if (const Dict* dict = value.dict()) {
    const Value* found = is_hashable(key) ? dict->find(key) : nullptr;
    return found ? std::optional(*found) : std::nullopt;
  }
  const std::optional<Integer> index = key.integer();
  if (!index) return std::nullopt;
  if (const std::string* text = value.text()) {
    std::optional<Value> character = character_at(*text, *index);
    return character ? std::optional(with_markup(*character, value.is_markup())) : std::nullopt;
  }
  const Sequence* sequence = value.sequence();
  if (!sequence || sequence->is_generator() || sequence->is_view()) return std::nullopt;
  const Value* found = at(sequence->items, *index);
  return found ? std::optional(*found) : std::nullopt;
}

std::optional<Value> own_attribute(const Value& value, std::string_view name) {
  if (Object* object = value.object()) return object->attribute(name);
  if (const Sequence* group = value.sequence(); group && group->kind == Sequence::Kind::group) {
    if (name == "grouper") return group->items[0];
    if (name == "list") return group->items[1];
  }
  return method(value, name);
}

std::string described(const Value& value) {
  return value.is_none() ? "None" : type_name(value) + " object";
}

// start, stop and step of a slice within so many elements, as Python's slice.indices().
struct Indices {
  Integer start, step;
  size_t count;
};

Integer bound_of(const Value& value, Integer otherwise, Integer size, Integer lowest, Integer highest) {
  if (value.is_none()) return otherwise;
  const std::optional<Integer> index = value.integer();
  if (!index) fail("slice indices must be integers or None, not {}", type_name(value));
  return std::clamp(*index < 0 ? *index + size : *index, lowest, highest);
}

Indices indices_of(size_t count, const Value& start, const Value& stop, const Value& step) {
  const auto size = static_cast<Integer>(count);
  const Integer by = step.is_none() ? 1 : step.integer().value_or(0);
  if (by == 0) fail("slice step cannot be zero");
  const Integer lowest = by < 0 ? -1 : 0, highest = by < 0 ? size - 1 : size;
  const Integer first = bound_of(start, by < 0 ? highest : lowest, size, lowest, highest);
  const Integer last = bound_of(stop, by < 0 ? lowest : highest, size, lowest, highest);
  const Integer distance = by < 0 ? first - last : last - first;
  const Integer stride = by < 0 ? -by : by;
  return {first, by, distance <= 0 ? 0 : static_cast<size_t>((distance + stride - 1) / stride)};
}

std::string characters_at(const std::string& text, const Indices& indices) {
  if (indices.step == 1) {
    const std::string_view rest =
        std::string_view(text).substr(byte_of_character(text, static_cast<size_t>(indices.start)));
    return std::string(rest.substr(0, byte_of_character(rest, indices.count)));
  }
  const std::vector<std::string_view> characters = characters_of(text);
  std::string part;
  for (size_t i = 0; i < indices.count; ++i)
    part += characters[static_cast<size_t>(indices.start + static_cast<Integer>(i) * indices.step)];
  return part;
}

} // namespace

Value escaped(const Value& value) {
  if (value.is_markup()) return value;
  std::string result;
  for (char c : str(value)) {
    const std::string_view entity = c == '&'    ? "&amp;"
                                    : c == '<'  ? "&lt;"
                                    : c == '>'  ? "&gt;"
                                    : c == '\'' ? "&#39;"
                                    : c == '"'  ? "&#34;"
                                                : std::string_view(&c, 1);
    result += entity;
  }
  charge_text(result.size());
  return make_markup(std::move(result));
}

Value binary(Interpreter& interpreter, std::string_view operation, const Value& left, const Value& right) {
  if (operation == "%" && left.text())
    return with_markup(interpreter.text(format_percent(left, right)), left.is_markup());
  need_defined(left);
  need_defined(right);
  const std::optional<Integer> a = left.integer(), b = right.integer();
  if (a && b) return of_integers(operation, *a, *b);
  const std::optional<double> x = left.number(), y = right.number();
  if (x && y) return of_numbers(operation, *x, *y);
  if (operation == "+") return joined(interpreter, left, right);
  const auto repeats = [](const Value& value) { return value.text() || is_list(value) || is_tuple(value); };
  if (operation == "*" && repeats(left) && b) return repeated(interpreter, left, *b);
  if (operation == "*" && repeats(right) && a) return repeated(interpreter, right, *a);
  fail_operands(operation, left, right);
}

Value unary(std::string_view operation, const Value& value) {
  if (operation == "not") return Value(!is_true(value));
  need_defined(value);
  if (const std::optional<Integer> integer = value.integer())
    return Value(operation == "-" ? subtract(0, *integer) : *integer);
  if (const double* real = value.real()) return Value(operation == "-" ? -*real : *real);
  fail("bad operand type for unary {}: '{}'", operation, type_name(value));
}

bool contains(const Value& container, const Value& value) {
  if (const std::string* text = container.text()) {
    if (!value.text()) fail("'in <string>' requires string as left operand, not {}", type_name(value));
    return find(*text, *value.text()) != std::string::npos;
  }
  if (const Dict* dict = container.dict()) return dict->find(value) != nullptr;
  if (!container.sequence() && !container.is_undefined())
    fail("argument of type '{}' is not iterable", type_name(container));
  if (Sequence* sequence = container.sequence(); sequence && !sequence->is_generator()) {
    return std::any_of(sequence->items.begin(), sequence->items.end(),
                       [&](const Value& item) { return equal(item, value); });
  }
  const Items items = iterate(container);
  return std::any_of(items.begin(), items.end(), [&](const Value& item) { return equal(item, value); });
}

bool compare(std::string_view operation, const Value& left, const Value& right) {
  if (operation == "==") return equal(left, right);
  if (operation == "!=") return !equal(left, right);
  if (operation == "in") return contains(right, left);
  if (operation == "not in") return !contains(right, left);
  if (operation == "<") return less(left, right, operation);
  if (operation == ">") return less(right, left, operation);
  // Not the opposite of the other two: nothing is less than or equal to NaN.
  if (operation == "<=") return less(left, right, operation) || equal(left, right);
  return less(right, left, operation) || equal(left, right);
}

Value attribute(const Value& value, std::string_view name) {
  need_defined(value);
  if (std::optional<Value> found = own_attribute(value, name)) return *std::move(found);
  if (std::optional<Value> found = own_element(value, Value(name))) return *std::move(found);
  return undefined(fmt::format("'{}' has no attribute '{}'", described(value), name));
}

Value element(const Value& value, const Value& key) {
  need_defined(value);
  if (std::optional<Value> found = own_element(value, key)) return *std::move(found);
  if (!key.text()) return undefined(fmt::format("{} has no element {}", described(value), repr(key)));
  if (std::optional<Value> found = own_attribute(value, *key.text())) return *std::move(found);
  return undefined(fmt::format("'{}' has no attribute '{}'", described(value), *key.text()));
}

Value slice(const Value& value, const Value& start, const Value& stop, const Value& step) {
  need_defined(value);
  const Sequence* sequence = value.sequence();
  const bool sliced = value.text() || (sequence && !sequence->is_generator() && !sequence->is_view());
  if (!sliced) return undefined(fmt::format("{} cannot be sliced", described(value)));
  if (const std::string* text = value.text()) {
    const Indices indices = indices_of(count_characters(*text), start, stop, step);
    return with_markup(Value(characters_at(*text, indices)), value.is_markup());
  }
  const Indices indices = indices_of(sequence->items.size(), start, stop, step);
  charge(indices.count);
  Items part;
  for (size_t i = 0; i < indices.count; ++i)
    part.push_back(
        sequence->items[static_cast<size_t>(indices.start + static_cast<Integer>(i) * indices.step)]);
  Value made = make_sequence(sequence->kind, std::move(part));
  Sequence& range = *made.sequence();
  range.start = sequence->start + indices.start * sequence->step;
  range.step = sequence->step * indices.step;
  range.stop = range.start + range.step * static_cast<Integer>(indices.count);
  return made;
}

} // namespace pumice::text::jinja
