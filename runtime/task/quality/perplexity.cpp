#include "task/quality/perplexity.h"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

namespace pumice {

double LikelihoodSum::perplexity() const {
  return std::exp(mean());
}

double LikelihoodSum::error() const {
  if (count < 2) return 0;
  const double variance = squares / static_cast<double>(count) - mean() * mean();
  return std::sqrt(std::max(variance, 0.0) / static_cast<double>(count - 1)) * perplexity();
}

uint32_t window_length(uint32_t context, uint32_t stride) {
  return context + stride / 2;
}

Result<TextWindows> TextWindows::cut(std::vector<uint32_t> tokens, uint32_t context, uint32_t stride,
                                     uint32_t most, const std::string& source) {
  TextWindows windows;
  windows.tokens = std::move(tokens);
  windows.length = window_length(context, stride);
  windows.distance = stride ? stride : context;
  windows.first_scored = stride ? windows.length - stride - 1 : context / 2;
  const size_t all = windows.tokens.size();
  if (all < 2 * size_t{windows.length}) {
    return Error{Code::invalid_argument,
                 fmt::format("{}: the text is too short: it has {} token{}, and two windows of {} "
                             "(--context) are needed",
                             source, all, all == 1 ? "" : "s", windows.length)};
  }
  const size_t count = stride ? (all - windows.length + stride - 1) / stride : all / context;
  windows.count = static_cast<uint32_t>(most ? std::min<size_t>(count, most) : count);
  return windows;
}

std::vector<uint32_t> TextWindows::window(uint32_t n) const {
  const auto first = tokens.begin() + static_cast<ptrdiff_t>(size_t{n} * distance);
  std::vector<uint32_t> window(first, first + length);
  if (begin) window[0] = *begin;
  return window;
}

Result<std::unique_ptr<WindowReader>> WindowReader::create(std::shared_ptr<const Model> model,
                                                           SessionSize size, bool logits,
                                                           const AdapterChoice& adapter) {
  const std::string name = logits ? "logits" : "log_likelihoods";
  RunnerOptions options;
  options.size = size;
  options.sampling = false;
  options.all_outputs = true;
  options.readable = {name};
  if (adapter.adapter) options.adapters = room_for(std::array{adapter.adapter}, 1);
  PUMICE_TRY(std::unique_ptr<Runner> runner, Runner::create(std::move(model), std::move(options)));
  PUMICE_CHECK(runner->set_adapter(0, adapter));
  return std::unique_ptr<WindowReader>(new WindowReader(std::move(runner), name));
}

Status WindowReader::read(std::span<const uint32_t> window, uint32_t first_scored, const Take& take) {
  const auto length = static_cast<uint32_t>(window.size()), chunk = runner_->size().chunk;
  const size_t columns = runner_->columns(name_);
  for (uint32_t first = 0; first + 1 < length; first += chunk) {
    const uint32_t count = std::min(chunk, length - 1 - first);
    std::vector<StepToken> step(count);
    uint32_t outputs = 0;
    for (uint32_t i = 0; i < count; ++i) {
      const uint32_t at = first + i;
      const bool scored = at >= first_scored;
      step[i] = {window[at], at, 0, 0, scored, window[at + 1]};
      outputs += scored;
    }
    PUMICE_CHECK(runner_->write_step(step));
    PUMICE_TRY(const Completion done, runner_->submit(count));
    PUMICE_CHECK(done.wait());
    if (outputs == 0) continue;
    PUMICE_TRY(const std::vector<float> values, runner_->read(name_, outputs));
    for (uint32_t i = 0; i < outputs; ++i)
      take(window[first + count - outputs + i + 1], std::span(values).subspan(i * columns, columns));
  }
  return {};
}

} // namespace pumice
