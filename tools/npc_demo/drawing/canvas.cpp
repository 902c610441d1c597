#include "drawing/canvas.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace npc {

Colour Colour::faded(float opacity) const {
  return {red, green, blue, static_cast<uint8_t>(static_cast<float>(alpha) * opacity)};
}

Colour Colour::mixed(Colour other, float share) const {
  const auto mix = [&](uint8_t a, uint8_t b) {
    return static_cast<uint8_t>(std::lround(std::lerp(float(a), float(b), share)));
  };
  return {mix(red, other.red), mix(green, other.green), mix(blue, other.blue), mix(alpha, other.alpha)};
}

void Canvas::begin(float width, float height) {
  width_ = width;
  height_ = height;
  vertices_.clear();
}

Vertex Canvas::plain(Point position, Colour colour) const {
  return {position, {Atlas::white / Atlas::width, Atlas::white / float(atlas_.height())}, colour};
}

void Canvas::triangle(const Vertex& a, const Vertex& b, const Vertex& c) {
  vertices_.insert(vertices_.end(), {a, b, c});
}

void Canvas::quad(const Vertex& a, const Vertex& b, const Vertex& c, const Vertex& d) {
  vertices_.insert(vertices_.end(), {a, b, c, a, c, d});
}

void Canvas::rectangle(float x, float y, float width, float height, Colour colour) {
  gradient(x, y, width, height, colour, colour);
}

void Canvas::gradient(float x, float y, float width, float height, Colour top, Colour bottom) {
  quad(plain({x, y}, top), plain({x + width, y}, top), plain({x + width, y + height}, bottom),
       plain({x, y + height}, bottom));
}

void Canvas::polygon(std::span<const Point> points, Colour colour) {
  const size_t count = points.size();
  float area = 0;
  for (size_t i = 0; i < count; ++i) {
    const Point a = points[i], b = points[(i + 1) % count];
    area += a.x * b.y - b.x * a.y;
  }
  const float sign = area > 0 ? 1.0f : -1.0f;
  const auto normal = [&](Point a, Point b) { // points outwards, length 1
    const float length = std::hypot(b.x - a.x, b.y - a.y) + 1e-6f;
    return Point{sign * (b.y - a.y) / length, sign * (a.x - b.x) / length};
  };
  inner_.clear();
  outer_.clear();
  for (size_t i = 0; i < count; ++i) {
    const Point at = points[i];
    const Point before = normal(points[(i + count - 1) % count], at);
    const Point after = normal(at, points[(i + 1) % count]);
    // Half a pixel away from both edges. At a sharp corner the distance is limited.
    const float scale = 0.5f / std::max(0.3f, 1 + before.x * after.x + before.y * after.y);
    const Point off = {(before.x + after.x) * scale, (before.y + after.y) * scale};
    inner_.push_back({at.x - off.x, at.y - off.y});
    outer_.push_back({at.x + off.x, at.y + off.y});
  }
  const Colour clear = colour.faded(0);
  for (size_t i = 2; i < count; ++i)
    triangle(plain(inner_[0], colour), plain(inner_[i - 1], colour), plain(inner_[i], colour));
  for (size_t i = 0; i < count; ++i) {
    const size_t next = (i + 1) % count;
    quad(plain(inner_[i], colour), plain(outer_[i], clear), plain(outer_[next], clear),
         plain(inner_[next], colour));
  }
}

void Canvas::ellipse(Point middle, float radius_x, float radius_y, Colour colour) {
  const int sides = std::clamp(static_cast<int>(2 * std::sqrt(std::max(radius_x, radius_y)) * 3), 8, 72);
  outline_.clear();
  for (int i = 0; i < sides; ++i) {
    const float angle = 2 * std::numbers::pi_v<float> * float(i) / float(sides);
    outline_.push_back({middle.x + radius_x * std::cos(angle), middle.y + radius_y * std::sin(angle)});
  }
  polygon(outline_, colour);
}

void Canvas::rounded(float x, float y, float width, float height, float radius, Colour colour) {
  constexpr int steps = 6;
  radius = std::min({radius, width / 2, height / 2});
  const Point corners[] = {{x + width - radius, y + height - radius},
                           {x + radius, y + height - radius},
                           {x + radius, y + radius},
                           {x + width - radius, y + radius}};
  outline_.clear();
  for (int corner = 0; corner < 4; ++corner)
    for (int step = 0; step <= steps; ++step) {
      const float angle = std::numbers::pi_v<float> / 2 * (float(corner) + float(step) / steps);
      outline_.push_back(
          {corners[corner].x + radius * std::cos(angle), corners[corner].y + radius * std::sin(angle)});
    }
  polygon(outline_, colour);
}

void Canvas::below(std::span<const Point> line, float bottom, Colour colour) {
  const Colour clear = colour.faded(0);
  for (size_t i = 1; i < line.size(); ++i) {
    const Point a = line[i - 1], b = line[i];
    quad(plain({a.x, a.y - 0.5f}, clear), plain({b.x, b.y - 0.5f}, clear), plain({b.x, b.y + 0.5f}, colour),
         plain({a.x, a.y + 0.5f}, colour));
    quad(plain({a.x, a.y + 0.5f}, colour), plain({b.x, b.y + 0.5f}, colour), plain({b.x, bottom}, colour),
         plain({a.x, bottom}, colour));
  }
}

void Canvas::text(float x, float y, uint32_t size, Colour colour, std::string_view utf8) {
  const float wide = Atlas::width, high = static_cast<float>(atlas_.height());
  float pen = std::round(x);
  while (!utf8.empty()) {
    const Atlas::Letter& letter = atlas_.letter(size, take_character(utf8));
    const float left = pen + letter.left, top = std::round(y) - letter.top;
    const float right = left + letter.width, bottom = top + letter.height;
    const float u0 = letter.u / wide, u1 = (letter.u + letter.width) / wide;
    const float v0 = letter.v / high, v1 = (letter.v + letter.height) / high;
    quad({{left, top}, {u0, v0}, colour}, {{right, top}, {u1, v0}, colour},
         {{right, bottom}, {u1, v1}, colour}, {{left, bottom}, {u0, v1}, colour});
    pen += letter.advance;
  }
}

} // namespace npc
