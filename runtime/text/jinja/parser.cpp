#include "text/jinja/parser.h"

#include <algorithm>

#include "text/jinja/expression_parser.h"
#include "text/jinja/failure.h"

namespace pumice::text::jinja {

namespace {

using Ends = std::initializer_list<std::string_view>;

class Parser : ExpressionParser {
public:
  using ExpressionParser::ExpressionParser;

  Statements run() { return statements({}); }

private:
  using Kind = Statement::Kind;

  // Up to a tag with one of these names, which stays the current token; without names up to the end.
  Statements statements(Ends ends) {
    const Nesting nesting(*this);
    Statements body;
    while (token().kind != TokenKind::end) {
      const int line = token().line;
      if (token().kind == TokenKind::data) {
        body.push_back({.kind = Kind::data, .line = line, .text = take().text});
      } else if (token().kind == TokenKind::variable_begin) {
        take();
        body.push_back(located("{{ }}", [&] { return output(line); }));
      } else {
        take();
        const auto is_end = [&](std::string_view end) { return token().is_name(end); };
        if (std::any_of(ends.begin(), ends.end(), is_end)) return body;
        body.push_back(statement());
      }
    }
    if (ends.size() > 0) {
      fail_here(fmt::format("the template ends where {{% {} %}} is missing; the innermost block that is open "
                            "is {{% {} %}} of line {}",
                            *(ends.end() - 1), open_.empty() ? "?" : open_.back().first,
                            open_.empty() ? 0 : open_.back().second));
    }
    return body;
  }

  Statement output(int line) {
    Statement made{.kind = Kind::output, .line = line};
    made.value = expressions(true, {});
    if (token().kind != TokenKind::variable_end)
      fail_here(fmt::format("expected }}}}, found {}", describe()));
    take();
    return made;
  }

  template <class Parse>
  auto located(std::string_view construct, const Parse& parse) -> decltype(parse()) {
    try {
      return parse();
    } catch (Failure& failure) {
      if (failure.construct.empty()) failure.construct = construct;
      throw;
    }
  }

  // A tag, after its {%.
  Statement statement() {
    if (token().kind != TokenKind::name)
      fail_here(fmt::format("expected the name of a tag, found {}", describe()));
    const Token name = take();
    open_.emplace_back(name.text, name.line);
    Statement made = located("{% " + name.text + " %}", [&] {
      Statement parsed = tag(name);
      end_of_tag();
      return parsed;
    });
    open_.pop_back();
    return made;
  }

  Statement tag(const Token& name) {
    if (name.text == "if") return condition(name.line);
    if (name.text == "for") return loop(name.line);
    if (name.text == "set") return assign(name.line);
    if (name.text == "macro") return macro(name.line);
    if (name.text == "call") return call_block(name.line);
    if (name.text == "filter") return filter_block(name.line);
    if (name.text == "with") return with(name.line);
    if (name.text == "print") return print(name.line);
    if (name.text == "block") return block(name.line);
    if (name.text == "generation") {
      Statement made{.kind = Kind::generation, .line = name.line};
      made.body = outside_loops([&] { return body_until("endgeneration"); });
      return made;
    }
    if (name.text == "break" || name.text == "continue") {
      if (loops_ == 0) fail_here(fmt::format("{} stands outside of a loop", name.text));
      return {.kind = name.text == "break" ? Kind::leave : Kind::next, .line = name.line};
    }
    if (name.text == "include" || name.text == "import" || name.text == "from" || name.text == "extends")
      fail_here("a chat template cannot read other templates");
    fail_here("there is no such tag, or nothing that it could end is open");
  }

  void end_of_tag() {
    if (token().kind != TokenKind::block_end) fail_here(fmt::format("expected %}}, found {}", describe()));
    take();
  }

  // The statements after a tag's head, up to a tag with one of these names.
  Statements body_until(Ends ends) {
    skip_symbol(":");
    end_of_tag();
    return statements(ends);
  }
  Statements body_until(std::string_view end) {
    Statements body = body_until({end});
    take();
    return body;
  }

  template <class Parse>
  Statements outside_loops(const Parse& parse) {
    const int loops = std::exchange(loops_, 0);
    Statements body = parse();
    loops_ = loops;
    return body;
  }

  Statement condition(int line) {
    Statement made{.kind = Kind::condition, .line = line};
    while (true) {
      ExpressionPointer test = expressions(false, {});
      made.branches.push_back({std::move(test), body_until({"elif", "else", "endif"})});
      const std::string next = take().text;
      if (next == "elif") continue;
      if (next == "else") made.branches.push_back({nullptr, body_until("endif")});
      return made;
    }
  }

