#pragma once

#include <deque>
#include <string>
#include <vector>

#include "canvas.h"
#include "figures.h"

namespace npc {

// The panel below the scene: a bar for each of the last frames, and what they come to.
class Graph {
public:
  void add(const Figures& figures);
  // `how` is how slices reach the device.
  void draw(Canvas& canvas, float top, bool generation, float budget_us, const char* how);

private:
  static constexpr size_t frames = 300;

  struct Window { // of the last frames of a kind
    std::deque<Figures> figures;
    std::vector<float> values(float Figures::*figure) const;
  };
  void sum_up(bool generation, float budget_us, const char* how);
  void draw_bars(Canvas& canvas, float x, float y, float width, float height, float budget_us) const;
  void draw_numbers(Canvas& canvas, float x, float y, float width, float height) const;

  Window all_, on_, off_;
  float scale_ms_ = 10; // of the graph's height
  uint64_t frames_drawn_ = 0;
  std::vector<std::vector<std::string>> rows_; // renewed now and then, to be legible
};

} // namespace npc
