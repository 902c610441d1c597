// The functions that every template has.

#include "base/time_text.h"
#include "text/jinja/failure.h"
#include "text/jinja/function.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/write.h"

namespace pumice::text::jinja {

namespace {

constexpr int longest_range = 100'000; // as Jinja2's sandbox

Value range(Interpreter&, const Arguments& arguments) {
  const Bound given("range", arguments, {"start", "stop", "step"}, 1);
  const Integer start = given.has(1) ? given.integer(0, 0) : 0;
  const Integer stop = given.has(1) ? given.integer(1, 0) : given.integer(0, 0);
  const Integer step = given.integer(2, 1);
  if (step == 0) fail("range() arg 3 must not be zero");
  const Integer distance = step > 0 ? stop - start : start - stop;
  const Integer stride = step > 0 ? step : -step;
  const Integer count = distance <= 0 ? 0 : (distance + stride - 1) / stride;
  if (count > longest_range) fail("a range has more than {} elements", longest_range);
  charge(static_cast<size_t>(count) / 4);
  Items items;
  for (Integer i = 0; i < count; ++i) items.emplace_back(start + i * step);
  Value made = make_sequence(Sequence::Kind::range, std::move(items));
  Sequence& sequence = *made.sequence();
  sequence.start = start, sequence.stop = stop, sequence.step = step;
  return made;
}

// What dict() and namespace() are made from: a dict, pairs, and named values.
Dict dict_of(std::string_view function, const Arguments& arguments) {
  if (arguments.positional.size() > 1) fail("{}() takes at most one argument without a name", function);
  Dict made;
  if (!arguments.positional.empty()) {
    const Value& from = arguments.positional[0];
    if (const Dict* dict = from.dict()) {
      made = *dict;
    } else {
      for (const Value& pair : iterate(from)) {
        const Items parts = iterate(pair);
        if (parts.size() != 2) fail("{}() needs pairs, and found {} values", function, parts.size());
        made.set(parts[0], parts[1]);
      }
    }
  }
  for (const auto& [name, value] : arguments.named) made.set(Value(name), value);
  return made;
}

Value dict(Interpreter&, const Arguments& arguments) {
  Dict made = dict_of("dict", arguments);
  charge(made.size());
  return make_dict(std::move(made));
}

Value new_namespace(Interpreter& interpreter, const Arguments& arguments) {
  const Dict given = dict_of("namespace", arguments);
  const std::shared_ptr<Namespace> names = interpreter.make_namespace();
  for (const auto& [name, value] : given.entries()) names->attributes.insert_or_assign(str(name), value);
  return Value(std::shared_ptr<Object>(names));
}

Value raise_exception(Interpreter&, const Arguments& arguments) {
  const Bound given("raise_exception", arguments, {"message"}, 1);
  fail("{}", str(given[0]));
}

Value strftime_now(Interpreter& interpreter, const Arguments& arguments) {
  const Bound given("strftime_now", arguments, {"format"}, 1);
  const std::string format = given.text(0);
  if (format.size() > 1000) fail("strftime_now() takes formats of at most 1000 bytes");
  return Value(time_text(interpreter.now(), format));
}

struct Joiner : Object {
  explicit Joiner(std::string text) : separator(std::move(text)) {}
  std::string type() const override { return "Joiner"; }
  bool callable() const override { return true; }
  Value call(Interpreter&, const Arguments&) override {
    return Value(std::exchange(used, true) ? separator : "");
  }

  std::string separator;
  bool used = false;
};

Value joiner(Interpreter&, const Arguments& arguments) {
  const Bound given("joiner", arguments, {"sep"});
  return Value(std::shared_ptr<Object>(std::make_shared<Joiner>(given.has(0) ? given.text(0) : ", ")));
}

} // namespace

std::map<std::string, Value, std::less<>> global_functions() {
  std::map<std::string, Value, std::less<>> functions;
  using Body = Value (*)(Interpreter&, const Arguments&);
  const std::pair<const char*, Body> all[] = {{"range", range},
                                              {"dict", dict},
                                              {"namespace", new_namespace},
                                              {"raise_exception", raise_exception},
                                              {"strftime_now", strftime_now},
                                              {"joiner", joiner}};
  for (const auto& [name, body] : all) {
    functions.emplace(name, make_function(name, body));
  }
  return functions;
}

} // namespace pumice::text::jinja
