#ifndef PUMICE_COS_SIN_GLSL
#define PUMICE_COS_SIN_GLSL

// The cosine and sine of the angle position * revolutions. `revolutions`: a fraction of a revolution as 64 bits, high dword
// first. The product is made in integers; whole revolutions are lost by overflow, so it is exact at any position. The
// polynomials (Moshier, Cephes, sinf.c) are used because Vulkan promises an accurate sine for small angles only.
vec2 cos_sin(uint position, uvec2 revolutions) {
  uint carry, low;
  umulExtended(position, revolutions.y, carry, low);
  const uint angle = position * revolutions.x + carry; // in 2^-32 revolutions
  const uint quarter = (angle + 0x20000000u) >> 30;
  const float a = float(int(angle - (quarter << 30))) * 1.4629180792671596e-9; // 2 pi / 2^32
  const float z = a * a;
  const float s = a + a * z * (-1.6666654611e-1 + z * (8.3321608736e-3 - z * 1.9515295891e-4));
  const float c = 1.0 - 0.5 * z + z * z * (4.166664568298827e-2 + z * (-1.388731625493765e-3 + z * 2.443315711809948e-5));
  const vec2 r = (quarter & 1u) == 0u ? vec2(c, s) : vec2(-s, c);
  return (quarter & 2u) == 0u ? r : -r;
}

#endif
