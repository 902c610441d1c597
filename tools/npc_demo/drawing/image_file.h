#pragma once

#include <cstdint>
#include <filesystem>

namespace npc {

// Writes a PNG. Each pixel has four bytes: red, green, blue, and an unused one.
void write_png(const std::filesystem::path& path, uint32_t width, uint32_t height, const uint8_t* pixels);

} // namespace npc
