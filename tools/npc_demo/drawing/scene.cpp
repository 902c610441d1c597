#include "drawing/scene.h"

#include <algorithm>
#include <cmath>

namespace npc {

namespace {

constexpr Colour fur = {150, 104, 70, 255};
constexpr Colour dark_fur = {112, 74, 50, 255};
constexpr Colour light_fur = {222, 188, 146, 255};
constexpr Colour black = {34, 24, 22, 255};

// A pseudo-random number from 0 to 1, always the same for the same seed.
float scatter(uint32_t seed) {
  seed = (seed ^ 61) ^ (seed >> 16);
  seed *= 0x9E3779B1u;
  seed ^= seed >> 15;
  seed *= 0x85EBCA77u;
  seed ^= seed >> 13;
  return static_cast<float>(seed & 0xFFFF) / 65535.0f;
}

} // namespace

void Scene::move(double time, uint32_t tokens, Action action) {
  action_ = action;
  const float step = static_cast<float>(std::clamp(time - time_, 0.0, 0.1));
  time_ = time;
  // A token opens the mouth for about a fifth of a second. While tokens arrive quickly, it opens and closes.
  talk_ = tokens > 0 ? 1 : std::max(0.0f, talk_ - 5 * step);
  const float aim = talk_ * (0.55f + 0.45f * static_cast<float>(std::sin(time * 17)));
  mouth_ += (aim - mouth_) * std::min(1.0f, 14 * step);
}

Point Scene::draw(Canvas& canvas, float ground) const {
  draw_sky(canvas, ground);
  draw_hills(canvas, ground);
  const float size = ground / 100;
  draw_fire(canvas, {canvas.width() * 0.37f, ground - 4 * size}, size);
  return draw_bear(canvas, {canvas.width() * 0.17f, ground - 3 * size}, size);
}

void Scene::draw_sky(Canvas& canvas, float ground) const {
  const float width = canvas.width();
  canvas.gradient(0, 0, width, ground * 0.55f, {12, 16, 48, 255}, {58, 44, 98, 255});
  canvas.gradient(0, ground * 0.55f, width, ground * 0.45f, {58, 44, 98, 255}, {214, 122, 96, 255});
  for (uint32_t star = 0; star < 90; ++star) {
    const float twinkle =
        0.55f + 0.45f * static_cast<float>(std::sin(time_ * (1 + scatter(star * 7)) + star));
    const Point at = {scatter(star * 3) * width, scatter(star * 3 + 1) * ground * 0.6f};
    const float size = 0.7f + 1.1f * scatter(star * 3 + 2);
    canvas.rectangle(at.x, at.y, size + 0.6f, size + 0.6f, Colour{255, 246, 224, 255}.faded(twinkle * 0.9f));
  }
  const Point moon = {width * 0.06f + static_cast<float>(std::fmod(time_ * 1.5, width * 0.2)),
                      ground * 0.15f};
  canvas.ellipse(moon, ground * 0.085f, ground * 0.085f, {255, 240, 200, 40});
  canvas.ellipse(moon, ground * 0.06f, ground * 0.06f, {255, 242, 210, 255});
}

void Scene::draw_hills(Canvas& canvas, float ground) const {
  struct Hills {
    float height, wave, speed;
    Colour colour;
  };
  constexpr Hills rows[] = {{0.40f, 0.10f, 5, {74, 56, 104, 255}},
                            {0.28f, 0.08f, 11, {50, 50, 88, 255}},
                            {0.13f, 0.045f, 22, {30, 40, 58, 255}}};
  std::vector<Point> line;
  float length = 1.9f;
  for (const Hills& hills : rows) {
    line.clear();
    for (float x = 0; x < canvas.width() + 12; x += 12) {
      const float along = (x + static_cast<float>(time_) * hills.speed) / ground * length * 3.3f;
      const float wave = std::sin(along) * 0.6f + std::sin(along * 2.3f + 1.7f) * 0.4f;
      line.push_back({x, ground * (1 - hills.height - hills.wave * wave)});
    }
    canvas.below(line, ground, hills.colour);
    length *= 1.35f;
  }
  canvas.rectangle(0, ground * 0.955f, canvas.width(), ground * 0.045f, {22, 30, 40, 255});
}

void Scene::draw_fire(Canvas& canvas, Point foot, float size) const {
  const float time = static_cast<float>(time_);
  const float glow = 1 + 0.06f * std::sin(time * 9) + 0.04f * std::sin(time * 23);
  for (int ring = 4; ring >= 1; --ring)
    canvas.ellipse({foot.x, foot.y - 7 * size}, ring * 8 * size * glow, ring * 6.5f * size * glow,
                   {255, 150, 60, 20});
  struct Flame {
    float width, height, phase;
    Colour colour;
  };
  constexpr Flame flames[] = {{7, 21, 0, {236, 84, 40, 255}},
                              {5.2f, 16, 2, {250, 150, 50, 255}},
                              {3.2f, 10.5f, 4, {255, 226, 120, 255}}};
  for (const Flame& flame : flames) {
    const float lean = 1.6f * std::sin(time * 5 + flame.phase) + 0.8f * std::sin(time * 11 + flame.phase);
    const float high = flame.height * (1 + 0.12f * std::sin(time * 13 + flame.phase));
    const auto at = [&](float x, float y) { return Point{foot.x + x * size, foot.y - y * size}; };
    const Point shape[] = {at(-flame.width * 0.7f, 0),
                           at(-flame.width, high * 0.22f),
                           at(-flame.width * 0.62f + lean * 0.3f, high * 0.55f),
                           at(lean, high),
                           at(flame.width * 0.62f + lean * 0.3f, high * 0.55f),
                           at(flame.width, high * 0.22f),
                           at(flame.width * 0.7f, 0)};
    canvas.polygon(shape, flame.colour);
  }
  for (const float side : {-1.0f, 1.0f}) {
    const auto at = [&](float x, float y) { return Point{foot.x + side * x * size, foot.y - y * size}; };
    const Point log[] = {at(-9, 2.6f), at(9, -2.2f), at(9, 0.6f), at(-9, 5.2f)};
    canvas.polygon(log, {78, 50, 36, 255});
  }
  for (uint32_t spark = 0; spark < 9; ++spark) {
    const float age = std::fmod(time * 0.45f + scatter(spark + 40), 1.0f);
    const float sway = std::sin(time * 2 + static_cast<float>(spark)) * 4 + (scatter(spark) - 0.5f) * 10;
    canvas.rectangle(foot.x + sway * size, foot.y - (12 + 42 * age) * size, 0.8f * size, 0.8f * size,
                     Colour{255, 190, 90, 255}.faded(1 - age));
  }
}

Point Scene::draw_bear(Canvas& canvas, Point foot, float size) const {
  const float time = static_cast<float>(time_);
  const float breath = std::sin(time * 1.6f) * 0.5f, nod = mouth_ * 0.8f;
  canvas.ellipse(foot, 24 * size, 3 * size, {10, 12, 20, 120}); // its shadow
  if (action_ == Action::dance) {
    foot.x += 5 * size * std::sin(time * 4);
    foot.y -= 7 * size * std::abs(std::sin(time * 8));
  }
  const auto at = [&](float x, float y) { return Point{foot.x + x * size, foot.y - y * size}; };
  const auto oval = [&](float x, float y, float width, float height, Colour colour) {
    canvas.ellipse(at(x, y), width * size, height * size, colour);
  };
  const float head = 43 + breath + nod;

  oval(0, 17 + breath * 0.4f, 17, 18 + breath * 0.4f, fur);
  oval(2, 15, 11, 13, light_fur);
  oval(-11, 2, 7.5f, 4.5f, dark_fur);
  oval(11, 2, 7.5f, 4.5f, dark_fur);
  oval(-15, 19, 5, 9, dark_fur);
  const float wave = 2.5f * std::sin(time * 3) * (0.3f + talk_); // an arm that moves with the speech
  if (action_ == Action::wave)
    oval(18 + 3 * std::sin(time * 10), 34, 4.6f, 8, dark_fur);
  else
    oval(16, 21 + wave, 8, 4.6f, dark_fur);

  for (const float side : {-1.0f, 1.0f}) {
    oval(side * 12, head + 12, 5.5f, 5.5f, fur);
    oval(side * 12, head + 12, 3, 3, light_fur);
  }
  oval(0, head, 17, 15, fur);
  oval(2.5f, head - 5, 8.5f, 6.5f, light_fur);
  oval(2.5f, head - 1.8f, 2.8f, 1.9f, black);
  oval(2.5f, head - 7, 3.6f, 0.5f + 3.2f * mouth_, {92, 34, 38, 255});
  if (mouth_ > 0.3f) oval(2.5f, head - 7 - 1.4f * mouth_, 2.2f, 1.3f * mouth_, {214, 104, 100, 255});

  const float open = action_ == Action::sleep || std::fmod(time, 3.7f) < 0.14f ? 0.12f : 1; // or a blink
  for (const float side : {-1.0f, 1.0f}) {
    oval(side * 6 + 1.5f, head + 4, 2.1f, 2.5f * open, black);
    if (open == 1) oval(side * 6 + 2.2f, head + 5, 0.7f, 0.8f, {255, 255, 255, 255});
  }
  return at(9, head - 6);
}

} // namespace npc
