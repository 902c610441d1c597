// How 32 neighbouring weights of one row are packed on the device, by WEIGHT_TYPE. Each type says how many dwords
// they take and how to decode one; types with SCALED have one 16-bit scale for the 32, stored apart, and decode to
// whole numbers. runtime/kernel/weight_packing.cpp packs them.
#ifndef PUMICE_WEIGHT_GLSL
#define PUMICE_WEIGHT_GLSL

#define TYPE_F32 0
#define TYPE_F16 1
#define TYPE_BF16 2
#define TYPE_Q8_0 3
#define TYPE_Q4_0 4

#if WEIGHT_TYPE == TYPE_F32
#define PAYLOAD 32
float decode_weight(uint w[PAYLOAD], uint i) { return uintBitsToFloat(w[i]); }
#elif WEIGHT_TYPE == TYPE_F16
#define PAYLOAD 16
float decode_weight(uint w[PAYLOAD], uint i) { return unpackHalf2x16(w[i >> 1])[i & 1u]; }
#elif WEIGHT_TYPE == TYPE_BF16
#define PAYLOAD 16
float decode_weight(uint w[PAYLOAD], uint i) {
  return uintBitsToFloat((i & 1u) == 0u ? w[i >> 1] << 16 : w[i >> 1] & 0xffff0000u);
}
#elif WEIGHT_TYPE == TYPE_Q8_0
#define PAYLOAD 8
#define SCALED
float decode_weight(uint w[PAYLOAD], uint i) { return float(bitfieldExtract(int(w[i >> 2]), int(8u * (i & 3u)), 8)); }
#elif WEIGHT_TYPE == TYPE_Q4_0
// The packing flips each nibble's top bit, which makes it a signed number without the file's offset of 8.
#define PAYLOAD 4
#define SCALED
float decode_weight(uint w[PAYLOAD], uint i) {
  return float(bitfieldExtract(int(w[(i & 15u) >> 2]), int(8u * (i & 3u) + (i >= 16u ? 4u : 0u)), 4));
}
#endif

#endif
