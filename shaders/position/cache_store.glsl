// How four neighbouring dimensions of a key or value get into the cache, by KEY_TYPE and VALUE_TYPE, or by CACHE_TYPE where
// both are the same. The layouts are described in runtime/kernel/cache_layout.h. `tile` counts the tiles of eight positions,
// `place` the positions in one.

#include "common/half.glsl"

// Rounds to nearest, because rounding towards zero would bias all keys and values. Numbers outside the range of f16 are
// clamped, because an infinity would spoil every score.
vec4 to_half(vec4 a) {
  a = clamp(a, -65504.0, 65504.0);
  return vec4(round_to_half(a.x), round_to_half(a.y), round_to_half(a.z), round_to_half(a.w));
}

#ifndef KEY_TYPE
#define KEY_TYPE CACHE_TYPE
#define VALUE_TYPE CACHE_TYPE
#endif

#if KEY_TYPE == 2 || VALUE_TYPE == 2
const uint CACHE_QUADS = (HEAD_DIM + 31) / 32 * 8; // of a head with its padding
const uint BLOCKS = CACHE_QUADS / 8;
const uint KEY_BLOCK_WORDS = 4 + 64; // the scales of eight positions, then their bytes
const uint TILE_WORDS = BLOCKS * KEY_BLOCK_WORDS;

float largest_of(vec4 a) { return max(max(abs(a.x), abs(a.y)), max(abs(a.z), abs(a.w))); }

// The largest of the 32 numbers that eight neighbouring invocations have.
#ifdef LANE
float block_maximum(vec4 a) { return lane_max(largest_of(a)); }
#else
shared float largest[gl_WorkGroupSize.x];

float block_maximum(vec4 a) {
  const uint own = gl_LocalInvocationID.x;
  largest[own] = largest_of(a);
  barrier();
  float m = 0.0;
  for (uint j = 0; j < 8u; ++j) m = max(m, largest[(own & ~7u) + j]);
  barrier(); // the next ones may overwrite them
  return m;
}
#endif

// Two positions share a scale's dword.
#ifdef ONE_ROW
// No other row writes now. Other workgroups with the same head write the same value.
#define KEEP_SCALE(dwords, at, place, scale_half) \
  dwords[at] = bitfieldInsert(dwords[at], scale_half, int(place % 2u * 16u), 16)
#else
// Another workgroup may write the other position's scale at the same time.
#define KEEP_SCALE(dwords, at, place, scale_half) \
  atomicAnd(dwords[at], ~(0xffffu << place % 2u * 16u)); \
  atomicOr(dwords[at], scale_half << place % 2u * 16u)
#endif

// To be called by all invocations of the workgroup.
uint block_scale(vec4 a) { return packHalf2x16(to_half(vec4(block_maximum(a) / 127.0)).xx) & 0xffffu; }

uint four_bytes(vec4 a, uint scale_half) {
  const float scale = unpackHalf2x16(scale_half).x;
  const ivec4 bytes = scale > 0.0 ? ivec4(clamp(roundEven(a / scale), -127.0, 127.0)) : ivec4(0);
  return uint(bytes.x & 255) | uint(bytes.y & 255) << 8 | uint(bytes.z & 255) << 16 | uint(bytes.w) << 24;
}
#else
const uint CACHE_QUADS = (HEAD_DIM + 7) / 8 * 2; // of a head with its padding
uint block_scale(vec4) { return 0u; }
#endif

uvec2 four_halves(vec4 a) {
  a = to_half(a);
  return uvec2(packHalf2x16(a.xy), packHalf2x16(a.zw));
}

#if KEY_TYPE == 2
CACHE_BUFFER(uint, stored_keys, SLOT_KEYS);

void store_key(uint tile, uint place, uint quad, vec4 a, uint scale_half) {
  const uint block = tile * TILE_WORDS + quad / 8u * KEY_BLOCK_WORDS;
  stored_keys[block + 4u + (quad % 8u / 4u * 8u + place) * 4u + quad % 4u] = four_bytes(a, scale_half);
  if (quad % 8u == 0u) {
    KEEP_SCALE(stored_keys, block + place / 2u, place, scale_half);
  }
}
#elif KEY_TYPE == 1
CACHE_BUFFER(uvec2, stored_keys, SLOT_KEYS);

void store_key(uint tile, uint place, uint quad, vec4 a, uint) {
  const uint unit = tile * (CACHE_QUADS / 2u) + quad / 2u;
  stored_keys[(unit * 8u + place) * 2u + quad % 2u] = four_halves(a);
}
#else
CACHE_BUFFER(vec4, stored_keys, SLOT_KEYS);

void store_key(uint tile, uint place, uint quad, vec4 a, uint) {
  stored_keys[(tile * CACHE_QUADS + quad) * 8u + place] = a;
}
#endif

#if VALUE_TYPE == 2
CACHE_BUFFER(uint, stored_values, SLOT_VALUES);

void store_value(uint tile, uint place, uint quad, vec4 a, uint scale_half) {
  const uint block = tile * TILE_WORDS + quad / 8u * 4u;
  stored_values[tile * TILE_WORDS + BLOCKS * 4u + place * CACHE_QUADS + quad] = four_bytes(a, scale_half);
  if (quad % 8u == 0u) {
    KEEP_SCALE(stored_values, block + place / 2u, place, scale_half);
  }
}
#elif VALUE_TYPE == 1
CACHE_BUFFER(uvec2, stored_values, SLOT_VALUES);

void store_value(uint tile, uint place, uint quad, vec4 a, uint) {
  stored_values[(tile * 8u + place) * CACHE_QUADS + quad] = four_halves(a);
}
#else
CACHE_BUFFER(vec4, stored_values, SLOT_VALUES);

void store_value(uint tile, uint place, uint quad, vec4 a, uint) {
  stored_values[(tile * 8u + place) * CACHE_QUADS + quad] = a;
}
#endif

// To be called by all invocations of the workgroup, also by those with nothing to store (`wanted` is false).
void store_in_cache(bool wanted, bool is_key, uint tile, uint place, uint quad, vec4 a) {
  const uint scale_half = block_scale(a);
  if (!wanted) return;
  if (is_key) {
    store_key(tile, place, quad, a, scale_half);
  } else {
    store_value(tile, place, quad, a, scale_half);
  }
}
