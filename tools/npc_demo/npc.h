#pragma once

#include <memory>
#include <string>
#include <vector>

#include <pumice/pumice.h>

#include "action.h"
#include "device.h"

namespace npc {

// The part of generation that ran in one frame.
struct Slice {
  float expected_us = 0;   // expected time on the device
  float largest_us = 0;    // the same of the step's largest dispatch; a slice may exceed its budget by this
  uint32_t dispatches = 0; // number of dispatches
  float cpu_us = 0;        // time of this thread in the call of Pumice
  uint32_t tokens = 0;     // tokens that arrived
};

// A text that the character tells: a story, or after one what it wants to do, which is one of the actions.
struct Speech {
  std::string prompt;
  bool chooses = false;
  uint64_t seed = 0;
  std::vector<uint32_t> tokens; // generated tokens
  std::string text;             // their text
  bool complete = false;
};

template <auto destroy>
struct Destroyer {
  template <class Object>
  void operator()(Object* object) const {
    destroy(object);
  }
};

// The character that speaks. This class has all calls of Pumice.
// In each frame, call update(), draw, and call record() or advance() if generation is on.
class Npc {
public:
  struct Options {
    std::string model;    // a GGUF file or a Hugging Face folder
    std::string cache;    // a folder that keeps compiled kernels and measurements; empty: none
    uint64_t seed = 1;    // seed of the first text; each further text adds 1
    uint32_t tokens = 0;  // maximum number of tokens of a text; 0: until the text ends
    uint32_t pause = 0;   // number of frames between two texts
    bool verbose = false; // print Pumice's notes on stderr, not only its warnings
  };

  // Starts to load the model and to create a session. Other threads do this, so the scene continues to move.
  Npc(const Device& device, const Options& options);

  // Takes the results of loading, and begins the next text when it is due.
  void update();
  // Records a slice of at most about `budget_us` of device time into a command buffer, outside of a render
  // pass. The command buffer must be submitted exactly once.
  Slice record(VkCommandBuffer commands, float budget_us);
  // The same, but Pumice submits the slice. If the frame has been submitted, the slice runs after it.
  Slice advance(float budget_us);
  // Begins the next text. After a failure, tries again what failed.
  void restart();
  // Forgets all texts, and creates a new session on another thread. The device must be idle.
  void begin_again();
  void wait_until_loaded();
  // Whether pumice_session_run, which does not use slices, generates the same texts in another session.
  bool same_without_slices();

  bool loading() const { return load_ || start_; }
  float progress() const { return progress_; } // of loading, 0 to 1
  bool speaks() const { return session_ && complaint_.empty() && !wants_to_begin_; }
  const std::vector<Speech>& said() const { return said_; }
  // Why the character is silent. Empty: nothing failed.
  const std::string& complaint() const { return complaint_; }
  // What the character chose to do a moment ago.
  Action action() const { return action_frames_ > 0 ? action_ : Action::none; }

private:
  using Session = std::unique_ptr<pumice_session, Destroyer<pumice_session_destroy>>;
  void open_device(const Device& device);
  void start_loading();
  void finish_loading();
  pumice_session_options session_options(bool warm_up) const;
  void finish_session();
  void begin_text();
  Speech story() const;
  static Speech choice(uint64_t seed);
  pumice_status request(pumice_session* session, const Speech& speech, uint32_t max_tokens,
                        pumice_error* error) const;
  template <class Call>
  Slice run_slice(const Call& call);
  uint32_t take_events();
  bool failed(pumice_status status, const std::string& what, const pumice_error& error);

  Options options_;
  // Pumice's objects may be destroyed in any order.
  std::unique_ptr<pumice_device, Destroyer<pumice_device_destroy>> device_;
  std::unique_ptr<pumice_model, Destroyer<pumice_model_destroy>> model_;
  Session session_;
  std::unique_ptr<pumice_load, Destroyer<pumice_load_destroy>> load_;
  std::unique_ptr<pumice_session_creation, Destroyer<pumice_session_creation_destroy>> start_;

  float progress_ = 0;
  std::vector<Speech> said_;
  bool wants_to_begin_ = false; // begin the next text after `pause_` frames
  uint32_t pause_ = 0;
  Action action_ = Action::none;
  uint32_t action_frames_ = 0; // for which it is still done
  std::string complaint_;
};

} // namespace npc
