#include "serve/routes/multipart.h"

#include <map>
#include <optional>

#include <fmt/format.h>

#include "base/ascii.h"

namespace pumice::serve {

namespace {

constexpr size_t most_parts = 64, most_part_header = 4096, most_boundary = 70;
constexpr std::string_view line_end = "\r\n";

Error bad_form(const std::string& what) {
  return {Code::invalid_argument, "the request's form: " + what};
}

std::string_view without_blanks(std::string_view text) {
  while (text.starts_with(' ') || text.starts_with('\t')) text.remove_prefix(1);
  while (text.ends_with(' ') || text.ends_with('\t')) text.remove_suffix(1);
  return text;
}

// "form-data" of: form-data; name="file"; filename="a.wav"
std::string kind_of(std::string_view header) {
  return lower_case(without_blanks(header.substr(0, header.find(';'))));
}

// What follows it, by names in lower case. Nothing: it is not written so.
std::optional<std::map<std::string, std::string>> parameters_of(std::string_view header) {
  std::map<std::string, std::string> all;
  size_t at = std::min(header.find(';'), header.size());
  while (at < header.size()) {
    header = without_blanks(header.substr(at + 1));
    const size_t equals = header.find('=');
    if (equals == std::string_view::npos) return std::nullopt;
    const std::string name = lower_case(without_blanks(header.substr(0, equals)));
    header = without_blanks(header.substr(equals + 1));
    std::string value;
    if (header.starts_with('"')) {
      size_t end = 1;
      for (; end < header.size() && header[end] != '"'; ++end) {
        const bool escaped = header[end] == '\\' && end + 1 < header.size() &&
                             (header[end + 1] == '"' || header[end + 1] == '\\');
        if (escaped) ++end;
        value += header[end];
      }
      if (end >= header.size()) return std::nullopt;
      header = without_blanks(header.substr(end + 1));
      if (!header.empty() && header[0] != ';') return std::nullopt;
      at = 0;
    } else {
      at = std::min(header.find(';'), header.size());
      value = without_blanks(header.substr(0, at));
    }
    if (name.empty() || !all.emplace(name, value).second) return std::nullopt;
  }
  return all;
}

// The headers of a part, each on a line.
Result<FormPart> read_head(std::string_view head) {
  FormPart part;
  bool found = false;
  while (!head.empty()) {
    const size_t end = std::min(head.find(line_end), head.size());
    const std::string_view line = head.substr(0, end);
    head.remove_prefix(std::min(end + line_end.size(), head.size()));
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos) return bad_form("a header of a part has no colon");
    const std::string name = lower_case(line.substr(0, colon));
    const std::string_view value = line.substr(colon + 1);
    if (name == "content-transfer-encoding") {
      const std::string coding = kind_of(value);
      if (coding != "binary" && coding != "8bit" && coding != "7bit")
        return bad_form("a part has a transfer encoding: expected its bytes as they are");
    }
    if (name != "content-disposition") continue;
    const auto parameters = parameters_of(value);
    if (found || kind_of(value) != "form-data" || !parameters || !parameters->contains("name"))
      return bad_form("expected parts with one header like Content-Disposition: form-data; name=\"file\"");
    found = true;
    part.name = parameters->at("name");
    part.is_file = parameters->contains("filename");
  }
  if (!found || part.name.empty()) return bad_form("a part has no name");
  return part;
}

} // namespace

Result<std::vector<FormPart>> read_form_parts(std::string_view type, std::string_view body) {
  const auto parameters = parameters_of(type);
  if (kind_of(type) != "multipart/form-data" || !parameters || !parameters->contains("boundary"))
    return bad_form("expected the Content-Type multipart/form-data with a boundary");
  const std::string& boundary = parameters->at("boundary");
  if (boundary.empty() || boundary.size() > most_boundary)
    return bad_form(
        fmt::format("its boundary has {} characters: expected 1 to {}", boundary.size(), most_boundary));
  const std::string first = "--" + boundary, delimiter = "\r\n--" + boundary;
  if (!body.starts_with(first)) return bad_form("it does not begin with its boundary");
  body.remove_prefix(first.size());
  std::vector<FormPart> parts;
  while (!body.starts_with("--")) {
    if (!body.starts_with(line_end)) return bad_form("expected the end of a line behind its boundary");
    body.remove_prefix(line_end.size());
    const size_t head = body.substr(0, most_part_header).find("\r\n\r\n");
    if (head == std::string_view::npos)
      return bad_form(fmt::format("the headers of a part do not end within {} bytes", most_part_header));
    PUMICE_TRY(FormPart part, read_head(body.substr(0, head)));
    body.remove_prefix(head + 2 * line_end.size());
    const size_t end = body.find(delimiter);
    if (end == std::string_view::npos)
      return bad_form("a part does not end with its boundary: it is cut off");
    part.value = body.substr(0, end);
    body.remove_prefix(end + delimiter.size());
    parts.push_back(std::move(part));
    if (parts.size() > most_parts) return bad_form(fmt::format("expected at most {} parts", most_parts));
  }
  body.remove_prefix(2);
  if (!body.empty() && body != line_end) return bad_form("there is something behind its end");
  return parts;
}

} // namespace pumice::serve
