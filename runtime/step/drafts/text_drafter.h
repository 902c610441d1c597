#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

namespace pumice {

// Guesses how a text goes on: as it did after the longest earlier occurrence of its end. Each further token
// shows whether the guess of it was right, so that it is known how often guesses hold before one has cost
// anything.
class TextDrafter {
public:
  // Takes in the text; where it begins with the text of the call before, only what is new. The latest so many
  // tokens needed no guess.
  void follow(std::span<const uint32_t> tokens, size_t forced = 0);
  // The next tokens, at most so many; none without an earlier occurrence. It repeats itself where the text's
  // end does.
  std::vector<uint32_t> draft(size_t most) const;
  // How probable it is that the next of these tokens holds, if those before it did. 0 without a draft.
  double chance() const { return match_.length ? rates_[rate_of(match_.length)].chance() : 0; }

private:
  struct Match {
    uint32_t next = 0;   // the position after the earlier occurrence
    uint32_t length = 0; // of what both have in common before it; 0: there is none
  };
  // Guesses after occurrences of one length, and how many of them held; the latest weigh the most.
  struct Rate {
    double held, all;

    double chance() const { return held / all; }
    void learn(bool right);
  };

  static size_t rate_of(uint32_t length);
  uint64_t end_at(size_t position) const; // the two tokens before it
  void add(uint32_t token);
  void find();

  std::vector<uint32_t> tokens_;
  std::unordered_map<uint64_t, uint32_t> latest_; // by two tokens: the position after them
  std::vector<uint32_t> earlier_;                 // by position: the one before it after the same two tokens
  Match match_;
  std::array<Rate, 4> rates_ = {{{1.2, 4}, {1.8, 4}, {2.6, 4}, {3.4, 4}}};
};

} // namespace pumice
