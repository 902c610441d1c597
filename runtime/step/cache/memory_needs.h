#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "step/runner.h"

namespace pumice {

// Device memory of a model and one session, to the byte, before any of it is allocated.
struct MemoryNeeds {
  uint32_t context = 0;   // positions of the session; of an encoder alone, tokens of its input
  uint64_t weights = 0;   // once for all sessions of the model
  uint64_t host = 0;      // of the host, beside these: experts that lie there
  uint64_t cache = 0;     // keys and values
  uint64_t scratch = 0;   // of steps, including their inputs and outputs
  uint64_t state = 0;     // of the step block and its ring, and of sampling
  uint64_t loading = 0;   // staging while the weights are loaded; freed before a session is created
  uint64_t available = 0; // free on the device; if the model is loaded, including its weights

  uint64_t session() const { return cache + scratch + state; }
  uint64_t peak() const { return weights + (loading > session() ? loading : session()); }
  bool fits() const { return peak() <= available; }
};

// The runners of a session: for the decoder, the encoder, or both. The second one uses the caches of the
// first.
using SessionRunners = std::vector<RunnerOptions>;

// The runners of a Session, and of an Encoder for one input, as far as the model has a decoder and an
// encoder. `readable` names tensors of the decoder, or of the encoder if there is no decoder.
Result<SessionRunners> usual_runners(const Model& model, const SessionSize& size,
                                     std::vector<std::string> readable = {});

// Those of a session of the whole model that a stage of it has.
SessionRunners stage_runners(const Model& model, SessionRunners runners);

// `model` may be loaded, or come from Model::plan(). `others`: bytes that the session takes beside its
// runners.
Result<MemoryNeeds> memory_needs(const Model& model, const SessionRunners& runners, uint64_t others = 0);

// The longest context, up to `longest` positions, that fits; 0 if none does. One that `fits` finds to be
// beyond a limit of the device does not.
Result<uint32_t> longest_context(uint32_t longest, const std::function<Result<bool>(uint32_t context)>& fits);
// The longest with which a session fits the available memory. `runners` gives the runners of a session with a
// given context.
Result<uint32_t> longest_context(const Model& model, uint32_t longest,
                                 const std::function<Result<SessionRunners>(uint32_t context)>& runners,
                                 uint64_t others = 0);
// The same for usual_runners(), up to the model's own context.
Result<uint32_t> longest_context(const Model& model, SessionSize size,
                                 const std::vector<std::string>& readable = {}, uint64_t others = 0);

} // namespace pumice
