#pragma once

#include "canvas.h"

namespace npc {

// A night outdoors with a fire, and a bear that tells a story. What is drawn depends on nothing but the time
// and the words that have come.
class Scene {
public:
  // Moves on to `time`, in seconds; so many tokens have come since the last call.
  void move(double time, uint32_t tokens);
  // Draws from the top to `ground`. Where the mouth is, for a speech bubble to come from.
  Point draw(Canvas& canvas, float ground) const;

private:
  void draw_sky(Canvas& canvas, float ground) const;
  void draw_hills(Canvas& canvas, float ground) const;
  void draw_fire(Canvas& canvas, Point foot, float size) const;
  Point draw_bear(Canvas& canvas, Point foot, float size) const;

  double time_ = 0;
  float mouth_ = 0; // how far it is open, 0 to 1
  float talk_ = 0;  // how much there is to say
};

} // namespace npc
