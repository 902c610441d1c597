#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "text/chat/template_probe.h"

namespace pumice {

struct ReadCalls;

// How a template writes a call, where that is none of the ways that read_calls() knows by itself: what stands
// around the name, and around an object of arguments or each argument, as in
// <call tool="NAME" KEY="VALUE"/> or <NAME><KEY>VALUE</KEY></NAME>. In these texts key_mark stands for the
// key, and name_mark for the name.
struct ShownCall {
  static constexpr char key_mark = '\1', name_mark = '\2';
  // Around a value: up to it from its key, and from it up to the next key, the next name or the end.
  struct Around {
    std::string before, next, between, end;
  };
  bool object = false;            // all arguments are one object of JSON, and no value has anything before it
  std::string begin, first, none; // up to the name; from it to the first key; or to the end without arguments
  Around text, other;             // of texts, and of values of other types

  // What a template writes of an answer that is these calls, from their beginning to their end; nothing: none
  // of them. `begins`: the marks that begin calls.
  static std::optional<std::string> written(const TemplateProbe& render, const CallStyle& style,
                                            const std::vector<std::string>& begins, std::string_view content,
                                            const std::vector<TemplateProbe::Call>& calls);
  // Nothing: the template does not show it.
  static std::optional<ShownCall> of(const TemplateProbe& render, const CallStyle& style,
                                     const std::vector<std::string>& begins);
  // As read_calls() does.
  ReadCalls read(std::string_view answer, const nlohmann::ordered_json& tools, bool ended) const;
};

} // namespace pumice
