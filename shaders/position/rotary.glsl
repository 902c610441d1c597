// Norms and rotates heads of one row and stores keys and values in the cache. The including file has a workgroup of a
// multiple of eight invocations, and defines which heads it takes and where its queries go:
//   SLOT_Q, SLOT_K, SLOT_V, SLOT_TABLE, SLOT_KEYS, SLOT_VALUES: the buffers; ROW_BUFFER declares the first three,
//   CACHE_BUFFER the last two
//   ONE_ROW, if all workgroups with a key's head have the same row
//   LANE, if it is a subgroup of eight (common/cpu8.glsl)
//   PAIRS, HEAD_DIM, ROTARY_DIM, NORMS, GROWTH, GROWTH_LENGTH, GROWTH_START: as in position/rotary_store.params.h
//   PLACES, TEXT_PAIRS, DOWN_PAIRS: the same
//   PARTS, PART_FIRST: what of the cache the launch has
//   SHARED: above 1: the positions of a page, as in attention/attention.params.h
//   LOCAL_HEADS: how many heads there are to a workgroup at most
//   p: heads, kv_heads, q_stride, k_stride, v_stride, capacity, position_limit, sequences, magnitude, norm_eps,
//   norm_offset, details, sequence_quads, cache_indirection and indirection_entries

// Of a workgroup's head: which it is, counting queries, then keys, then values.
uint global_head(uint local_head);
// Takes four dimensions of a query; they are zeros where there are none.
void keep_query(uint row, uint local_head, uint query, uint quad, vec4 a);

// Heads of a multiple of four dimensions are read by fours, others one by one.
ROW_BUFFER(vec4, q_quads, SLOT_Q);
ROW_BUFFER(vec4, k_quads, SLOT_K);
ROW_BUFFER(vec4, v_quads, SLOT_V);
ROW_BUFFER(float, q_floats, SLOT_Q);
ROW_BUFFER(float, k_floats, SLOT_K);
ROW_BUFFER(float, v_floats, SLOT_V);
READ_BUFFER(uint, table, SLOT_TABLE);

const uint HALF = ROTARY_DIM / 2;
const uint APART = PAIRS == ROTARY_PAIRS_QUARTERS ? ROTARY_DIM / 4 : HALF; // the two dimensions of a pair
const uint HEAD_QUADS = (HEAD_DIM + 3) / 4;
const bool BY_FOURS = HEAD_DIM % 4 == 0;
const uint NORMED = uint(NORMS != 0);
const bool NORM_AFTER = (NORMS & ROTARY_NORM_AFTER) != 0u;
const uint NORM_LANES = 8;           // that add up a head's squares
shared vec2 rotation[HALF + 1];      // cosine and sine for each pair
shared float squares[LOCAL_HEADS * NORM_LANES * NORMED + 1];

#include "position/cache_store.glsl"

// A head of this workgroup. Kind 0 is a query, 1 a key, 2 a value.
struct Head {
  uint kind;
  uint index; // among its kind
  uint at;    // where its row's numbers begin in its buffer
  bool normed;
  float scale; // of the norm
};

Head find_head(uint row, uint head) {
  Head h;
  h.kind = head < p.heads ? 0u : head < p.heads + p.kv_heads ? 1u : 2u;
  h.index = head - (h.kind == 0u ? 0u : h.kind == 1u ? p.heads : p.heads + p.kv_heads);
  h.at = row * (h.kind == 0u ? p.q_stride : h.kind == 1u ? p.k_stride : p.v_stride) + h.index * HEAD_DIM;
  h.normed = h.kind == 0u   ? (NORMS & ROTARY_NORM_QUERIES) != 0u
             : h.kind == 1u ? (NORMS & ROTARY_NORM_KEYS) != 0u
                            : (NORMS & ROTARY_NORM_VALUES) != 0u;
  h.scale = 1.0;
  return h;
}

float load(Head h, uint dimension) {
  if (h.kind == 0u) return q_floats[h.at + dimension];
  if (h.kind == 1u) return k_floats[h.at + dimension];
  return v_floats[h.at + dimension];
}

