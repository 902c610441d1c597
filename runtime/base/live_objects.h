#pragma once

namespace pumice {

// The objects that a program has handles of. `kind` tells kinds apart by its address: one place in memory can
// be an object of several.
void add_live(const void* object, const void* kind);
void remove_live(const void* object, const void* kind);
bool find_live(const void* object, const void* kind);

} // namespace pumice
