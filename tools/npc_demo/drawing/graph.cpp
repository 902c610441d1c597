#include "drawing/graph.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace npc {

namespace {

constexpr Colour background = {16, 18, 32, 255};
constexpr Colour field = {26, 29, 48, 255};
constexpr Colour label = {200, 206, 224, 255};
constexpr Colour faint = {128, 136, 164, 255};
constexpr Colour added = {255, 158, 64, 255};
constexpr Colour with = {84, 132, 214, 255};
constexpr Colour without = {84, 104, 128, 255};
constexpr Colour line = {255, 96, 96, 255};
constexpr uint64_t renewal = 15; // frames between updates of the numbers

float nice_scale(float ms) {
  for (const float scale : {2.f, 5.f, 10.f, 20.f, 33.f, 50.f, 100.f, 200.f, 500.f})
    if (ms <= scale) return scale;
  return 1000;
}

std::string milliseconds(float ms) {
  return fmt::format("{:.1f}", ms);
}

} // namespace

std::vector<float> Graph::Window::values(float Figures::*figure) const {
  std::vector<float> all;
  for (const Figures& frame : figures) all.push_back(frame.*figure);
  return all;
}

void Graph::add(const Figures& figures) {
  const auto keep = [&](Window& window) {
    window.figures.push_back(figures);
    if (window.figures.size() > frames) window.figures.pop_front();
  };
  keep(all_);
  if (figures.phase == Phase::on) keep(on_);
  if (figures.phase == Phase::off) keep(off_);
}

void Graph::sum_up(bool generation, float budget_us, const char* how) {
  const auto frame_times = [](const char* name, const Window& window) {
    const std::vector<float> times = window.values(&Figures::frame_ms);
    return times.empty() ? std::vector<std::string>{name, "-", "-"}
                         : std::vector<std::string>{name, milliseconds(median(times)),
                                                    milliseconds(quantile(times, 0.99))};
  };
  Window slices;
  float all_ms = 0, tokens = 0;
  for (const Figures& frame : on_.figures) {
    if (frame.dispatches > 0) slices.figures.push_back(frame);
    all_ms += frame.frame_ms;
    tokens += static_cast<float>(frame.tokens);
  }
  const std::vector<float> added_us = slices.values(&Figures::added_us);
  const std::vector<float> cpu_us = slices.values(&Figures::cpu_us);
  rows_ = {{"ms", "median", "p99"},
           frame_times("frame, generation on", on_),
           frame_times("frame, generation off", off_),
           {"added by Pumice", milliseconds(median(added_us) / 1000),
            milliseconds(quantile(added_us, 0.99) / 1000)},
           {fmt::format("{}, CPU", how), fmt::format("{:.2f}", median(cpu_us) / 1000),
            fmt::format("{:.2f}", quantile(cpu_us, 0.99) / 1000)},
           {fmt::format("[G] {}   [1-4] budget {:.2f} ms", generation ? "on" : "off", budget_us / 1000), "",
            fmt::format("{:.0f} token/s", all_ms > 0 ? 1000 * tokens / all_ms : 0)}};
  const float highest = quantile(all_.values(&Figures::frame_ms), 0.98);
  scale_ms_ = nice_scale(std::max(1.15f * highest, 1.1f * budget_us / 1000));
}

void Graph::draw_bars(Canvas& canvas, float x, float y, float width, float height, float budget_us) const {
  canvas.rectangle(x, y, width, height, field);
  const float bar = width / static_cast<float>(frames), unit = height / scale_ms_;
  float left = x + width - bar * static_cast<float>(all_.figures.size());
  for (const Figures& frame : all_.figures) {
    const float whole = std::min(height, frame.frame_ms * unit);
    const float share = std::min(whole, frame.added_us / 1000 * unit);
    const float floor = y + height;
    canvas.rectangle(left, floor - whole, bar, whole - share, frame.phase == Phase::on ? with : without);
    canvas.rectangle(left, floor - share, bar, share, added);
    left += bar;
  }
  const float budget = y + height - budget_us / 1000 * unit;
  canvas.rectangle(x, std::round(budget), width, 1, line);
  canvas.text(x + 4, budget - 4, 12, line, "budget");
  const std::string top = fmt::format("{:.0f} ms", scale_ms_);
  canvas.text(x + 4, y + 13, 12, faint, top);
}

void Graph::draw(Canvas& canvas, float top, bool generation, float budget_us, const char* how) {
  if (frames_drawn_++ % renewal == 0) sum_up(generation, budget_us, how);
  const float width = canvas.width(), height = canvas.height() - top;
  constexpr float margin = 10, least = 260; // pixels that the numbers need
  canvas.rectangle(0, top, width, height, background);
  const float wanted = std::min(width * 0.46f, 330.f);
  const float numbers = wanted >= least ? wanted : 0;
  draw_bars(canvas, margin, top + margin, width - numbers - (numbers > 0 ? 3 : 2) * margin,
            height - 2 * margin, budget_us);
  if (numbers > 0) draw_numbers(canvas, width - numbers - margin, top + margin, numbers, height - 2 * margin);
}

void Graph::draw_numbers(Canvas& canvas, float x, float y, float width, float height) const {
  constexpr float column = 56;
  const float right = x + width, step = height / static_cast<float>(rows_.size());
  const uint32_t size = step >= 19 ? 15 : 12;
  y += step * 0.75f;
  for (const auto& row : rows_) {
    const Colour colour = &row == &rows_.front() ? faint : label;
    canvas.text(x, y, size, colour, row[0]);
    canvas.text(right - column - canvas.text_width(size, row[1]), y, size, colour, row[1]);
    canvas.text(right - canvas.text_width(size, row[2]), y, size, colour, row[2]);
    y += step;
  }
}

} // namespace npc
