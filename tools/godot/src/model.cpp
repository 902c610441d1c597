#include "model.h"

#include "device.h"

#include <chrono>
#include <optional>

namespace godot {

namespace {

constexpr uint32_t hint_enum = 2, hint_file = 13, hint_range = 1; // of PropertyHint
constexpr int64_t mode_read = 1;                                  // FileAccess.READ

Variant class_database() {
  return Variant::singleton("ClassDB");
}

// A file as Godot sees it: also one within an exported package.
struct PackedFile {
  explicit PackedFile(const std::string& path)
      : file(class_database().call("class_call_static", "FileAccess", "open", path, mode_read)) {}

  static bool read(void* user, uint64_t at, void* to, size_t count) {
    const Variant& file = static_cast<PackedFile*>(user)->file;
    file.call("seek", static_cast<int64_t>(at));
    const Variant part = file.call("get_buffer", static_cast<int64_t>(count));
    const uint8_t* bytes = part.bytes();
    if (!bytes || part.size() != static_cast<int64_t>(count)) return false;
    std::copy(bytes, bytes + count, static_cast<uint8_t*>(to));
    return true;
  }

  Variant file; // nil: there is none
};

// The path of the operating system, if the file is one of its own; otherwise "".
std::string path_on_disk(const std::string& path) {
  const std::string real = Variant::singleton("ProjectSettings").call("globalize_path", path).text();
  const auto exists = [&](const char* class_name, const char* function) {
    return class_database().call("class_call_static", class_name, function, real).flag();
  };
  // In an exported game, what res:// leads to is a relative path, and is looked for in the package.
  if (real.rfind("res://", 0) == 0 || !Variant(real).call("is_absolute_path").flag()) return {};
  return exists("FileAccess", "file_exists") || exists("DirAccess", "dir_exists_absolute") ? real
                                                                                           : std::string();
}

} // namespace

struct Model::Request {
  std::string path, real_path, quantize, cache_folder;
  Where where;
  EngineDevice engine;
  pumice_purpose purpose;
  bool pictures;
  uint32_t threads;
  float tune_seconds;
};

Loading Model::load(const Variant& model) {
  auto* instance = dynamic_cast<Model*>(Instance::of(model));
  return instance ? instance->load() : Loading();
}

Loading Model::load() {
  if (loading_.valid()) return loading_;
  const Variant main_loop = Variant::singleton("Engine").call("get_main_loop");
  Request request;
  request.path = value("file").text();
  request.real_path = path_on_disk(request.path);
  request.quantize = value("quantize").text();
  request.where = static_cast<Where>(value("device").integer());
  if (request.where != Where::own) request.engine = find_engine_device();
  request.purpose = static_cast<pumice_purpose>(value("purpose").integer());
  request.pictures = value("vision").flag();
  request.threads = static_cast<uint32_t>(value("threads").integer());
  request.tune_seconds = static_cast<float>(value("measure_seconds").number());
  if (value("keep_kernels").flag()) {
    request.cache_folder =
        Variant::singleton("ProjectSettings").call("globalize_path", "user://pumice").text();
    class_database().call("class_call_static", "DirAccess", "make_dir_recursive_absolute",
                          request.cache_folder);
  }
  std::promise<Loaded> promise;
  loading_ = promise.get_future().share();
  stop_ = false;
  done_ = total_ = 0;
  thread_ = std::thread(
      [this, request, promise = std::move(promise)]() mutable { promise.set_value(run(request)); });
  if (main_loop.object() && main_loop.call("has_signal", "process_frame").flag())
    main_loop.call("connect", "process_frame", Variant::callable(object(), "_poll"));
  return loading_;
}

// On the thread that loads.
Loaded Model::run(const Request& request) {
  Loaded loaded;
  pumice_source source{};
  source.struct_size = sizeof source;
  std::optional<PackedFile> packed;
  if (!request.real_path.empty()) {
    source.path = request.real_path.c_str();
  } else {
    packed.emplace(request.path);
    if (!packed->file.object()) {
      loaded.failure = request.path.empty()
                           ? "file is empty: expected a GGUF file, or a folder of Hugging Face"
                           : "there is no file " + request.path;
      return loaded;
    }
    source.read = PackedFile::read;
    source.user = &*packed;
    source.bytes = static_cast<uint64_t>(packed->file.call("get_length").integer());
    source.name = request.path.c_str();
  }
  const std::shared_ptr<pumice_device> device = open_device(
      request.where, request.engine, request.cache_folder, loaded.on_engine_device, loaded.failure);
  if (!device) return loaded;
  pumice_load_options options{};
  options.struct_size = sizeof options;
  options.progress = [](void* user, uint64_t done, uint64_t total) {
    auto& model = *static_cast<Model*>(user);
    model.done_ = done;
    model.total_ = total;
    return !model.stop_;
  };
  options.user = this;
  options.threads = request.threads;
  options.tune_seconds = request.tune_seconds;
  options.quantize = request.quantize.empty() ? nullptr : request.quantize.c_str();
  options.purpose = request.purpose;
  options.budget_us = 2000; // draws in the same queue wait no longer for a copy
  options.vision = request.pictures;
  pumice_model* model = nullptr;
  pumice_error error;
  if (pumice_model_load(device.get(), &source, &options, &model, &error) != PUMICE_OK)
    loaded.failure = error.message;
  else // the device stays as long as the model does
    loaded.model = {model, [device](pumice_model* each) { pumice_model_destroy(each); }};
  return loaded;
}

void Model::cancel() {
  stop_ = true;
  if (thread_.joinable()) thread_.join();
  loading_ = {};
}

void Model::changed(const std::string&) {
  cancel(); // the next use loads it again, as it is wanted now
}

void Model::poll() {
  if (!loading_.valid() || loading_.wait_for(std::chrono::seconds(0)) != std::future_status::ready) return;
  const Variant main_loop = Variant::singleton("Engine").call("get_main_loop");
  const Variant callable = Variant::callable(object(), "_poll");
  if (main_loop.call("is_connected", "process_frame", callable).flag())
    main_loop.call("disconnect", "process_frame", callable);
  if (thread_.joinable()) thread_.join();
  const Loaded loaded = loading_.get(); // a copy: a handler may begin another load
  if (loaded.model)
    emit("loaded");
  else
    emit("failed", loaded.failure);
}

Variant Model::info() {
  Variant info = Variant::empty(GDEXTENSION_VARIANT_TYPE_DICTIONARY);
  const bool ready =
      loading_.valid() && loading_.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  const Loaded loaded = ready ? loading_.get() : Loaded();
  if (!loaded.model) return info;
  pumice_model_info got{};
  got.struct_size = sizeof got;
  pumice_error error;
  if (pumice_model_get_info(loaded.model.get(), &got, &error) != PUMICE_OK) return info;
  info.set("architecture", got.architecture);
  info.set("context", static_cast<int64_t>(got.context));
  info.set("vocabulary", static_cast<int64_t>(got.vocabulary));
  info.set("weight_bytes", static_cast<int64_t>(got.weight_bytes));
  info.set("writes", got.has_decoder);
  info.set("encodes", got.has_encoder);
  info.set("on_engine_device", loaded.on_engine_device);
  return info;
}

std::unique_ptr<Class> Model::make_class() {
  const auto model = [](Instance& instance) -> Model& { return static_cast<Model&>(instance); };
  const auto ready = [](const Loading& loading) {
    return loading.valid() && loading.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  };
  using Arguments = std::vector<Variant>;
  auto made = std::make_unique<Class>();
  made->name = "PumiceModel";
  made->parent = made->engine_parent = "Resource";
  made->make = [](const Class& of_class, GDExtensionObjectPtr object) {
    return std::make_unique<Model>(of_class, object);
  };
  made->properties = {
      {"file", GDEXTENSION_VARIANT_TYPE_STRING, "", hint_file, "*.gguf"},
      {"purpose", GDEXTENSION_VARIANT_TYPE_INT, 0, hint_enum, "Text,Vectors,Scores"},
      {"device", GDEXTENSION_VARIANT_TYPE_INT, 0, hint_enum, "Automatic,Engine,Own"},
      {"quantize", GDEXTENSION_VARIANT_TYPE_STRING, ""},
      {"vision", GDEXTENSION_VARIANT_TYPE_BOOL, false},
      {"threads", GDEXTENSION_VARIANT_TYPE_INT, 1, hint_range, "1,16"},
      {"keep_kernels", GDEXTENSION_VARIANT_TYPE_BOOL, true},
      {"measure_seconds", GDEXTENSION_VARIANT_TYPE_FLOAT, 0.0, hint_range, "-1,10,0.1,or_greater"},
  };
  made->methods = {
      {"load_in_background",
       {},
       GDEXTENSION_VARIANT_TYPE_NIL,
       [=](Instance& self, const Arguments&) { return model(self).load(), Variant(); }},
      {"is_loaded",
       {},
       GDEXTENSION_VARIANT_TYPE_BOOL,
       [=](Instance& self, const Arguments&) {
         const Loading& loading = model(self).loading_;
         return Variant(ready(loading) && loading.get().model != nullptr);
       },
       {},
       true},
      {"get_progress",
       {},
       GDEXTENSION_VARIANT_TYPE_FLOAT,
       [=](Instance& self, const Arguments&) {
         const uint64_t total = model(self).total_;
         if (ready(model(self).loading_)) return Variant(1.0);
         return Variant(total == 0 ? 0.0
                                   : static_cast<double>(model(self).done_) / static_cast<double>(total));
       },
       {},
       true},
      {"get_info",
       {},
       GDEXTENSION_VARIANT_TYPE_DICTIONARY,
       [=](Instance& self, const Arguments&) { return model(self).info(); },
       {},
       true},
      {"unload",
       {},
       GDEXTENSION_VARIANT_TYPE_NIL,
       [=](Instance& self, const Arguments&) { return model(self).cancel(), Variant(); }},
      {"_poll",
       {},
       GDEXTENSION_VARIANT_TYPE_NIL,
       [=](Instance& self, const Arguments&) { return model(self).poll(), Variant(); }},
  };
  made->signals = {{"loaded", {}}, {"failed", {{"message", GDEXTENSION_VARIANT_TYPE_STRING}}}};
  made->constants = {{"Purpose", "PURPOSE_TEXT", 0},   {"Purpose", "PURPOSE_VECTORS", 1},
                     {"Purpose", "PURPOSE_SCORES", 2}, {"Device", "DEVICE_AUTOMATIC", 0},
                     {"Device", "DEVICE_ENGINE", 1},   {"Device", "DEVICE_OWN", 2}};
  return made;
}

} // namespace godot
