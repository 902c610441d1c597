#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "drawing/atlas.h"

namespace npc {

struct Point {
  float x, y;
};

struct Colour {
  uint8_t red, green, blue, alpha = 255;

  Colour faded(float opacity) const;
  Colour mixed(Colour other, float share) const;
};

// The vertex that canvas.vert reads.
struct Vertex {
  Point position; // in pixels, from the upper left corner
  Point place;    // in the atlas, 0 to 1
  Colour colour;
};

// A picture made of coloured triangles, built again for each frame. At the edges of shapes the opacity falls
// over one pixel, so that they are smooth without multisampling.
class Canvas {
public:
  explicit Canvas(const Atlas& atlas) : atlas_(atlas) {}

  void begin(float width, float height);
  float width() const { return width_; }
  float height() const { return height_; }
  std::span<const Vertex> vertices() const { return vertices_; }

  void rectangle(float x, float y, float width, float height, Colour colour);
  // A rectangle with one colour at the top and another at the bottom.
  void gradient(float x, float y, float width, float height, Colour top, Colour bottom);
  void polygon(std::span<const Point> points, Colour colour); // convex
  void ellipse(Point middle, float radius_x, float radius_y, Colour colour);
  void rounded(float x, float y, float width, float height, float radius, Colour colour);
  // The area below a line, down to `bottom`. The line goes from left to right.
  void below(std::span<const Point> line, float bottom, Colour colour);
  // Text that begins at `x`, with its base line at `y`. `size` is one of the font's sizes.
  void text(float x, float y, uint32_t size, Colour colour, std::string_view utf8);
  float text_width(uint32_t size, std::string_view utf8) const { return atlas_.text_width(size, utf8); }

private:
  void triangle(const Vertex& a, const Vertex& b, const Vertex& c);
  void quad(const Vertex& a, const Vertex& b, const Vertex& c, const Vertex& d);
  Vertex plain(Point position, Colour colour) const;

  const Atlas& atlas_;
  float width_ = 0, height_ = 0;
  std::vector<Vertex> vertices_;
  std::vector<Point> outline_, inner_, outer_; // members, so that they are not allocated for each shape
};

} // namespace npc
