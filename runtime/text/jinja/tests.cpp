// What follows `is`.
#include <cmath>
#include <map>

#include "text/jinja/characters.h"
#include "text/jinja/failure.h"
#include "text/jinja/filters.h"
#include "text/jinja/function.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/operations.h"
#include "text/jinja/write.h"

namespace pumice::text::jinja {

namespace {

using Test = bool (*)(Interpreter&, const Value&, const Bound&);

bool is_sequence(const Value& value) {
  if (value.is_undefined() || value.text() || value.dict()) return true;
  const Sequence* sequence = value.sequence();
  return sequence && !sequence->is_generator() && !sequence->is_view();
}

bool is_iterable(const Value& value) {
  return value.is_undefined() || value.text() || value.dict() || value.sequence();
}

// As Python's `is`: the same object, which small values of one type always are.
bool is_same(const Value& left, const Value& right) {
  if (left.sequence() || left.dict())
    return left.sequence() == right.sequence() && left.dict() == right.dict();
  return type_name(left) == type_name(right) && equal(left, right);
}

Value remainder_of(Interpreter& interpreter, const Value& value, const Value& by) {
  return binary(interpreter, "%", value, by);
}

struct Entry {
  Test test;
  size_t arguments = 0;
};

template <char operation>
bool comparison_test(Interpreter&, const Value& value, const Bound& given) {
  static constexpr auto name = operation == '='   ? std::string_view("==")
                               : operation == '!' ? std::string_view("!=")
                               : operation == '<' ? std::string_view("<")
                               : operation == '>' ? std::string_view(">")
                               : operation == 'l' ? std::string_view("<=")
                               : operation == 'g' ? std::string_view(">=")
                                                  : std::string_view("in");
  return compare(name, value, given[0]);
}

bool is_divisible(Interpreter& interpreter, const Value& value, const Bound& given) {
  return equal(remainder_of(interpreter, value, given[0]), Value(0));
}

const std::map<std::string_view, Entry>& tests() {
  using I = Interpreter&;
  using V = const Value&;
  using B = const Bound&;
  static const std::map<std::string_view, Entry> all = {
      {"defined", {[](I, V value, B) { return !value.is_undefined(); }}},
      {"undefined", {[](I, V value, B) { return value.is_undefined(); }}},
      {"none", {[](I, V value, B) { return value.is_none(); }}},
      {"boolean", {[](I, V value, B) { return value.boolean() != nullptr; }}},
      {"true", {[](I, V value, B) { return value.boolean() && *value.boolean(); }}},
      {"false", {[](I, V value, B) { return value.boolean() && !*value.boolean(); }}},
      {"integer", {[](I, V value, B) { return value.integer() && !value.boolean(); }}},
      {"float", {[](I, V value, B) { return value.real() != nullptr; }}},
      {"number", {[](I, V value, B) { return value.number().has_value(); }}},
      {"string", {[](I, V value, B) { return value.text() != nullptr; }}},
      {"mapping", {[](I, V value, B) { return value.dict() != nullptr; }}},
      {"sequence", {[](I, V value, B) { return is_sequence(value); }}},
      {"iterable", {[](I, V value, B) { return is_iterable(value); }}},
      {"callable", {[](I, V value, B) {
         return value.is_undefined() || (value.object() && value.object()->callable());
       }}},
      {"odd", {[](I i, V value, B) { return equal(remainder_of(i, value, Value(2)), Value(1)); }}},
      {"even", {[](I i, V value, B) { return equal(remainder_of(i, value, Value(2)), Value(0)); }}},
      {"divisibleby", {is_divisible, 1}},
      {"lower", {[](I, V value, B) { return is_all(str(value), Letters::lower); }}},
      {"upper", {[](I, V value, B) { return is_all(str(value), Letters::upper); }}},
      {"escaped", {[](I, V value, B) { return value.is_markup(); }}},
      {"sameas", {[](I, V value, B given) { return is_same(value, given[0]); }, 1}},
      {"filter", {[](I, V value, B) { return value.text() && find_filter(*value.text()); }}},
      {"test", {[](I, V value, B) { return value.text() && tests().contains(*value.text()); }}},
      {"in", {comparison_test<'i'>, 1}},
      {"==", {comparison_test<'='>, 1}},
      {"eq", {comparison_test<'='>, 1}},
      {"equalto", {comparison_test<'='>, 1}},
      {"!=", {comparison_test<'!'>, 1}},
      {"ne", {comparison_test<'!'>, 1}},
      {"<", {comparison_test<'<'>, 1}},
      {"lt", {comparison_test<'<'>, 1}},
      {"lessthan", {comparison_test<'<'>, 1}},
      {"<=", {comparison_test<'l'>, 1}},
      {"le", {comparison_test<'l'>, 1}},
      {">", {comparison_test<'>'>, 1}},
      {"gt", {comparison_test<'>'>, 1}},
      {"greaterthan", {comparison_test<'>'>, 1}},
      {">=", {comparison_test<'g'>, 1}},
      {"ge", {comparison_test<'g'>, 1}},
  };
  return all;
}

} // namespace

bool Interpreter::test(std::string_view name, const Value& value, const Arguments& given) {
  charge_text(value.text() ? value.text()->size() : 0);
  const auto found = tests().find(name);
  if (found == tests().end()) fail("No test named '{}'.", name);
  const Entry& entry = found->second;
  if (entry.arguments == 0) return entry.test(*this, value, Bound(name, given, {}));
  return entry.test(*this, value, Bound(name, given, {"other"}, 1));
}

} // namespace pumice::text::jinja
