#include "task/spans/tagger.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "task/model_kind.h"
#include "text/unicode/unicode.h"

namespace pumice {

namespace {

struct TokenLabel {
  std::string_view name; // without "B-" and what else may come before it
  bool begins = false;   // another part, beside one of the same name
  double probability = 0;
};

// Of the likeliest label.
TokenLabel label_of(std::span<const float> logits, const std::vector<std::string>& labels) {
  const auto best = std::ranges::max_element(logits);
  double sum = 0;
  for (const float logit : logits) sum += std::exp(double{logit} - *best);
  TokenLabel label{labels[static_cast<size_t>(best - logits.begin())], false, 1 / sum};
  if (label.name.size() < 3 || label.name[1] != '-') return label;
  constexpr std::string_view first = "BSU",
                             later = "IEL"; // single parts, and ends, have letters of their own
  label.begins = first.find(label.name[0]) != std::string_view::npos;
  if (label.begins || later.find(label.name[0]) != std::string_view::npos) label.name.remove_prefix(2);
  return label;
}

// Collects tokens of one label, one after the other.
class PartCollector {
public:
  void add(const TokenLabel& label, const Tokenizer::PlacedToken& token) {
    if (tokens_ == 0 || label.begins || label.name != name_) {
      end();
      name_ = label.name;
      begin_ = end_ = token.begin;
    }
    if (token.begin < token.end) end_ = token.end; // a token of white space alone ends no part
    sum_ += label.probability;
    ++tokens_;
  }
  std::vector<TextSpan> take() {
    end();
    return std::move(parts_);
  }

private:
  void end() {
    if (tokens_ > 0 && name_ != "O" && begin_ < end_)
      parts_.push_back({begin_, end_, static_cast<float>(sum_ / tokens_), std::string(name_)});
    sum_ = 0;
    tokens_ = 0;
  }

  std::string_view name_;
  size_t begin_ = 0, end_ = 0;
  double sum_ = 0;
  uint32_t tokens_ = 0;
  std::vector<TextSpan> parts_;
};

} // namespace

Result<TaggerPlan> TaggerPlan::of(const ModelFile& file, const RunOptions& run,
                                  std::shared_ptr<const Tokenizer> loaded) {
  PUMICE_TRY(const std::unique_ptr<ModelDefinition> definition, open_model_definition(file));
  const ModelShape shape = definition->shape();
  if (!shape.encoder || shape.encoder->token_head != TokenHead::labels) {
    return wrong_kind(file, "it has no head that labels each token (such as BertForTokenClassification)");
  }
  TaggerPlan plan;
  PUMICE_TRY(plan.model, TaskModel::of_texts(file, std::move(loaded)));
  plan.model.output = "logits";
  plan.model.each_token = true;
  plan.labels = shape.encoder->token_labels;
  plan.run = run;
  return plan;
}

Result<std::unique_ptr<Tagger>> Tagger::create(std::shared_ptr<const Model> model, TaggerPlan plan,
                                               const Making& making) {
  std::unique_ptr<Tagger> result(new Tagger(std::move(plan)));
  PUMICE_TRY(result->runner_,
             InputRunner::create(std::move(model), result->plan_.model, result->plan_.run, 0, making));
  const size_t around = result->plan_.model.tokenizer->around({}).ids.size();
  if (result->runner_->limit() > around) return result;
  return Error{Code::invalid_argument,
               fmt::format("{}: at most {} tokens are read at a time, of which {} stand around a text",
                           result->plan_.model.path, result->runner_->limit(), around)};
}

std::vector<TokenWindow> Tagger::windows(size_t tokens) const {
  const size_t room = runner_->limit() - plan_.model.tokenizer->around({}).ids.size();
  return token_windows(tokens, room, room / 4);
}

Result<std::vector<EncoderInput>> Tagger::read(const std::string& text, const std::string& name) {
  if (!text::is_valid_utf8(text))
    return Error{Code::invalid_argument, fmt::format("{}: expected UTF-8", name)};
  const Tokenizer& tokenizer = *plan_.model.tokenizer;
  const std::vector<Tokenizer::PlacedToken> tokens = tokenizer.encode_placed(text);
  const auto around = [&](std::span<const uint32_t> ids) { return tokenizer.around(ids); };
  return read_windows(*runner_, tokens, windows(tokens.size()), around, name);
}

std::vector<TextSpan> Tagger::spans(const std::string& text, const std::vector<float>& rows) const {
  const Tokenizer& tokenizer = *plan_.model.tokenizer;
  const std::vector<Tokenizer::PlacedToken> tokens = tokenizer.encode_placed(text);
  const size_t around = tokenizer.around({}).ids.size(), before = tokenizer.around({}).begin;
  PartCollector parts;
  size_t row = 0; // the window's first
  for (const TokenWindow& window : windows(tokens.size())) {
    for (size_t i = window.first; i < window.last; ++i) {
      const size_t at = (row + before + i - window.begin) * plan_.labels.size();
      parts.add(label_of(std::span(rows).subspan(at, plan_.labels.size()), plan_.labels), tokens[i]);
    }
    row += window.end - window.begin + around;
  }
  return parts.take();
}

} // namespace pumice
