#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "generate/decoding.h"
#include "generate/search_rules.h"

namespace pumice {

namespace {

void log_softmax(std::span<float> scores) {
  // A NaN counts as the smallest value.
  for (float& score : scores) score = std::isnan(score) ? -std::numeric_limits<float>::infinity() : score;
  const float largest = *std::ranges::max_element(scores);
  double sum = 0;
  for (float score : scores) sum += std::exp(double{score} - largest);
  const auto log_sum = static_cast<float>(largest + std::log(sum));
  for (float& score : scores) score -= log_sum;
}

// The best continuations of one beam, among those of others: at most `wanted` altogether, best first.
void add_continuations(uint32_t beam, float beam_score, std::span<const float> scores, size_t wanted,
                       std::vector<Continuation>& best) {
  const auto better = [](const Continuation& a, const Continuation& b) { return a.score > b.score; };
  for (uint32_t token = 0; token < scores.size(); ++token) {
    const Continuation next{beam, token, beam_score + scores[token]};
    if (!(next.score > -std::numeric_limits<float>::infinity())) continue;
    if (best.size() == wanted && !better(next, best.back())) continue;
    best.insert(std::ranges::upper_bound(best, next, better), next);
    if (best.size() > wanted) best.pop_back();
  }
}

// The same for a beam whose text lacks terms: also every token that brings it further, and its best one.
void add_for_terms(uint32_t beam, float beam_score, std::span<const float> scores, const TermState& state,
                   std::vector<Continuation>& more) {
  std::vector<uint32_t> tokens = state.next;
  tokens.push_back(static_cast<uint32_t>(std::ranges::max_element(scores) - scores.begin()));
  for (const uint32_t token : tokens) {
    const Continuation next{beam, token, beam_score + scores[token]};
    if (next.score > -std::numeric_limits<float>::infinity()) more.push_back(next);
  }
}

// Sorts continuations of both kinds, best first, each once.
void add_once(std::span<const Continuation> more, std::vector<Continuation>& best) {
  const size_t listed = best.size();
  for (const Continuation& each : more) {
    const auto same = [&](const Continuation& other) {
      return other.beam == each.beam && other.token == each.token;
    };
    if (std::ranges::none_of(best, same)) best.push_back(each);
  }
  if (best.size() > listed) std::ranges::stable_sort(best, std::greater(), &Continuation::score);
}

class SearchDecoding : public Decoding {
public:
  SearchDecoding(Runner& runner, uint32_t beams, const DecodingTask& task)
      : runner_(runner), beams_(beams), task_(task), on_device_(runner.columns("continuations") > 0),
        state_(runner.sampling_memory()) {}

  Status begin() override;
  bool done() const override;
  Status step() override;
  Status fill(Slice& slice) override;
  Status collect() override;
  Status end() override;

private:
  // The beam search for one input.
  struct Search {
    size_t input = 0; // of the task
    uint32_t first_slot = 0;
    BeamSearch beams;
    std::vector<std::vector<uint32_t>> cache_indirection; // of each beam: the slot that holds each position
  };
  // A step whose rows are written.
  struct Step {
    uint32_t rows = 0;
    bool outputs = false; // it gives logits, from which tokens are chosen
  };

  Result<Step> write_step();
  Result<Step> write_prompts();
  Status write_row(Search& search, uint32_t beam, std::vector<StepToken>& rows);
  Status choose(uint32_t rows);
  Result<std::vector<Continuation>> found_by_host(const Search& search, std::span<float> logits) const;
  std::vector<Continuation> found_by_device(std::span<const float> row) const;
  void advance(Search& search, std::span<const Continuation> best);
  void hand_out();

