// How the lanes of attention.cpu8.comp load keys and values. While scores are computed, a lane has one position of a tile; while
// values are added up, it has OWN dimensions of each.
// The same memory in other units: of bytes, a lane has half as many of a value as of a key.
#if KEY_TYPE >= CACHE_Q8_0
CACHE_BUFFER(uint, key_words, ATTENTION_KEYS);
#endif
#if VALUE_TYPE >= CACHE_Q8_0
CACHE_BUFFER(uint, value_words, ATTENTION_VALUES);
CACHE_BUFFER(uvec2, value_chunks, ATTENTION_VALUES);
#endif

#ifdef ROTARY
// What a kernel writes itself it must not read as texels.
uvec4 key_quad(uint at) { return keys[at]; }
uvec4 value_quad(uint at) { return values[at]; }
#if KEY_TYPE >= CACHE_Q8_0
uint key_word(uint at) { return key_words[at]; }
#endif
#if VALUE_TYPE >= CACHE_Q8_0
uint value_word(uint at) { return value_words[at]; }
uvec2 value_chunk(uint at) { return value_chunks[at]; }
#endif
#else
#include "common/texels.h"
TEXELS(key_texels, ATTENTION_KEY_TEXELS);
TEXELS(value_texels, ATTENTION_VALUE_TEXELS);
const bool TEXEL_CACHE = CACHE_LOAD == LOAD_TEXEL;
uvec4 key_quad(uint at) { return TEXEL_CACHE ? texelFetch(key_texels, int(at)) : keys[at]; }
uvec4 value_quad(uint at) { return TEXEL_CACHE ? texelFetch(value_texels, int(at)) : values[at]; }
#if KEY_TYPE >= CACHE_Q8_0
TEXELS(key_dword_texels, ATTENTION_KEY_DWORD_TEXELS);
uint key_word(uint at) { return TEXEL_CACHE ? texelFetch(key_dword_texels, int(at)).x : key_words[at]; }
#endif
#if VALUE_TYPE >= CACHE_Q8_0
TEXELS(value_dword_texels, ATTENTION_VALUE_DWORD_TEXELS);
uint value_word(uint at) { return TEXEL_CACHE ? texelFetch(value_dword_texels, int(at)).x : value_words[at]; }
uvec2 value_chunk(uint at) {
  if (!TEXEL_CACHE) return value_chunks[at];
  const uvec4 quad = texelFetch(value_texels, int(at / 2u));
  return at % 2u == 0u ? quad.xy : quad.zw;
}
#endif
#endif

#if KEY_TYPE == CACHE_F32
#define KEY_ELEMENT(quad, i) uintBitsToFloat(quad[i])
#elif KEY_TYPE == CACHE_F16
#define KEY_ELEMENT(quad, i) unpackHalf2x16(quad[(i) / 2])[(i) % 2]
#endif
#if VALUE_TYPE == CACHE_F32
const uint PER_DWORD = 1; // of a value
float element(uint word, uint) { return uintBitsToFloat(word); }
#elif VALUE_TYPE == CACHE_F16
const uint PER_DWORD = 2;
float element(uint word, uint i) { return unpackHalf2x16(word)[i]; }
#endif

// A lane has every eighth chunk of dimensions. Chunks past the last one repeat it and are not stored.
#if VALUE_TYPE >= CACHE_Q8_0
const uint VALUE_CHUNK = 8;
#else
const uint VALUE_CHUNK = 4 * PER_DWORD;
#endif
const uint CHUNKS = DIM_PADDED / VALUE_CHUNK;
const uint OWN_CHUNKS = (CHUNKS + 7) / 8;
#if KEY_TYPE >= CACHE_Q8_0 || VALUE_TYPE != KEY_TYPE || defined(ROTARY)
#define NO_UNIFORM_CACHE
const bool UNIFORM_CACHE = false;
const uint OWN = OWN_CHUNKS * VALUE_CHUNK;

uint own_dimension(uint i) { return (i / VALUE_CHUNK * 8u + LANE) * VALUE_CHUNK + i % VALUE_CHUNK; }
#else
// With uniform loads of the cache, a lane has every eighth dword instead.
const bool UNIFORM_CACHE = CACHE_LOAD == LOAD_UNIFORM;
const uint OWN = UNIFORM_CACHE ? DIM_PADDED / 8 : OWN_CHUNKS * VALUE_CHUNK;

uint own_dimension(uint i) {
  if (UNIFORM_CACHE) return (i / PER_DWORD * 8u + LANE) * PER_DWORD + i % PER_DWORD;
  return (i / VALUE_CHUNK * 8u + LANE) * VALUE_CHUNK + i % VALUE_CHUNK;
}

