#include "text/jinja/function.h"

#include <algorithm>

#include "text/jinja/failure.h"

namespace pumice::text::jinja {

Bound::Bound(std::string_view function, const Arguments& arguments,
             std::initializer_list<std::string_view> names, size_t required)
    : function_(function), names_(names), values_(names.size()) {
  if (arguments.positional.size() > names_.size()) {
    fail("{}() takes at most {} arguments ({} given)", function, names_.size(), arguments.positional.size());
  }
  for (size_t i = 0; i < arguments.positional.size(); ++i) values_[i] = &arguments.positional[i];
  for (const auto& [name, value] : arguments.named) {
    const auto found = std::find(names_.begin(), names_.end(), name);
    if (found == names_.end()) fail("{}() got an unexpected keyword argument '{}'", function, name);
    const Value*& place = values_[static_cast<size_t>(found - names_.begin())];
    if (place) fail("{}() got multiple values for argument '{}'", function, name);
    place = &value;
  }
  for (size_t i = 0; i < required; ++i) {
    if (!values_[i]) fail("{}() is missing its argument '{}'", function, names_[i]);
  }
}

const Value& Bound::operator[](size_t index) const {
  static const Value none;
  return values_[index] ? *values_[index] : none;
}

std::string Bound::text(size_t index) const {
  const Value& value = (*this)[index];
  need_defined(value);
  if (const std::string* text = value.text()) {
    charge_text(text->size());
    return *text;
  }
  fail("{}(): {} must be a string, not {}", function_, names_[index], type_name(value));
}

Integer Bound::integer(size_t index, Integer otherwise) const {
  if (!values_[index]) return otherwise;
  need_defined(*values_[index]);
  if (const std::optional<Integer> value = values_[index]->integer()) return *value;
  fail("{}(): {} must be an integer, not {}", function_, names_[index], type_name(*values_[index]));
}

bool Bound::is_true(size_t index, bool otherwise) const {
  return values_[index] ? jinja::is_true(*values_[index]) : otherwise;
}

} // namespace pumice::text::jinja
