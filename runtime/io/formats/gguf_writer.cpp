#include "io/formats/gguf_writer.h"

#include "io/mapped_file.h"

#include <array>

#include <fmt/format.h>

namespace pumice {
namespace {

constexpr uint64_t alignment = 32;

uint64_t padding(uint64_t position) {
  return (alignment - position % alignment) % alignment;
}

} // namespace

void GgufWriter::put_text(Bytes& out, std::string_view text) {
  put(out, static_cast<uint64_t>(text.size()));
  const auto* bytes = reinterpret_cast<const std::byte*>(text.data());
  out.insert(out.end(), bytes, bytes + text.size());
}

void GgufWriter::begin_key(std::string_view key) {
  if (!names_.emplace(key).second && problem_.empty())
    problem_ = fmt::format("field {} cannot be written twice", in_quotes(key));
  ++pair_count_;
  put_text(pairs_, key);
}

void GgufWriter::begin_pair(std::string_view key, GgufType type) {
  begin_key(key);
  put(pairs_, static_cast<uint32_t>(type));
}

void GgufWriter::add_pair(std::string_view key, std::span<const std::byte> bytes) {
  begin_key(key);
  pairs_.insert(pairs_.end(), bytes.begin(), bytes.end());
}

void GgufWriter::begin_array(std::string_view key, GgufType type, uint64_t count) {
  begin_pair(key, GgufType::array);
  put(pairs_, static_cast<uint32_t>(type));
  put(pairs_, count);
}

void GgufWriter::add(std::string_view key, std::string_view value) {
  begin_pair(key, GgufType::string);
  put_text(pairs_, value);
}

void GgufWriter::add_array(std::string_view key, std::span<const std::string> values) {
  begin_array(key, GgufType::string, values.size());
  for (const std::string& value : values) put_text(pairs_, value);
}

void GgufWriter::add_bytes(std::string_view key, std::span<const std::byte> bytes) {
  begin_array(key, GgufType::u8, bytes.size());
  pairs_.insert(pairs_.end(), bytes.begin(), bytes.end());
}

void GgufWriter::add_flags(std::string_view key, std::span<const uint8_t> flags) {
  begin_array(key, GgufType::boolean, flags.size());
  for (const uint8_t flag : flags) put(pairs_, static_cast<uint8_t>(flag != 0));
}

void GgufWriter::allow_long_names() {
  longest_name_ = longest_gguf_tensor_name;
}

void GgufWriter::add_tensor(std::string_view name, std::span<const uint64_t> shape, TensorType type) {
  const auto bytes = pumice::tensor_bytes(type, shape);
  const auto problem = [&](std::string_view what) {
    if (problem_.empty()) problem_ = fmt::format("tensor {}: {}", in_quotes(name), what);
  };
  if (!names_.insert(fmt::format(" {}", name)).second) problem("it cannot be written twice");
  if (name.empty() || name.size() > longest_name_)
    problem(fmt::format("expected a name of 1 to {} bytes", longest_name_));
  if (shape.empty() || shape.size() > most_gguf_dimensions || !bytes || *bytes == 0)
    problem(fmt::format("shape {} does not make a tensor of {}", shape_text(shape), info(type).name));
  put_text(tensors_, name);
  put(tensors_, static_cast<uint32_t>(shape.size()));
  for (size_t i = shape.size(); i-- > 0;) put(tensors_, shape[i]); // the file has the innermost first
  put(tensors_, info(type).gguf_id);
  put(tensors_, next_offset_);
  sizes_.push_back(bytes.value_or(0));
  tensor_bytes_ += sizes_.back();
  next_offset_ += sizes_.back() + padding(sizes_.back());
}

Error GgufWriter::invalid(std::string_view what) const {
  return {Code::invalid_argument, fmt::format("{}: {}", path_text(path_), what)};
}

Status GgufWriter::put_file(std::span<const std::byte> bytes) {
  PUMICE_CHECK(file_.write(bytes));
  position_ += bytes.size();
  return {};
}

Status GgufWriter::pad() {
  constexpr std::array<std::byte, alignment> zeros{};
  return put_file(std::span(zeros).first(padding(position_)));
}

Status GgufWriter::open(const std::filesystem::path& path) {
  path_ = path;
  if (!problem_.empty()) return invalid(problem_);
  PUMICE_CHECK(file_.open(path));

  Bytes header;
  for (const char c : std::string_view("GGUF")) put(header, c);
  put(header, uint32_t{3});
  put(header, static_cast<uint64_t>(sizes_.size()));
  put(header, pair_count_);
  PUMICE_CHECK(put_file(header));
  PUMICE_CHECK(put_file(pairs_));
  PUMICE_CHECK(put_file(tensors_));
  return pad();
}

Status GgufWriter::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    if (current_ == sizes_.size()) return invalid("more bytes were given than the tensors have");
    const auto fitting = bytes.first(std::min<uint64_t>(bytes.size(), sizes_[current_] - written_));
    PUMICE_CHECK(put_file(fitting));
    bytes = bytes.subspan(fitting.size());
    written_ += fitting.size();
    if (written_ < sizes_[current_]) break;
    PUMICE_CHECK(pad());
    ++current_;
    written_ = 0;
  }
  return {};
}

Status GgufWriter::finish() {
  if (current_ != sizes_.size()) return invalid("fewer bytes were given than the tensors have");
  return file_.finish();
}

} // namespace pumice
