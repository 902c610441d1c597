// Godot, as far as this extension uses it: the functions of gdextension_interface.h, and values (Variant).
// Whatever has no function of its own there is called by its name, as a script does.
#pragma once

#include <gdextension_interface.h>

#include <cstdint>
#include <string>
#include <vector>

namespace godot {

// Of the interface of Godot 4.4. A macro of a macro: the type's name, and the name that it is asked for by.
#define PUMICE_GODOT_FUNCTIONS(function)                                                                     \
  function(PrintError, print_error) function(PrintWarning, print_warning) function(                          \
      VariantNewCopy, variant_new_copy) function(VariantNewNil, variant_new_nil) function(VariantDestroy,    \
                                                                                          variant_destroy)   \
      function(VariantCall, variant_call) function(VariantConstruct, variant_construct) function(            \
          VariantGetType, variant_get_type) function(VariantStringify, variant_stringify)                    \
          function(VariantGetIndexed, variant_get_indexed) function(                                         \
              VariantGetKeyed,                                                                               \
              variant_get_keyed) function(VariantSetKeyed,                                                   \
                                          variant_set_keyed) function(GetVariantFromTypeConstructor,         \
                                                                      get_variant_from_type_constructor)     \
              function(GetVariantToTypeConstructor, get_variant_to_type_constructor) function(               \
                  VariantGetPtrDestructor,                                                                   \
                  variant_get_ptr_destructor) function(StringNewWithUtf8CharsAndLen,                         \
                                                       string_new_with_utf8_chars_and_len)                   \
                  function(StringToUtf8Chars, string_to_utf8_chars) function(                                \
                      StringNameNewWithUtf8Chars,                                                            \
                      string_name_new_with_utf8_chars) function(PackedByteArrayOperatorIndexConst,           \
                                                                packed_byte_array_operator_index_const)      \
                      function(PackedFloat32ArrayOperatorIndex, packed_float32_array_operator_index)         \
                          function(PackedFloat32ArrayOperatorIndexConst,                                     \
                                   packed_float32_array_operator_index_const) function(GlobalGetSingleton,   \
                                                                                       global_get_singleton) \
                              function(ObjectSetInstance, object_set_instance) function(                     \
                                  ObjectSetInstanceBinding, object_set_instance_binding)                     \
                                  function(ObjectGetInstanceBinding, object_get_instance_binding) function(  \
                                      ClassdbConstructObject2,                                               \
                                      classdb_construct_object2) function(ClassdbRegisterExtensionClass4,    \
                                                                          classdb_register_extension_class4) \
                                      function(ClassdbRegisterExtensionClassMethod,                          \
                                               classdb_register_extension_class_method)                      \
                                          function(ClassdbRegisterExtensionClassProperty,                    \
                                                   classdb_register_extension_class_property)                \
                                              function(ClassdbRegisterExtensionClassPropertyGroup,           \
                                                       classdb_register_extension_class_property_group)      \
                                                  function(ClassdbRegisterExtensionClassSignal,              \
                                                           classdb_register_extension_class_signal)          \
                                                      function(                                              \
                                                          ClassdbRegisterExtensionClassIntegerConstant,      \
                                                          classdb_register_extension_class_integer_constant) \
                                                          function(ClassdbUnregisterExtensionClass,          \
                                                                   classdb_unregister_extension_class)

struct Functions {
#define PUMICE_DECLARE(type, name) GDExtensionInterface##type name = nullptr;
  PUMICE_GODOT_FUNCTIONS(PUMICE_DECLARE)
#undef PUMICE_DECLARE
  // Only of the editor; null in exported games.
  void (*editor_help_load_xml_from_utf8_chars_and_len)(const char* xml, GDExtensionInt bytes) = nullptr;
};

// Set by load(), before anything else here is used.
extern Functions api;
extern GDExtensionClassLibraryPtr library;

// False, with a message of Godot's, if a function is missing: Godot is older than 4.4.
bool load(GDExtensionInterfaceGetProcAddress get, GDExtensionClassLibraryPtr of_library);

void print_error(const std::string& message);
void print_warning(const std::string& message);

// A name, as classes, methods and signals have it.
class Name {
public:
  explicit Name(const char* text) { api.string_name_new_with_utf8_chars(&data_, text); }
  ~Name();
  Name(const Name&) = delete;
  Name& operator=(const Name&) = delete;
  void* get() const { return const_cast<void**>(&data_); }

private:
  void* data_ = nullptr;
};

// A string, where the interface wants one and no Variant.
class String {
public:
  explicit String(const std::string& text) {
    api.string_new_with_utf8_chars_and_len(&data_, text.data(), static_cast<GDExtensionInt>(text.size()));
  }
  ~String();
  String(const String&) = delete;
  String& operator=(const String&) = delete;
  void* get() const { return const_cast<void**>(&data_); }

private:
  void* data_ = nullptr;
};

class Variant {
public:
  Variant() { api.variant_new_nil(data_); }
  Variant(const Variant& from) { api.variant_new_copy(data_, from.data_); }
  Variant& operator=(const Variant& from);
  ~Variant() { api.variant_destroy(data_); }
  Variant(bool value);
  Variant(int value) : Variant(static_cast<int64_t>(value)) {}
  Variant(int64_t value);
  Variant(double value);
  Variant(const char* text) : Variant(std::string(text)) {}
  Variant(const std::string& text);
  Variant(const std::vector<float>& values); // a PackedFloat32Array
  static Variant object(GDExtensionObjectPtr object);
  static Variant copy(GDExtensionConstVariantPtr from);
  // Of a type, as the interface hands typed values over.
  static Variant typed(GDExtensionVariantType type, GDExtensionConstTypePtr from);
  static Variant empty(GDExtensionVariantType type); // an array, a dictionary, ...
  static Variant callable(GDExtensionObjectPtr object, const char* method);
  static Variant singleton(const char* name);

  GDExtensionVariantType type() const { return api.variant_get_type(data_); }
  bool is_nil() const { return type() == GDEXTENSION_VARIANT_TYPE_NIL; }
  bool flag() const;
  int64_t integer() const;
  double number() const;
  std::string text() const;
  std::vector<float> floats() const;
  // The bytes of a PackedByteArray, as long as the Variant stays as it is.
  const uint8_t* bytes() const;
  GDExtensionObjectPtr object() const;
  void to(GDExtensionVariantType type, GDExtensionTypePtr result) const;

  // Of arrays of any kind.
  int64_t size() const { return call("size").integer(); }
  Variant at(int64_t index) const;
  void append(const Variant& value) const { call("append", value); }
  std::vector<std::string> texts() const;
  // Of dictionaries.
  Variant get(const char* key) const;
  void set(const char* key, const Variant& value);

  template <class... Arguments>
  Variant call(const char* method, const Arguments&... arguments) const {
    const Variant list[] = {Variant(arguments)..., Variant()};
    return call_list(method, list, sizeof...(arguments));
  }

  void* get() const { return const_cast<unsigned char*>(data_); }

private:
  Variant call_list(const char* method, const Variant* list, size_t count) const;

  alignas(8) unsigned char data_[40]; // 24, or 40 where Godot computes in double precision
};

bool in_editor();

// JSON of a value, with keys in their order, and back; nil where the text is no JSON.
std::string to_json(const Variant& value);
Variant from_json(const std::string& text);

} // namespace godot
