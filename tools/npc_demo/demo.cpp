#include "demo.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <thread>

#include "drawing/bubble.h"
#include "failure.h"

namespace npc {

namespace {

using Clock = std::chrono::steady_clock;

constexpr double step = 1.0 / 60;     // seconds from frame to frame, without a window
constexpr uint64_t alternation = 60;  // frames with generation on, and then as many with it off
constexpr uint32_t reading_time = 90; // frames

Npc::Options npc_options(const Options& options) {
  Npc::Options result;
  result.model = options.model;
  result.cache = options.cache;
  result.seed = options.seed;
  result.tokens = options.tokens;
  result.pause = options.headless ? 0 : reading_time;
  result.verbose = options.verbose;
  return result;
}

} // namespace

Demo::Demo(const Options& options, const Device& device, const Window* window, Swapchain* swapchain)
    : options_(options), device_(device), window_(window), swapchain_(swapchain), painter_(device, atlas_),
      canvas_(atlas_), report_(options.csv),
      control_(options.control ? std::make_unique<Control>(device) : nullptr),
      extent_(window ? window->extent() : options.size),
      slots_{{{device, painter_.render_pass(), extent_, control_.get()},
              {device, painter_.render_pass(), extent_, control_.get()}}},
      npc_(device, npc_options(options)) {
  controls_.budget_us = options.budgets_us.front();
  controls_.generation = options.generation != Generation::off;
  if (options.text.empty()) return;
  texts_.open(options.text);
  if (!texts_) throw Failure(fmt::format("{} cannot be written", options.text));
}

// The device must not use the objects that are destroyed now. A lost device uses nothing.
Demo::~Demo() {
  try {
    device_.wait();
  } catch (const Failure&) {
  }
}

bool Demo::run() {
  if (!options_.frames_out.empty()) std::filesystem::create_directories(options_.frames_out);
  if (window_)
    run_in_window();
  else
    run_headless();
  if (!options_.screenshot.empty() && last_) last_->save(options_.screenshot);
  report_.print(fmt::format("{}, {}x{}, {}", device_.name(), options_.size.width, options_.size.height,
                            options_.submit ? "pumice_work_advance" : "pumice_work_record"));
  return well_;
}

void Demo::run_in_window() {
  const Clock::time_point start = Clock::now();
  while (!controls_.quit && (options_.frames == 0 || frame_ < options_.frames)) {
    window_->poll(controls_);
    if (controls_.restart) npc_.restart();
    controls_.restart = false;
    const bool drawn =
        !window_->minimised() && draw_frame(std::chrono::duration<double>(Clock::now() - start).count());
    if (!drawn) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    if (drawn && !npc_.loading()) ++frame_;
    if (options_.generation == Generation::alternate && options_.frames > 0)
      controls_.generation = frame_ / alternation % 2 == 0;
  }
  complete_all();
  report_.end_run({});
  well_ = npc_.complaint().empty();
}

void Demo::run_headless() {
  for (uint64_t frame = 0; npc_.loading(); ++frame) draw_frame(static_cast<double>(frame) * step);
  complete_all();
  report_.end_run({});
  if (options_.compare) run_frames(Generation::off, options_.budgets_us.front());
  for (const float budget_us : options_.budgets_us) run_frames(options_.generation, budget_us);
}

void Demo::run_frames(Generation generation, float budget_us) {
  npc_.begin_again();
  npc_.wait_until_loaded();
  controls_.budget_us = budget_us;
  for (frame_ = 0; frame_ < options_.frames; ++frame_) {
    controls_.generation = generation == Generation::on ||
                           (generation == Generation::alternate && frame_ / alternation % 2 == 0);
    draw_frame(static_cast<double>(frame_) * step);
    if (!options_.frames_out.empty() && frame_ % options_.every == 0) keep_picture(*last_);
  }
  complete_all();

  std::optional<bool> same;
  if (generation != Generation::off && npc_.complaint().empty()) {
    same = npc_.same_without_slices();
    const bool spoke =
        std::ranges::any_of(npc_.said(), [](const Speech& speech) { return !speech.tokens.empty(); });
    if (!spoke)
      std::fprintf(stderr, "npc_demo: not a token came in %llu frames\n",
                   static_cast<unsigned long long>(frame_));
    well_ = well_ && spoke && *same;
  }
  well_ = well_ && npc_.complaint().empty();
  report_.end_run(same);
  for (const Speech& speech : npc_.said())
    if (texts_.is_open() && generation != Generation::off)
      texts_ << speech.prompt << speech.text << (speech.complete ? "\n\n" : " ...\n\n");
}

bool Demo::draw_frame(double time) {
  const Clock::time_point start = Clock::now();
  Slot& slot = slots_[drawn_ % slots_.size()];
  complete(slot);
  std::optional<uint32_t> image;
  if (swapchain_) {
    const VkExtent2D wanted = window_->extent(); // not every driver reports that the window was resized
    if (wanted.width != extent_.width || wanted.height != extent_.height) resize();
    image = swapchain_->acquire(slot.frame.acquired());
    if (!image) {
      resize();
      return false;
    }
  }
  const bool loading = npc_.loading();
  npc_.update();
  scene_.move(time, tokens_, npc_.action());
  draw_canvas();
  slot.frame.begin(controls_.budget_us);
  painter_.draw(slot.frame.commands(), canvas_, slot.frame.picture(), slot.frame.vertices());
  submit(slot, image, loading ? Phase::loading : controls_.generation ? Phase::on : Phase::off);
  last_ = &slot.frame.picture();
  ++drawn_;
  if (image && !swapchain_->show(*image)) resize();
  slot.figures.frame = frame_;
  slot.figures.frame_ms = std::chrono::duration<float, std::milli>(Clock::now() - start).count();
  return true;
}

void Demo::draw_canvas() {
  const VkExtent2D extent = slots_[drawn_ % slots_.size()].frame.picture().extent();
  canvas_.begin(static_cast<float>(extent.width), static_cast<float>(extent.height));
  const float ground = std::round(canvas_.height() - std::clamp(canvas_.height() * 0.28f, 96.f, 160.f));
  const Point mouth = scene_.draw(canvas_, ground);
  std::string text;
  BubbleText bubble;
  if (npc_.loading()) {
    text = "Let me think ...";
    bubble.progress = npc_.progress();
  } else if (!npc_.complaint().empty()) {
    text = npc_.complaint();
    bubble.complaint = true;
  } else if (!npc_.said().empty()) {
    text = npc_.said().back().prompt + npc_.said().back().text;
  }
  bubble.text = text;
  draw_bubble(canvas_, mouth, ground, bubble);
  graph_.draw(canvas_, ground, controls_.generation, controls_.budget_us,
              options_.submit ? "pumice_work_advance" : "pumice_work_record");
}

// Submits the scene, Pumice's slice, and the copy to the window. A recorded slice is a part of the frame,
// which is shown when the slice has run. A slice that Pumice submits comes after the frame, which is shown
// without waiting.
void Demo::submit(Slot& slot, std::optional<uint32_t> image, Phase phase) {
  Frame& frame = slot.frame;
  const VkSemaphore wait = image ? frame.acquired() : VK_NULL_HANDLE;
  const VkSemaphore signal = image ? swapchain_->drawn(*image) : VK_NULL_HANDLE;
  const bool speak = phase == Phase::on;
  const float budget_us = controls_.budget_us;
  Slice slice;
  if (options_.submit) {
    if (image) swapchain_->copy(frame.commands(), frame.picture(), *image);
    frame.scene_is_drawn();
    frame.submit_scene(wait, signal);
    if (speak) slice = npc_.advance(budget_us);
    frame.submit_end();
  } else {
    frame.scene_is_drawn();
    if (speak) slice = npc_.record(frame.commands(), budget_us);
    frame.addition_is_done();
    if (image) swapchain_->copy(frame.commands(), frame.picture(), *image);
    frame.submit(wait, signal);
  }
  tokens_ = slice.tokens;
  slot.figures = {};
  slot.figures.phase = phase;
  slot.figures.budget_us = speak ? budget_us : 0;
  slot.figures.cpu_us = slice.cpu_us;
  slot.figures.expected_us = slice.expected_us;
  slot.figures.largest_us = slice.largest_us;
  slot.figures.dispatches = slice.dispatches;
  slot.figures.tokens = slice.tokens;
}

void Demo::complete(Slot& slot) {
  const std::optional<DeviceTimes> times = slot.frame.wait();
  if (!times) return;
  slot.figures.scene_us = times->scene_us;
  slot.figures.control_us = times->control_us;
  slot.figures.added_us =
      slot.figures.dispatches > 0 ? times->added_us : 0; // the timestamps differ even if nothing was added
  report_.add(slot.figures);
  graph_.add(slot.figures);
}

void Demo::complete_all() {
  for (size_t i = 0; i < slots_.size(); ++i) complete(slots_[(drawn_ + i) % slots_.size()]); // oldest first
}

void Demo::resize() {
  complete_all();
  extent_ = window_->extent();
  if (!swapchain_->make_again(extent_)) return;
  last_ = nullptr;
  for (Slot& slot : slots_) slot.frame.resize(painter_.render_pass(), extent_);
}

void Demo::keep_picture(const Picture& picture) {
  complete_all();
  const std::string run = options_.compare ? fmt::format("budget-{:.0f}-", controls_.budget_us) : "";
  picture.save(std::filesystem::path(options_.frames_out) / fmt::format("{}frame-{:06}.png", run, frame_));
}

} // namespace npc