  Runner& runner_;
  uint32_t beams_;
  DecodingTask task_;
  const bool on_device_; // continuations are found there
  SearchState state_;
  std::vector<Search> searches_;
  std::vector<StepToken> prompts_; // without their last tokens
  size_t prompts_written_ = 0;
  Step sliced_;                    // the step that is in slices, or was the last one there
  std::optional<Completion> done_; // of that step, once all of it is in slices, until it is collected
};

Status SearchDecoding::begin() {
  const std::vector<uint32_t>& prompt = task_.options.config.prompt;
  for (size_t i = 0; i < task_.ranges.size(); ++i) {
    const uint32_t slot = static_cast<uint32_t>(i) * beams_;
    for (uint32_t beam = 0; beam < beams_; ++beam) {
      PUMICE_CHECK(runner_.set_input(slot + beam, task_.ranges[i]));
    }
    const std::vector<std::vector<Term>>& terms = task_.options.terms;
    const size_t input = task_.first_input + i;
    searches_.push_back(
        {i, slot, BeamSearch(task_.options.config, terms.empty() ? std::vector<Term>() : terms[input]), {}});
    searches_.back().cache_indirection.assign(1, std::vector<uint32_t>(prompt.size() - 1, slot));
    for (uint32_t at = 0; at + 1 < prompt.size(); ++at) prompts_.push_back({prompt[at], at, slot});
    if (beams_ > 1) PUMICE_CHECK(runner_.set_cache_indirection(slot, std::vector(prompt.size(), slot)));
  }
  return {};
}

bool SearchDecoding::done() const {
  return std::ranges::all_of(searches_, [](const Search& each) { return each.beams.done(); });
}

Result<SearchDecoding::Step> SearchDecoding::write_prompts() {
  const size_t count = std::min<size_t>(runner_.size().chunk, prompts_.size() - prompts_written_);
  PUMICE_CHECK(runner_.write_step(std::span(prompts_).subspan(prompts_written_, count)));
  prompts_written_ += count;
  return Step{static_cast<uint32_t>(count), false};
}

// Writes the next part of the prompts, or a row for each beam of each unfinished search.
Result<SearchDecoding::Step> SearchDecoding::write_step() {
  if (prompts_written_ < prompts_.size()) return write_prompts();
  std::vector<StepToken> rows;
  for (Search& search : searches_) {
    if (search.beams.done()) continue;
    for (uint32_t beam = 0; beam < search.beams.beams().size(); ++beam) {
      PUMICE_CHECK(write_row(search, beam, rows));
    }
  }
  PUMICE_CHECK(runner_.write_step(rows));
  return Step{static_cast<uint32_t>(rows.size()), true};
}

// The last token of a beam.
Status SearchDecoding::write_row(Search& search, uint32_t beam, std::vector<StepToken>& rows) {
  const std::vector<uint32_t>& prompt = task_.options.config.prompt;
  const std::vector<uint32_t>& tokens = search.beams.beams()[beam].tokens;
  StepToken row;
  row.token = tokens.empty() ? prompt.back() : tokens.back();
  row.position = static_cast<uint32_t>(prompt.size() + tokens.size() - 1);
  row.sequence = search.first_slot + beam;
  row.output = true;
  rows.push_back(row);
  search.cache_indirection[beam].push_back(row.sequence);
  if (on_device_) {
    const size_t beams = search.beams.beams().size();
    state_.set(row.sequence, search.beams.beams()[beam].score, beam == 0 ? static_cast<uint32_t>(beams) : 0,
               static_cast<uint32_t>(search.beams.wanted()), search_rules(task_.options.config, tokens));
  }
  if (beams_ == 1) return {};
  return runner_.set_cache_indirection(row.sequence, search.cache_indirection[beam]);
}

Status SearchDecoding::step() {
  PUMICE_TRY(const Step step, write_step());
  PUMICE_CHECK(runner_.submit(step.rows));
  return step.outputs ? choose(step.rows) : Status();
}

// One step at a time: the host's part of the next one may change what the device reads.
Status SearchDecoding::fill(Slice& slice) {
  if (done_) return {};
  if (!runner_.step_open()) {
    PUMICE_TRY(sliced_, write_step());
    PUMICE_CHECK(runner_.open_step(sliced_.rows));
  }
  PUMICE_TRY(done_, runner_.fill(slice));
  return {};
}

Status SearchDecoding::collect() {
  if (!done_) return {};
  PUMICE_TRY(const bool finished, done_->finished());
  if (!finished) return {};
  done_.reset();
  return sliced_.outputs ? choose(sliced_.rows) : Status();
}

Status SearchDecoding::choose(uint32_t rows) {
  const std::string name = on_device_ ? "continuations" : "logits";
  PUMICE_TRY(std::vector<float> values, runner_.read(name, rows));
  const size_t columns = runner_.columns(name);
  size_t row = 0;
  for (Search& search : searches_) {
    if (search.beams.done()) continue;
    const size_t count = search.beams.beams().size();
    const std::span<float> scores = std::span(values).subspan(row * columns, count * columns);
    if (on_device_) {
      advance(search, found_by_device(scores.first(columns)));
    } else {
      PUMICE_TRY(const std::vector<Continuation> best, found_by_host(search, scores));
      advance(search, best);
    }
    row += count;
  }
  hand_out();
  return {};
}

// The best continuations of a search, from the logits of its beams. This is what the device's kernels do, and
// the reference that tests hold them to.
Result<std::vector<Continuation>> SearchDecoding::found_by_host(const Search& search,
                                                                std::span<float> logits) const {
  const GenerationOptions& options = task_.options;
  const std::span<const BeamSearch::Beam> beams = search.beams.beams();
  const size_t vocabulary = logits.size() / beams.size();
  std::vector<Continuation> best, more;
  for (uint32_t beam = 0; beam < beams.size(); ++beam) {
    const std::span<float> scores = logits.subspan(beam * vocabulary, vocabulary);
    // As in transformers, rules change log-probabilities with several beams, and logits with one.
    if (options.config.beams > 1) log_softmax(scores);
    apply_rules(options.config, scores, beams[beam].tokens);
    if (options.rule)
      PUMICE_CHECK(options.rule(task_.first_input + search.input, scores, beams[beam].tokens));
    if (options.config.beams == 1) log_softmax(scores);
    if (!search.beams.terms().empty()) {
      const TermState state = term_state(search.beams.terms(), beams[beam].tokens);
      if (!state.complete) {
        for (const uint32_t end : options.config.ends) scores[end] = forbidden_score;
      }
      add_for_terms(beam, beams[beam].score, scores, state, more);
    }
    add_continuations(beam, beams[beam].score, scores, search.beams.wanted(), best);
  }
  add_once(more, best);
  return best;
}

// The same from a row of the kernels' result.
std::vector<Continuation> SearchDecoding::found_by_device(std::span<const float> row) const {
  std::vector<Continuation> best;
  for (size_t at = 0; at + SEARCH_RESULT_COLUMNS <= row.size(); at += SEARCH_RESULT_COLUMNS) {
    const float score = row[at + 2];
    if (!(score > -std::numeric_limits<float>::infinity())) break;
    best.push_back({static_cast<uint32_t>(row[at]), static_cast<uint32_t>(row[at + 1]), score});
  }
  return best;
}

// Chooses the new beams of a search.
void SearchDecoding::advance(Search& search, std::span<const Continuation> best) {
  const GenerationOptions& options = task_.options;
  const std::vector<uint32_t> parents = search.beams.advance(best);
  std::vector<std::vector<uint32_t>> cache_indirection;
  for (uint32_t parent : parents) cache_indirection.push_back(search.cache_indirection[parent]);
  if (!cache_indirection.empty()) search.cache_indirection = std::move(cache_indirection);
  if (options.config.beams == 1 && options.on_token && !best.empty()) {
    options.on_token(task_.first_input + search.input, best.front().token);
  }
}

// The texts of searches that are done now.
void SearchDecoding::hand_out() {
  for (const Search& each : searches_) {
    std::vector<Hypothesis>& texts = task_.texts[each.input];
    if (!each.beams.done() || !texts.empty()) continue;
    texts = each.beams.results(task_.options.hypotheses);
    if (task_.options.on_texts) task_.options.on_texts(task_.first_input + each.input, texts);
  }
}

Status SearchDecoding::end() {
  runner_.close_step();
  return {};
}

} // namespace

bool device_can_search(const GenerationOptions& options, uint32_t context) {
  const GenerationConfig& config = options.config;
  const bool terms = std::ranges::any_of(options.terms, [](const auto& each) { return !each.empty(); });
  if (options.rule || terms || BeamSearch(config).wanted() > SEARCH_CANDIDATES) return false;
  // The rules name no more tokens than a text has, and those that the settings name.
  const size_t named = config.suppressed.size() + config.suppressed_first.size() + config.ends.size();
  return named + context <= SEARCH_TOKENS;
}

std::unique_ptr<Decoding> make_search_decoding(Runner& runner, uint32_t beams, const DecodingTask& task) {
  return std::make_unique<SearchDecoding>(runner, beams, task);
}

} // namespace pumice
