#pragma once

#include "step/batch.h"

namespace pumice {

// Whether a batch of this size can run what is asked for.
Status check_request(const Model& model, const SessionSize& size, const SequenceRequest& request);

// Whether a text's adapter is one that the steps have room for.
Status check_adapter(const Runner& runner, const AdapterChoice& choice);

// Whether tokens can be guessed at, if the options ask for it.
Status check_drafts(const Model& model, const SessionOptions& options);
// Whether the next token depends on nothing but the tokens before it.
bool can_draft(const SamplingParams& sampling);

} // namespace pumice