vec4 load_quad(Head h, uint quad) {
  if (BY_FOURS) {
    if (h.kind == 0u) return q_quads[h.at / 4u + quad];
    if (h.kind == 1u) return k_quads[h.at / 4u + quad];
    return v_quads[h.at / 4u + quad];
  }
  vec4 a = vec4(0.0);
  for (uint j = 0; j < 4u; ++j) {
    if (quad * 4u + j < HEAD_DIM) a[j] = load(h, quad * 4u + j);
  }
  return a;
}

// What the norm multiplies a dimension with.
float norm_factor(Head h, uint dimension) {
  if ((NORMS & ROTARY_NORM_VALUES) != 0u && h.kind == 2u) return h.scale;
  const uint first = ROTARY_DIM + (h.kind == 1u && (NORMS & ROTARY_NORM_QUERIES) != 0u ? HEAD_DIM : 0u);
  return h.scale * (uintBitsToFloat(table[first + min(dimension, HEAD_DIM - 1u)]) + p.norm_offset);
}

vec4 norm_quad(Head h, uint quad, vec4 a) {
  for (uint j = 0; j < 4u; ++j) a[j] *= norm_factor(h, quad * 4u + j);
  return a;
}

// What is rotated.
vec4 rotated_quad(Head h, uint quad) {
  const vec4 a = load_quad(h, quad);
  return h.normed && !NORM_AFTER ? norm_quad(h, quad, a) : a;
}

bool is_first(uint dimension) {
  return PAIRS == ROTARY_PAIRS_QUARTERS ? dimension % HALF < APART : dimension < HALF;
}

uint pair_of(uint dimension) {
  if (PAIRS == ROTARY_PAIRS_NEIGHBOURING) return dimension / 2u;
  if (PAIRS == ROTARY_PAIRS_QUARTERS) return (dimension < HALF ? APART : 0u) + dimension % APART;
  return dimension % HALF;
}

// The partners of the four dimensions of quad `quad` in the rotation.
vec4 partners(Head h, uint quad, vec4 own) {
  if (PAIRS == ROTARY_PAIRS_NEIGHBOURING) return own.yxwz;
  if (APART % 4u == 0u) return rotated_quad(h, is_first(quad * 4u) ? quad + APART / 4u : quad - APART / 4u);
  vec4 other = vec4(0.0);
  for (uint j = 0; j < 4u; ++j) {
    const uint dimension = quad * 4u + j;
    if (dimension >= ROTARY_DIM) break;
    const uint partner = is_first(dimension) ? dimension + APART : dimension - APART;
    other[j] = load(h, partner) * (h.normed && !NORM_AFTER ? norm_factor(h, partner) : 1.0);
  }
  return other;
}

vec4 rotate(vec4 own, vec4 other, uint quad) {
  vec4 c = vec4(1.0), s = vec4(0.0);
  for (uint j = 0; j < 4u; ++j) {
    const uint dimension = quad * 4u + j;
    if (dimension >= ROTARY_DIM) break;
    const vec2 r = rotation[pair_of(dimension)];
    c[j] = r.x;
    s[j] = (PAIRS == ROTARY_PAIRS_NEIGHBOURING ? dimension % 2u == 0u : is_first(dimension)) ? -r.y : r.y;
  }
  return own * c + other * s;
}

void add_squares(uint row, uint heads) {
  for (uint i = gl_LocalInvocationID.x; i < heads * NORM_LANES; i += gl_WorkGroupSize.x) {
    const Head h = find_head(row, global_head(i / NORM_LANES));
    if (!h.normed) continue;
    float sum = 0.0;
    for (uint d = i % NORM_LANES; d < HEAD_DIM; d += NORM_LANES) {
      const float a = load(h, d);
      sum = fma(a, a, sum);
    }
    squares[i] = sum;
  }
}

float norm_scale(uint local_head) {
  float sum = 0.0;
  for (uint j = 0; j < NORM_LANES; ++j) sum += squares[local_head * NORM_LANES + j];
  return 1.0 / sqrt(sum / float(HEAD_DIM) + p.norm_eps);
}

