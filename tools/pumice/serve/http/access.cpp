#include "serve/http/access.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <sstream>

#include <fmt/format.h>

#include "base/ascii.h"
#include "base/path.h"
#include "io/bytes.h"
#include "io/mapped_file.h"
#include "serve/http/error.h"
#include "text/unicode/unicode.h"

namespace pumice::serve {

namespace {

// Without the port.
std::string_view name_of(std::string_view host) {
  if (host.starts_with('[')) return host.substr(0, std::min(host.find(']') + 1, host.size()));
  return host.substr(0, std::min(host.rfind(':'), host.size()));
}

bool equal_names(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, [&](char x, char y) { return lower_case(x) == lower_case(y); });
}

// What no name server answers for.
bool is_address(std::string_view name) {
  if (name.starts_with('[') && name.ends_with(']')) return true;
  return !name.empty() &&
         std::ranges::all_of(name, [](char c) { return (c >= '0' && c <= '9') || c == '.'; });
}

Refusal refusal(int status, const std::string& sentence) {
  return {status, error_body(status, sentence)};
}

} // namespace

bool equal_in_constant_time(std::string_view given, std::string_view secret) {
  unsigned difference = given.size() != secret.size();
  for (size_t i = 0; i < given.size(); ++i) {
    const char expected = secret.empty() ? '\0' : secret[i % secret.size()];
    difference |= static_cast<unsigned char>(given[i] ^ expected);
  }
  return difference == 0;
}

namespace {

// KEY requests=60 tokens=10000
Result<Access::Key> read_key(const std::vector<std::string>& words, const std::string& place) {
  KeyLimits limits;
  for (size_t i = 1; i < words.size(); ++i) {
    const size_t equals = words[i].find('=');
    const std::string name = words[i].substr(0, equals);
    uint64_t* const limit = name == "requests" ? &limits.requests
                            : name == "tokens" ? &limits.tokens
                                               : nullptr;
    const char *const end = words[i].data() + words[i].size(), *from = end;
    if (equals != std::string::npos) from = words[i].data() + equals + 1;
    if (!limit || std::from_chars(from, end, *limit).ptr != end || *limit == 0) {
      return Error{
          Code::invalid_argument,
          fmt::format("{}: expected a key, and behind it limits such as requests=60 tokens=10000", place)};
    }
  }
  return Access::Key{words[0], std::make_shared<KeyUse>(limits)};
}

} // namespace

Status Access::read_keys(const std::string& path) {
  PUMICE_TRY(const MappedFile file, MappedFile::open(path_of(path)));
  std::string_view text = as_text(file.bytes());
  std::vector<Key> read;
  for (size_t number = 1; !text.empty(); ++number) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::istringstream line{std::string(text.substr(0, end))};
    text.remove_prefix(std::min(end + 1, text.size()));
    const std::vector<std::string> words{std::istream_iterator<std::string>(line), {}};
    if (words.empty()) continue;
    const std::string place = fmt::format("{}, line {}", path, number);
    PUMICE_TRY(Key key, read_key(words, place));
    if (std::ranges::find(read, key.secret, &Key::secret) != read.end())
      return Error{Code::invalid_argument, place + ": the key stands in a line before: expected each once"};
    read.push_back(std::move(key));
  }
  if (read.empty()) {
    return Error{Code::invalid_argument, fmt::format("{}: expected a key on each line, found none", path)};
  }
  for (Key& each : read) {
    const auto known = std::ranges::find(keys, each.secret, &Key::secret);
    if (known == keys.end()) continue;
    known->use->set_limits(each.use->limits());
    each.use = known->use;
  }
  keys = std::move(read);
  return {};
}

bool Access::allows_host(std::string_view host) const {
  const std::string_view name = name_of(host);
  constexpr std::string_view local = "localhost", within = ".localhost";
  if (is_address(name) || equal_names(name, local)) return true;
  if (name.size() > within.size() && equal_names(name.substr(name.size() - within.size()), within))
    return true;
  return std::ranges::any_of(hosts, [&](const std::string& each) { return equal_names(name, each); });
}

bool Access::allows_origin(const HttpRequest& request, std::string_view origin) const {
  const auto own = [&](std::string_view scheme) {
    return origin.starts_with(scheme) && equal_names(origin.substr(scheme.size()), request.header("host"));
  };
  if (own("http://") || own("https://")) return true;
  return std::ranges::any_of(
      origins, [&](const std::string& each) { return each == "*" || equal_names(origin, each); });
}

std::shared_ptr<KeyUse> Access::key_of(const HttpRequest& request) const {
  std::string_view given = request.header("x-api-key");
  const std::string_view authorization = request.header("authorization");
  constexpr std::string_view scheme = "Bearer ";
  if (authorization.size() > scheme.size() && equal_names(authorization.substr(0, scheme.size()), scheme))
    given = text::trimmed(authorization.substr(scheme.size()));
  std::shared_ptr<KeyUse> found;
  for (const Key& each : keys) { // all of them
    if (equal_in_constant_time(given, each.secret)) found = each.use;
  }
  return found;
}

std::optional<Refusal> Access::check(HttpRequest& request) const {
  const std::string_view host = request.header("host"), origin = request.header("origin");
  if (!host.empty() && !allows_host(host)) {
    return refusal(403, "the header 'Host' names a machine that this server does not know: expected "
                        "localhost, an address, or a name of --allow-host");
  }
  if (!origin.empty() && !allows_origin(request, origin)) {
    return refusal(403, "the header 'Origin' names a page that may not ask this server: expected this "
                        "server's own, or one of --allow-origin");
  }
  const bool open = request.path == "/" || request.path == "/health" || request.method == "OPTIONS";
  if (open || keys.empty()) return {};
  request.key = key_of(request);
  if (request.key) {
    const int seconds = request.key->begin();
    if (seconds == 0) return {};
    Refusal later =
        refusal(429, fmt::format("this key's requests or tokens of a minute are used up: try again in {} "
                                 "seconds",
                                 seconds));
    later.headers = {{"Retry-After", std::to_string(seconds)}};
    return later;
  }
  Refusal refused = refusal(401, "expected one of this server's keys in the header 'Authorization' (Bearer "
                                 "KEY) or 'x-api-key'");
  refused.headers = {{"WWW-Authenticate", "Bearer"}};
  return refused;
}

HttpHeaders Access::headers(const HttpRequest& request) const {
  const std::string_view origin = request.header("origin");
  if (origin.empty() || origins.empty()) return {};
  return {{"Access-Control-Allow-Origin", std::string(origin)}, {"Vary", "Origin"}};
}

} // namespace pumice::serve
