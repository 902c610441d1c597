#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace pumice::text {

// Tokens and their ids. All strings lie in one block and a look-up copies nothing. A vocabulary of 128
// thousand tokens takes about 4 MB.
class Vocabulary {
public:
  // What to do with a token that occurs twice. In a tokenizer.json, which maps tokens to ids, it is an error.
  // A GGUF file lists tokens by id, and some have the same filler text at many ids: find() gives the last
  // one.
  enum class Repeated { is_error, last_wins };

  class Builder {
  public:
    void reserve(size_t tokens, size_t bytes);
    void add(std::string_view piece, uint32_t id);
    size_t size() const { return ids_.size(); }

    // `where` names the vocabulary in errors: "FILE: model.vocab".
    Result<Vocabulary> build(Repeated repeated, const std::string& where) &&;

  private:
    std::string pieces_;
    std::vector<uint32_t> ends_; // of each piece in pieces_
    std::vector<uint32_t> ids_;
    bool too_large_ = false;
  };

  std::optional<uint32_t> find(std::string_view piece) const;

  // The same in two steps: several look-ups that are prepared together wait for memory together.
  struct Prepared {
    std::string_view piece;
    uint64_t hash = 0;
  };
  Prepared prepare(std::string_view piece) const;
  std::optional<uint32_t> find(const Prepared& wanted) const;

  // The spelling of an id; empty if there is no such id.
  std::string_view piece(uint32_t id) const {
    return id < spans_.size() ? std::string_view(pieces_).substr(spans_[id].begin, spans_[id].length)
                              : std::string_view();
  }
  bool has(uint32_t id) const { return id < spans_.size() && spans_[id].present; }

  // One more than the highest id.
  uint32_t size() const { return static_cast<uint32_t>(spans_.size()); }
  size_t longest_piece() const { return longest_; }

  // Adds a token that find() does not return, for tokens that the model must not produce from text.
  Status add_hidden(std::string_view piece, uint32_t id, const std::string& where);

private:
  struct Entry {
    uint32_t begin = 0;
    uint32_t length : 31 = 0;
    uint32_t present : 1 = 0;
  };

  // Most pieces that are not the one looked for are told apart by the tag, without a look at them.
  struct Slot {
    uint32_t id_plus_one = 0; // 0: free
    uint32_t tag = 0;         // bits of the piece's hash
  };

  // Refuses ids that are so far apart that tables by id would waste memory.
  static Status check_highest(uint32_t highest, size_t tokens, const std::string& where);
  static uint64_t hash_of(std::string_view piece);
  static uint32_t tag_of(uint64_t hash) { return static_cast<uint32_t>(hash >> 24); }
  size_t slot_of(std::string_view piece, uint64_t hash) const; // its slot, or the free slot where it would be

  std::string pieces_;
  std::vector<Entry> spans_; // by id
  std::vector<Slot> slots_;  // a hash table; its size is a power of two
  size_t longest_ = 0;
};

} // namespace pumice::text
