// Classes of Godot's, as tables: what an object of one is made of, and which function a method calls.
#pragma once

#include "engine.h"

#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

namespace godot {

class Instance;

// What a property that is left empty is for the library.
inline const char* optional(const std::string& text) {
  return text.empty() ? nullptr : text.c_str();
}

struct Argument {
  const char* name;
  GDExtensionVariantType type;
  const char* of_class = ""; // of an object
};

// Is kept in Instance, and has the methods set_NAME and get_NAME (of a switch, is_NAME).
struct Property {
  const char* name;
  GDExtensionVariantType type;
  Variant value;     // at first
  uint32_t hint = 0; // PropertyHint
  const char* hint_text = "";
  const char* group = nullptr; // begins here, in the inspector
};

struct Method {
  const char* name;
  std::vector<Argument> arguments;
  GDExtensionVariantType result; // NIL: none
  std::function<Variant(Instance& instance, const std::vector<Variant>& arguments)> body;
  std::vector<Variant> defaults = {}; // of the last arguments
  bool is_constant = false;
};

struct Signal {
  const char* name;
  std::vector<Argument> arguments;
};

struct Constant {
  const char* enumeration;
  const char* name;
  int64_t value;
};

struct Class {
  const char* name;
  const char* parent;
  const char* engine_parent; // the class of Godot's that it is made of
  std::function<std::unique_ptr<Instance>(const Class& of_class, GDExtensionObjectPtr object)> make;
  std::vector<Property> properties;
  std::vector<Method> methods;
  std::vector<Signal> signals;
  std::vector<Constant> constants = {};
  const Class* base = nullptr; // the parent, if it is a class of this extension
};

// The table must outlive the extension.
void add_class(Class& of_class);
void remove_class(const Class& of_class);

// What Godot's notifications are numbered.
enum Notification : int32_t {
  notification_postinitialize = 0,
  notification_enter_tree = 10,
  notification_exit_tree = 11,
  notification_ready = 13,
  notification_internal_process = 25
};

// What this extension keeps of an object of Godot's. Used on one thread at a time: the main one.
class Instance {
public:
  Instance(const Class& of_class, GDExtensionObjectPtr object);
  virtual ~Instance();
  Instance(const Instance&) = delete;
  Instance& operator=(const Instance&) = delete;

  virtual void notified(int32_t what) { (void)what; }
  virtual void changed(const std::string& property) { (void)property; }
  // Gives up what is on a device. The engine's own goes before objects that scripts still hold at the end.
  virtual void release() {}
  static void release_all();

  const Variant& value(const std::string& property) const { return values_.at(property); }
  void set_value(const std::string& property, const Variant& value);

  GDExtensionObjectPtr object() const { return object_; }
  Variant self() const { return Variant::object(object_); }
  template <class... Arguments>
  void emit(const char* signal, const Arguments&... arguments) const {
    self().call("emit_signal", signal, arguments...);
  }

  // The instance behind an object of a class of this extension, or null.
  static Instance* of(const Variant& object);

private:
  GDExtensionObjectPtr object_;
  std::unordered_map<std::string, Variant> values_;
};

} // namespace godot
