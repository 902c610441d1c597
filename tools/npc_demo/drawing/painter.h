#pragma once

#include "drawing/canvas.h"
#include "drawing/picture.h"

namespace npc {

// Draws a canvas: one render pass, one pipeline, one texture.
class Painter {
public:
  static constexpr size_t most_vertices = 60000; // maximum of a frame; further ones are not drawn

  Painter(const Device& device, const Atlas& atlas);
  ~Painter();
  Painter(const Painter&) = delete;
  Painter& operator=(const Painter&) = delete;

  VkRenderPass render_pass() const { return render_pass_; }
  // Draws `canvas` to the picture, through the frame's vertex buffer. Then the picture can be copied from.
  void draw(VkCommandBuffer commands, const Canvas& canvas, const Picture& picture,
            const Buffer& vertices) const;

private:
  void make_render_pass();
  void upload(const Atlas& atlas);
  void make_sampler();
  void make_pipeline();

  const Device& device_;
  Image atlas_;
  PipelineInput input_;
  VkRenderPass render_pass_ = VK_NULL_HANDLE;
  VkSampler sampler_ = VK_NULL_HANDLE;
  VkPipeline pipeline_ = VK_NULL_HANDLE;
};

} // namespace npc
