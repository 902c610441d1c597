#include "task/quality/divergence.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include <fmt/format.h>

#include "io/bytes.h"

namespace pumice {

namespace {

constexpr char magic[8] = {'_', 'l', 'o', 'g', 'i', 't', 's', '_'};

// A row begins with two floats. Rows have an even number of values.
constexpr size_t head_values = 4;
size_t row_values(uint32_t vocabulary) {
  return (size_t{vocabulary} + 1) / 2 * 2 + head_values;
}

// Less probable tokens count as if they were so much less probable than the best one.
constexpr float reach = 16;

// The largest logit, and the logarithm of the sum of the exponentials.
struct LogSum {
  float largest = 0, smallest = 0;
  size_t best = 0;
  double log_sum = 0;
};

LogSum log_sum_of(std::span<const float> logits) {
  const auto best = std::ranges::max_element(logits);
  LogSum result{*best, *std::ranges::min_element(logits), static_cast<size_t>(best - logits.begin()), 0};
  double sum = 0;
  for (const float each : logits) sum += std::exp(each - result.largest);
  result.log_sum = result.largest + std::log(sum);
  return result;
}

// The beginning of a file, before the text's tokens.
std::vector<std::byte> head_of(uint32_t length, uint32_t vocabulary, uint32_t windows) {
  const uint32_t sizes[] = {length, vocabulary, windows};
  std::vector<std::byte> head(sizeof magic + sizeof sizes);
  std::memcpy(head.data(), magic, sizeof magic);
  std::memcpy(head.data() + sizeof magic, sizes, sizeof sizes);
  return head;
}

double at_share(std::vector<float> values, double share) {
  if (values.empty()) return 0;
  const double place = std::clamp(share, 0.0, 1.0) * static_cast<double>(values.size() - 1);
  const auto below = values.begin() + static_cast<ptrdiff_t>(place);
  std::nth_element(values.begin(), below, values.end());
  const double part = place - std::floor(place);
  if (part == 0) return *below;
  return (1 - part) * *below + part * *std::min_element(below + 1, values.end());
}

} // namespace

float log_probability(std::span<const float> logits, uint32_t token) {
  return static_cast<float>(logits[token] - log_sum_of(logits).log_sum);
}

Result<std::unique_ptr<BaseWriter>> BaseWriter::create(const std::filesystem::path& path,
                                                       const TextWindows& windows, uint32_t vocabulary) {
  std::unique_ptr<BaseWriter> writer(new BaseWriter(windows, vocabulary));
  PUMICE_CHECK(writer->file_.open(path));
  const std::span<const uint32_t> tokens =
      std::span(windows.tokens).first(size_t{windows.count} * windows.length);
  PUMICE_CHECK(writer->file_.write(head_of(windows.length, vocabulary, windows.count)));
  PUMICE_CHECK(writer->file_.write(std::as_bytes(tokens)));
  writer->row_.resize(row_values(vocabulary));
  return writer;
}

void BaseWriter::add(std::span<const float> logits) {
  if (!status_.ok()) return;
  const LogSum sum = log_sum_of(logits);
  const float smallest = std::max(sum.smallest, sum.largest - reach);
  const float head[] = {(sum.largest - smallest) / 65535, static_cast<float>(smallest - sum.log_sum)};
  std::ranges::fill(row_, uint16_t{0});
  std::memcpy(row_.data(), head, sizeof head);
  for (size_t i = 0; i < logits.size() && head[0] > 0; ++i) {
    if (logits[i] > smallest)
      row_[head_values + i] = static_cast<uint16_t>(std::lround((logits[i] - smallest) / head[0]));
  }
  status_ = file_.write(std::as_bytes(std::span(row_)));
}

Status BaseWriter::finish(uint32_t done) {
  PUMICE_CHECK(status_);
  if (done < windows_.count && file_.seekable()) {
    const std::vector<std::byte> head = head_of(windows_.length, vocabulary_, done);
    const uint64_t window = uint64_t{windows_.length} * sizeof(uint32_t); // bytes of one's tokens
    const uint64_t rows = uint64_t{done} * windows_.scored() * row_.size() * sizeof(uint16_t);
    PUMICE_CHECK(file_.move_back(head.size() + windows_.count * window, head.size() + done * window, rows));
    PUMICE_CHECK(file_.write_first(head));
  }
  return file_.finish();
}

Result<BaseFile> BaseFile::open(const std::filesystem::path& path, uint32_t vocabulary) {
  PUMICE_TRY(MappedFile mapped, MappedFile::open(path));
  BaseFile file(std::move(mapped));
  const std::string& name = file.file_.path();
  ByteReader reader(file.file_.bytes());
  std::span<const std::byte> beginning, tokens;
  uint32_t found = 0;
  TextWindows& windows = file.windows_;
  if (!reader.take(sizeof magic, beginning) || std::memcmp(beginning.data(), magic, sizeof magic) != 0) {
    return Error{Code::invalid_file,
                 fmt::format("{}: expected a file that --kl-divergence-base has written, of the base model's "
                             "predictions",
                             name)};
  }
  const Error cut_off = {Code::invalid_file, fmt::format("{}: the file is cut off", name)};
  if (!reader.read(windows.length) || !reader.read(found) || !reader.read(windows.count)) return cut_off;
  if (found != vocabulary) {
    return Error{Code::invalid_file,
                 fmt::format("{}: it has the predictions of a model with {} tokens, and this one has {}: "
                             "expected another file, or another model",
                             name, found, vocabulary)};
  }
  if (windows.length < 3 || windows.count == 0) {
    return Error{Code::invalid_file, fmt::format("{}: {} windows of {} tokens: expected at least one of 3",
                                                 name, windows.count, windows.length)};
  }
  windows.distance = windows.length;
  windows.first_scored = windows.length / 2;
  file.vocabulary_ = vocabulary;
  const uint64_t count = uint64_t{windows.count} * windows.length;
  uint64_t rows = 0, bytes = 0;
  if (!multiply(count, 4, bytes) || !reader.take(bytes, tokens)) return cut_off;
  file.first_row_ = reader.position();
  if (!multiply(uint64_t{windows.count} * windows.scored(), row_values(vocabulary) * 2, rows) ||
      reader.remaining() < rows)
    return cut_off;
  windows.tokens.resize(count);
  std::memcpy(windows.tokens.data(), tokens.data(), tokens.size());
  for (const uint32_t token : windows.tokens) {
    if (token < vocabulary) continue;
    return Error{Code::invalid_file, fmt::format("{}: there is no token {}: the ids of the model are 0 to {}",
                                                 name, token, vocabulary - 1)};
  }
  return file;
}

BaseRow BaseFile::row(uint32_t window, uint32_t scored) const {
  const size_t number = size_t{window} * windows_.scored() + scored;
  const std::byte* at = file_.bytes().data() + first_row_ + number * row_values(vocabulary_) * 2;
  BaseRow row;
  std::memcpy(&row.scale, at, sizeof row.scale);
  std::memcpy(&row.least, at + sizeof row.scale, sizeof row.least);
  // The file's beginning and its rows are multiples of four bytes.
  row.values = {reinterpret_cast<const uint16_t*>(at) + head_values, vocabulary_};
  return row;
}

void Divergence::add(std::span<const float> logits, const BaseRow& base, uint32_t token) {
  const LogSum sum = log_sum_of(logits);
  double divergence = 0;
  size_t best = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    if (base.values[i] > base.values[best]) best = i;
    const double expected = base.log_probability(static_cast<uint32_t>(i));
    if (expected > -reach) divergence += std::exp(expected) * (expected - (logits[i] - sum.log_sum));
  }
  const double own = sum.log_sum - logits[token], other = -double{base.log_probability(token)};
  const double change = std::exp(-own) - std::exp(-other);
  own_.add(own);
  base_.add(other);
  products_ += own * other;
  divergence_.add(divergence);
  change_.add(change);
  change_squares_.add(change * change);
  same_ += best == sum.best;
  divergences_.push_back(static_cast<float>(divergence));
  changes_.push_back(static_cast<float>(change));
}

