#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kernel/sampling/sampling.h"

namespace pumice::command {

// What a text of a request has come to, in the file of --resume: a later run goes on from there.
struct KeptText {
  uint32_t sample = 0;    // among the texts of the request
  uint64_t made_with = 0; // a checksum of all that its tokens follow from
  uint64_t seed = 0;
  std::vector<uint32_t> ids;
  std::vector<TokenLogProbabilities> log_probabilities; // of each of `ids`, or none
  std::optional<uint32_t> end;                          // the token that ended it, not in `ids`
  std::string finish_reason;                            // empty: it has not ended
};

// The texts of a request in one line.
std::string kept_line(const std::vector<KeptText>& texts);
// None if it is of another form: those texts begin again.
std::vector<KeptText> read_kept_line(const std::string& line);

} // namespace pumice::command
