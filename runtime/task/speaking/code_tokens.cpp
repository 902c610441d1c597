#include "task/speaking/code_tokens.h"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

namespace pumice {

namespace {

std::string spelled(uint32_t codebook, uint32_t code) {
  return fmt::format("<|c{}_{}|>", codebook + 1, code);
}

} // namespace

bool speaks(const Tokenizer* tokenizer) {
  return tokenizer && tokenizer->find(spelled(0, 0));
}

Result<CodeTokens> CodeTokens::find(const Tokenizer& tokenizer, const SoundCodec& codec,
                                    const std::string& path) {
  CodeTokens tokens;
  for (uint32_t codebook = 0; codebook < codec.codebooks; ++codebook) {
    for (uint32_t code = 0; code < codec.codes; ++code) {
      const std::optional<uint32_t> id = tokenizer.find(spelled(codebook, code));
      if (!id) {
        return Error{pumice::Code::unsupported,
                     fmt::format("{}: the vocabulary has no token {}, and the codec reads {} codebooks of {} "
                                 "codes: expected a model that speaks by writing these (OuteTTS 1.0)",
                                 path, spelled(codebook, code), codec.codebooks, codec.codes)};
      }
      tokens.codes_[*id] = {codebook, code};
    }
    // Vocabularies have one more than there are.
    if (const auto id = tokenizer.find(spelled(codebook, codec.codes)))
      tokens.beyond_.push_back({*id, -std::numeric_limits<float>::infinity()});
  }
  return tokens;
}

const CodeTokens::Code* CodeTokens::code(uint32_t token) const {
  const auto found = codes_.find(token);
  return found == codes_.end() ? nullptr : &found->second;
}

size_t CodeFrames::frames() const {
  return std::ranges::min(codes_, {}, [](const auto& each) { return each.size(); }).size();
}

std::vector<uint32_t> CodeFrames::next(bool ended) {
  const size_t all = frames(), left = all - done_;
  if (left == 0 || (!ended && left < size_t{chunk_} + codec_.reach)) return {};
  before_ = std::min<size_t>(done_, codec_.reach);
  taken_ = std::min<size_t>(left, chunk_);
  const size_t first = done_ - before_, end = std::min(all, done_ + taken_ + codec_.reach);
  input_ = end - first;
  std::vector<uint32_t> tokens;
  for (size_t frame = first; frame < end; ++frame) {
    for (uint32_t codebook = 0; codebook < codec_.codebooks; ++codebook)
      tokens.push_back(codebook * codec_.codes + codes_[codebook][frame]);
  }
  return tokens;
}

std::span<const float> CodeFrames::samples(std::span<const float> made) const {
  const size_t first = before_ * codec_.frame;
  const size_t end = std::min<size_t>((before_ + taken_) * codec_.frame, codec_.samples_of(input_));
  return made.subspan(first, std::max(first, end) - first);
}

} // namespace pumice