Estimate Divergence::Sum::mean(size_t count) const {
  if (count == 0) return {};
  const double all = static_cast<double>(count), mean = sum / all, variance = squares / all - mean * mean;
  return {mean, variance > 0 && count > 10 ? std::sqrt(variance / (all - 1)) : 0};
}

// Of the means of both log-likelihoods.
double Divergence::covariance() const {
  if (count() < 10) return 0;
  const double all = static_cast<double>(count());
  return (products_ / all - own_.sum / all * (base_.sum / all)) / (all - 1);
}

Estimate Divergence::perplexity() const {
  const Estimate log = own_.mean(count());
  return {std::exp(log.value), std::exp(log.value) * log.error};
}

Estimate Divergence::base_perplexity() const {
  const Estimate log = base_.mean(count());
  return {std::exp(log.value), std::exp(log.value) * log.error};
}

double Divergence::correlation() const {
  const double errors = own_.mean(count()).error * base_.mean(count()).error;
  return errors > 0 ? covariance() / errors : 0;
}

Estimate Divergence::log_ratio() const {
  const Estimate own = own_.mean(count()), other = base_.mean(count());
  const double variance = own.error * own.error + other.error * other.error - 2 * covariance();
  return {own.value - other.value, std::sqrt(std::max(variance, 0.0))};
}

Estimate Divergence::ratio() const {
  const Estimate log = log_ratio();
  return {std::exp(log.value), std::exp(log.value) * log.error};
}

Estimate Divergence::difference() const {
  const Estimate own = perplexity(), other = base_perplexity();
  const double both = own.value * other.value * covariance();
  const double variance = own.error * own.error + other.error * other.error - 2 * both;
  return {own.value - other.value, std::sqrt(std::max(variance, 0.0))};
}

Estimate Divergence::mean() const {
  return divergence_.mean(count());
}

Estimate Divergence::probability_change() const {
  return change_.mean(count());
}

Estimate Divergence::probability_change_rms() const {
  const Estimate squares = change_squares_.mean(count());
  const double value = std::sqrt(squares.value);
  return {value, value > 0 ? squares.error / (2 * value) : 0};
}

Estimate Divergence::same_top() const {
  if (count() < 2) return {count() ? static_cast<double>(same_) : 0, 0};
  const double all = static_cast<double>(count()), share = static_cast<double>(same_) / all;
  return {share, std::sqrt(share * (1 - share) / (all - 1))};
}

double Divergence::divergence_at(double share) const {
  return at_share(divergences_, share);
}

double Divergence::probability_change_at(double share) const {
  return at_share(changes_, share);
}

} // namespace pumice
