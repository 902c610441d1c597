#include "engine.h"

#include <cstring>
#include <vector>

namespace godot {

Functions api;
GDExtensionClassLibraryPtr library = nullptr;

bool load(GDExtensionInterfaceGetProcAddress get, GDExtensionClassLibraryPtr of_library) {
  library = of_library;
  bool complete = true;
#define PUMICE_LOAD(type, name)                                                                              \
  api.name = reinterpret_cast<GDExtensionInterface##type>(get(#name));                                       \
  complete = complete && api.name;
  PUMICE_GODOT_FUNCTIONS(PUMICE_LOAD)
#undef PUMICE_LOAD
  api.editor_help_load_xml_from_utf8_chars_and_len = reinterpret_cast<void (*)(const char*, GDExtensionInt)>(
      get("editor_help_load_xml_from_utf8_chars_and_len"));
  if (!complete && api.print_error) print_error("Pumice needs Godot 4.4 or newer");
  return complete;
}

void print_error(const std::string& message) {
  api.print_error(message.c_str(), "pumice", "pumice", 0, false);
}

void print_warning(const std::string& message) {
  api.print_warning(message.c_str(), "pumice", "pumice", 0, false);
}

namespace {

void destroy(GDExtensionVariantType type, void* value) {
  api.variant_get_ptr_destructor(type)(value);
}

void from(GDExtensionVariantType type, void* variant, const void* value) {
  api.get_variant_from_type_constructor(type)(variant, const_cast<void*>(value));
}

// A packed array takes 16 bytes in Godot.
struct Packed {
  Packed(const Variant& variant, GDExtensionVariantType of_type) : type(of_type) { variant.to(type, data); }
  ~Packed() { destroy(type, data); }
  Packed(const Packed&) = delete;
  alignas(8) unsigned char data[16];
  GDExtensionVariantType type;
};

} // namespace

Name::~Name() {
  destroy(GDEXTENSION_VARIANT_TYPE_STRING_NAME, &data_);
}

String::~String() {
  destroy(GDEXTENSION_VARIANT_TYPE_STRING, &data_);
}

Variant& Variant::operator=(const Variant& from) {
  if (this == &from) return *this;
  api.variant_destroy(data_);
  api.variant_new_copy(data_, from.data_);
  return *this;
}

Variant::Variant(bool value) {
  const GDExtensionBool as_given = value;
  from(GDEXTENSION_VARIANT_TYPE_BOOL, data_, &as_given);
}

Variant::Variant(int64_t value) {
  from(GDEXTENSION_VARIANT_TYPE_INT, data_, &value);
}

Variant::Variant(double value) {
  from(GDEXTENSION_VARIANT_TYPE_FLOAT, data_, &value);
}

Variant::Variant(const std::string& text) {
  const String string(text);
  from(GDEXTENSION_VARIANT_TYPE_STRING, data_, string.get());
}

Variant::Variant(const std::vector<float>& values) {
  GDExtensionCallError error;
  api.variant_construct(GDEXTENSION_VARIANT_TYPE_PACKED_FLOAT32_ARRAY, data_, nullptr, 0, &error);
  if (values.empty()) return;
  call("resize", static_cast<int64_t>(values.size()));
  // The array that comes out of the Variant has the same memory until it is written to: fill it, and put it
  // back.
  const Packed packed(*this, GDEXTENSION_VARIANT_TYPE_PACKED_FLOAT32_ARRAY);
  float* first = api.packed_float32_array_operator_index(const_cast<unsigned char*>(packed.data), 0);
  std::memcpy(first, values.data(), values.size() * sizeof(float));
  api.variant_destroy(data_);
  from(GDEXTENSION_VARIANT_TYPE_PACKED_FLOAT32_ARRAY, data_, packed.data);
}

Variant Variant::object(GDExtensionObjectPtr object) {
  if (!object) return {};
  return typed(GDEXTENSION_VARIANT_TYPE_OBJECT, &object);
}

Variant Variant::copy(GDExtensionConstVariantPtr from) {
  Variant made;
  api.variant_new_copy(made.data_, from);
  return made;
}

Variant Variant::typed(GDExtensionVariantType type, GDExtensionConstTypePtr value) {
  if (type == GDEXTENSION_VARIANT_TYPE_NIL) return copy(value); // stands for any type
  Variant made;
  from(type, made.data_, value);
  return made;
}

Variant Variant::empty(GDExtensionVariantType type) {
  Variant made;
  GDExtensionCallError error;
  api.variant_construct(type, made.data_, nullptr, 0, &error);
  return made;
}

Variant Variant::callable(GDExtensionObjectPtr object, const char* method) {
  const Variant of = Variant::object(object), name(method);
  const void* arguments[] = {of.data_, name.data_};
  Variant made;
  GDExtensionCallError error;
  api.variant_construct(GDEXTENSION_VARIANT_TYPE_CALLABLE, made.data_, arguments, 2, &error);
  return made;
}

Variant Variant::singleton(const char* name) {
  return object(api.global_get_singleton(Name(name).get()));
}

void Variant::to(GDExtensionVariantType type, GDExtensionTypePtr result) const {
  if (type == GDEXTENSION_VARIANT_TYPE_NIL)
    api.variant_new_copy(result, data_);
  else
    api.get_variant_to_type_constructor(type)(result, const_cast<unsigned char*>(data_));
}

bool Variant::flag() const {
  GDExtensionBool value = false;
  to(GDEXTENSION_VARIANT_TYPE_BOOL, &value);
  return value != 0;
}

int64_t Variant::integer() const {
  int64_t value = 0;
  to(GDEXTENSION_VARIANT_TYPE_INT, &value);
  return value;
}

double Variant::number() const {
  double value = 0;
  to(GDEXTENSION_VARIANT_TYPE_FLOAT, &value);
  return value;
}

std::string Variant::text() const {
  if (is_nil()) return {};
  void* string = nullptr;
  api.variant_stringify(data_, &string);
  std::string text(static_cast<size_t>(api.string_to_utf8_chars(&string, nullptr, 0)), '\0');
  api.string_to_utf8_chars(&string, text.data(), static_cast<GDExtensionInt>(text.size()));
  destroy(GDEXTENSION_VARIANT_TYPE_STRING, &string);
  return text;
}

std::vector<float> Variant::floats() const {
  std::vector<float> values(
      type() == GDEXTENSION_VARIANT_TYPE_PACKED_FLOAT32_ARRAY ? static_cast<size_t>(size()) : 0);
  if (values.empty()) return values;
  const Packed packed(*this, GDEXTENSION_VARIANT_TYPE_PACKED_FLOAT32_ARRAY);
  std::memcpy(values.data(), api.packed_float32_array_operator_index_const(packed.data, 0),
              values.size() * sizeof(float));
  return values;
}

const uint8_t* Variant::bytes() const {
  if (type() != GDEXTENSION_VARIANT_TYPE_PACKED_BYTE_ARRAY || size() == 0) return nullptr;
  const Packed packed(*this, GDEXTENSION_VARIANT_TYPE_PACKED_BYTE_ARRAY);
  return api.packed_byte_array_operator_index_const(packed.data, 0);
}

GDExtensionObjectPtr Variant::object() const {
  GDExtensionObjectPtr value = nullptr;
  if (type() == GDEXTENSION_VARIANT_TYPE_OBJECT) to(GDEXTENSION_VARIANT_TYPE_OBJECT, &value);
  return value;
}

Variant Variant::at(int64_t index) const {
  Variant found;
  GDExtensionBool valid = false, outside = false;
  Variant element;
  api.variant_destroy(element.data_);
  api.variant_get_indexed(data_, index, element.data_, &valid, &outside);
  return valid && !outside ? element : found;
}

std::vector<std::string> Variant::texts() const {
  std::vector<std::string> texts;
  const int64_t count = is_nil() ? 0 : size();
  for (int64_t i = 0; i < count; ++i) texts.push_back(at(i).text());
  return texts;
}

Variant Variant::get(const char* key) const {
  Variant found;
  GDExtensionBool valid = false;
  api.variant_destroy(found.data_);
  api.variant_get_keyed(data_, Variant(key).data_, found.data_, &valid);
  return found;
}

void Variant::set(const char* key, const Variant& value) {
  GDExtensionBool valid = false;
  api.variant_set_keyed(data_, Variant(key).data_, value.data_, &valid);
}

Variant Variant::call_list(const char* method, const Variant* list, size_t count) const {
  std::vector<const void*> pointers(count);
  for (size_t i = 0; i < count; ++i) pointers[i] = list[i].data_;
  Variant result;
  GDExtensionCallError error;
  const Name name(method);
  api.variant_destroy(result.data_);
  api.variant_call(const_cast<unsigned char*>(data_), name.get(), pointers.data(),
                   static_cast<GDExtensionInt>(count), result.data_, &error);
  if (error.error != GDEXTENSION_CALL_OK) {
    api.variant_new_nil(result.data_); // what a call that fails leaves there is not said
    print_error(std::string("cannot call ") + method);
  }
  return result;
}

bool in_editor() {
  return Variant::singleton("Engine").call("is_editor_hint").flag();
}

namespace {

// Static functions of a class, which the interface has only by numbers that change between versions.
template <class... Arguments>
Variant call_static(const char* of_class, const char* function, const Arguments&... arguments) {
  return Variant::singleton("ClassDB").call("class_call_static", of_class, function, arguments...);
}

} // namespace

std::string to_json(const Variant& value) {
  return call_static("JSON", "stringify", value, "", false).text();
}

Variant from_json(const std::string& text) {
  const Variant reader = Variant::singleton("ClassDB").call("instantiate", "JSON");
  if (reader.call("parse", text).integer() != 0) return {};
  return reader.call("get_data");
}

} // namespace godot
