// The engine of chat templates. tests/templates holds it against Jinja2 on whole conversations.
#include <chrono>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "support/command/messages.h"
#include "support/command/process.h"
#include "support/sanitized.h"
#include "text/jinja/template.h"

using namespace pumice;
using text::jinja::Options;
using text::jinja::Template;

namespace {

Result<std::string> render(const std::string& source, const std::string& variables = "{}") {
  PUMICE_TRY(const Template parsed, Template::parse(source));
  Options options;
  options.now.tm_year = 126, options.now.tm_mon = 6, options.now.tm_mday = 26, options.now.tm_hour = 12;
  return parsed.render(nlohmann::ordered_json::parse(variables), options);
}

std::string text_of(const std::string& source, const std::string& variables = "{}") {
  const Result<std::string> text = render(source, variables);
  return text.ok() ? *text : "error: " + text.error().message;
}

std::string repeated(const std::string& text, size_t times) {
  std::string made;
  for (size_t i = 0; i < times; ++i) made += text;
  return made;
}

// A statement within a loop that would run ten thousand million times.
std::string endless(const std::string& statement) {
  return "{% set n = namespace(x='ab', l=[1]) %}\n{% for a in range(100000) %}{% for b in range(100000) %}" +
         statement + "{% endfor %}{% endfor %}";
}

} // namespace

