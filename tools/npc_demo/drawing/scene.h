#pragma once

#include "action.h"
#include "drawing/canvas.h"

namespace npc {

// A fire at night, and a bear that tells a story. The picture depends only on the time, on the tokens that
// have arrived, and on what the bear does.
class Scene {
public:
  // Advances the scene to `time`, in seconds. `tokens` is the number of tokens since the last call.
  void move(double time, uint32_t tokens, Action action);
  // Draws the scene from the top down to `ground`. Returns the position of the mouth, for the speech bubble.
  Point draw(Canvas& canvas, float ground) const;

private:
  void draw_sky(Canvas& canvas, float ground) const;
  void draw_hills(Canvas& canvas, float ground) const;
  void draw_fire(Canvas& canvas, Point foot, float size) const;
  Point draw_bear(Canvas& canvas, Point foot, float size) const;

  double time_ = 0;
  Action action_ = Action::none;
  float mouth_ = 0; // how far the mouth is open, 0 to 1
  float talk_ = 0;  // how lively the bear talks
};

} // namespace npc