  Statement loop(int line) {
    Statement made{.kind = Kind::loop, .line = line};
    made.target = target({"in"}, false);
    if (!skip_name("in")) fail_here(fmt::format("expected in, found {}", describe()));
    made.value = expressions(false, {"recursive"});
    if (skip_name("if")) made.test = expression();
    made.recursive = skip_name("recursive");
    ++loops_;
    made.body = body_until({"else", "endfor"});
    --loops_;
    if (take().text == "else") made.otherwise = body_until("endfor");
    return made;
  }

  Statement assign(int line) {
    Statement made{.kind = Kind::assign, .line = line};
    made.target = target({}, true);
    if (skip_symbol("=")) {
      made.value = expressions(true, {});
      return made;
    }
    made.kind = Kind::capture;
    made.value = filters(nullptr);
    made.body = body_until("endset");
    return made;
  }

  void parameters(MacroDefinition& macro) {
    expect_symbol("(");
    while (!token().is_symbol(")")) {
      if (!macro.parameters.empty()) expect_symbol(",");
      Parameter parameter{expect_name(), nullptr};
      if (skip_symbol("=")) {
        parameter.otherwise = expression();
      } else if (!macro.parameters.empty() && macro.parameters.back().otherwise) {
        fail_here("a parameter without a default follows one with a default");
      }
      macro.parameters.push_back(std::move(parameter));
    }
    take();
  }

  void macro_body(MacroDefinition& macro, std::string_view end) {
    macros_.push_back(&macro);
    macro.body = outside_loops([&] { return body_until(end); });
    macros_.pop_back();
  }

  Statement macro(int line) {
    Statement made{.kind = Kind::macro, .line = line, .macro = std::make_unique<MacroDefinition>()};
    made.macro->name = expect_name();
    parameters(*made.macro);
    macro_body(*made.macro, "endmacro");
    return made;
  }

  Statement call_block(int line) {
    Statement made{.kind = Kind::call, .line = line, .macro = std::make_unique<MacroDefinition>()};
    made.macro->name = "caller";
    if (token().is_symbol("(")) parameters(*made.macro);
    made.value = expression();
    if (made.value->kind != Expression::Kind::call) fail_here("expected a call");
    macro_body(*made.macro, "endcall");
    return made;
  }

  Statement filter_block(int line) {
    Statement made{.kind = Kind::filter, .line = line};
    made.value = filters(filter(nullptr));
    made.body = body_until("endfilter");
    return made;
  }

  Statement with(int line) {
    Statement made{.kind = Kind::with, .line = line};
    while (token().kind != TokenKind::block_end) {
      if (!made.targets.empty()) expect_symbol(",");
      made.targets.push_back(target({}, false));
      expect_symbol("=");
      made.values.push_back(expression());
    }
    made.body = body_until("endwith");
    return made;
  }

  Statement print(int line) {
    std::vector<ExpressionPointer> parts;
    while (token().kind != TokenKind::block_end) {
      if (!parts.empty()) expect_symbol(",");
      parts.push_back(expression());
    }
    return {.kind = Kind::output,
            .line = line,
            .value = make(Expression::Kind::concatenate, line, "~", std::move(parts))};
  }

  Statement block(int line) {
    Statement made{.kind = Kind::block, .line = line, .text = expect_name()};
    if (!skip_name("scoped")) skip_name("required");
    made.body = outside_loops([&] { return body_until("endblock"); });
    skip_name(made.text);
    return made;
  }

  std::vector<std::pair<std::string, int>> open_; // the tags around this place, with their lines
  int loops_ = 0;                                 // around this place, within the macro
};

} // namespace

std::string Statement::construct() const {
  switch (kind) {
  case Kind::data:
    return "the text";
  case Kind::output:
    return "{{ }}";
  case Kind::condition:
    return "{% if %}";
  case Kind::loop:
    return "{% for %}";
  case Kind::assign:
  case Kind::capture:
    return "{% set %}";
  case Kind::macro:
    return "{% macro %}";
  case Kind::call:
    return "{% call %}";
  case Kind::filter:
    return "{% filter %}";
  case Kind::with:
    return "{% with %}";
  case Kind::generation:
    return "{% generation %}";
  case Kind::block:
    return "{% block %}";
  case Kind::leave:
    return "{% break %}";
  case Kind::next:
    return "{% continue %}";
  }
  return "the template";
}

Statements parse_template(std::string_view source) {
  return Parser(split_template(source)).run();
}

} // namespace pumice::text::jinja
