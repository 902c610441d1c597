#include "task/search/index_files.h"

#include <algorithm>
#include <span>

#include <fmt/format.h>

#include "base/lines.h"
#include "io/fields.h"
#include "io/json_text.h"
#include "io/mapped_file.h"
#include "text/unicode/unicode.h"

namespace pumice {

namespace {

namespace fs = std::filesystem;

constexpr size_t longest_passage = 1200; // bytes: about 300 tokens
constexpr uint64_t largest_file = 16 << 20;

std::string_view text_in(const MappedFile& file) {
  const std::span<const std::byte> bytes = file.bytes();
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Collects lines into passages.
class Cutter {
public:
  explicit Cutter(uint32_t file) : file_(file) {}

  void add(std::string_view line, uint64_t number) {
    if (line.find_first_not_of(" \t\r") == line.npos) return end();
    if (!text_.empty() && text_.size() + 1 + line.size() > longest_passage) end();
    if (text_.empty()) {
      first_ = number;
    } else {
      text_ += ' ';
    }
    text_ += line.substr(0, line.find_last_not_of('\r') + 1);
    while (text_.size() > longest_passage) split();
  }
  void end() {
    if (!text_.empty()) passages_.push_back({file_, first_, std::move(text_)});
    text_.clear();
  }
  std::vector<Passage> take() {
    end();
    return std::move(passages_);
  }

private:
  // Cuts a long line after a space, or else between two characters.
  void split() {
    size_t at = text_.rfind(' ', longest_passage);
    if (at == text_.npos || at == 0) at = longest_passage;
    while (at > 1 && (static_cast<unsigned char>(text_[at]) & 0xc0) == 0x80) --at;
    std::string rest = text_.substr(at);
    rest.erase(0, std::min(rest.find_first_not_of(' '), rest.size()));
    passages_.push_back({file_, first_, text_.substr(0, at)});
    text_ = std::move(rest);
  }

  uint32_t file_;
  uint64_t first_ = 0;
  std::string text_;
  std::vector<Passage> passages_;
};

} // namespace

uint64_t IndexHead::passages() const {
  uint64_t sum = 0;
  for (const IndexedFile& file : files) sum += file.passages;
  return sum;
}

bool is_index(const fs::path& folder) {
  const Result<MappedFile> mapped = MappedFile::open(folder / "config.json");
  if (!mapped.ok()) return false;
  const Result<nlohmann::json> json = parse_json_object(mapped->bytes(), mapped->path());
  const auto type = json.ok() ? json->find("model_type") : nlohmann::json::const_iterator();
  return json.ok() && type != json->end() && *type == "text_index";
}

Result<IndexHead> read_index_head(const fs::path& folder) {
  const fs::path path = folder / "config.json";
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return IndexHead();
  PUMICE_TRY(const MappedFile mapped, MappedFile::open(path));
  PUMICE_TRY(const nlohmann::json json, parse_json_object(mapped.bytes(), mapped.path()));
  const Fields fields(json, mapped.path());
  PUMICE_TRY(const std::string type, fields.string("model_type"));
  if (type != "text_index") {
    return fields.error("model_type", fmt::format("expected text_index, as pumice search writes it; found "
                                                  "'{}': choose another folder with --index",
                                                  type));
  }
  IndexHead head;
  PUMICE_TRY(head.model, fields.string("model"));
  PUMICE_TRY(head.settings, fields.string("settings"));
  PUMICE_TRY(head.dimensions, fields.u32("dimensions", 1));
  PUMICE_TRY(head.vectors, fields.u32("vectors"));
  const nlohmann::json* files = fields.find("files");
  if (!files || !files->is_array()) return fields.error("files", "expected a list");
  for (const nlohmann::json& each : *files) {
    if (!each.is_object()) return fields.error("files", "expected a list of objects");
    const Fields one(each, mapped.path(), "files.");
    IndexedFile file;
    PUMICE_TRY(file.path, one.string("path"));
    PUMICE_TRY(file.bytes, one.u32("bytes"));
    PUMICE_TRY(file.passages, one.u32("passages"));
    const nlohmann::json* time = one.find("time");
    if (!time || !time->is_number_integer()) return one.error("time", "expected a whole number");
    file.time = time->get<int64_t>();
    head.files.push_back(std::move(file));
  }
  return head;
}

Status write_index_head(OutputFile& file, const fs::path& folder, const IndexHead& head) {
  nlohmann::json files = nlohmann::json::array();
  for (const IndexedFile& each : head.files) {
    files.push_back(
        {{"path", each.path}, {"bytes", each.bytes}, {"time", each.time}, {"passages", each.passages}});
  }
  const nlohmann::json json = {{"model_type", "text_index"},    {"vectors", head.vectors},
                               {"dimensions", head.dimensions}, {"model", head.model},
                               {"settings", head.settings},     {"files", files}};
  const std::string text = json.dump(1) + "\n";
  PUMICE_CHECK(file.open(folder / "config.json"));
  PUMICE_CHECK(file.write(std::as_bytes(std::span(text))));
  return file.flush();
}

Result<std::vector<Passage>> read_passages(const fs::path& folder) {
  PUMICE_TRY(const MappedFile mapped, MappedFile::open(folder / "passages.jsonl"));
  std::vector<Passage> passages;
  for (const std::string_view line : split_lines(text_in(mapped))) {
    PUMICE_TRY(const nlohmann::json json, parse_json_object(std::as_bytes(std::span(line)), mapped.path()));
    const Fields fields(json, mapped.path());
    Passage passage;
    PUMICE_TRY(passage.file, fields.u32("file"));
    PUMICE_TRY(passage.line, fields.u32("line"));
    PUMICE_TRY(passage.text, fields.string("text"));
    PUMICE_TRY(passage.vectors, fields.u32_or("vectors", 0, UINT32_MAX, 1));
    passages.push_back(std::move(passage));
  }
  return passages;
}

uint64_t vectors_of(std::span<const Passage> passages) {
  uint64_t sum = 0;
  for (const Passage& passage : passages) sum += passage.vectors;
  return sum;
}

Status write_passages(OutputFile& file, const fs::path& folder, const std::vector<Passage>& passages) {
  PUMICE_CHECK(file.open(folder / "passages.jsonl"));
  for (const Passage& passage : passages) {
    nlohmann::json json = {{"file", passage.file}, {"line", passage.line}, {"text", passage.text}};
    if (passage.vectors != 1) json["vectors"] = passage.vectors;
    const std::string line = json.dump() + "\n";
    PUMICE_CHECK(file.write(std::as_bytes(std::span(line.data(), line.size()))));
  }
  return file.flush();
}

Result<std::vector<IndexedFile>> find_text_files(const fs::path& folder, const fs::path& skip) {
  std::error_code error;
  fs::recursive_directory_iterator at(folder, fs::directory_options::skip_permission_denied, error);
  if (error) {
    return Error{Code::not_found,
                 fmt::format("{}: {}: give a folder with text files", path_text(folder), error.message())};
  }
  std::vector<IndexedFile> files;
  for (const fs::recursive_directory_iterator end; at != end; at.increment(error)) {
    const fs::directory_entry& entry = *at;
    std::error_code ignored;
    if (path_text(entry.path().filename()).starts_with('.') || fs::equivalent(entry.path(), skip, ignored)) {
      if (entry.is_directory(ignored)) at.disable_recursion_pending();
      continue;
    }
    if (!entry.is_regular_file(ignored) || entry.file_size(ignored) > largest_file) continue;
    IndexedFile file;
    file.path = entry.path().lexically_relative(folder).generic_string();
    file.bytes = entry.file_size(ignored);
    file.time = entry.last_write_time(ignored).time_since_epoch().count();
    files.push_back(std::move(file));
  }
  if (error) return Error{Code::io, fmt::format("{}: {}", path_text(folder), error.message())};
  std::ranges::sort(files, {}, &IndexedFile::path);
  return files;
}

Result<std::vector<Passage>> cut_file(const fs::path& folder, const IndexedFile& file, uint32_t number) {
  PUMICE_TRY(const MappedFile mapped, MappedFile::open(folder / path_of(file.path)));
  const std::string_view all = text_in(mapped);
  if (all.find('\0') != all.npos || !text::is_valid_utf8(all)) return std::vector<Passage>();
  Cutter cutter(number);
  uint64_t number_of_line = 0;
  for (const std::string_view line : split_lines(all)) cutter.add(line, ++number_of_line);
  return cutter.take();
}

} // namespace pumice
