#include "text/detokenizer.h"

#include <tuple>

#include "text/unicode/byte_level.h"
#include "text/unicode/normalizer.h"

namespace pumice {

namespace text {

namespace {

// A step whose stages are of type Stage(next, settings...).
template <class Stage, class... Settings>
class DecoderOf final : public DecoderStep {
public:
  explicit DecoderOf(double growth, Settings... settings)
      : growth_(growth), settings_(std::move(settings)...) {}
  std::unique_ptr<DecoderSink> begin(DecoderSink& next) const override {
    return std::apply([&](const Settings&... s) { return std::make_unique<Stage>(next, s...); }, settings_);
  }
  double growth() const override { return growth_; }
  std::optional<std::string> bytes(std::string_view token) const override {
    if constexpr (requires { Stage::bytes(token); }) return Stage::bytes(token);
    return std::nullopt;
  }

private:
  double growth_;
  std::tuple<Settings...> settings_;
};

template <class Stage, class... Settings>
DecoderPtr make_decoder(double growth, Settings... settings) {
  return std::make_unique<DecoderOf<Stage, Settings...>>(growth, std::move(settings)...);
}

// A stage that needs whole tokens. It joins the text of a token first.
class WholeTokens : public DecoderSink {
public:
  explicit WholeTokens(DecoderSink& next) : next_(next) {}
  void write(std::string_view text) override { token_ += text; }
  void end_token() override { token(std::exchange(token_, {})); }
  void finish() override {
    if (!token_.empty()) end_token();
    end();
    next_.finish();
  }

protected:
  virtual void token(std::string whole) = 0;
  virtual void end() {} // called before the next stage's finish()
  void pass(std::string_view whole) {
    next_.write(whole);
    next_.end_token();
  }
  DecoderSink& next_;

private:
  std::string token_;
};

class ByteLevelStage final : public WholeTokens {
public:
  using WholeTokens::WholeTokens;
  static std::optional<std::string> bytes(std::string_view whole) {
    std::optional<std::string> bytes = bytes_of_byte_level(whole);
    return bytes ? std::move(bytes) : std::string(whole);
  }
  void token(std::string whole) override {
    std::string text;
    assembler_.push(*bytes(whole), text);
    next_.write(text);
  }
  void end() override {
    std::string text;
    assembler_.finish(text);
    next_.write(text);
    next_.end_token();
  }

private:
  Utf8Assembler assembler_{Utf8Assembler::Broken::each_sequence};
};

// The value of "<0x0A>".
std::optional<char> byte_of(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return std::nullopt;
  int value = 0;
  for (char c : token.substr(3, 2)) {
    size_t digit = std::string_view("0123456789ABCDEF0123456789abcdef").find(c);
    if (digit == std::string_view::npos) return std::nullopt;
    value = 16 * value + static_cast<int>(digit % 16);
  }
  return static_cast<char>(value);
}

class ByteFallbackStage final : public WholeTokens {
public:
  using WholeTokens::WholeTokens;
  static std::optional<std::string> bytes(std::string_view whole) {
    const std::optional<char> byte = byte_of(whole);
    return byte ? std::optional(std::string(1, *byte)) : std::nullopt;
  }
  void token(std::string whole) override {
    std::string text;
    if (std::optional<char> byte = byte_of(whole)) {
      assembler_.push({&*byte, 1}, text);
      if (!text.empty()) pass(text);
      return;
    }
    end();
    pass(whole);
  }
  void end() override {
    std::string text;
    assembler_.finish(text);
    if (!text.empty()) pass(text);
  }

private:
  Utf8Assembler assembler_{Utf8Assembler::Broken::each_byte};
};

// The encoder may put a replacement character before a text, so it is dropped from a text's first token.
class MetaspaceStage final : public WholeTokens {
public:
  MetaspaceStage(DecoderSink& next, const std::string& replacement, PrependScheme scheme)
      : WholeTokens(next), replacement_(replacement), scheme_(scheme) {}
  void token(std::string whole) override {
    bool drop = is_first_ && scheme_ != PrependScheme::never;
    is_first_ = false;
    pass(replace_all(whole, replacement_, drop ? "" : " "));
  }
  void end() override { is_first_ = true; }

private:
  const std::string& replacement_;
  PrependScheme scheme_;
  bool is_first_ = true;
};

template <class Find>
class ReplaceStage final : public WholeTokens {
public:
  ReplaceStage(DecoderSink& next, const Find& find, const std::string& with)
      : WholeTokens(next), find_(find), with_(with) {}
  void token(std::string whole) override { pass(replace_all(whole, find_, with_)); }

private:
  const Find& find_;
  const std::string& with_;
};

// Works on a token as its text arrives, because after a Fuse stage one token is the whole text. It passes on
// what can no longer be stripped, and holds back up to `stop` characters at the end.
class StripStage final : public DecoderSink {
public:
  StripStage(DecoderSink& next, const std::string& character, size_t start, size_t stop)
      : next_(next), character_(character), start_(start), stop_(stop) {}

