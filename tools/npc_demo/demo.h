#pragma once

#include <array>
#include <optional>
#include <string>

#include "frames.h"
#include "graph.h"
#include "npc.h"
#include "options.h"
#include "report.h"
#include "scene.h"
#include "swapchain.h"
#include "window.h"

namespace npc {

// The loop: a scene, a character and a graph, in a window or without one.
class Demo {
public:
  // Without a window, `window` and `swapchain` are null.
  Demo(const Options& options, const Device& device, const Window* window, Swapchain* swapchain);
  ~Demo();
  Demo(const Demo&) = delete;
  Demo& operator=(const Demo&) = delete;

  // To the end. Whether all was well: Pumice had nothing to complain of, and slices changed no text.
  bool run();

private:
  // A frame, and what is known of it so far.
  struct Slot {
    Slot(const Device& device, VkRenderPass render_pass, VkExtent2D extent)
        : frame(device, render_pass, extent) {}
    Frame frame;
    Figures figures;
  };

  void run_in_window();
  void run_headless();
  void run_frames(Generation generation, float budget_us);

  // False where there is nothing to draw to now.
  bool draw_frame(double time);
  void draw_canvas();
  void submit(Slot& slot, std::optional<uint32_t> image, Phase phase);
  void complete(Slot& slot); // waits for the device, and counts the frame
  void complete_all();
  void resize();
  void keep_picture(const Picture& picture);

  const Options& options_;
  const Device& device_;
  const Window* window_;
  Swapchain* swapchain_;
  Atlas atlas_;
  Painter painter_;
  Canvas canvas_;
  Scene scene_;
  Graph graph_;
  Report report_;
  VkExtent2D extent_;         // of the frames
  std::array<Slot, 2> slots_; // the device draws one while the host makes the other
  Npc npc_;                   // destroyed before the command buffers that it recorded into
  Controls controls_;
  uint64_t frame_ = 0;            // of the run
  uint64_t drawn_ = 0;            // frames of all runs
  uint32_t tokens_ = 0;           // that came with the last frame
  const Picture* last_ = nullptr; // what was drawn last
  std::ofstream texts_;
  bool well_ = true;
};

} // namespace npc
