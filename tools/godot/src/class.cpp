#include "class.h"

#include <cstring>
#include <deque>
#include <mutex>
#include <set>

namespace godot {

namespace {

constexpr uint32_t usage_default = 6;    // PROPERTY_USAGE_STORAGE, PROPERTY_USAGE_EDITOR
constexpr uint32_t usage_any = 1u << 17; // PROPERTY_USAGE_NIL_IS_VARIANT

// Objects of this extension have their Instance as a binding, so that one can be found that is handed over.
const GDExtensionInstanceBindingCallbacks binding = {nullptr, nullptr, nullptr};

// What a GDExtensionPropertyInfo points to, as long as it is needed.
class Information {
public:
  Information(const char* name, GDExtensionVariantType type, const char* of_class, uint32_t hint,
              const char* hint_text, uint32_t usage = usage_default)
      : name_(name), class_(of_class), text_(hint_text) {
    info_ = {type, name_.get(), class_.get(), hint, text_.get(), usage};
  }
  GDExtensionPropertyInfo* get() { return &info_; }

private:
  Name name_, class_;
  String text_;
  GDExtensionPropertyInfo info_;
};

// Information about arguments, one after the other as the interface wants them.
struct Arguments {
  explicit Arguments(const std::vector<Argument>& arguments) {
    for (const Argument& argument : arguments) {
      all.emplace_back(argument.name, argument.type, argument.of_class, 0u, "",
                       argument.type == GDEXTENSION_VARIANT_TYPE_NIL ? usage_default | usage_any
                                                                     : usage_default);
      infos.push_back(*all.back().get());
      metadata.push_back(GDEXTENSION_METHOD_ARGUMENT_METADATA_NONE);
    }
  }
  std::deque<Information> all;
  std::vector<GDExtensionPropertyInfo> infos;
  std::vector<GDExtensionClassMethodArgumentMetadata> metadata;
};

void call_method(void* user, GDExtensionClassInstancePtr instance, const GDExtensionConstVariantPtr* given,
                 GDExtensionInt count, GDExtensionVariantPtr result, GDExtensionCallError* error) {
  const Method& method = *static_cast<const Method*>(user);
  const size_t most = method.arguments.size(), least = most - method.defaults.size();
  error->error = GDEXTENSION_CALL_OK;
  if (static_cast<size_t>(count) > most || static_cast<size_t>(count) < least) {
    error->error = static_cast<size_t>(count) > most ? GDEXTENSION_CALL_ERROR_TOO_MANY_ARGUMENTS
                                                     : GDEXTENSION_CALL_ERROR_TOO_FEW_ARGUMENTS;
    error->expected = static_cast<int32_t>(static_cast<size_t>(count) > most ? most : least);
    return;
  }
  std::vector<Variant> arguments;
  for (size_t i = 0; i < most; ++i)
    arguments.push_back(i < static_cast<size_t>(count) ? Variant::copy(given[i])
                                                       : method.defaults[i - least]);
  const Variant made = method.body(*static_cast<Instance*>(instance), arguments);
  if (method.result == GDEXTENSION_VARIANT_TYPE_NIL) return;
  api.variant_destroy(result);
  api.variant_new_copy(result, made.get());
}

void call_method_typed(void* user, GDExtensionClassInstancePtr instance, const GDExtensionConstTypePtr* given,
                       GDExtensionTypePtr result) {
  const Method& method = *static_cast<const Method*>(user);
  std::vector<Variant> arguments;
  for (size_t i = 0; i < method.arguments.size(); ++i)
    arguments.push_back(Variant::typed(method.arguments[i].type, given[i]));
  const Variant made = method.body(*static_cast<Instance*>(instance), arguments);
  if (method.result == GDEXTENSION_VARIANT_TYPE_NIL) return;
  api.variant_get_ptr_destructor(method.result) ? api.variant_get_ptr_destructor(method.result)(result)
                                                : void();
  made.to(method.result, result);
}

void add_method(const Class& of_class, const Method& method) {
  const Name class_name(of_class.name), name(method.name);
  Arguments arguments(method.arguments);
  Information result("", method.result, "", 0, "");
  std::vector<GDExtensionVariantPtr> defaults;
  for (const Variant& value : method.defaults) defaults.push_back(value.get());
  GDExtensionClassMethodInfo info{};
  info.name = name.get();
  info.method_userdata = const_cast<Method*>(&method);
  info.call_func = call_method;
  info.ptrcall_func = call_method_typed;
  info.method_flags =
      GDEXTENSION_METHOD_FLAGS_DEFAULT | (method.is_constant ? GDEXTENSION_METHOD_FLAG_CONST : 0);
  info.has_return_value = method.result != GDEXTENSION_VARIANT_TYPE_NIL;
  info.return_value_info = result.get();
  info.argument_count = static_cast<uint32_t>(arguments.infos.size());
  info.arguments_info = arguments.infos.data();
  info.arguments_metadata = arguments.metadata.data();
  info.default_argument_count = static_cast<uint32_t>(defaults.size());
  info.default_arguments = defaults.data();
  api.classdb_register_extension_class_method(library, class_name.get(), &info);
}

// The methods that properties have, which must stay as long as the extension.
std::deque<Method> accessors;
std::deque<std::string> accessor_names;

void add_property(const Class& of_class, const Property& property) {
  const Name class_name(of_class.name);
  if (property.group)
    api.classdb_register_extension_class_property_group(library, class_name.get(),
                                                        String(property.group).get(), String("").get());
  const bool is_switch = property.type == GDEXTENSION_VARIANT_TYPE_BOOL;
  const std::string name = property.name;
  const char* getter = accessor_names.emplace_back((is_switch ? "is_" : "get_") + name).c_str();
  const char* setter = accessor_names.emplace_back("set_" + name).c_str();
  const char* object_class = property.type == GDEXTENSION_VARIANT_TYPE_OBJECT ? property.hint_text : "";
  add_method(of_class, accessors.emplace_back(Method{getter,
                                                     {},
                                                     property.type,
                                                     [name](Instance& instance, const std::vector<Variant>&) {
                                                       return instance.value(name);
                                                     },
                                                     {},
                                                     true}));
  add_method(of_class,
             accessors.emplace_back(Method{setter,
                                           {{"value", property.type, object_class}},
                                           GDEXTENSION_VARIANT_TYPE_NIL,
                                           [name](Instance& instance, const std::vector<Variant>& arguments) {
                                             instance.set_value(name, arguments[0]);
                                             return Variant();
                                           }}));
  Information info(property.name, property.type, object_class, property.hint, property.hint_text);
  api.classdb_register_extension_class_property(library, class_name.get(), info.get(), Name(setter).get(),
                                                Name(getter).get());
}

void give_instance(const Class& of_class, GDExtensionObjectPtr object, Instance* instance) {
  api.object_set_instance(object, Name(of_class.name).get(), instance);
  api.object_set_instance_binding(object, library, instance, &binding);
}

GDExtensionObjectPtr create(void* user, GDExtensionBool notify_postinitialize) {
  const Class& of_class = *static_cast<const Class*>(user);
  GDExtensionObjectPtr object = api.classdb_construct_object2(Name(of_class.engine_parent).get());
  give_instance(of_class, object, of_class.make(of_class, object).release());
  // A resource does nothing then. It has no reference yet, either: one that came and went would free it.
  if (notify_postinitialize && std::strcmp(of_class.engine_parent, "Resource") != 0)
    Variant::object(object).call("notification", int{notification_postinitialize});
  return object;
}

// After a reload of the library. Godot sets the properties again.
GDExtensionClassInstancePtr recreate(void* user, GDExtensionObjectPtr object) {
  const Class& of_class = *static_cast<const Class*>(user);
  Instance* instance = of_class.make(of_class, object).release();
  api.object_set_instance_binding(object, library, instance, &binding);
  return instance;
}

void free_instance(void*, GDExtensionClassInstancePtr instance) {
  delete static_cast<Instance*>(instance);
}

void notify(GDExtensionClassInstancePtr instance, int32_t what, GDExtensionBool) {
  static_cast<Instance*>(instance)->notified(what);
}

} // namespace

void add_class(Class& of_class) {
  const Name name(of_class.name), parent(of_class.parent);
  GDExtensionClassCreationInfo4 info{};
  info.is_exposed = true;
  info.notification_func = notify;
  info.create_instance_func = create;
  info.free_instance_func = free_instance;
  info.recreate_instance_func = recreate;
  info.class_userdata = &of_class;
  api.classdb_register_extension_class4(library, name.get(), parent.get(), &info);
  for (const Constant& constant : of_class.constants)
    api.classdb_register_extension_class_integer_constant(library, name.get(),
                                                          Name(constant.enumeration).get(),
                                                          Name(constant.name).get(), constant.value, false);
  for (const Property& property : of_class.properties) add_property(of_class, property);
  for (const Method& method : of_class.methods) add_method(of_class, method);
  for (const Signal& signal : of_class.signals) {
    const Arguments arguments(signal.arguments);
    api.classdb_register_extension_class_signal(library, name.get(), Name(signal.name).get(),
                                                arguments.infos.data(),
                                                static_cast<GDExtensionInt>(arguments.infos.size()));
  }
}

void remove_class(const Class& of_class) {
  api.classdb_unregister_extension_class(library, Name(of_class.name).get());
}

namespace {

// Resources may be made by threads that load.
std::mutex instances_mutex;
std::set<Instance*> instances;

} // namespace

Instance::Instance(const Class& of_class, GDExtensionObjectPtr object) : object_(object) {
  const std::lock_guard lock(instances_mutex);
  instances.insert(this);
  for (const Class* each = &of_class; each; each = each->base)
    for (const Property& property : each->properties) {
      // Arrays are shared by those who have them: each object needs its own.
      const bool is_shared = property.type >= GDEXTENSION_VARIANT_TYPE_DICTIONARY;
      values_.emplace(property.name, is_shared ? property.value.call("duplicate") : property.value);
    }
}

Instance::~Instance() {
  const std::lock_guard lock(instances_mutex);
  instances.erase(this);
}

void Instance::release_all() {
  const std::lock_guard lock(instances_mutex);
  for (Instance* each : instances) each->release();
}

void Instance::set_value(const std::string& property, const Variant& value) {
  values_.at(property) = value;
  changed(property);
}

Instance* Instance::of(const Variant& object) {
  GDExtensionObjectPtr found = object.object();
  return found ? static_cast<Instance*>(api.object_get_instance_binding(found, library, nullptr)) : nullptr;
}

} // namespace godot
