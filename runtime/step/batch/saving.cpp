#include <algorithm>

#include <fmt/format.h>

#include "step/batch.h"
#include "step/cache/snapshot.h"

namespace pumice {

namespace {

Conversation conversation_in(const Snapshot& snapshot) {
  SharedEmbeddings embeddings;
  if (!snapshot.pictures.values.empty())
    embeddings = std::make_shared<const PromptEmbeddings>(snapshot.pictures);
  return {snapshot.tokens, snapshot.sampling, std::move(embeddings)};
}

} // namespace

Status Batch::check_free(uint32_t slot) const {
  if (slot < slots_.size() && !slots_[slot].busy) return {};
  return Error{
      Code::invalid_argument,
      fmt::format("slot {} cannot be used: it must be one of the {} slots, and no sequence may run in it",
                  slot, slots_.size())};
}

Snapshot Batch::snapshot(uint32_t slot, const Conversation& conversation) const {
  const Slot& from = slots_[slot];
  Snapshot snapshot;
  snapshot.tokens = conversation.tokens;
  snapshot.sampling = conversation.sampling;
  if (conversation.embeddings) snapshot.pictures = *conversation.embeddings;
  if (from.adapter.adapter) return snapshot; // who restores it need not have that
  snapshot.cached = kept(from, conversation.tokens);
  if (snapshot.cached > 0) snapshot.written_end = from.written_end;
  return snapshot;
}

Status Batch::save(const std::filesystem::path& path, uint32_t slot, const Conversation& conversation) {
  PUMICE_CHECK(check_free(slot));
  PUMICE_CHECK(wait());
  return save_snapshot(path, *runner_, slot, snapshot(slot, conversation));
}

Status Batch::save(const StateSink& sink, uint32_t slot, const Conversation& conversation) {
  PUMICE_CHECK(check_free(slot));
  PUMICE_CHECK(wait());
  return save_snapshot(sink, *runner_, slot, snapshot(slot, conversation));
}

uint32_t Batch::slot_with(const Conversation& conversation) {
  for (const Sequence& sequence : sequences_) {
    if (sequence.slot >= 0) keep(sequence);
  }
  const auto most =
      std::ranges::max_element(slots_, {}, [&](const Slot& slot) { return kept(slot, conversation.tokens); });
  return static_cast<uint32_t>(most - slots_.begin());
}

Status Batch::save(const std::filesystem::path& path, const Conversation& conversation) {
  PUMICE_CHECK(wait());
  const uint32_t slot = slot_with(conversation);
  return save_snapshot(path, *runner_, slot, snapshot(slot, conversation));
}

Status Batch::save(const StateSink& sink, const Conversation& conversation) {
  PUMICE_CHECK(wait());
  const uint32_t slot = slot_with(conversation);
  return save_snapshot(sink, *runner_, slot, snapshot(slot, conversation));
}

std::optional<uint32_t> Batch::free_slot() const {
  std::optional<uint32_t> first;
  for (uint32_t slot = 0; slot < slots_.size(); ++slot) {
    if (slots_[slot].busy) continue;
    if (!first || slots_[slot].released < slots_[*first].released) first = slot;
  }
  return first;
}

Result<Conversation> Batch::load(const std::filesystem::path& path, uint32_t slot) {
  PUMICE_TRY(MappedFile file, MappedFile::open(path));
  return load(std::move(file), slot);
}

Result<Conversation> Batch::load(MappedFile file, uint32_t slot) {
  PUMICE_CHECK(check_free(slot));
  PUMICE_CHECK(wait());
  PUMICE_TRY(const OpenedSnapshot opened, open_snapshot(std::move(file), *runner_));
  PUMICE_CHECK(restore(opened, slot));
  return conversation_in(opened.snapshot);
}

Result<Conversation> Batch::load(MappedFile file) {
  PUMICE_CHECK(wait());
  PUMICE_TRY(const OpenedSnapshot opened, open_snapshot(std::move(file), *runner_));
  if (const std::optional<uint32_t> slot = free_slot()) PUMICE_CHECK(restore(opened, *slot));
  return conversation_in(opened.snapshot);
}

// Puts a conversation's keys and values into a free slot.
Status Batch::restore(const OpenedSnapshot& opened, uint32_t slot) {
  forget(slot);
  const Snapshot& snapshot = opened.snapshot;
  PUMICE_TRY(const bool renewed, renew_pages(slot, snapshot.cached));
  if (!renewed) return {};
  PUMICE_CHECK(restore_caches(opened, *runner_, slot));
  slots_[slot].cached.assign(snapshot.tokens.begin(), snapshot.tokens.begin() + snapshot.cached);
  slots_[slot].adapter = {};
  slots_[slot].written_end = snapshot.written_end;
  slots_[slot].states = {snapshot.cached, snapshot.cached};
  slots_[slot].released = ++releases_;
  return {};
}

Status Batch::copy(uint32_t slot, const Batch& other, uint32_t other_slot, const Conversation& conversation) {
  PUMICE_CHECK(check_free(slot));
  PUMICE_CHECK(other.check_free(other_slot));
  PUMICE_CHECK(wait());
  PUMICE_CHECK(other.wait());
  const Slot& from = other.slots_[other_slot];
  const uint32_t cached = other.kept(from, conversation.tokens);
  forget(slot);
  PUMICE_TRY(const bool renewed, renew_pages(slot, cached));
  if (!renewed) return {};
  PUMICE_TRY(const bool copied,
             copy_caches({*other.runner_, other_slot}, {*runner_, slot}, cached, from.written_end));
  if (!copied) return {};
  slots_[slot].cached.assign(conversation.tokens.begin(), conversation.tokens.begin() + cached);
  slots_[slot].adapter = from.adapter;
  slots_[slot].written_end = from.written_end;
  slots_[slot].states = {cached, cached};
  slots_[slot].released = ++releases_;
  return {};
}

Status Batch::lend(uint32_t slot, std::span<const uint32_t> tokens, ContinuationScorer& scorer) const {
  PUMICE_CHECK(check_free(slot));
  PUMICE_CHECK(wait());
  if (slots_[slot].adapter != scorer.adapter()) return {};
  const uint32_t cached = kept(slots_[slot], tokens);
  return scorer.adopt({*runner_, slot}, tokens.first(cached), slots_[slot].written_end);
}

} // namespace pumice