// The place of a row in a text with pictures or in a picture, for each kind of pairs.
uvec3 rotary_places(uint row, uint sequence, uint own) {
  const uvec4 detail = step_block[p.details + row];
  const uint text = PLACES != ROTARY_PLACES_PATCHES ? own - step_block[p.sequence_quads + sequence].z + detail.w : 0u;
  return uvec3(text, text + (detail.z >> 16), text + (detail.z & 0xffffu));
}

// Which of them a pair turns with.
uint pair_place(uvec3 places, uint pair) {
  if (PLACES != ROTARY_PLACES_INTERLEAVED)
    return pair < TEXT_PAIRS ? places.x : pair < TEXT_PAIRS + DOWN_PAIRS ? places.y : places.z;
  if (pair % 3u == 1u && pair < 3u * DOWN_PAIRS) return places.y;
  return pair % 3u == 2u && pair < 3u * (HALF - TEXT_PAIRS - DOWN_PAIRS) ? places.z : places.x;
}

// The page of a sequence's position.
uint page_of(uint sequence, uint position) {
  const uint at = sequence * p.indirection_entries + min(position / max(SHARED, 1u), p.indirection_entries - 1u);
  return step_block[p.cache_indirection + at / 4u][at % 4u];
}

// To be called by all invocations of the workgroup. `heads`: the number of its heads. The workgroup may read what this
// stores after a memory barrier.
void rotate_and_store(uint row, uint heads) {
  const uvec4 token = step_block[STEP_HEADER_QUADS + row];
  const uint position = token.y;
  uint sequence = token.z - (PARTS == CACHE_PARTS_SEQUENCES ? PART_FIRST : 0u);
  if (SHARED > 1u) sequence = page_of(token.z, position);
  const uint own = position - min(token.w, position); // counted from the first position that the row may see
  if (PAIRS != ROTARY_PAIRS_NONE) {
    uvec3 places = uvec3(own);
    if (PLACES != ROTARY_PLACES_NONE) places = rotary_places(row, token.z, own);
    for (uint i = gl_LocalInvocationID.x; i < HALF; i += gl_WorkGroupSize.x) {
      rotation[i] = cos_sin(pair_place(places, i), uvec2(table[2u * i], table[2u * i + 1u])) * p.magnitude;
    }
  }
  if (NORMED == 1u) add_squares(row, heads);
  if (PAIRS != ROTARY_PAIRS_NONE || NORMED == 1u) barrier();

  // True where the launch has all of the cache, unless the host is wrong.
  const bool cached = position < p.position_limit && sequence < p.sequences &&
                      (PARTS != CACHE_PARTS_POSITIONS || position >= PART_FIRST);
  const uint slot = position % p.capacity;
  const uint items = heads * CACHE_QUADS;
  for (uint first = 0; first < items; first += gl_WorkGroupSize.x) {
    const uint i = min(first + gl_LocalInvocationID.x, items - 1u);
    const bool busy = first + gl_LocalInvocationID.x < items;
    const uint quad = i % CACHE_QUADS;
    Head h = find_head(row, global_head(i / CACHE_QUADS));
    vec4 a = vec4(0.0);
    if (busy && quad < HEAD_QUADS) {
      if (h.normed) h.scale = norm_scale(i / CACHE_QUADS);
      a = rotated_quad(h, quad);
      if (PAIRS != ROTARY_PAIRS_NONE && h.kind != 2u && quad * 4u < ROTARY_DIM) a = rotate(a, partners(h, quad, a), quad);
      if (h.normed && NORM_AFTER) a = norm_quad(h, quad, a);
      if (h.kind == 0u && GROWTH_LENGTH != 0u) {
        a *= 1.0 + uintBitsToFloat(GROWTH) * log(float(1u + (own + GROWTH_START) / GROWTH_LENGTH));
      }
      if (h.kind == 0u) keep_query(row, i / CACHE_QUADS, h.index, quad, a);
    }
    const uint tile = (sequence * p.kv_heads + h.index) * (p.capacity / 8u) + slot / 8u;
    store_in_cache(busy && cached && h.kind != 0u, h.kind == 1u, tile, slot % 8u, quad, a);
  }
}
