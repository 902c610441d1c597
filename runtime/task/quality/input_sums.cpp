#include "task/quality/input_sums.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "io/formats/gguf_writer.h"

namespace pumice {

namespace {

constexpr uint32_t most_tokens_of_step = 128; // each has what all matrices read

// The names in GGUF of a decoder's matrices, and of each what it reads.
std::map<std::string, std::string> named_inputs(const ModelFile& file, const DecoderGraph& decoder) {
  std::map<std::string, std::string> by_file; // the file's names
  for (const MatrixInput& input : decoder.matrix_inputs)
    by_file.emplace(input.matrix, fmt::format("{}{}", MatrixInput::prefix, input.number));
  if (file.format() == ModelFile::Format::gguf) return by_file;
  std::map<std::string, std::string> named;
  for (const OtherForm& form : decoder.other_forms) {
    if (form.parts.empty() || !form.parts[0].tensor) continue;
    const auto found = by_file.find(form.parts[0].tensor->name);
    if (found != by_file.end()) named.emplace(form.name + ".weight", found->second);
  }
  return named;
}

} // namespace

Result<std::unique_ptr<InputSums>> InputSums::create(std::shared_ptr<const Model> model, SessionSize size) {
  PUMICE_TRY(const DecoderGraph decoder, model->definition().graph(model->file()));
  std::map<std::string, std::string> inputs = named_inputs(model->file(), decoder);
  if (inputs.empty()) {
    return Error{
        Code::unsupported,
        fmt::format("{}: its matrices have no names in GGUF, by which an importance matrix knows them",
                    model->file().path())};
  }
  RunnerOptions options;
  options.size = size;
  options.size.chunk = std::min(size.chunk, most_tokens_of_step);
  options.sampling = false;
  for (const auto& [matrix, input] : inputs) {
    if (std::ranges::count(options.readable, input) == 0) options.readable.push_back(input);
  }
  PUMICE_TRY(std::unique_ptr<Runner> runner, Runner::create(std::move(model), std::move(options)));
  std::unique_ptr<InputSums> sums(new InputSums(std::move(runner)));
  for (const auto& [matrix, input] : inputs) sums->sums_[input].resize(sums->runner_->columns(input));
  sums->inputs_ = std::move(inputs);
  return sums;
}

Status InputSums::read(std::span<const uint32_t> tokens) {
  const auto length = static_cast<uint32_t>(tokens.size()), chunk = runner_->size().chunk;
  for (uint32_t first = 0; first < length; first += chunk) {
    const uint32_t count = std::min(chunk, length - first);
    std::vector<StepToken> step(count);
    for (uint32_t i = 0; i < count; ++i) step[i] = {tokens[first + i], first + i, 0, 0, false, 0};
    PUMICE_CHECK(runner_->write_step(step));
    PUMICE_TRY(const Completion done, runner_->submit(count));
    PUMICE_CHECK(done.wait());
    PUMICE_CHECK(add(count));
    tokens_ += count; // of a text that is read in part, too
  }
  longest_ = std::max(longest_, length);
  ++texts_;
  return {};
}

Status InputSums::add(uint32_t rows) {
  for (auto& [name, sums] : sums_) {
    PUMICE_TRY(const std::vector<float> values, runner_->read(name, rows));
    for (size_t i = 0; i < values.size(); ++i) sums[i % sums.size()] += double{values[i]} * values[i];
  }
  return {};
}

std::span<const double> InputSums::of(const std::string& matrix) const {
  const auto found = inputs_.find(matrix);
  if (found == inputs_.end()) return {};
  return sums_.at(found->second);
}

Status InputSums::write(const std::filesystem::path& path, const std::string& source) const {
  GgufWriter writer;
  writer.add("general.type", "imatrix");
  writer.add_array("imatrix.datasets", std::span(&source, 1));
  writer.add("imatrix.chunk_count", texts_);
  writer.add("imatrix.chunk_size", longest_);
  constexpr std::array<uint64_t, 2> one = {1, 1};
  for (const auto& [matrix, input] : inputs_) {
    writer.add_tensor(matrix + ".in_sum2", std::array<uint64_t, 2>{1, sums_.at(input).size()},
                      TensorType::f32);
    writer.add_tensor(matrix + ".counts", one, TensorType::f32);
  }
  PUMICE_CHECK(writer.open(path));
  const auto count = static_cast<float>(tokens_);
  for (const auto& [matrix, input] : inputs_) {
    const std::vector<double>& sums = sums_.at(input);
    const std::vector<float> floats(sums.begin(), sums.end());
    PUMICE_CHECK(writer.write(std::as_bytes(std::span(floats))));
    PUMICE_CHECK(writer.write(std::as_bytes(std::span(&count, 1))));
  }
  return writer.finish();
}

} // namespace pumice