  void write(std::string_view text) override {
    open_ = true;
    while (started_ < start_ && !text.empty()) {
      if (!text.starts_with(character_)) {
        started_ = start_;
        break;
      }
      text.remove_prefix(character_.size());
      ++started_;
    }
    if (stop_ == 0) return next_.write(text);
    held_ += text;
    size_t keep = held_.size(), trailing = 0;
    while (trailing < stop_ && std::string_view(held_).substr(0, keep).ends_with(character_)) {
      keep -= character_.size();
      ++trailing;
    }
    next_.write(std::string_view(held_).substr(0, keep));
    held_.erase(0, keep);
  }
  void end_token() override {
    open_ = false;
    started_ = 0;
    held_.clear();
    next_.end_token();
  }
  void finish() override {
    if (open_) end_token();
    next_.finish();
  }

private:
  DecoderSink& next_;
  const std::string& character_;
  size_t start_, stop_;
  size_t started_ = 0; // characters stripped at the start; start_ if no more will be
  std::string held_;   // `character_`, up to `stop_` times
  bool open_ = false;
};

// The order matters: a replacement may create text that a later one finds.
std::string clean_up(std::string text) {
  constexpr std::pair<std::string_view, std::string_view> kReplaced[] = {
      {" .", "."},   {" ?", "?"},           {" !", "!"},   {" ,", ","},     {" ' ", "'"},   {" n't", "n't"},
      {" 'm", "'m"}, {" do not", " don't"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  for (auto [find, with] : kReplaced) text = replace_all(text, find, with);
  return text;
}

class WordPieceStage final : public WholeTokens {
public:
  WordPieceStage(DecoderSink& next, const std::string& prefix, bool cleanup)
      : WholeTokens(next), prefix_(prefix), cleanup_(cleanup) {}
  void token(std::string whole) override {
    if (!is_first_) {
      if (whole.starts_with(prefix_)) {
        whole.erase(0, prefix_.size());
      } else {
        whole.insert(0, 1, ' ');
      }
    }
    is_first_ = false;
    pass(cleanup_ ? clean_up(std::move(whole)) : whole);
  }
  void end() override { is_first_ = true; }

private:
  const std::string& prefix_;
  bool cleanup_;
  bool is_first_ = true;
};

// Holds a token back until it is known whether it is the last one.
class SuffixStage final : public WholeTokens {
public:
  SuffixStage(DecoderSink& next, const std::string& suffix) : WholeTokens(next), suffix_(suffix) {}
  void token(std::string whole) override {
    if (held_) pass(replace_all(*held_, suffix_, " "));
    held_ = std::move(whole);
  }
  void end() override {
    if (held_) pass(replace_all(*held_, suffix_, ""));
    held_.reset();
  }

private:
  const std::string& suffix_;
  std::optional<std::string> held_;
};

class FuseStage final : public DecoderSink {
public:
  explicit FuseStage(DecoderSink& next) : next_(next) {}
  void write(std::string_view text) override { next_.write(text); }
  void end_token() override {}
  void finish() override {
    next_.end_token();
    next_.finish();
  }

private:
  DecoderSink& next_;
};

class SpacedStage final : public DecoderSink {
public:
  explicit SpacedStage(DecoderSink& next) : next_(next) {}
  void write(std::string_view text) override {
    if (after_token_) next_.write(" ");
    after_token_ = false;
    next_.write(text);
  }
  void end_token() override { after_token_ = true; }
  void finish() override {
    after_token_ = false;
    next_.end_token();
    next_.finish();
  }

private:
  DecoderSink& next_;
  bool after_token_ = false;
};

} // namespace

DecoderPtr make_byte_level_decoder() {
  return make_decoder<ByteLevelStage>(3);
} // a lone byte becomes U+FFFD
DecoderPtr make_byte_fallback_decoder() {
  return make_decoder<ByteFallbackStage>(1);
}
DecoderPtr make_metaspace_decoder(std::string replacement, PrependScheme scheme) {
  return make_decoder<MetaspaceStage>(1, std::move(replacement), scheme);
}
DecoderPtr make_replace_decoder(std::string find, std::string with) {
  double growth = replacement_growth(find.size(), with.size());
  return make_decoder<ReplaceStage<std::string>>(growth, std::move(find), std::move(with));
}
DecoderPtr make_replace_decoder(Regex find, std::string with) {
  double growth = 2.0 + 2.0 * static_cast<double>(with.size());
  return make_decoder<ReplaceStage<Regex>>(growth, std::move(find), std::move(with));
}
DecoderPtr make_strip_decoder(char32_t character, size_t start, size_t stop) {
  std::string text;
  append_code_point(text, character);
  return make_decoder<StripStage>(1, std::move(text), start, stop);
}
DecoderPtr make_fuse_decoder() {
  return make_decoder<FuseStage>(1);
}
DecoderPtr make_wordpiece_decoder(std::string prefix, bool cleanup) {
  return make_decoder<WordPieceStage>(2, std::move(prefix), cleanup);
}
DecoderPtr make_suffix_decoder(std::string suffix) {
  const double growth = replacement_growth(suffix.size(), 1);
  return make_decoder<SuffixStage>(growth, std::move(suffix));
}
DecoderPtr make_spaced_decoder() {
  return make_decoder<SpacedStage>(2);
}

} // namespace text

Detokenizer::Detokenizer(const std::vector<text::DecoderPtr>& steps) : head_(&out_) {
  for (size_t i = steps.size(); i-- > 0;) {
    stages_.push_back(steps[i]->begin(*head_));
    head_ = stages_.back().get();
  }
}

void Detokenizer::push(std::string_view token) {
  head_->write(token);
  head_->end_token();
}

void Detokenizer::finish() {
  head_->finish();
}

} // namespace pumice
