#version 460
// A workgroup takes some heads of one row, an invocation four dimensions of a head at a time.
// variant: f32 CACHE_F32
// variant: f16
#extension GL_GOOGLE_include_directive : require
#include "common/types.glsl"
#include "position/rotary_store.params.h"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint PAIRS = ROTARY_PAIRS_NONE;
layout(constant_id = 2) const uint HEAD_DIM = 64;
layout(constant_id = 3) const uint ROTARY_DIM = 0;
layout(constant_id = 4) const uint HEADS = 1;
layout(push_constant) uniform Push { RotaryStoreParams p; };
READ_BUFFER(uvec4, step_block, ROTARY_STEP);
READ_BUFFER(vec4, q, ROTARY_Q);
READ_BUFFER(vec4, k, ROTARY_K);
READ_BUFFER(vec4, v, ROTARY_V);
READ_BUFFER(uvec2, turns, ROTARY_TURNS);
WRITE_BUFFER(vec4, result, ROTARY_RESULT);
#ifdef CACHE_F32
#define CACHE_QUAD vec4
#define QUADS_PER_CHUNK 1
CACHE_QUAD to_cache(vec4 a) { return a; }
#else
#define CACHE_QUAD uvec2
#define QUADS_PER_CHUNK 2
// To the nearest half, ties to even: which way packHalf2x16 rounds is up to the device, and towards zero would pull all
// keys and values one way. Too large becomes the largest, as infinities would spoil every score.
CACHE_QUAD to_cache(vec4 a) {
  uvec4 bits = floatBitsToUint(clamp(a, -65504.0, 65504.0));
  bits = (bits + 0xfffu + (bits >> 13 & 1u)) & ~0x1fffu;
  a = uintBitsToFloat(bits);
  return uvec2(packHalf2x16(a.xy), packHalf2x16(a.zw));
}
#endif
WRITE_BUFFER(CACHE_QUAD, keys, ROTARY_KEYS);
WRITE_BUFFER(CACHE_QUAD, values, ROTARY_VALUES);

const uint HALF = ROTARY_DIM / 2;
const uint HEAD_QUADS = HEAD_DIM / 4;
const uint CACHE_QUADS = (HEAD_DIM + 7) / 8 * 2; // of a head with its padding
shared vec2 rotation[HALF + 1];                  // cosine and sine for each pair

// The cosine and sine of position * turns. The product is made in whole numbers and loses its whole turns by overflow,
// so it is exact at any position, and the polynomials (Moshier, Cephes, sinf.c) do not depend on how far a device's
// own sine is good, which Vulkan promises for small angles only.
vec2 cos_sin(uint position, uvec2 turns_each) {
  uint carry, low;
  umulExtended(position, turns_each.y, carry, low);
  const uint turn = position * turns_each.x + carry; // of 2^32
  const uint quarter = (turn + 0x20000000u) >> 30;
  const float a = float(int(turn - (quarter << 30))) * 1.4629180792671596e-9; // 2 pi / 2^32
  const float z = a * a;
  const float s = a + a * z * (-1.6666654611e-1 + z * (8.3321608736e-3 - z * 1.9515295891e-4));
  const float c = 1.0 - 0.5 * z + z * z * (4.166664568298827e-2 + z * (-1.388731625493765e-3 + z * 2.443315711809948e-5));
  const vec2 r = (quarter & 1u) == 0u ? vec2(c, s) : vec2(-s, c);
  return (quarter & 2u) == 0u ? r : -r;
}

// Quad `at` of one of the inputs.
vec4 load(uint kind, uint at) {
  if (kind == 0u) return q[at];
  if (kind == 1u) return k[at];
  return v[at];
}

