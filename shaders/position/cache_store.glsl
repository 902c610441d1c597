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

// 32 numbers in a few bits each, for which eight neighbouring invocations have four each: what an invocation stores of them.
struct Coded {
  uint scale; // f16
  uint word;
  bool stored; // the word
};

#if KEY_TYPE >= 2 || VALUE_TYPE >= 2
const uint CACHE_QUADS = (HEAD_DIM + 31) / 32 * 8; // of a head with its padding
const uint BLOCKS = CACHE_QUADS / 8;
// Of eight positions: the scales, then the numbers, of which a byte has one (q8_0) or two (q4_0).
const uint KEY_BLOCK_WORDS = 4 + (KEY_TYPE == 2 ? 64 : 32), VALUE_BLOCK_WORDS = 4 + (VALUE_TYPE == 2 ? 64 : 32);

#ifdef LANE
float block_maximum(float own) { return lane_max(own); }
uint other_half(uint own) { return subgroupShuffleXor(own, 4u); }
#else
shared uint exchanged[gl_WorkGroupSize.x];

// The largest number of the eight invocations.
float block_maximum(float own_number) {
  const uint own = gl_LocalInvocationID.x;
  exchanged[own] = floatBitsToUint(own_number);
  barrier();
  float m = uintBitsToFloat(exchanged[own & ~7u]);
  for (uint j = 1; j < 8u; ++j) m = max(m, uintBitsToFloat(exchanged[(own & ~7u) + j]));
  barrier(); // the next ones may overwrite them
  return m;
}

// What the invocation has whose numbers come 16 before or after.
uint other_half(uint own_word) {
  const uint own = gl_LocalInvocationID.x;
  exchanged[own] = own_word;
  barrier();
  const uint other = exchanged[own ^ 4u];
  barrier();
  return other;
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

float largest_of(vec4 a) { return max(max(a.x, a.y), max(a.z, a.w)); }

// Four numbers as whole multiples of the scale.
ivec4 multiples(vec4 a, uint scale_half, float least, float most) {
  const float scale = unpackHalf2x16(scale_half).x;
  return scale != 0.0 ? ivec4(clamp(roundEven(a / scale), least, most)) : ivec4(0);
}
uint half_of(float a) { return packHalf2x16(to_half(vec4(a)).xx) & 0xffffu; }
uint word_of(ivec4 bytes) {
  return uint(bytes.x & 255) | uint(bytes.y & 255) << 8 | uint(bytes.z & 255) << 16 | uint(bytes.w) << 24;
}

Coded as_bytes(vec4 a) {
  const uint scale = half_of(block_maximum(largest_of(abs(a))) / 127.0);
  return Coded(scale, word_of(multiples(a, scale, -127.0, 127.0)), true);
}

// A word has two times four numbers, each with 8 added. The number farthest from zero is -8 times the scale.
Coded as_nibbles(vec4 a, uint quad) {
  const float most = block_maximum(largest_of(a)), least = -block_maximum(largest_of(-a));
  const uint scale = half_of((most > -least ? most : least) / -8.0);
  const uint own = word_of(multiples(a, scale, -8.0, 7.0) + 8), other = other_half(own);
  return Coded(scale, own | other << 4, quad % 8u < 4u);
}

// To be called by all invocations of the workgroup.
Coded code(bool is_key, vec4 a, uint quad) {
#if KEY_TYPE != 3 && VALUE_TYPE != 3
  return as_bytes(a);
#elif KEY_TYPE != 2 && VALUE_TYPE != 2
  return as_nibbles(a, quad);
#else
  const Coded bytes = as_bytes(a), nibbles = as_nibbles(a, quad);
  if (is_key == (KEY_TYPE == 2)) return bytes;
  return nibbles;
#endif
}
#else
const uint CACHE_QUADS = (HEAD_DIM + 7) / 8 * 2; // of a head with its padding
Coded code(bool, vec4, uint) { return Coded(0u, 0u, false); }
#endif

uvec2 four_halves(vec4 a) {
  a = to_half(a);
  return uvec2(packHalf2x16(a.xy), packHalf2x16(a.zw));
}

#if KEY_TYPE >= 2
CACHE_BUFFER(uint, stored_keys, SLOT_KEYS);

void store_key(uint tile, uint place, uint quad, vec4 a, Coded own) {
  const uint block = (tile * BLOCKS + quad / 8u) * KEY_BLOCK_WORDS;
  if (own.stored) stored_keys[block + 4u + (quad % 8u / 4u * 8u + place) * 4u + quad % 4u] = own.word;
  if (quad % 8u == 0u) {
    KEEP_SCALE(stored_keys, block + place / 2u, place, own.scale);
  }
}
#elif KEY_TYPE == 1
CACHE_BUFFER(uvec2, stored_keys, SLOT_KEYS);

void store_key(uint tile, uint place, uint quad, vec4 a, Coded) {
  const uint unit = tile * (CACHE_QUADS / 2u) + quad / 2u;
  stored_keys[(unit * 8u + place) * 2u + quad % 2u] = four_halves(a);
}
#else
CACHE_BUFFER(vec4, stored_keys, SLOT_KEYS);

void store_key(uint tile, uint place, uint quad, vec4 a, Coded) {
  stored_keys[(tile * CACHE_QUADS + quad) * 8u + place] = a;
}
#endif

#if VALUE_TYPE >= 2
CACHE_BUFFER(uint, stored_values, SLOT_VALUES);

void store_value(uint tile, uint place, uint quad, vec4 a, Coded own) {
  const uint scales = tile * BLOCKS * VALUE_BLOCK_WORDS, numbers = scales + BLOCKS * 4u;
  const uint word = VALUE_TYPE == 2 ? place * CACHE_QUADS + quad : (place * BLOCKS + quad / 8u) * 4u + quad % 4u;
  if (own.stored) stored_values[numbers + word] = own.word;
  if (quad % 8u == 0u) {
    KEEP_SCALE(stored_values, scales + quad / 8u * 4u + place / 2u, place, own.scale);
  }
}
#elif VALUE_TYPE == 1
CACHE_BUFFER(uvec2, stored_values, SLOT_VALUES);

void store_value(uint tile, uint place, uint quad, vec4 a, Coded) {
  stored_values[(tile * 8u + place) * CACHE_QUADS + quad] = four_halves(a);
}
#else
CACHE_BUFFER(vec4, stored_values, SLOT_VALUES);

void store_value(uint tile, uint place, uint quad, vec4 a, Coded) {
  stored_values[(tile * 8u + place) * CACHE_QUADS + quad] = a;
}
#endif

// To be called by all invocations of the workgroup, also by those with nothing to store (`wanted` is false).
void store_in_cache(bool wanted, bool is_key, uint tile, uint place, uint quad, vec4 a) {
  const Coded own = code(is_key, a, quad);
  if (!wanted) return;
  if (is_key) {
    store_key(tile, place, quad, a, own);
  } else {
    store_value(tile, place, quad, a, own);
  }
}
