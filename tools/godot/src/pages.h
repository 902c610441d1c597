// The class reference, doc_classes/*.xml, which the build puts into the library for the editor.
#pragma once

#include <cstdint>
#include <vector>

namespace godot {

struct Page {
  const char* text;
  int64_t bytes;
};

const std::vector<Page>& pages();

} // namespace godot
