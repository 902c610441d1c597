#include "text/vocabulary.h"

#include <algorithm>
#include <bit>
#include <functional>

#include <fmt/format.h>

#include "base/prefetch.h"

namespace pumice::text {

namespace {

constexpr size_t kMaxBytes = 1u << 30;
constexpr uint32_t kMaxUnusedIds = 1u << 20; // tables are indexed by id, so unused ids waste memory

Error bad(const std::string& where, const std::string& what) {
  return {Code::invalid_file, fmt::format("{}: {}", where, what)};
}

} // namespace

void Vocabulary::Builder::reserve(size_t tokens, size_t bytes) {
  pieces_.reserve(bytes);
  ends_.reserve(tokens);
  ids_.reserve(tokens);
}

void Vocabulary::Builder::add(std::string_view piece, uint32_t id) {
  if (pieces_.size() + piece.size() > kMaxBytes) {
    too_large_ = true;
    return;
  }
  pieces_ += piece;
  ends_.push_back(static_cast<uint32_t>(pieces_.size()));
  ids_.push_back(id);
}

Result<Vocabulary> Vocabulary::Builder::build(Repeated repeated, const std::string& where) && {
  if (too_large_)
    return bad(where, fmt::format("expected at most {} bytes of tokens, found more", kMaxBytes));
  if (ids_.empty()) return bad(where, "expected tokens, found none");
  uint32_t highest = *std::max_element(ids_.begin(), ids_.end());
  PUMICE_CHECK(check_highest(highest, ids_.size(), where));

  Vocabulary vocabulary;
  vocabulary.pieces_ = std::move(pieces_);
  vocabulary.spans_.resize(size_t{highest} + 1);
  vocabulary.slots_.resize(std::bit_ceil(ids_.size() + ids_.size() / 3 + 1));
  uint32_t begin = 0;
  for (size_t i = 0; i < ids_.size(); ++i) {
    uint32_t length = ends_[i] - begin;
    Entry& entry = vocabulary.spans_[ids_[i]];
    std::string_view piece = std::string_view(vocabulary.pieces_).substr(begin, length);
    if (entry.present) {
      return bad(where, fmt::format("expected one token for each id, found \"{}\" and \"{}\" at {}",
                                    vocabulary.piece(ids_[i]), piece, ids_[i]));
    }
    entry.begin = begin;
    entry.length = length;
    entry.present = 1;
    const uint64_t hash = hash_of(piece);
    Slot& slot = vocabulary.slots_[vocabulary.slot_of(piece, hash)];
    if (slot.id_plus_one != 0 && repeated == Repeated::is_error) {
      return bad(where, fmt::format("expected each token once, found \"{}\" at {} and at {}", piece,
                                    slot.id_plus_one - 1, ids_[i]));
    }
    slot = {ids_[i] + 1, tag_of(hash)};
    vocabulary.longest_ = std::max<size_t>(vocabulary.longest_, length);
    begin = ends_[i];
  }
  return vocabulary;
}

Status Vocabulary::check_highest(uint32_t highest, size_t tokens, const std::string& where) {
  size_t most = 4 * tokens + kMaxUnusedIds;
  if (highest <= most) return {};
  return bad(where, fmt::format("expected ids up to {} for {} tokens, found {}", most, tokens, highest));
}

uint64_t Vocabulary::hash_of(std::string_view piece) {
  return std::hash<std::string_view>{}(piece);
}

size_t Vocabulary::slot_of(std::string_view piece_, uint64_t hash) const {
  const size_t mask = slots_.size() - 1;
  size_t slot = static_cast<size_t>(hash) & mask;
  const auto differs = [&](const Slot& other) {
    return other.tag != tag_of(hash) || piece(other.id_plus_one - 1) != piece_;
  };
  while (slots_[slot].id_plus_one != 0 && differs(slots_[slot])) slot = (slot + 1) & mask;
  return slot;
}

std::optional<uint32_t> Vocabulary::find(std::string_view piece) const {
  return find(Prepared{piece, hash_of(piece)});
}

Vocabulary::Prepared Vocabulary::prepare(std::string_view piece) const {
  const uint64_t hash = hash_of(piece);
  if (!slots_.empty()) prefetch(&slots_[static_cast<size_t>(hash) & (slots_.size() - 1)]);
  return {piece, hash};
}

std::optional<uint32_t> Vocabulary::find(const Prepared& wanted) const {
  if (slots_.empty() || wanted.piece.size() > longest_) return std::nullopt;
  const uint32_t id_plus_one = slots_[slot_of(wanted.piece, wanted.hash)].id_plus_one;
  if (id_plus_one == 0) return std::nullopt;
  return id_plus_one - 1;
}

Status Vocabulary::add_hidden(std::string_view piece, uint32_t id, const std::string& where) {
  PUMICE_CHECK(check_highest(id, slots_.size() / 2, where));
  if (has(id)) {
    return bad(where, fmt::format("expected an id of its own for \"{}\", found {}, which is \"{}\"", piece,
                                  id, this->piece(id)));
  }
  if (pieces_.size() + piece.size() > kMaxBytes)
    return bad(where, fmt::format("expected at most {} bytes of tokens, found more", kMaxBytes));
  if (id >= spans_.size()) spans_.resize(size_t{id} + 1);
  spans_[id].begin = static_cast<uint32_t>(pieces_.size());
  spans_[id].length = static_cast<uint32_t>(piece.size());
  spans_[id].present = 1;
  pieces_ += piece;
  return {};
}

} // namespace pumice::text
