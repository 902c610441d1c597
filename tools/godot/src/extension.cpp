// Where Godot enters: registers the classes, and takes them back when the library is unloaded.
#include <memory>
#include <vector>

#include "character.h"
#include "chat.h"
#include "layer.h"
#include "model.h"
#include "pages.h"
#include "tasks.h"
#include "vectors.h"

namespace godot {

namespace {

std::vector<std::unique_ptr<Class>>& classes() {
  static std::vector<std::unique_ptr<Class>> all;
  return all;
}

void initialize(void*, GDExtensionInitializationLevel level) {
  if (level == GDEXTENSION_INITIALIZATION_EDITOR && api.editor_help_load_xml_from_utf8_chars_and_len)
    for (const Page& page : pages()) api.editor_help_load_xml_from_utf8_chars_and_len(page.text, page.bytes);
  if (level != GDEXTENSION_INITIALIZATION_SCENE) return;
  layer::withdraw();
  auto& all = classes();
  all.push_back(Model::make_class());
  all.push_back(Chat::make_class());
  all.push_back(Character::make_class(*all.back()));
  all.push_back(Embedder::make_class());
  all.push_back(Transcriber::make_class());
  all.push_back(Translator::make_class());
  for (const auto& each : all) add_class(*each);
}

void deinitialize(void*, GDExtensionInitializationLevel level) {
  if (level != GDEXTENSION_INITIALIZATION_SCENE) return;
  Instance::release_all();
  auto& all = classes();
  while (!all.empty()) { // the derived ones first
    remove_class(*all.back());
    all.pop_back();
  }
}

} // namespace

} // namespace godot

extern "C" __attribute__((visibility("default"))) GDExtensionBool
pumice_godot(GDExtensionInterfaceGetProcAddress get, GDExtensionClassLibraryPtr library,
             GDExtensionInitialization* initialization) {
  if (!godot::load(get, library)) return false;
  // Godot opens libraries before it makes its device, and initialises them afterwards.
  godot::layer::announce();
  initialization->minimum_initialization_level = GDEXTENSION_INITIALIZATION_SCENE;
  initialization->initialize = godot::initialize;
  initialization->deinitialize = godot::deinitialize;
  return true;
}
