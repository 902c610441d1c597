// A block of 32 columns in 8 bits (quantize_rows.params.h), made by eight neighbouring lanes of a subgroup, four columns each.
// Defines nothing but these.

// What a lane has of a block: its four codes, the scale, and what the codes of its half of the lanes stand for.
struct RoundedQuad {
  uint codes;
  float scale;
  float half_sum;
};

// All eight lanes must get there.
RoundedQuad round_quad(vec4 own) {
  float largest = max(max(abs(own.x), abs(own.y)), max(abs(own.z), abs(own.w)));
  largest = max(largest, subgroupShuffleXor(largest, 1u));
  largest = max(largest, subgroupShuffleXor(largest, 2u));
  largest = max(largest, subgroupShuffleXor(largest, 4u));
  const float scale = largest / 127.0;
  const ivec4 code = ivec4(roundEven(own * (largest > 0.0 ? 127.0 / largest : 0.0)));
  int sum = (code.x + code.y) + (code.z + code.w);
  sum += subgroupShuffleXor(sum, 1u);
  sum += subgroupShuffleXor(sum, 2u);
  const ivec4 bytes = code & 255;
  return RoundedQuad(uint(bytes.x | bytes.y << 8 | bytes.z << 16 | bytes.w << 24), scale, scale * float(sum));
}