TEST_CASE("templates: values, operators and filters are Python's") {
  struct Case {
    const char *source, *text;
  };
  const Case cases[] = {
      {"{{ 7 // -2 }} {{ -7 % 3 }} {{ 1/3 }} {{ 1e16 }} {{ 2**10 }}", "-4 2 0.3333333333333333 1e+16 1024"},
      {"{{ 'hello'[::-1] }} {{ '日本語'[1:] }} {{ [1, 2, 3][-1] }}", "olleh 本語 3"},
      {"{{ {'b': 1, 'a': ['é', none, 2.0]}|tojson }}", R"({"b": 1, "a": ["é", null, 2.0]})"},
      {"{{ [1]|tojson(indent=2) }}", "[\n  1\n]"},
      {"{{ ['it\\'s', 'a'] }} {{ (1,) }} {{ true }} {{ none }}", R"(["it's", 'a'] (1,) True None)"},
      {"{{ '%s-%03d' % ('a', 7) }} {{ '{:>4}|{}'.format('x', 1) }}", "a-007    x|1"},
      {"{{ 'a' if false }}|{{ missing }}|{{ missing is defined }}", "||False"},
      {"{{ '<'|safe + '<' }}{{ '<'|e ~ '<' }}{{ ('<'|e) is escaped }}", "<&lt;&lt;<True"},
      {"{{ strftime_now('%d %B %Y, %H:%M') }}", "26 July 2026, 12:00"},
  };
  for (const Case& each : cases) CHECK(text_of(each.source) == each.text);
}

TEST_CASE("templates: statements and the white space around them") {
  CHECK(text_of("a\n  {% if true %}\nb\n  {% endif %}\nc\n") == "a\nb\nc");
  CHECK(text_of("a {%- if true -%} b {%+ endif %}") == "ab ");
  CHECK(text_of("{% for x in [1, 2, 3] if x != 2 %}{{ loop.index }}/{{ loop.length }}:{{ x }}{{ ',' if not "
                "loop.last }}{% else %}none{% endfor %}") == "1/2:1,2/2:3");
  CHECK(text_of("{% for x in range(9) %}{% if x == 1 %}{% continue %}{% endif %}{% if x == 3 %}{% break "
                "%}{% endif %}{{ x }}{% endfor %}") == "02");
  CHECK(text_of("{% for x in [1, 1, 2] %}{{ loop.changed(x) }}{% endfor %}") == "TrueFalseTrue");
  CHECK(text_of("{% macro f(a, b='B') %}{{ a }}{{ b }}{{ caller() }}{% endmacro %}{% call f(1, b=2) %}c{% "
                "endcall %}") == "12c");
  CHECK(text_of("{% set n = namespace(i=0) %}{% for m in messages %}{% set n.i = n.i + 1 %}{% set i = 9 %}{% "
                "endfor %}{{ n.i }}{{ i }}",
                R"({"messages": [1, 2]})") == "2");
  CHECK(text_of("{% generation %}a{% endgeneration %}{% raw %}{{ b }}{% endraw %}{# c #}") == "a{{ b }}");
}

TEST_CASE("templates: an error names the line and the construct") {
  CHECK(says(render("a\n{% if true %}\n{{ raise_exception('no ' ~ 'tools') }}{% endif %}"),
             {"no tools", "line 3", "{{ }}"}) == "");
  CHECK(says(render("\n{% set x = missing.name %}"), {"'missing' is undefined", "line 2", "{% set %}"}) ==
        "");
  CHECK(says(render("a\n{% for x in y %}\nb"), {"{% endfor %}", "{% for %} of line 2"}) == "");
  CHECK(says(render("{{ 1 +* 2 }}"), {"line 1", "{{ }}", "*"}) == "");
  CHECK(says(render("\n{% iff x %}"), {"line 2", "{% iff %}", "no such tag"}) == "");
  CHECK(says(render("{% include 'x' %}"), {"cannot read other templates"}) == "");
  CHECK(says(render("{{ 'a'|nothing }}"), {"nothing", "line 1"}) == "");
  CHECK(says(render("\xFF"), {"UTF-8"}) == "");
  CHECK(says(render("a", "[]"), {"object"}) == "");
  CHECK(says(render("{% set n = namespace() %}{% for b in [1] %}{% set n.f = loop.changed %}{% endfor %}{{ "
                    "n.f(1) }}"),
             {"the loop has ended"}) == "");
}

TEST_CASE("templates: what nests without end is an error") {
  const std::vector<std::pair<std::string, std::string>> around = {{"{% if 1 %}", "{% endif %}"},
                                                                   {"{% for a in b %}", "{% endfor %}"},
                                                                   {"{{ (", ""},
                                                                   {"{{ [", ""},
                                                                   {"{{ not ", ""},
                                                                   {"{{ a.b(", ""},
                                                                   {"{% set (", ""}};
  for (const auto& [open, close] : around) {
    const std::string source = repeated(open, 60000) + "1" + repeated(close, 60000);
    CHECK(says(render(source), {"line 1"}) == "");
  }
  for (const char* part : {"(", "[", "not ", "-", "1 if 1 else "}) {
    CHECK(says(render("\n{{ " + repeated(part, 60000)), {"line 2"}) == "");
  }
  for (const char* part : {".b", "|string", "+1", "**1", "()", "[0]"}) {
    CHECK(says(render("{{ a" + repeated(part, 60000) + " }}"), {"more than 200 deep", "line 1", "{{ }}"}) ==
          "");
  }
  CHECK(says(render("{% macro f(x) %}{{ f(x) }}{% endmacro %}\n{{ f(1) }}"), {"500 deep", "line"}) == "");
  CHECK(says(render("{% for a in [1] recursive %}{{ loop([1]) }}{% endfor %}"), {"500 deep"}) == "");
  for (const char* grown : {"[n.x]", "{'a': n.x}", "n.l.count", "[n.l.count]"}) {
    const std::string name = std::string(grown).find("n.l") == std::string::npos ? "x" : "l";
    CHECK(says(render(endless("{% set n." + name + " = " + grown + " %}")), {"line 2", "{% set %}"}) == "");
  }
  // Namespaces can hold each other, and themselves.
  CHECK(says(render("{% set n = namespace() %}{% set n.n = n %}{{ n }}"), {"500 deep"}) == "");
  CHECK(text_of("{% set n = namespace(x=none) %}{% for a in range(100000) %}{% set n.x = namespace(x=n.x) "
                "%}{% endfor %}ok") == "ok");
  CHECK(text_of("{% set n = namespace(x=1) %}{% for a in range(100000) %}{% for b in [n.x] %}{% set n.x = "
                "loop %}{% endfor %}{% endfor %}ok") == "ok");
}

TEST_CASE("templates: what runs or grows without end is an error, soon and in little memory") {
  const std::vector<std::string> sources = {
      endless(""),
      endless("{% set x = a + b %}"),
      endless("{{ 'x' * 1000 }}"),
      endless("{% set n.x = n.x + n.x %}"),
      endless("{% set n.x = n.x ~ n.x %}"),
      endless("{% set n.x = n.x|replace('a', 'aa') %}"),
      endless("{% set n.l = n.l + n.l %}"),
      endless("{% set n.l = n.l + [{'a': 1}] %}"),
      endless("{% set n.x = range(100000)|list %}"),
      endless("{% set n.x = range(100000)|join(n.x) %}"),
      "\n{% set n = namespace(x=[1]) %}{% for a in range(100) %}{% set n.x = [n.x, n.x] %}{% endfor %}{{ n.x "
      "}}",
      "\n{% set n = namespace(x=[1]) %}{% for a in range(100) %}{% set n.x = [n.x, n.x] %}{% endfor %}{{ "
      "n.x|tojson }}",
      "\n{% set n = namespace(x=(1,)) %}{% for a in range(100) %}{% set n.x = (n.x, n.x) %}{% endfor %}{{ "
      "{n.x: "
      "1} }}",
      "\n{{ 'abc' * 10**30 }}",
      "\n{{ [1] * 10**30 }}",
      "\n{{ range(10**15) }}",
      "\n{{ 'a'.ljust(10**15) }}",
      "\n{{ ('\\n' * 1000000)|indent(10000, true, true) }}",
      "\n{{ ('{0:9999}' * 100000).format(1) }}",
      "\n{% set a = 'a' * 8000000 %}{{ (a ~ 'b') in (a ~ a) }}",
      "\n{% set a = 'a' * 8000000 %}{% for b in range(100000) %}{% set c = a|title %}{% endfor %}",
      "\n{% set a = '1' * 8000000 %}{% for b in range(100000) %}{% set c = a|int %}{% endfor %}",
      "\n{% set x = range(100000)|list %}{% for a in range(100000) %}{% set y = x.pop(0) %}{% endfor %}",
      "\n{% macro f(x) %}{% if x < 90 %}{{ f(x + 1) }}{{ f(x + 1) }}{% endif %}{% endmacro %}{{ f(1) }}",
  };
  for (size_t i = 0; i < sources.size(); i += sanitized ? 3 : 1) {
    const std::string& source = sources[i];
    CAPTURE(source);
    const auto begin = std::chrono::steady_clock::now();
    CHECK(says(render(source), {"(line 2, in {"}) == "");
    // A tenth of it on a machine that does nothing else.
    CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(20));
    CHECK(ProcessUse::now().anonymous_kib < 1'500'000);
  }
  CHECK(says(render(std::string(5 << 20, 'x')), {"5242880 bytes"}) == "");
}
