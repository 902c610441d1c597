// How 32 neighbouring weights of one row are packed on the device; runtime/kernel/weight_packing.h describes it and
// weight_packing.cpp packs them. The build defines, from the type's line in common/weight_types.def,
//   WEIGHT_TYPE_F32 and the like, and WEIGHT_TYPE for all of them
//   BITS, and SIGNED where codes are two's complement: of quantised weights
//   NUMBER: a function from a code to its number, for types where the number is not the code itself
//   NUMBERS: the same from four codes in the bytes of a dword to four signed bytes
//   SCALE_COUNT: how many scales the 32 weights have: each is for 32 / SCALE_COUNT of them
//   SCALES_HALF and the like: how the scales are kept
// and the file that includes it may define
//   CODES: a specialisation constant: CODES_* of common/codes.h
// This file defines, for the file that includes it:
//   PAYLOAD: dwords of 32 weights
//   SCALED, SCALE_BYTES: set if the type has scales; the bytes of the scales of 32 weights
//   HEAD: set if eight blocks of 32 weights share a dword with a scale for their scales
//   MINIMUMS: set if a minimum belongs to each scale
//   decode_weight: the number that a code stands for. The weight is this number times its scale minus its minimum
//   block_scales: the scales of 32 weights, from the dword that holds them
#ifndef PUMICE_WEIGHT_GLSL
#define PUMICE_WEIGHT_GLSL

#if defined(WEIGHT_TYPE_F32)
#define PAYLOAD 32
float decode_weight(uint w[PAYLOAD], uint i) { return uintBitsToFloat(w[i]); }
#elif defined(WEIGHT_TYPE_F16)
#define PAYLOAD 16
float decode_weight(uint w[PAYLOAD], uint i) { return unpackHalf2x16(w[i >> 1])[i & 1u]; }
#elif defined(WEIGHT_TYPE_BF16)
#define PAYLOAD 16
float decode_weight(uint w[PAYLOAD], uint i) {
  return uintBitsToFloat((i & 1u) == 0u ? w[i >> 1] << 16 : w[i >> 1] & 0xffff0000u);
}
#endif

#ifndef SCALE_COUNT
#define SCALE_COUNT 1
#endif
#ifndef SIGNED
#define SIGNED 0
#endif

#ifdef BITS
#define PAYLOAD BITS

// What a number counts.
#if defined(WEIGHT_TYPE_IQ3_XXS)
#define NUMBER_UNIT 0.25
#else
#define NUMBER_UNIT 0.125
#endif

// The sixteen numbers of IQ4_NL and IQ4_XS as the bytes of four dwords.
float nonlinear_number(uint code) {
  const uint negative = (code & 4u) == 0u ? 0xbfad9881u : 0xf6eaddcfu;
  const uint positive = (code & 4u) == 0u ? 0x26190d01u : 0x71594535u;
  const uint four = (code & 8u) == 0u ? negative : positive;
  return float(int(four << (24u - 8u * (code & 3u))) >> 24);
}

// Twice the number of OCP's E2M1; the sizes 0, 1, 2, 3, 4, 6, 8, 12 are the nibbles of one dword.
float microscaling_number(uint code) {
  const float size = float(int(0xc8643210u >> (4u * (code & 7u)) & 15u));
  return mix(size, -size, code >= 8u); // one of two values; `?:` would be a branch, and SwiftShader never gets through 32
}

// The odd numbers around 0 of Q1_0 and IQ3_S.
float odd_number(uint code) { return fma(float(int(code)), 2.0, float(1 - (1 << BITS))); }

// A float of 4 bits of exponent and 3 of mantissa, with a sign. By integers: devices may take the smallest ones for 0.
float e4m3_number(uint code) {
  const uint exponent = code >> 3 & 15u, mantissa = (code & 7u) + (exponent > 0u ? 8u : 0u); // of 2^(exponent - 10)
  const float size = float(int(mantissa)) * uintBitsToFloat((max(exponent, 1u) + 117u) << 23);
  return uintBitsToFloat(floatBitsToUint(size) | (code & 128u) << 24);
}

