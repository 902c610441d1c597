// Pixels in cells: a row of the step is a square of a picture, `side` pixels wide, whose pixels follow each other so that
// each four that are a square are neighbours, and so are four such squares: down first, then across.
#ifndef PUMICE_CELLS_GLSL
#define PUMICE_CELLS_GLSL

// The place of a cell's pixel in it: x across, y down.
uvec2 pixel_place(uint pixel) {
  uvec2 place = uvec2(0);
  for (uint level = 0; (pixel >> (2u * level)) != 0u; ++level) {
    place.y |= ((pixel >> (2u * level)) & 1u) << level;
    place.x |= ((pixel >> (2u * level + 1u)) & 1u) << level;
  }
  return place;
}

uint pixel_at(uvec2 place) {
  uint pixel = 0u;
  for (uint level = 0; ((place.x | place.y) >> level) != 0u; ++level)
    pixel |= (((place.y >> level) & 1u) | (((place.x >> level) & 1u) << 1u)) << (2u * level);
  return pixel;
}

#endif
