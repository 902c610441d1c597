#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>

#include "drawing/graph.h"
#include "drawing/scene.h"
#include "frames.h"
#include "npc.h"
#include "options.h"
#include "report.h"
#include "swapchain.h"
#include "window.h"

namespace npc {

// The loop of the demo: a scene, a character and a graph, with or without a window.
class Demo {
public:
  // Without a window, `window` and `swapchain` are null.
  Demo(const Options& options, const Device& device, const Window* window, Swapchain* swapchain);
  ~Demo();
  Demo(const Demo&) = delete;
  Demo& operator=(const Demo&) = delete;

  // Runs the demo. Returns false if Pumice reported a failure, or if slices changed a text.
  bool run();

private:
  // A frame and its measurements so far.
  struct Slot {
    Slot(const Device& device, VkRenderPass render_pass, VkExtent2D extent, const Control* control)
        : frame(device, render_pass, extent, control) {}
    Frame frame;
    Figures figures;
  };

  void run_in_window();
  void run_headless();
  void run_frames(Generation generation, float budget_us);

  // Returns false if there is nothing to draw to now.
  bool draw_frame(double time);
  void draw_canvas();
  void submit(Slot& slot, std::optional<uint32_t> image, Phase phase);
  void complete(Slot& slot); // waits for the device, and adds the frame to the report
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
  std::unique_ptr<Control> control_; // null without --control
  VkExtent2D extent_;                // size of the frames
  std::array<Slot, 2> slots_;        // the device draws one frame while the CPU records the other
  Npc npc_;                          // must be destroyed before the command buffers that it recorded into
  Controls controls_;
  uint64_t frame_ = 0;            // number of the frame in this run
  uint64_t drawn_ = 0;            // number of frames in all runs
  uint32_t tokens_ = 0;           // tokens that arrived in the last frame
  const Picture* last_ = nullptr; // the last picture that was drawn
  std::ofstream texts_;
  bool well_ = true;
};

} // namespace npc