// A step of eight keys, as a uniform load sees it.
struct KeyStep {
  uvec4 d[8];
};
layout(buffer_reference, std430, buffer_reference_align = 16) readonly buffer KeySteps { KeyStep step[]; };
#endif

#if KEY_TYPE < CACHE_Q8_0
// The lane's key in a step of the tile.
uvec4 load_key(uint tile, uint step) {
#ifndef NO_UNIFORM_CACHE
  if (UNIFORM_CACHE) {
    uvec4 quad;
    [[unroll]] for (uint j = 0; j < 4; ++j) {
      uint of[8];
      [[unroll]] for (uint t = 0; t < 8; ++t) of[t] = KeySteps(by_address.keys).step[tile / 8u + step].d[t][j];
      quad[j] = lane_select(uvec4(of[0], of[1], of[2], of[3]), uvec4(of[4], of[5], of[6], of[7]));
    }
    return quad;
  }
#endif
  return key_quad(tile + step * 8u + LANE);
}
#endif

// The lane's chunk c of the value at position t of the tile. An unseen value may be anything, a NaN too, which a weight of
// zero would not remove: where none of the rows sees it, `seen` makes a zero of it.
void load_value(uint tile, uint t, uint c, uint seen, out float value[VALUE_CHUNK]) {
  const uint chunk = min(c * 8u + LANE, CHUNKS - 1u);
#if VALUE_TYPE >= CACHE_Q8_0
  const bool keyed = VALUES_ARE_KEYS == 1u;
  const uint step_at = tile + chunk / 4u * KEY_STEP_QUADS;
  const vec2 scales = unpackHalf2x16(value_word((keyed ? step_at : tile + chunk / 4u) * 4u + t / 2u) & seen);
  const float scale = t % 2u == 0u ? scales.x : scales.y;
  const uint shared_by = VALUE_TYPE == CACHE_Q8_0 ? 1 : 2; // chunks that have the same bytes
  const uint keyed_at = (step_at + 1u + chunk % 4u / (2u * shared_by) * 8u + t) * 2u + chunk % 2u;
  const uint of_position = VALUE_TYPE == CACHE_Q8_0 ? chunk : chunk / 4u * 2u + chunk % 2u;
  uvec2 words = value_chunk(keyed ? keyed_at : (tile + VALUE_SCALE_QUADS) * 2u + t * (CHUNKS / shared_by) + of_position);
  if (VALUE_TYPE == CACHE_Q4_0) words = bytes_of_nibbles(words.xyxy, chunk % 4u / 2u).xy;
  [[unroll]] for (uint i = 0; i < 8; ++i) value[i] = scale * float(bitfieldExtract(int(words[i / 4]), int(i % 4 * 8), 8));
#else
  const uvec4 quad = value_quad(tile + (VALUES_ARE_KEYS == 1u ? chunk * 8u + t : t * CHUNKS + chunk)) & seen;
  [[unroll]] for (uint i = 0; i < VALUE_CHUNK; ++i) value[i] = element(quad[i / PER_DWORD], i % PER_DWORD);
#endif
}

// The lane's dimensions of the value at position t of a tile. `own_tile` is where the tile of the lane's position is, and
// `own_seen` all ones if any row sees that position, otherwise zero.
void load_own_values(uint own_tile, uint own_seen, uint t, out float value[OWN]) {
  const uint tile = (SHARED == 1u ? FROM_LANE(own_tile, t) : own_tile) * VALUE_TILE_QUADS;
  const uint seen = FROM_LANE(own_seen, t);
#ifndef NO_UNIFORM_CACHE
  if (UNIFORM_CACHE) {
    [[unroll]] for (uint c = 0; c < OWN / PER_DWORD; ++c) {
      const uint at = tile + t * CHUNKS + 2u * c;
      const uint word = seen & lane_select(AddressU32x4(by_address.values).d[at], AddressU32x4(by_address.values).d[at + 1u]);
      [[unroll]] for (uint i = 0; i < PER_DWORD; ++i) value[c * PER_DWORD + i] = element(word, i);
    }
    return;
  }
#endif
  [[unroll]] for (uint c = 0; c < OWN_CHUNKS; ++c) {
    float chunk[VALUE_CHUNK];
    load_value(tile, t, c, seen, chunk);
    [[unroll]] for (uint i = 0; i < VALUE_CHUNK; ++i) value[c * VALUE_CHUNK + i] = chunk[i];
  }
}