// The sixteen numbers of NF4, which divide a normal distribution into parts of the same probability.
float normal_float_number(uint code) {
  const float numbers[16] = float[](-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635,
                                    -0.18477343022823334, -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725,
                                    0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941,
                                    0.7229568362236023, 1.0);
  return numbers[code];
}

// Bytes with their sign, of bytes below 128 and where the lowest bits of bytes say which are negative.
uint negated_bytes(uint sizes, uint negative) { return (sizes ^ (negative << 8) - negative) + negative; }

// Of the grids (runtime/io/quantised/quant_grids.h): codes have the sign above the number of the size.
uint bytes_iq2_numbers(uint codes) {
  const uint ones = 0x01010101u;
  return negated_bytes(8u * ones + 17u * (codes & ones) + 35u * (codes >> 1 & ones), codes >> 2 & ones);
}
uint bytes_iq3_numbers(uint codes) {
  const uint ones = 0x01010101u, all = codes & codes >> 1 & codes >> 2 & ones; // the last size is 2 more
  return negated_bytes(4u * ones + 8u * (codes & 7u * ones) + 2u * all, codes >> 3 & ones);
}
// Eight times -1, 0 or 1, and 1 more or less.
uint bytes_iq1_numbers(uint codes) {
  const uint ones = 0x01010101u;
  return (121u * ones + 8u * (codes & 3u * ones) - 2u * (codes >> 2 & ones)) ^ 0x80808080u;
}

uint shifted(uint v, int left) { return left >= 0 ? v << left : v >> -left; }

// The codes of columns 4j to 4j + 3 in the bytes of a dword: signed ones in the upper bits, others in the lower.
uint stored_codes(uint w[PAYLOAD], uint j) {
  const int low = SIGNED == 1 ? 8 - BITS : 0; // where a code begins in its byte
#if BITS == 8
  return w[j];
#else
  uint codes = 0u;
#if (BITS & 4) != 0
  codes |= shifted(w[j & 3u], low - 4 * int(j >> 2)) & 0x01010101u * (15u << low);
#endif
#if (BITS & 2) != 0
  codes |= shifted(w[(BITS & 4) + (j & 1u)], low + (BITS & 4) - 2 * int(j >> 1)) & 0x01010101u * (3u << (low + (BITS & 4)));
#endif
#if (BITS & 1) != 0
  codes |= shifted(w[BITS - 1], low + BITS - 1 - int(j)) & 0x01010101u * (1u << (low + BITS - 1));
#endif
  return codes;
#endif
}

// The same, or the numbers that they stand for where those are bytes.
#ifdef NUMBERS
uint quad_codes(uint w[PAYLOAD], uint j) { return NUMBERS(stored_codes(w, j)); }
#else
uint quad_codes(uint w[PAYLOAD], uint j) { return stored_codes(w, j); }
#endif

#ifdef NUMBERS
#define CODE_UNIT NUMBER_UNIT
#define CODE_WORD(w, i) quad_codes(w, (i) >> 2), int(8u * ((i) & 3u)), 8
#elif BITS == 4 || BITS == 2
// Straight from the payload, which has whole codes.
#define CODE_UNIT 1.0
#define CODE_WORD(w, i) w[((i) >> 2) % uint(BITS)], int(8u * ((i) & 3u) + uint(BITS) * (((i) >> 2) / uint(BITS))), BITS
#else
#define CODE_UNIT (SIGNED == 1 ? 1.0 / float(1 << (8 - BITS)) : 1.0)
#define CODE_WORD(w, i) quad_codes(w, (i) >> 2), int(8u * ((i) & 3u)), 8
#endif

float signed_field(uint v, int at, int bits) { return float(bitfieldExtract(int(v), at, bits)); }
float unsigned_field(uint v, int at, int bits) { return float(int(bitfieldExtract(v, at, bits))); }
uint plain_field(uint v, int at, int bits) { return bitfieldExtract(v, at, bits); }

float decode_weight(uint w[PAYLOAD], uint i) {
#ifdef NUMBER
  return NUMBER(plain_field(CODE_WORD(w, i)));
#elif SIGNED == 1 || defined(NUMBERS)
  return signed_field(CODE_WORD(w, i));
#else
#if defined(CODES) && BITS != 8
  if (CODES == CODES_BYTES) return float(quad_codes(w, i >> 2) >> (8u * (i & 3u)) & 255u);
#endif
  return unsigned_field(CODE_WORD(w, i));
#endif
}

