#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace pumice::text {

// Tokens and their ids. All the strings lie in one block, and a look-up copies nothing: a vocabulary of 128
// thousand tokens takes about 3 MB.
class Vocabulary {
public:
  // What to do with a token that is there already: a tokenizer.json maps tokens to ids, so there it is an
  // error. A GGUF file lists tokens by id, and files with the same filler at many ids are in use; the highest
  // one is looked up.
  enum class Repeated { is_error, last_wins };

  class Builder {
  public:
    void reserve(size_t tokens, size_t bytes);
    void add(std::string_view piece, uint32_t id);
    size_t size() const { return ids_.size(); }

    // `where` is what an error calls the vocabulary: "FILE: model.vocab".
    Result<Vocabulary> build(Repeated repeated, const std::string& where) &&;

  private:
    std::string pieces_;
    std::vector<uint32_t> ends_; // of each piece in pieces_
    std::vector<uint32_t> ids_;
    bool too_large_ = false;
  };

  std::optional<uint32_t> find(std::string_view piece) const;

  // Empty where there is no such id.
  std::string_view piece(uint32_t id) const {
    return id < spans_.size() ? std::string_view(pieces_).substr(spans_[id].begin, spans_[id].length)
                              : std::string_view();
  }
  bool has(uint32_t id) const { return id < spans_.size() && spans_[id].present; }

  // One more than the highest id.
  uint32_t size() const { return static_cast<uint32_t>(spans_.size()); }
  size_t longest_piece() const { return longest_; }

  // Adds a token that find() does not see: those the model must not make.
  Status add_hidden(std::string_view piece, uint32_t id, const std::string& where);

private:
  struct Entry {
    uint32_t begin = 0;
    uint32_t length : 31 = 0;
    uint32_t present : 1 = 0;
  };

  // Whether ids reaching this far are worth a table.
  static Status check_highest(uint32_t highest, size_t tokens, const std::string& where);
  size_t slot_of(std::string_view piece) const; // where it is in slots_, or the free slot where it would be

  std::string pieces_;
  std::vector<Entry> spans_;    // by id
  std::vector<uint32_t> slots_; // a hash table of id + 1; its size is a power of two
  size_t longest_ = 0;
};

} // namespace pumice::text
