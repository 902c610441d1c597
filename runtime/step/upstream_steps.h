#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/session_memory.h"
#include "model/upstream.h"

namespace pumice {

class HopBuffers;
class Runner;

// What the runners of all stages of a session are made from.
struct StageSteps {
  SessionSize size;
  bool encodes = false; // see RunnerOptions::part
  uint32_t caches = 0;  // Caches::id(): runners with the same ones share them on each stage
  bool all_outputs = false;
  std::vector<std::string> readable; // see RunnerOptions
  uint64_t value_bytes = 0;          // of StepRows::values of a step, at most
  uint64_t received_bytes = 0;       // of a whole chunk, by the last stage
};

// What a step needs on all stages: its rows, as the beginning of the step block (shaders/common/step.h) and
// as long as the rows ask for: the header, the rows and their details.
struct StepRows {
  uint32_t tokens = 0;
  std::vector<uint32_t> words;    // (1 + 2 * tokens) quads
  std::vector<float> values = {}; // of the pictures or sounds of an encoder's step, for the first stage
};

// What a stage has computed in a step, for the next one: the tensors of Plan::received one after the other,
// each with the rows of the step; or where both devices import the memory between them, the place there.
struct StageResults {
  std::span<const std::byte> bytes;
  std::optional<uint32_t> place = {};
};

// A piece of what a layer keeps of a sequence: of its keys and values, or of a state, which are counted
// behind the layers.
struct CachePiece {
  uint32_t sequence = 0;
  uint32_t layer = 0;
  uint32_t capacity = 0;                // of the layer where the sequence was saved
  uint32_t cached = 0, written_end = 0; // see Snapshot
  uint64_t offset = 0;                  // bytes from the beginning of the layer's data
};

// The steps of one session on the stages before the last one. Used by one thread at a time.
class UpstreamSteps {
public:
  virtual ~UpstreamSteps() = default;
  // Begins a step, whose rows go through all stages. Steps arrive in the order in which they were begun. May
  // call what receives() was given, for earlier ones.
  virtual Status send(const StepRows& rows) = 0;
  // Changes the rest of the step block on all stages, from the next step on: pieces of it, each as its first
  // word, its number of words, and these.
  virtual Status write_block(std::span<const uint32_t> pieces) = 0;
  // Waits for the next step to arrive, of this session or another one of the same thread.
  virtual Status wait() = 0;
  // Read and write a piece of what other stages keep. Only while no step is under way.
  virtual Status read_cached(const CachePiece& piece, std::span<std::byte> to) = 0;
  virtual Status write_cached(const CachePiece& piece, std::span<const std::byte> from) = 0;
  // All stages end with this error of the last one. Returns the error that names the stage; the first one, if
  // there were others. Not from within StepUpstream::Receive.
  virtual Error tell(const Error& error) = 0;
  // Where the stage before writes its results, if this one accepts it; null: steps come as bytes.
  virtual std::shared_ptr<HopBuffers> places() const { return nullptr; }
  // Makes the stages compile all kernels. They do it while the last one does the same.
  virtual Status prepare_all() = 0;
  // Waits until all that was sent has been through all stages.
  virtual Status settle() = 0;
  // The stages' runners, for steps in slices: the calling thread may use them until it sends something. Null
  // where a stage has nothing to compute. Waits as settle() does, for nothing if all steps have arrived.
  virtual Result<std::vector<std::shared_ptr<Runner>>> runners() = 0;
};

// The stages before a model's own. They compute a step and hand on what the last one receives.
class StepUpstream : public Upstream {
public:
  // Takes what has arrived of a step; its error ends all stages.
  using Receive = std::function<Status(uint32_t tokens, const StageResults& results)>;

  virtual Result<std::unique_ptr<UpstreamSteps>> begin(const StageSteps& steps, Receive receive) = 0;
};

} // namespace pumice