#if defined(CODES) && BITS != 8 && !defined(NUMBER) && !defined(NUMBERS)
#define MANTISSA_CODES

// For CODES_MANTISSA: a code's dword, and its first bit there. Whole codes stay in the payload; others are put together in
// bytes, signed ones in their upper bits.
#if BITS == 4 || BITS == 2
uint code_dword(uint w[PAYLOAD], uint j) { return w[j % uint(BITS)]; }
uint code_bit(uint j, uint i) { return 8u * i + uint(BITS) * (j / uint(BITS)); }
#define CODE_STEP 1.0
#else
uint code_dword(uint w[PAYLOAD], uint j) { return quad_codes(w, j); }
uint code_bit(uint j, uint i) { return 8u * i + (SIGNED == 1 ? uint(8 - BITS) : 0u); }
#define CODE_STEP (SIGNED == 1 ? float(1 << (8 - BITS)) : 1.0)
#endif

// Codes that end beyond the mantissa's 23 bits come down by whole bytes, together with others of their dword.
uint code_shift(uint bit) { return bit + uint(BITS) <= 23u ? 0u : bit + uint(BITS) <= 31u ? 8u : 16u; }
uint code_place(uint bit) { return bit - code_shift(bit); }

// The number that the code of column 4 * j + i stands for, times 2 to the power of its place. A signed code with its sign bit
// turned over counts from -2^(BITS - 1).
float placed_code(uint w[PAYLOAD], uint j, uint i) {
  const uint bit = code_bit(j, i), place = code_place(bit), sign = SIGNED == 1 ? 1u << (BITS - 1) << place : 0u;
  const uint code = code_dword(w, j) >> code_shift(bit) & ((1u << BITS) - 1u) << place;
  return uintBitsToFloat(code ^ (0x4b000000u | sign)) - float(8388608u + sign);
}

// What x is multiplied by for it.
float code_unit(uint j, uint i) { return CODE_STEP / float(1u << code_place(code_bit(j, i))); }
#endif
#endif

