#include "io/formats/safetensors_writer.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "io/bytes.h"

namespace pumice {
namespace {

using nlohmann::json;
using Entry = SafetensorsFile::Entry;

Status check_entry(const std::string& file, const Entry& entry) {
  uint64_t bytes = safetensors_dtype_bytes(entry.dtype);
  if (bytes == 0)
    return Error{Code::invalid_argument, fmt::format("{}: tensor {}: the type {} cannot be written", file,
                                                     in_quotes(entry.name), in_quotes(entry.dtype))};
  bool fits = true;
  for (const uint64_t dimension : entry.shape) fits = fits && multiply(bytes, dimension, bytes);
  if (!fits || bytes != entry.data.size())
    return Error{Code::invalid_argument,
                 fmt::format("{}: tensor {}: shape {} of {} does not make {} bytes", file,
                             in_quotes(entry.name), shape_text(entry.shape), entry.dtype, entry.data.size())};
  return {};
}

// Tensors with large elements first, so that each tensor is aligned to the size of its elements.
std::vector<const Entry*> in_file_order(std::span<const Entry> entries) {
  std::vector<const Entry*> order;
  for (const Entry& entry : entries) order.push_back(&entry);
  std::ranges::stable_sort(order, std::greater<>(),
                           [](const Entry* entry) { return safetensors_dtype_bytes(entry->dtype); });
  return order;
}

} // namespace

Status begin_safetensors(OutputFile& out, const std::filesystem::path& path, std::span<const Entry> entries) {
  const std::string file = path_text(path);
  const std::vector<const Entry*> order = in_file_order(entries);
  json header = json::object();
  uint64_t offset = 0;
  for (const Entry* entry : order) {
    PUMICE_CHECK(check_entry(file, *entry));
    if (entry->name == "__metadata__" || header.contains(entry->name))
      return Error{Code::invalid_argument,
                   fmt::format("{}: tensor {} cannot be written twice", file, in_quotes(entry->name))};
    header[entry->name] = {{"dtype", entry->dtype},
                           {"shape", entry->shape},
                           {"data_offsets", {offset, offset + entry->data.size()}}};
    offset += entry->data.size();
  }
  std::string text = header.dump(-1, ' ', false, json::error_handler_t::replace);
  text.append((8 - text.size() % 8) % 8, ' ');
  const uint64_t length = text.size();

  PUMICE_CHECK(out.open(path));
  PUMICE_CHECK(out.write(std::as_bytes(std::span(&length, 1))));
  PUMICE_CHECK(out.write(std::as_bytes(std::span(text))));
  for (const Entry* entry : order) PUMICE_CHECK(out.write(entry->data));
  return out.flush();
}

Status write_safetensors(const std::filesystem::path& path, std::span<const Entry> entries) {
  OutputFile out;
  PUMICE_CHECK(begin_safetensors(out, path, entries));
  return out.finish();
}

} // namespace pumice
