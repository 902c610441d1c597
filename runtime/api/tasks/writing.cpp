#include "api/tasks/writing.h"

#include <algorithm>

#include "api/call.h"
#include "api/request.h"

namespace pumice::api {

namespace {

Result<std::optional<EarlyStopping>> read_stopping(const pumice_early_stopping& given) {
  switch (number_in(given)) {
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
                                           std::to_string(number_in(given)) +
                                           ": expected a pumice_early_stopping"};
}

} // namespace

Result<WritingOptions> read_writing(const pumice_writing_options* options, const ModelShape& shape) {
  PUMICE_TRY(const pumice_writing_options given, read(options, "options.writing"));
  PUMICE_CHECK(check_beams(given.beams));
  if (!(given.length_penalty >= -100 && given.length_penalty <= 100)) { // a NaN, too
    return Error{Code::invalid_argument, "options.writing->length_penalty is " +
                                             std::to_string(given.length_penalty) + ": expected -100 to 100"};
  }
  constexpr uint32_t most_inputs = 4096;
  if (given.inputs > most_inputs) {
    return Error{Code::invalid_argument, "options.writing->inputs is " + std::to_string(given.inputs) +
                                             ": expected at most " + std::to_string(most_inputs)};
  }
  WritingOptions own;
  if (given.beams) own.beams.beams = given.beams;
  if (given.length_penalty != 0) own.beams.length_penalty = given.length_penalty;
  PUMICE_TRY(own.beams.early_stopping, read_stopping(given.early_stopping));
  if (given.no_repeat_ngram) own.beams.no_repeat_ngram = given.no_repeat_ngram;
  own.beams.hypotheses = std::max(given.n_best, 1u);
  own.max_tokens = given.max_tokens;
  own.inputs = std::max(given.inputs, 1u);
  own.sequences = UINT32_MAX;
  own.scores = given.scores;
  PUMICE_TRY(const pumice_sampling sampling, read(given.sampling, "options.writing->sampling"));
  PUMICE_TRY(own.sampling, read_sampling(sampling, shape.vocabulary, {}, "options.writing->sampling"));
  return own;
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