// block_scales: `head` is HEAD's dword. `word` is the dword with the scales of several neighbouring blocks, and `at` is the
// block's number among them.
#if defined(SCALES_HALF)
#define SCALED
#define SCALE_BYTES 2
void block_scales(uint head, uint word, uint at, out float scale[SCALE_COUNT], out float minimum[SCALE_COUNT]) {
  scale[0] = CODE_UNIT * unpackHalf2x16(word >> (16u * at)).x;
}
#elif defined(SCALES_HALF_MINIMUM)
#define SCALED
#define MINIMUMS
#define SCALE_BYTES 4
void block_scales(uint head, uint word, uint at, out float scale[SCALE_COUNT], out float minimum[SCALE_COUNT]) {
  const vec2 both = unpackHalf2x16(word);
  scale[0] = CODE_UNIT * both.x;
  minimum[0] = both.y;
}
#elif defined(SCALES_HALF_ZERO)
#define SCALED
#define MINIMUMS
#define SCALE_BYTES 4
void block_scales(uint head, uint word, uint at, out float scale[SCALE_COUNT], out float minimum[SCALE_COUNT]) {
  scale[0] = CODE_UNIT * unpackHalf2x16(word).x;
  minimum[0] = unpackHalf2x16(word).x * float(int(word >> 16));
}
#elif defined(SCALES_SINGLE)
#define SCALED
#define SCALE_BYTES 4
void block_scales(uint head, uint word, uint at, out float scale[SCALE_COUNT], out float minimum[SCALE_COUNT]) {
  scale[0] = CODE_UNIT * uintBitsToFloat(word);
}
#elif defined(SCALES_EXPONENT)
#define SCALED
#define SCALE_BYTES 1
void block_scales(uint head, uint word, uint at, out float scale[SCALE_COUNT], out float minimum[SCALE_COUNT]) {
  const uint exponent = word >> (8u * at) & 255u; // of 2^(exponent - 128)
  scale[0] = CODE_UNIT * uintBitsToFloat((max(exponent, 1u) - 1u) << 23);
}
#elif defined(SCALES_SIGNED_BYTES)
#define SCALED
#define HEAD
#define SCALE_BYTES SCALE_COUNT
void block_scales(uint head, uint word, uint at, out float scale[SCALE_COUNT], out float minimum[SCALE_COUNT]) {
  const float all = CODE_UNIT * unpackHalf2x16(head).x;
  [[unroll]] for (uint scale_index = 0; scale_index < SCALE_COUNT; ++scale_index) {
    scale[scale_index] = all * float(int(word << (24u - 8u * (at * SCALE_COUNT + scale_index))) >> 24);
  }
}
#elif defined(SCALES_BYTES_MINIMUM)
#define SCALED
#define HEAD
#define MINIMUMS
#define SCALE_BYTES 2
void block_scales(uint head, uint word, uint at, out float scale[SCALE_COUNT], out float minimum[SCALE_COUNT]) {
  const vec2 all = unpackHalf2x16(head);
  const uint own = word >> (16u * at);
  scale[0] = CODE_UNIT * all.x * float(int(own & 255u));
  minimum[0] = all.y * float(int(own >> 8 & 255u));
}
#elif defined(SCALES_BYTES_EIGHTHS)
#define SCALED
#define HEAD
#define MINIMUMS
#define SCALE_BYTES 2
void block_scales(uint head, uint word, uint at, out float scale[SCALE_COUNT], out float minimum[SCALE_COUNT]) {
  const float all = unpackHalf2x16(head).x;
  const uint own = word >> (16u * at);
  scale[0] = CODE_UNIT * all * float(int(own & 255u));
  minimum[0] = 0.125 * all * float(int(own >> 8 & 255u));
}
#elif defined(SCALES_SMALL_FLOATS)
#define SCALED
#define SCALE_BYTES SCALE_COUNT
void block_scales(uint head, uint word, uint at, out float scale[SCALE_COUNT], out float minimum[SCALE_COUNT]) {
  [[unroll]] for (uint scale_index = 0; scale_index < SCALE_COUNT; ++scale_index) {
    const uint own = word >> (8u * (at * SCALE_COUNT + scale_index)), exponent = own >> 3 & 15u;
    const uint mantissa = (own & 7u) + (exponent > 0u ? 8u : 0u); // of 2^(exponent - 10), and numbers are twice what they are
    scale[scale_index] = CODE_UNIT * float(int(mantissa)) * uintBitsToFloat((max(exponent, 1u) + 116u) << 23);
  }
}
#elif defined(SCALES_NIBBLES_MINIMUM)
#define SCALED
#define HEAD
#define MINIMUMS
#define SCALE_BYTES 2
void block_scales(uint head, uint word, uint at, out float scale[SCALE_COUNT], out float minimum[SCALE_COUNT]) {
  const vec2 all = unpackHalf2x16(head);
  [[unroll]] for (uint scale_index = 0; scale_index < SCALE_COUNT; ++scale_index) {
    const uint own = word >> (16u * at + 8u * scale_index);
    scale[scale_index] = CODE_UNIT * all.x * float(int(own & 15u));
    minimum[scale_index] = all.y * float(int(own >> 4 & 15u));
  }
}
#endif

#ifdef SCALED
// The dwords of scales of a row: how many there are, where a block's scales are, and where its HEAD is.
#define BLOCKS_OF_WORD (4u / uint(SCALE_BYTES))
#ifdef HEAD
uint scale_dwords(uint blocks) { return (blocks + 7u) / 8u + (blocks * uint(SCALE_BYTES) + 3u) / 4u; }
uint scale_word(uint block) { return block / 8u + 1u + block / BLOCKS_OF_WORD; }
uint head_word(uint block) { return block / 8u * (1u + 2u * uint(SCALE_BYTES)); }
#else
uint scale_dwords(uint blocks) { return (blocks * uint(SCALE_BYTES) + 3u) / 4u; }
uint scale_word(uint block) { return block / BLOCKS_OF_WORD; }
uint head_word(uint block) { return 0u; }
#endif
#endif

#endif
