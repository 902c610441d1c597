#pragma once

#include <deque>
#include <string>
#include <vector>

#include "drawing/canvas.h"
#include "figures.h"

namespace npc {

// The panel below the scene: a bar for each of the last frames, and a table of their times.
class Graph {
public:
  void add(const Figures& figures);
  // `how` is the function that runs slices: "pumice_work_record" or "pumice_work_advance".
  void draw(Canvas& canvas, float top, bool generation, float budget_us, const char* how);

private:
  static constexpr size_t frames = 300;

  struct Window { // the last frames of one kind
    std::deque<Figures> figures;
    std::vector<float> values(float Figures::*figure) const;
  };
  void sum_up(bool generation, float budget_us, const char* how);
  void draw_bars(Canvas& canvas, float x, float y, float width, float height, float budget_us) const;
  void draw_numbers(Canvas& canvas, float x, float y, float width, float height) const;

  Window all_, on_, off_;
  float scale_ms_ = 10; // the time that the height of the graph stands for
  uint64_t frames_drawn_ = 0;
  std::vector<std::vector<std::string>> rows_; // updated only now and then, so that they can be read
};

} // namespace npc
