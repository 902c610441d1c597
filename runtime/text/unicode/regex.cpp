#include "text/unicode/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <fmt/format.h>

#include "text/unicode/unicode.h"

namespace pumice::text {

namespace {

constexpr size_t kMaxPattern = 16 * 1024; // ten times the longest known pattern

template <auto Free>
struct Freer {
  template <class T>
  void operator()(T* p) const {
    Free(p);
  }
};
using CompileContext = std::unique_ptr<pcre2_compile_context, Freer<pcre2_compile_context_free>>;
using MatchContext = std::unique_ptr<pcre2_match_context, Freer<pcre2_match_context_free>>;
using MatchData = std::unique_ptr<pcre2_match_data, Freer<pcre2_match_data_free>>;

Error pcre_error(std::string_view pattern, int number, size_t at) {
  PCRE2_UCHAR message[256] = {};
  pcre2_get_error_message(number, message, sizeof message);
  return {Code::unsupported, fmt::format("the regular expression \"{}\" does not compile: {} at byte {}",
                                         pattern.substr(0, 200), reinterpret_cast<char*>(message), at)};
}

pcre2_code* compile_once(std::string_view pattern, int& number, size_t& at) {
  CompileContext context(pcre2_compile_context_create(nullptr));
  if (!context) return nullptr;
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  // In Ruby's syntax, ^ and $ match at the ends of a line. \C is disabled because it would match half a
  // character.
  uint32_t options = PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C;
  return pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(), options, &number, &at,
                       context.get());
}

} // namespace

struct Regex::Code {
  pcre2_code* code = nullptr;
  explicit Code(pcre2_code* c) : code(c) {}
  ~Code() { pcre2_code_free(code); }
  Code(const Code&) = delete;
  Code& operator=(const Code&) = delete;
};

Result<Regex> Regex::compile(std::string_view pattern) {
  if (pattern.size() > kMaxPattern) {
    return Error{pumice::Code::unsupported,
                 fmt::format("a regular expression of {} bytes; at most {} are supported", pattern.size(),
                             kMaxPattern)};
  }
  PUMICE_TRY(std::string translated, translate_pattern(pattern, true));
  int number = 0;
  size_t at = 0;
  pcre2_code* code = compile_once(translated, number, at);
  if (!code) { // PCRE2 before 10.40 has no \p{White_Space}
    PUMICE_TRY(std::string plain, translate_pattern(pattern, false));
    int plain_number = 0;
    size_t plain_at = 0;
    code = compile_once(plain, plain_number, plain_at);
  }
  if (!code) return pcre_error(pattern, number, at);
  Regex regex;
  regex.code_ = std::make_shared<const Code>(code);
  pcre2_jit_compile(code, PCRE2_JIT_COMPLETE); // without JIT, the interpreter is used
  uint32_t can_match_empty = 0;
  pcre2_pattern_info(code, PCRE2_INFO_MATCHEMPTY, &can_match_empty);
  regex.can_match_empty_ = can_match_empty != 0;
  return regex;
}

std::vector<Span> Regex::matches(std::string_view escaped) const {
  std::vector<Span> found;
  MatchData data(pcre2_match_data_create_from_pattern(code_->code, nullptr));
  MatchContext context(pcre2_match_context_create(nullptr));
  if (!data || !context) return found;
  // The limits allow a few passes over the text, but no exponential search and not much memory.
  pcre2_set_match_limit(context.get(),
                        static_cast<uint32_t>(std::min<size_t>(1'000'000 + 20 * escaped.size(), UINT32_MAX)));
  pcre2_set_heap_limit(context.get(), 256 * 1024);
  auto subject = reinterpret_cast<PCRE2_SPTR>(escaped.data());
  auto match_at = [&](size_t at, uint32_t options) {
    options |= PCRE2_NO_UTF_CHECK; // escaped text has lone surrogates, which the check refuses
    int rc = pcre2_match(code_->code, subject, escaped.size(), at, options, data.get(), context.get());
    if (rc == PCRE2_ERROR_JIT_STACKLIMIT) { // the interpreter has its stack on the heap
      rc = pcre2_match(code_->code, subject, escaped.size(), at, options | PCRE2_NO_JIT, data.get(),
                       context.get());
    }
    return rc;
  };
  size_t at = 0;
  size_t last_end = std::string_view::npos;
  while (at <= escaped.size()) {
    int rc = match_at(at, 0);
    if (rc < 0) break; // no match, or a limit was reached
    const size_t* ends = pcre2_get_ovector_pointer(data.get());
    size_t begin = ends[0], end = ends[1];
    if (begin < at || end < begin) break; // only possible with \K inside a lookaround
    if (begin != end || begin != last_end) found.push_back({begin, end});
    last_end = end;
    at = end;
    if (begin == end) at += at < escaped.size() ? first_code_point(escaped.substr(at)).length : 1;
  }
  return found;
}

} // namespace pumice::text
