#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "io/output_file.h"

namespace pumice {

// A part of a text file: a paragraph, or a part of a long one.
struct Passage {
  uint32_t file = 0; // in the list of files
  uint64_t line = 0; // its first, from 1
  std::string text;
  uint32_t vectors = 1; // of late interaction one for each token that is compared
};

// A text file, by which a changed one is told from one that was read before.
struct IndexedFile {
  std::string path; // in the folder, with / between names
  uint64_t bytes = 0;
  int64_t time = 0; // of the last change
  uint64_t passages = 0;

  bool same_as(const IndexedFile& other) const {
    return path == other.path && bytes == other.bytes && time == other.time;
  }
};

// What an index says of itself: config.json in its folder. Beside it are the vectors (model.safetensors) and
// the passages (passages.jsonl), in the same order.
struct IndexHead {
  std::string model;    // which model made it, by the sum of its settings and weights
  std::string settings; // how its vectors were made
  uint32_t dimensions = 0;
  uint64_t vectors = 0; // of all passages
  std::vector<IndexedFile> files;

  uint64_t passages() const;
};

// The head of an index; one without files if there is none yet.
Result<IndexHead> read_index_head(const std::filesystem::path& folder);
// Whether a folder is an index.
bool is_index(const std::filesystem::path& folder);
// Into a new file, which its finish() puts in the place of the older one. That of the head comes last: an
// index without a head is none.
Status write_index_head(OutputFile& file, const std::filesystem::path& folder, const IndexHead& head);

Result<std::vector<Passage>> read_passages(const std::filesystem::path& folder);
uint64_t vectors_of(std::span<const Passage> passages);
Status write_passages(OutputFile& file, const std::filesystem::path& folder,
                      const std::vector<Passage>& passages);

// The text files below a folder, in the order of their names: those that are not hidden, that have at most 16
// MiB, and that are UTF-8 without null characters. `skip` is left out, with all below it.
Result<std::vector<IndexedFile>> find_text_files(const std::filesystem::path& folder,
                                                 const std::filesystem::path& skip);
// Nothing if the file is not text.
Result<std::vector<Passage>> cut_file(const std::filesystem::path& folder, const IndexedFile& file,
                                      uint32_t number);

} // namespace pumice
