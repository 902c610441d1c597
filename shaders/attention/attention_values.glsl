// How attention_portable.comp adds up values. Each invocation takes VALUE_CHUNK dimensions of every SLICES-th position.

// A chunk of the value at a position, as it is loaded: the quad, and where there are scales, theirs.
struct LoadedValue {
  uvec4 quad;
#if VALUE_TYPE >= CACHE_Q8_0
  uvec4 scales;
#endif
};

LoadedValue load_value(uint base, uint position, uint chunk) {
  const uint tile = (base + position % p.capacity / 8u) * VALUE_TILE_QUADS;
  LoadedValue loaded;
#if VALUE_TYPE >= CACHE_Q8_0
  const bool keyed = VALUES_ARE_KEYS == 1u;
  const uint step_at = tile + chunk / 4u * KEY_STEP_QUADS;
  const uint in_quad = VALUE_TYPE == CACHE_Q8_0 ? 2 : 4; // chunks
  const uint keyed_at = step_at + 1u + chunk % 4u / in_quad * 8u + position % 8u;
  loaded.scales = values[keyed ? step_at : tile + chunk / 4u];
  loaded.quad = values[keyed ? keyed_at : tile + VALUE_SCALE_QUADS + (position % 8u * CHUNKS + chunk) / in_quad];
#else
  loaded.quad = values[tile + (VALUES_ARE_KEYS == 1u ? chunk * 8u + position % 8u : position % 8u * CHUNKS + chunk)];
#endif
  return loaded;
}

void decode_value(LoadedValue loaded, uint position, uint chunk, out float value[VALUE_CHUNK]) {
#if VALUE_TYPE >= CACHE_Q8_0
  const float scale = unpackHalf2x16(loaded.scales[position % 8u / 2u])[position % 2u];
  const uvec4 bytes = VALUE_TYPE == CACHE_Q8_0 ? loaded.quad : bytes_of_nibbles(loaded.quad, chunk % 4u / 2u);
  const uvec2 words = chunk % 2u == 0u ? bytes.xy : bytes.zw;
  [[unroll]] for (uint i = 0; i < 8; ++i) value[i] = scale * bytes_of(words[i / 4])[i % 4];
#else
  decode(loaded.quad, value);
#endif
}

// Adds the block's values, by weight, to this invocation's sums.
void add_values(uint base, SourceRange range, uint block, inout float sum[QUERIES][VALUE_CHUNK]) {
  const uint slice = OWN / CHUNKS;
  if (slice >= SLICES) return;
  const int begin = int(block * BLOCK);
  const uint end = uint(min(range.last - begin, int(BLOCK) - 1)) + 1u;
  // A value that a row must not see can be anything, a NaN too. A single row takes one that it sees in its place, times 0.
  const uint start = TOKENS == 1 ? uint(max(range.first - begin, 0)) : 0u;
  for (uint first = slice; first < end; first += AHEAD * SLICES) {
    LoadedValue loaded[AHEAD];
    [[unroll]] for (uint j = 0; j < AHEAD; ++j) {
      const uint position = uint(begin) + clamp(first + j * SLICES, start, end - 1u);
      const uint own_base = PAGED ? page_bases[(position - uint(begin)) / PAGE] : position_base(base, range.source, position);
      loaded[j] = load_value(own_base, position, OWN % CHUNKS);
    }
    [[unroll]] for (uint j = 0; j < AHEAD; ++j) {
      const uint t = first + j * SLICES;
      if (!EVEN_VALUES && t >= end) break;
      float value[VALUE_CHUNK];
      decode_value(loaded[j], uint(begin) + (TOKENS == 1 ? clamp(t, start, end - 1u) : t), OWN % CHUNKS, value);
      [[unroll]] for (uint m = 0; m < QUERIES; ++m) {
        const float w = weight[m * BLOCK + t]; // 0 where the row must not see the value
        [[unroll]] for (uint i = 0; i < VALUE_CHUNK; ++i) {
          const float more = fma(w, value[i], sum[m][i]);
          sum[m][i] = TOKENS == 1 || w > 0.0 ? more : sum[m][i];
        }
      }
    }
  }
}
