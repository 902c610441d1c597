#pragma once

#include "support/files/byte_writer.h"

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

// A safetensors file with this header, true or not, and that many bytes of data (0, 1, 2 ...).
inline std::vector<std::byte> safetensors_bytes(std::string_view header, size_t data_bytes,
                                                std::optional<uint64_t> length_claimed = {}) {
  ByteWriter out;
  out.number(length_claimed.value_or(header.size())).text(header);
  for (size_t i = 0; i < data_bytes; ++i) out.number(static_cast<uint8_t>(i));
  return out.bytes();
}

// Nothing wrong: F32 [2, 3], BF16 [4], and position ids as real files hold them.
inline std::vector<std::byte> small_safetensors() {
  return safetensors_bytes(R"({"__metadata__":{"format":"pt"},)"
                           R"("a.weight":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
                           R"("a.bias":{"dtype":"BF16","shape":[4],"data_offsets":[24,32]},)"
                           R"("position_ids":{"dtype":"I64","shape":[1,2],"data_offsets":[32,48]}})",
                           48);
}
