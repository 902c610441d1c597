#include "tasks.h"

#include "wait.h"

namespace godot {

namespace {

constexpr auto none = GDEXTENSION_VARIANT_TYPE_NIL, string = GDEXTENSION_VARIANT_TYPE_STRING,
               integer = GDEXTENSION_VARIANT_TYPE_INT, real = GDEXTENSION_VARIANT_TYPE_FLOAT,
               boolean = GDEXTENSION_VARIANT_TYPE_BOOL;
using Arguments = std::vector<Variant>;

} // namespace

void TaskNode::notified(int32_t what) {
  if (what == notification_enter_tree) self().call("set_process_internal", true);
  if (what != notification_internal_process) return;
  slices_.advance();
  worker_.take();
}

void TaskNode::changed(const std::string& property) {
  if (property != "frame_budget_us") stale_ = true;
}

void TaskNode::forget_if_stale() {
  if (stale_.exchange(false)) forget();
}

void TaskNode::leave() {
  leaving_ = true;
  slices_.leave();
  worker_.stop();
}

void TaskNode::fail(const std::string& message) {
  worker_.deliver([this, message] { emit("failed", message); });
}

Class TaskNode::class_of(const char* name) {
  Class made;
  made.name = name;
  made.parent = made.engine_parent = "Node";
  made.properties = {{"model", GDEXTENSION_VARIANT_TYPE_OBJECT, Variant(), 17, "PumiceModel"},
                     {"frame_budget_us", real, 2000.0, 1, "0,16000,100,or_greater"}};
  made.signals = {{"failed", {{"message", string}}}};
  return made;
}

Method TaskNode::cancel_method() {
  return {"cancel", {}, none, [](Instance& self, const Arguments&) {
            return static_cast<TaskNode&>(self).slices_.cancel(), Variant();
          }};
}

// ---- Translator ----

void Translator::translate(const std::string& text) {
  worker_.post([this, text, loading = Model::load(value("model")), source = value("source_language").text(),
                target = value("target_language").text(), glossary = value("glossary").text(),
                beams = value("beams").integer(), frame = budget()] {
    Loaded loaded;
    if (const std::string failure = wait_for(loading, leaving_, loaded); !failure.empty())
      return fail(failure);
    forget_if_stale();
    if (!translator_) {
      pumice_writing_options writing{};
      writing.struct_size = sizeof writing;
      writing.beams = static_cast<uint32_t>(beams);
      pumice_translator_options options{};
      options.struct_size = sizeof options;
      options.source_language = optional(source);
      options.target_language = optional(target);
      options.glossary = optional(glossary);
      options.writing = &writing;
      pumice_creation_options creation{};
      creation.translator = &options;
      pumice_created created;
      if (const std::string failure = create(loaded.model.get(), creation, leaving_, created);
          !failure.empty())
        return fail(failure);
      translator_.reset(created.translator);
    }
    const char* const texts[] = {text.c_str()};
    const auto start = frame > 0 ? pumice_translator_begin : pumice_translator_translate;
    const Slices::End end =
        slices_.run(pumice_translator_work(translator_.get()), frame,
                    [&](pumice_error* failure) { return start(translator_.get(), texts, 1, failure); });
    if (end.failed()) return fail(end.message);
    pumice_error error;
    const pumice_translation* translation = nullptr;
    if (pumice_translator_result(translator_.get(), 0, &translation, &error) != PUMICE_OK)
      return fail(error.message);
    worker_.deliver(
        [this, written = std::string(translation->texts[0].text)] { emit("translated", written); });
  });
}

std::unique_ptr<Class> Translator::make_class() {
  auto made = std::make_unique<Class>(class_of("PumiceTranslator"));
  made->make = [](const Class& of_class, GDExtensionObjectPtr object) {
    return std::make_unique<Translator>(of_class, object);
  };
  made->properties.push_back({"source_language", string, ""});
  made->properties.push_back({"target_language", string, ""});
  made->properties.push_back({"glossary", string, "", 18});
  made->properties.push_back({"beams", integer, 0, 1, "0,64"});
  made->methods = {{"translate",
                    {{"text", string}},
                    none,
                    [](Instance& self, const Arguments& given) {
                      return static_cast<Translator&>(self).translate(given[0].text()), Variant();
                    }},
                   cancel_method()};
  made->signals.push_back({"translated", {{"text", string}}});
  return made;
}

// ---- Transcriber ----

void Transcriber::transcribe(std::vector<float> samples, uint32_t rate) {
  worker_.post([this, rate, samples = std::move(samples), loading = Model::load(value("model")),
                language = value("language").text(), prompt = value("prompt").text(),
                translate = value("translate").flag(), frame = budget()] {
    Loaded loaded;
    if (const std::string failure = wait_for(loading, leaving_, loaded); !failure.empty())
      return fail(failure);
    forget_if_stale();
    if (!transcriber_) {
      pumice_transcriber_options options{};
      options.struct_size = sizeof options;
      options.language = optional(language);
      options.prompt = optional(prompt);
      options.translate = translate;
      pumice_creation_options creation{};
      creation.transcriber = &options;
      pumice_created created;
      if (const std::string failure = create(loaded.model.get(), creation, leaving_, created);
          !failure.empty())
        return fail(failure);
      transcriber_.reset(created.transcriber);
    }
    text_.clear();
    const auto on_segment = [](void* user, const pumice_segment* segment) {
      auto& self = *static_cast<Transcriber*>(user);
      self.text_ += segment->text;
      self.worker_.deliver([&self, text = std::string(segment->text), start = segment->start_us / 1e6,
                            end = segment->end_us / 1e6] { self.emit("segment", text, start, end); });
    };
    const auto start = frame > 0 ? pumice_transcriber_begin : pumice_transcriber_transcribe;
    const Slices::End end =
        slices_.run(pumice_transcriber_work(transcriber_.get()), frame, [&](pumice_error* failure) {
          return start(transcriber_.get(), samples.data(), samples.size(), rate, on_segment, this, failure);
        });
    if (end.failed()) return fail(end.message);
    worker_.deliver([this, text = text_] { emit("transcribed", text); });
  });
}

std::unique_ptr<Class> Transcriber::make_class() {
  auto made = std::make_unique<Class>(class_of("PumiceTranscriber"));
  made->make = [](const Class& of_class, GDExtensionObjectPtr object) {
    return std::make_unique<Transcriber>(of_class, object);
  };
  made->properties.push_back({"language", string, ""});
  made->properties.push_back({"translate", boolean, false});
  made->properties.push_back({"prompt", string, "", 18});
  made->methods = {{"transcribe",
                    {{"samples", GDEXTENSION_VARIANT_TYPE_PACKED_FLOAT32_ARRAY}, {"rate", integer}},
                    none,
                    [](Instance& self, const Arguments& given) {
                      return static_cast<Transcriber&>(self).transcribe(
                                 given[0].floats(), static_cast<uint32_t>(given[1].integer())),
                             Variant();
                    },
                    {0}},
                   cancel_method()};
  made->signals.push_back({"segment", {{"text", string}, {"start", real}, {"end", real}}});
  made->signals.push_back({"transcribed", {{"text", string}}});
  return made;
}

} // namespace godot
