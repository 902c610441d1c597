#include "api/tasks/writing.h"

#include <algorithm>

#include "api/call.h"
#include "api/request.h"

namespace pumice::api {

namespace {

Result<std::optional<EarlyStopping>> read_stopping(const pumice_early_stopping& stopping) {
  switch (number_in(stopping)) {
  case PUMICE_EARLY_STOPPING_DEFAULT:
    return std::optional<EarlyStopping>();
  case PUMICE_EARLY_STOPPING_NO:
    return std::optional(EarlyStopping::no);
  case PUMICE_EARLY_STOPPING_YES:
    return std::optional(EarlyStopping::yes);
  case PUMICE_EARLY_STOPPING_NEVER:
    return std::optional(EarlyStopping::never);
  }
  return Error{Code::invalid_argument, "options.writing->early_stopping is " +
                                           std::to_string(number_in(stopping)) +
                                           ": expected a pumice_early_stopping"};
}

} // namespace

Result<WritingOptions> read_writing(const pumice_writing_options* caller_options, const ModelShape& shape) {
  PUMICE_TRY(const pumice_writing_options options, read(caller_options, "options.writing"));
  PUMICE_CHECK(check_beams(options.beams));
  if (!(options.length_penalty >= -100 && options.length_penalty <= 100)) { // a NaN, too
    return Error{Code::invalid_argument, "options.writing->length_penalty is " +
                                             std::to_string(options.length_penalty) +
                                             ": expected -100 to 100"};
  }
  constexpr uint32_t most_inputs = 4096;
  if (options.inputs > most_inputs) {
    return Error{Code::invalid_argument, "options.writing->inputs is " + std::to_string(options.inputs) +
                                             ": expected at most " + std::to_string(most_inputs)};
  }
  WritingOptions result;
  if (options.beams) result.beams.beams = options.beams;
  if (options.length_penalty != 0) result.beams.length_penalty = options.length_penalty;
  PUMICE_TRY(result.beams.early_stopping, read_stopping(options.early_stopping));
  if (options.no_repeat_ngram) result.beams.no_repeat_ngram = options.no_repeat_ngram;
  result.beams.hypotheses = std::max(options.n_best, 1u);
  result.max_tokens = options.max_tokens;
  result.inputs = std::max(options.inputs, 1u);
  result.sequences = UINT32_MAX;
  result.scores = options.scores;
  PUMICE_TRY(const pumice_sampling sampling, read(options.sampling, "options.writing->sampling"));
  PUMICE_TRY(result.sampling,
             read_sampling(sampling, shape.vocabulary, nullptr, {}, "options.writing->sampling"));
  return result;
}

HandedTexts::HandedTexts(std::vector<WrittenText> texts) : texts_(std::move(texts)) {
  for (const WrittenText& each : texts_) {
    std::vector<uint32_t>& links = links_.emplace_back();
    if (each.links) {
      for (const auto& [source, word] : *each.links) links.insert(links.end(), {source, word});
    }
    handed_.push_back({each.text.c_str(), each.tokens.data(), each.tokens.size(), each.score, links.data(),
                       links.size() / 2});
  }
}

} // namespace pumice::api
