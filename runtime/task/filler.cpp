#include "task/filler.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "model/vocabulary.h"
#include "task/model_kind.h"

namespace pumice {

Result<FillerPlan> FillerPlan::of(const ModelFile& file, const FillerOptions& options,
                                  std::shared_ptr<const Tokenizer> loaded) {
  constexpr const char* no_head = "it has no head of a masked language model (such as BertForMaskedLM)";
  PUMICE_TRY(const std::unique_ptr<ModelDefinition> definition, open_model_definition(file));
  if (definition->shape().has_decoder()) return wrong_kind(file, no_head);
  FillerPlan plan;
  PUMICE_TRY(plan.model, TaskModel::of_texts(file, std::move(loaded)));
  plan.model.output = "masked_logits";
  plan.options = options;
  PUMICE_TRY(const EncoderGraph graph, plan.model.definition->encoder_graph(file));
  if (!graph.readable.contains(plan.model.output)) return wrong_kind(file, no_head);
  const std::vector<uint32_t> masks = tokens_of(TokenRole::mask, file, plan.model.tokenizer.get());
  if (masks.empty() || !plan.model.tokenizer)
    return Error{Code::invalid_file, fmt::format("{}: its vocabulary has no token for gaps", file.path())};
  plan.mask = masks[0];
  plan.mask_name = plan.model.tokenizer->piece(plan.mask);
  return plan;
}

Result<std::unique_ptr<Filler>> Filler::create(std::shared_ptr<const Model> model, FillerPlan plan,
                                               const Making& making) {
  std::unique_ptr<Filler> result(new Filler(std::move(plan)));
  PUMICE_TRY(result->runner_, InputRunner::create(std::move(model), result->plan_.model,
                                                  result->plan_.options.run, 0, making));
  return result;
}

// What others call a gap becomes what the model does.
std::string Filler::with_own_marks(std::string text) const {
  for (const std::string_view other : {"[MASK]", "<mask>"}) {
    for (size_t at = 0; other != plan_.mask_name && (at = text.find(other, at)) != std::string::npos;) {
      text.replace(at, other.size(), plan_.mask_name);
      at += plan_.mask_name.size();
    }
  }
  return text;
}

Result<EncoderInput> Filler::with_outputs(EncoderInput input, const std::string& name) const {
  for (uint32_t at = 0; at < input.tokens.size(); ++at) {
    if (input.tokens[at] == plan_.mask) input.outputs.push_back(at);
  }
  if (input.outputs.empty()) {
    return Error{Code::invalid_argument,
                 fmt::format("{}: expected a gap to fill, '{}', within the {} tokens that are read", name,
                             plan_.mask_name, runner_->limit())};
  }
  if (input.outputs.size() > runner_->most_inputs()) {
    return Error{Code::invalid_argument,
                 fmt::format("{}: it has {} gaps, and at most {} are filled at a time", name,
                             input.outputs.size(), runner_->most_inputs())};
  }
  return input;
}

Result<EncoderInput> Filler::read(const std::string& text, const std::string& name) {
  PUMICE_TRY(EncoderInput input, runner_->read(with_own_marks(text), name));
  return with_outputs(std::move(input), name);
}

Result<EncoderInput> Filler::read(std::vector<uint32_t> ids, const std::string& name) {
  PUMICE_TRY(EncoderInput input, runner_->read(std::move(ids), name));
  return with_outputs(std::move(input), name);
}

std::vector<std::vector<Filler::Fill>> Filler::fills(const std::vector<float>& rows) const {
  const size_t columns = runner_->columns();
  const size_t count = std::min<size_t>(plan_.options.top, columns);
  std::vector<std::vector<Fill>> all;
  for (size_t first = 0; first < rows.size(); first += columns) {
    const std::span<const float> logits(rows.data() + first, columns);
    std::vector<uint32_t> order(columns);
    std::iota(order.begin(), order.end(), 0u);
    const auto better = [&](uint32_t a, uint32_t b) {
      return logits[a] > logits[b] || (logits[a] == logits[b] && a < b);
    };
    std::ranges::partial_sort(order, order.begin() + static_cast<ptrdiff_t>(count), better);
    double sum = 0;
    for (float logit : logits) sum += std::exp(double{logit} - logits[order[0]]);
    std::vector<Fill>& best = all.emplace_back();
    for (uint32_t token : std::span(order).first(count)) {
      std::string word = plan_.model.tokenizer->decode(std::span(&token, 1), true);
      word.erase(0, word.find_first_not_of(' '));
      const double probability = std::exp(double{logits[token]} - logits[order[0]]) / sum;
      best.push_back({token, static_cast<float>(probability), std::move(word)});
    }
  }
  return all;
}

std::string Filler::filled(const std::string& text, size_t gap, const Fill& fill) const {
  std::string result = with_own_marks(text);
  size_t at = result.find(plan_.mask_name);
  for (; gap > 0 && at != std::string::npos; --gap) at = result.find(plan_.mask_name, at + 1);
  if (at == std::string::npos) return result;
  std::string_view word = fill.word;
  size_t size = plan_.mask_name.size();
  if (word.starts_with("##")) { // WordPiece: goes on with the word before it
    word.remove_prefix(2);
    for (; at > 0 && result[at - 1] == ' '; --at) ++size;
  }
  return result.replace(at, size, word);
}

} // namespace pumice
