#include "task/spans/answerer.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "task/model_kind.h"
#include "text/unicode/unicode.h"

namespace pumice {

namespace {

constexpr size_t most_candidates = 4096; // that are kept of all windows
constexpr uint32_t usual_window = 384, usual_overlap = 128, usual_answer_tokens = 15;

// A first and a last token.
struct Candidate {
  size_t first = 0, last = 0;
  double score = 0;
};

// The probabilities of a window's tokens, of one of the two columns of its rows. The token before all others
// stands for no answer: it counts, and is none.
std::vector<double> probabilities(std::span<const float> rows, size_t column, size_t begin, size_t count) {
  const auto logit = [&](size_t row) { return double{rows[2 * row + column]}; };
  double largest = begin > 0 ? logit(0) : logit(begin), sum = 0;
  for (size_t i = 0; i < count; ++i) largest = std::max(largest, logit(begin + i));
  std::vector<double> all(count);
  for (size_t i = 0; i < count; ++i) sum += all[i] = std::exp(logit(begin + i) - largest);
  if (begin > 0) sum += std::exp(logit(0) - largest);
  for (double& each : all) each /= sum;
  return all;
}

// Keeps the best ones, best first.
void keep(std::vector<Candidate>& best, const Candidate& candidate, size_t most) {
  const auto better = [](const Candidate& a, const Candidate& b) { return a.score > b.score; };
  if (best.size() == most && !better(candidate, best.back())) return;
  best.insert(std::ranges::upper_bound(best, candidate, better), candidate);
  if (best.size() > most) best.pop_back();
}

// The words that the tokens are parts of.
TextSpan whole_words(const std::vector<Tokenizer::PlacedToken>& tokens, Candidate candidate) {
  const auto joined = [&](size_t i) {
    return tokens[i].word == tokens[i + 1].word && tokens[i].end == tokens[i + 1].begin;
  };
  const auto is_space = [&](size_t i) { return tokens[i].begin == tokens[i].end; };
  while (candidate.first < candidate.last && is_space(candidate.last)) --candidate.last;
  while (candidate.first > 0 && joined(candidate.first - 1)) --candidate.first;
  while (candidate.last + 1 < tokens.size() && joined(candidate.last)) ++candidate.last;
  return {tokens[candidate.first].begin, tokens[candidate.last].end, static_cast<float>(candidate.score)};
}

} // namespace

Result<AnswererPlan> AnswererPlan::of(const ModelFile& file, const AnswererOptions& options,
                                      std::shared_ptr<const Tokenizer> loaded) {
  PUMICE_TRY(const std::unique_ptr<ModelDefinition> definition, open_model_definition(file));
  const ModelShape shape = definition->shape();
  if (!shape.encoder || shape.encoder->token_head != TokenHead::answers) {
    return wrong_kind(file, "it has no head that finds answers in a text (such as BertForQuestionAnswering)");
  }
  AnswererPlan plan;
  PUMICE_TRY(plan.model, TaskModel::of_texts(file, std::move(loaded)));
  plan.model.output = "logits";
  plan.model.each_token = true;
  plan.options = options;
  if (plan.options.max_answer_tokens == 0) plan.options.max_answer_tokens = usual_answer_tokens;
  return plan;
}

Result<std::unique_ptr<Answerer>> Answerer::create(std::shared_ptr<const Model> model, AnswererPlan plan,
                                                   const Making& making) {
  std::unique_ptr<Answerer> result(new Answerer(std::move(plan)));
  PUMICE_TRY(result->runner_, InputRunner::create(std::move(model), result->plan_.model,
                                                  result->plan_.options.run, usual_window, making));
  return result;
}

std::vector<TokenWindow> Answerer::windows(size_t tokens, size_t room) {
  return token_windows(tokens, room, std::min<size_t>(usual_overlap, room / 2));
}

int64_t Answerer::room(std::span<const uint32_t> question) const {
  return int64_t{runner_->limit()} -
         static_cast<int64_t>(plan_.model.tokenizer->around(question, {}).ids.size());
}

Result<std::vector<EncoderInput>> Answerer::read(const std::string& question, const std::string& text,
                                                 const std::string& name) {
  if (!text::is_valid_utf8(text) || !text::is_valid_utf8(question))
    return Error{Code::invalid_argument, fmt::format("{}: expected UTF-8", name)};
  const Tokenizer& tokenizer = *plan_.model.tokenizer;
  const std::vector<uint32_t> asked = tokenizer.encode(question, false);
  const std::vector<Tokenizer::PlacedToken>& tokens = tokens_of(text);
  if (asked.empty() || tokens.empty()) {
    return Error{Code::invalid_argument,
                 fmt::format("{}: expected a question and a text to answer it from; the {} is empty", name,
                             asked.empty() ? "question" : "text")};
  }
  const int64_t left = room(asked);
  if (left < 1) {
    return Error{Code::invalid_argument,
                 fmt::format("{}: the question has {} tokens, which leave no room for the text: {} are read "
                             "at a time",
                             name, asked.size(), runner_->limit())};
  }
  const auto around = [&](std::span<const uint32_t> ids) { return tokenizer.around(asked, ids); };
  return read_windows(*runner_, tokens, windows(tokens.size(), static_cast<size_t>(left)), around, name);
}

// Each question of a text, and each of its answers, is about the same tokens.
const std::vector<Tokenizer::PlacedToken>& Answerer::tokens_of(const std::string& text) {
  if (text != text_) {
    tokens_ = plan_.model.tokenizer->encode_placed(text);
    text_ = text;
  }
  return tokens_;
}

std::vector<TextSpan> Answerer::answers(const std::string& question, const std::string& text,
                                        const std::vector<float>& rows) {
  const Tokenizer& tokenizer = *plan_.model.tokenizer;
  const std::vector<uint32_t> asked = tokenizer.encode(question, false);
  const std::vector<Tokenizer::PlacedToken>& tokens = tokens_of(text);
  const Tokenizer::Encoding around = tokenizer.around(asked, {});
  // Several may be parts of the same words.
  const size_t most = std::min(size_t{plan_.options.top} * plan_.options.max_answer_tokens, most_candidates);
  std::vector<Candidate> best;
  size_t row = 0; // the window's first
  for (const TokenWindow& window : windows(tokens.size(), static_cast<size_t>(room(asked)))) {
    const size_t count = window.end - window.begin, width = around.ids.size() + count;
    const std::span<const float> own = std::span(rows).subspan(2 * row, 2 * width);
    const std::vector<double> starts = probabilities(own, 0, around.begin, count),
                              ends = probabilities(own, 1, around.begin, count);
    for (size_t first = 0; first < count; ++first) {
      const size_t last = std::min<size_t>(first + plan_.options.max_answer_tokens, count);
      for (size_t i = first; i < last; ++i)
        keep(best, {window.begin + first, window.begin + i, starts[first] * ends[i]}, most);
    }
    row += width;
  }
  std::vector<TextSpan> answers;
  for (const Candidate& candidate : best) {
    const TextSpan answer = whole_words(tokens, candidate);
    const bool known = std::ranges::any_of(
        answers, [&](const TextSpan& each) { return each.begin == answer.begin && each.end == answer.end; });
    if (!known && answer.begin < answer.end && answers.size() < plan_.options.top) answers.push_back(answer);
  }
  return answers;
}

} // namespace pumice