// The four numbers that those of quad `quad` turn with; `head_at` is the head's first quad.
vec4 partners(uint kind, uint head_at, uint quad, vec4 own) {
  if (PAIRS == ROTARY_PAIRS_NEIGHBOURING) return own.yxwz;
  if (HALF % 4u == 0u) return load(kind, head_at + (quad < HALF / 4u ? quad + HALF / 4u : quad - HALF / 4u));
  vec4 other;
  for (uint j = 0; j < 4u; ++j) {
    const uint dimension = quad * 4u + j;
    const uint partner = dimension < HALF ? dimension + HALF : dimension - HALF;
    other[j] = load(kind, head_at + partner / 4u)[partner % 4u];
  }
  return other;
}

vec4 rotate(vec4 own, vec4 other, uint quad) {
  vec4 c = vec4(1.0), s = vec4(0.0);
  for (uint j = 0; j < 4u; ++j) {
    const uint dimension = quad * 4u + j;
    if (dimension >= ROTARY_DIM) break;
    const bool split = PAIRS == ROTARY_PAIRS_HALF_SPLIT;
    const vec2 r = rotation[split ? dimension % HALF : dimension / 2u];
    c[j] = r.x;
    s[j] = (split ? dimension < HALF : dimension % 2u == 0u) ? -r.y : r.y;
  }
  return own * c + other * s;
}

void main() {
  const uint row = gl_WorkGroupID.x;
  if (row >= step_block[0][ROWS_TOKENS]) return;
  const uvec4 token = step_block[STEP_HEADER_QUADS + row];
  const uint position = token.y, sequence = token.z;
  if (PAIRS != ROTARY_PAIRS_NONE) {
    for (uint i = gl_LocalInvocationID.x; i < HALF; i += gl_WorkGroupSize.x) rotation[i] = cos_sin(position, turns[i]);
    barrier();
  }

  const uint first_head = gl_WorkGroupID.y * HEADS;
  const uint items = min(HEADS, p.heads + 2u * p.kv_heads - first_head) * CACHE_QUADS;
  const uvec3 start = row * (uvec3(p.q_stride, p.k_stride, p.v_stride) >> 2);
  const uint to = row * (p.out_stride >> 2);
  const bool cached = position < p.capacity && sequence < p.sequences; // true, unless the host is wrong
  for (uint i = gl_LocalInvocationID.x; i < items; i += gl_WorkGroupSize.x) {
    uint head = first_head + i / CACHE_QUADS;
    const uint quad = i % CACHE_QUADS;
    const uint kind = head < p.heads ? 0u : head < p.heads + p.kv_heads ? 1u : 2u;
    if (kind != 0u) head -= kind == 1u ? p.heads : p.heads + p.kv_heads;

    vec4 a = vec4(0.0);
    if (quad < HEAD_QUADS) {
      const uint head_at = start[kind] + head * HEAD_QUADS;
      a = load(kind, head_at + quad);
      if (PAIRS != ROTARY_PAIRS_NONE && kind != 2u && quad * 4u < ROTARY_DIM) {
        a = rotate(a, partners(kind, head_at, quad, a), quad);
      }
      if (kind == 0u) result[to + head * HEAD_QUADS + quad] = a;
    }
    if (kind != 0u && cached) {
      const uint tile = (sequence * p.kv_heads + head) * (p.capacity / 8u) + position / 8u;
      if (kind == 1u) {
        const uint chunk = tile * (CACHE_QUADS / QUADS_PER_CHUNK) + quad / QUADS_PER_CHUNK;
        keys[(chunk * 8u + position % 8u) * QUADS_PER_CHUNK + quad % QUADS_PER_CHUNK] = to_cache(a);
      } else {
        values[(tile * 8u + position % 8u) * CACHE_QUADS + quad] = to_cache(a);
      }
    }
  }

  // The zeros after the queries.
  if (gl_WorkGroupID.y == 0u) {
    const uint quads = p.heads * HEAD_QUADS;
    for (uint i = quads + gl_LocalInvocationID.x; i < ((quads + 7u) & ~7u); i += gl_WorkGroupSize.x) result[to + i] = vec4(0.0);
  }
}
