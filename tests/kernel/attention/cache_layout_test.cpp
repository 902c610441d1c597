#include "kernel/cache_layout.h"

#include <doctest/doctest.h>

#include "model/session_memory.h"

using namespace pumice;

TEST_CASE("a window shorter than the context takes a ring for itself and a chunk") {
  SessionSize size;
  size.context = 4096;
  size.chunk = 128;
  const CacheLayout all = cache_layout({2, 64, 0}, size), ring = cache_layout({2, 64, 7}, size);
  CHECK(all.capacity == 4096);
  CHECK(all.window == 0);
  CHECK(ring.window == 7);
  CHECK(ring.capacity % 32 == 0);
  CHECK(ring.capacity >= 7 - 1 + 128 + 32);
  CHECK(ring.capacity < 7 + 128 + 32 + 32);
  CHECK(ring.key_bytes() * 20 < all.key_bytes());
  // Nothing is gained by a ring where the whole is as small.
  for (uint32_t window : {3950u, 4096u, 5000u, UINT32_MAX}) {
    const CacheLayout layout = cache_layout({2, 64, window}, size);
    CHECK(layout.capacity == 4096);
    CHECK(layout.window == 0);
  }
}

TEST_CASE("a cache that passes what a kernel reaches is divided into even parts that fit") {
  const CacheLayout llama{CacheType::f16, 1, 131072, 8, 128}; // 256 MiB of keys
  constexpr uint64_t range = uint64_t{1} << 27;
  CHECK(llama.divided(llama.key_bytes(), false).parts() == 1);
  CHECK(llama.divided(range, false).parts() == 2);
  CacheLayout batch = llama, latent{CacheType::f32, 1, 163840, 1, 576},
              ring{CacheType::f16, 48, 4256, 8, 128};
  batch.sequences = 3;
  batch.capacity = 65536;
  ring.window = 4096;
  for (const CacheLayout& layout : {llama, batch, latent, ring}) {
    for (uint64_t reach : {range, range - 1, range / 3}) {
      for (const bool beams : {false, true}) {
        const CacheLayout divided = layout.divided(reach, beams);
        if (beams && layout.window > 0) { // neither by sequences, which share positions, nor by positions
          CHECK(divided.parts() == 1);
          continue;
        }
        REQUIRE(divided.parts() > 1);
        if (divided.split == CacheSplit::sequences) CHECK_FALSE(beams);
        if (divided.split == CacheSplit::positions) CHECK(divided.part_size % cache_part_positions == 0);
        uint64_t bytes = 0, next = 0;
        for (uint32_t i = 0; i < divided.parts(); ++i) {
          const CacheLayout part = divided.part(i);
          CHECK(part.key_bytes() <= reach);
          CHECK(part.part_first == next);
          next += divided.split == CacheSplit::positions ? part.capacity : part.sequences;
          bytes += part.key_bytes();
        }
        CHECK(bytes == divided.key_bytes());
        CHECK(bytes >= layout.key_bytes());
        CHECK(bytes - layout.key_bytes() <= divided.parts() * (cache_part_positions / 8) *
                                                layout.key_tile_bytes() * layout.kv_heads * layout.sequences);
      }
    }
  }
  // A ring that cannot be divided becomes a cache of all positions.
  SessionSize size;
  size.context = 8192;
  size.sequences = 4;
  size.beams = true;
  const LayerCache layer = {2, 64, 1000};
  CHECK(divided_layout(layer, size, range).window == 1000);
  const CacheLayout all = divided_layout(layer, size, 1 << 20);
  CHECK(all.window == 0);
  CHECK(all.split == CacheSplit::positions);
  CHECK(all.capacity >= 8192);
  CHECK(all.part(0).key_bytes() <= 1 << 20);
}

TEST_CASE("bytes of a cache") {
  CHECK(CacheLayout{CacheType::f32, 1, 64, 2, 10}.key_bytes() == 64 * 2 * 16 * 4);
  CHECK(CacheLayout{CacheType::f16, 3, 32, 1, 8}.key_bytes() == 3 * 32 * 8 * 2);
  CHECK(CacheLayout{CacheType::q8_0, 1, 64, 2, 64}.key_bytes() == 64 * 2 * (64 + 2 * 2));
  CHECK(CacheLayout{CacheType::q8_0, 1, 64, 2, 40}.key_bytes() == 64 * 2 * (64 + 2 * 2));
  CHECK(CacheLayout{CacheType::q4_0, 1, 64, 2, 40}.key_bytes() == 64 * 2 * (32 + 2 * 2));
  CHECK(CacheLayout{CacheType::q8_0_q4_0, 1, 64, 2, 64}.key_bytes() == 64 * 2 * (64 + 2 * 2));
  CHECK(CacheLayout{CacheType::q8_0_q4_0, 1, 64, 2, 64}.value_bytes() == 64 * 2 * (32 + 2 * 2));
  // Both are padded for bytes.
  CHECK(CacheLayout{CacheType::f16_q8_0, 1, 64, 2, 40}.key_bytes() == 64 * 2 * 64 * 2);
  CHECK(CacheLayout{CacheType::f16_q8_0, 1, 64, 2, 40}.value_bytes() == 64 * 2 * (64 + 2 * 2));
  CHECK(CacheLayout{CacheType::q8_0_f16, 1, 64, 2, 64}.longer_bytes() == 64 * 2 * 64 * 2);
}

TEST_CASE("a ring knows from where a conversation can go on") {
  for (uint32_t window : {1u, 7u, 30u}) {
    const CacheLayout layout{CacheType::f16, 1, 64, 1, 32, window};
    for (uint32_t end = 0; end < 200; ++end) {
      std::vector<uint32_t> holds(64, UINT32_MAX); // the last position written to each place
      for (uint32_t position = 0; position < end; ++position) holds[position % 64] = position;
      for (uint32_t position = 0; position < end + 3; ++position) {
        bool all = position <= end;
        for (uint32_t back = 1; back < window && back <= position; ++back) {
          all = all && holds[(position - back) % 64] == position - back;
        }
        REQUIRE(layout.can_resume(position, end) == all);
      }
    }
  }
  const CacheLayout whole{CacheType::f16, 1, 64, 1, 32};
  CHECK(whole.can_resume(0, 64));
  CHECK(whole.can_resume(64, 64));
  CHECK_FALSE(whole.can_resume(10, 9));
}

TEST_CASE("types of keys and values by their names") {
  for (const CacheType type : cache_types()) {
    CHECK(find_cache_type(to_string(type)) == type);
    CHECK(cache_type_of(key_type(type), value_type(type)) == type);
  }
  CHECK(find_cache_type("f16,q8_0") == CacheType::f16_q8_0);
  CHECK(find_cache_type("f16/f16") == CacheType::f16);
  for (const char* wrong : {"", "f16/", "/f16", "q4_1", "f16,q4_0", "f16,q8_0,f16", "F16"}) {
    CAPTURE(wrong);
    CHECK(!find_cache_type(wrong));
  }
}
