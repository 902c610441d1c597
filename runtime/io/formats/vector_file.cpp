#include "io/formats/vector_file.h"

#include <limits>
#include <span>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace pumice {

namespace {

// Room for the largest counts. Spaces fill it, which both forms allow.
constexpr size_t npy_header = 128, safetensors_header = 256;

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

} // namespace

std::string VectorFile::header() const {
  if (form_ == Form::lines) return {};
  if (form_ == Form::npy) {
    std::string text("\x93NUMPY\x01\x00", 8);
    const size_t size = npy_header - 10; // without the magic text and its own two bytes, smallest first
    text += {static_cast<char>(size & 0xff), static_cast<char>(size >> 8)};
    text += fmt::format("{{'descr': '<f4', 'fortran_order': False, 'shape': ({}, {}), }}", count_, columns_);
    text.resize(npy_header - 1, ' ');
    return text + '\n';
  }
  std::string json =
      fmt::format(R"({{"embeddings":{{"dtype":"F32","shape":[{},{}],"data_offsets":[0,{}]}}}})", count_,
                  columns_, count_ * columns_ * sizeof(float));
  json.resize(safetensors_header - 8, ' ');
  std::string text;
  for (int i = 0; i < 8; ++i) text += static_cast<char>(json.size() >> (8 * i) & 0xff);
  return text + json;
}

Status VectorFile::open(const std::filesystem::path& path, uint32_t columns) {
  path_ = path;
  columns_ = columns;
  form_ = path.extension() == ".npy"     ? Form::npy
          : path.extension() == ".jsonl" ? Form::lines
                                         : Form::safetensors;
  PUMICE_CHECK(file_.open(path));
  return file_.seekable() ? file_.write(bytes_of(header())) : Status();
}

Status VectorFile::write(const std::vector<float>& values) {
  ++count_;
  if (form_ == Form::lines) return file_.write(bytes_of(fmt::format("[{}]\n", fmt::join(values, ","))));
  if (file_.seekable()) return file_.write(std::as_bytes(std::span(values)));
  kept_.insert(kept_.end(), values.begin(), values.end());
  return {};
}

Status VectorFile::write_missing() {
  if (form_ != Form::lines)
    return write(std::vector<float>(columns_, std::numeric_limits<float>::quiet_NaN()));
  ++count_;
  return file_.write(bytes_of("null\n"));
}

Result<std::filesystem::path> VectorFile::finish_partial() {
  if (count_ == 0) return std::filesystem::path();
  std::filesystem::path path = path_;
  if (file_.seekable()) {
    path.replace_filename(path.stem()) += ".partial";
    path += path_.extension();
    file_.aim_at(path);
  }
  PUMICE_CHECK(finish());
  return path;
}

Status VectorFile::flush() {
  if (file_.seekable()) PUMICE_CHECK(file_.write_first(bytes_of(header())));
  return file_.flush();
}

Status VectorFile::finish() {
  PUMICE_CHECK(flush());
  if (!file_.seekable()) {
    PUMICE_CHECK(file_.write(bytes_of(header())));
    PUMICE_CHECK(file_.write(std::as_bytes(std::span(kept_))));
  }
  return file_.finish();
}

} // namespace pumice
