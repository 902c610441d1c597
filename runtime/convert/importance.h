#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace pumice {

// How much errors in a model's weights count: for each column of a matrix the mean square of what it is
// multiplied by, over some texts. llama.cpp calls it an importance matrix.
class Importance {
public:
  // Reads a file of llama.cpp's llama-imatrix: its GGUF form, or the older one (imatrix.dat). Errors: those
  // of opening a file; invalid_file.
  static Result<Importance> open(const std::filesystem::path& path);

  // Of row `row` of a matrix of so many rows; the rows of experts follow each other. Null if the file says
  // nothing of the tensor, or of an expert. Error: invalid_file if it has other columns.
  Result<const float*> of_row(std::string_view tensor, uint64_t row, uint64_t rows, uint64_t columns) const;
  bool has(std::string_view tensor) const { return entries_.contains(tensor); }
  size_t size() const { return entries_.size(); }
  const std::string& path() const { return path_; }

private:
  // The means of one matrix after the other: experts have one each.
  struct Entry {
    std::vector<float> means;
    std::vector<bool> known; // of each matrix
  };

  Result<Entry> entry_of(const std::vector<float>& sums, const std::vector<float>& counts,
                         std::string_view name) const;
  Status read_gguf(std::span<const std::byte> bytes);
  Status read_old(std::span<const std::byte> bytes);

  std::string path_;
  std::map<std::string, Entry, std::less<>> entries_;
};

} // namespace pumice
