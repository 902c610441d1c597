#include "text/tokenizer_parts.h"

namespace pumice {

StreamDecoder::StreamDecoder(std::shared_ptr<const Tokenizer> tokenizer, bool keep_special)
    : tokenizer_(std::move(tokenizer)), stream_(std::make_unique<Detokenizer>(tokenizer_->parts_->decoders)),
      keep_special_(keep_special) {}

StreamDecoder::~StreamDecoder() = default;
StreamDecoder::StreamDecoder(StreamDecoder&&) noexcept = default;

StreamDecoder& StreamDecoder::operator=(StreamDecoder&& other) noexcept {
  stream_ = std::move(other.stream_); // before the tokenizer, whose decoders the stream refers to
  tokenizer_ = std::move(other.tokenizer_);
  keep_special_ = other.keep_special_;
  return *this;
}

std::string StreamDecoder::push(uint32_t id) {
  bool wanted = tokenizer_->parts_->vocabulary.has(id) && (keep_special_ || !tokenizer_->is_special(id));
  if (wanted) stream_->push(tokenizer_->piece(id));
  return stream_->take();
}

std::string StreamDecoder::flush() {
  stream_->finish();
  return stream_->take();
}

} // namespace pumice
