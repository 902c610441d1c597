#pragma once

#include <future>
#include <memory>
#include <string>
#include <vector>

#include <pumice.h>

#include "device.h"

namespace npc {

// What a frame's share of generating was.
struct Turn {
  float expected_us = 0; // what the slice is expected to take on the device
  float largest_us =
      0; // and the largest single dispatch of the current step: by so much may a budget be passed
  uint32_t dispatches = 0;
  float cpu_us = 0;    // of this thread, in Pumice's call
  uint32_t tokens = 0; // that have come
};

// A text of the character's.
struct Speech {
  std::string prompt;
  uint64_t seed = 0;
  std::vector<uint32_t> tokens; // after the prompt
  std::string text;             // the same as text
  bool complete = false;
};

template <auto destroy>
struct Destroyer {
  template <class Object>
  void operator()(Object* object) const {
    destroy(object);
  }
};

// The character that speaks. This is all that the demo has to do with Pumice:
//   each frame: update(), draw, and record() or advance(), as long as generation is on.
class Npc {
public:
  struct Options {
    std::string model;     // a GGUF file or a Hugging Face folder
    std::string cache;     // a folder that keeps compiled kernels and measurements; empty: none
    uint64_t seed = 1;     // of the first text; the next one has the next number
    uint32_t tokens = 0;   // most of a text; 0: until it ends
    uint32_t pause = 0;    // frames between the end of a text and the next one
    bool say_more = false; // Pumice's notes as well as its warnings, on stderr
  };

  // Starts loading the model and then making a session, on other threads; the scene moves on meanwhile.
  Npc(const Device& device, const Options& options);

  // Takes what has come, and begins the next text when it is time to.
  void update();
  // Adds a slice of at most about `budget_us` of device time to a command buffer, outside of its render pass.
  // It has to be submitted, once.
  Turn record(VkCommandBuffer commands, float budget_us);
  // The same, submitted by Pumice; after the frame's own submission it runs after the frame.
  Turn advance(float budget_us);
  // Begins the next text; after a failure, tries again.
  void restart();
  // Forgets everything that was said, for a session without a history, which is made on another thread. The
  // device must have nothing to do.
  void begin_anew();
  void wait_until_loaded();
  // Whether pumice_run, which knows no slices, says the same in a session of its own.
  bool same_without_slices();

  bool loading() const { return load_ || making_.valid(); }
  float progress() const { return progress_; } // of loading, 0 to 1
  bool speaks() const { return session_ && complaint_.empty() && !wants_to_begin_; }
  const std::vector<Speech>& said() const { return said_; }
  const std::string& complaint() const { return complaint_; } // why it is silent; empty: it is not

private:
  using Session = std::unique_ptr<pumice_session, Destroyer<pumice_session_destroy>>;
  struct Made {
    Session session;
    pumice_status status = PUMICE_OK;
    pumice_error error{};
  };

  void open_device(const Device& device);
  void start_loading();
  void finish_loading();
  Made make_session(bool warm_up) const;
  void take_session();
  void begin_text();
  bool request(pumice_session* session, const Speech& speech, uint32_t max_tokens);
  template <class Slice>
  Turn take_turn(const Slice& slice);
  uint32_t take_events();
  bool failed(pumice_status status, const std::string& what, const pumice_error& error);

  Options options_;
  // Pumice's objects may be destroyed in any order; what is being made first of all.
  std::unique_ptr<pumice_device, Destroyer<pumice_device_destroy>> device_;
  std::unique_ptr<pumice_model, Destroyer<pumice_model_destroy>> model_;
  Session session_;
  std::unique_ptr<pumice_load, Destroyer<pumice_load_destroy>> load_;
  std::future<Made> making_; // waits when it is destroyed

  float progress_ = 0;
  std::vector<Speech> said_;
  bool wants_to_begin_ = false; // the next text, when `pause_` frames are over
  uint32_t pause_ = 0;
  std::string complaint_;
};

} // namespace npc
