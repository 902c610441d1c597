// What texts have the form of choices, regular expressions and grammars, and what is refused.
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "support/form.h"

using namespace pumice;

namespace {

struct Case {
  std::string source;
  std::vector<std::string> fit, unfit;
};

void check(const std::vector<Case>& cases, std::string FormSource::*kind) {
  const auto vocabulary = byte_vocabulary();
  for (const Case& each : cases) {
    CAPTURE(each.source);
    FormSource source;
    source.*kind = each.source;
    const auto form = require(Form::create(source, vocabulary));
    for (const std::string& text : each.fit) CHECK_MESSAGE(accepts(*form, text), text);
    for (const std::string& text : each.unfit) CHECK_MESSAGE(!accepts(*form, text), text);
  }
}

std::string error_of(std::string FormSource::*kind, std::string text) {
  FormSource source;
  source.*kind = std::move(text);
  const auto form = Form::create(source, byte_vocabulary());
  REQUIRE(!form.ok());
  return form.error().message;
}

} // namespace

TEST_CASE("one of some texts") {
  const auto form = require(Form::create({.choices = {"north", "northwest", "süd"}}, byte_vocabulary()));
  CHECK(accepts(*form, "north"));
  CHECK(accepts(*form, "northwest"));
  CHECK(accepts(*form, "süd"));
  CHECK(!accepts(*form, "northw"));
  CHECK(!accepts(*form, "east"));
  CHECK(require(form->forced(form->start())) == "");
  FormPlace place = form->start();
  CHECK(require(form->accept(place, "n")));
  CHECK(require(form->forced(place)) == "orth");
  CHECK(!Form::create(FormSource(), byte_vocabulary()).ok());
  CHECK(!Form::create({.choices = {"a"}, .regex = "a"}, byte_vocabulary()).ok());
  CHECK(!Form::create({.choices = {"a", ""}}, byte_vocabulary()).ok());
}

TEST_CASE("regular expressions") {
  check({{"a*b|cat", {"b", "aab", "cat"}, {"", "a", "catb"}},
         {"^(0|[1-9]\\d*)$", {"0", "10"}, {"", "01", "a"}},
         {"[^a-c\\]]+", {"xyzé", "漢字"}, {"a", "]", ""}},
         {"\\u00e9{2,3}", {"éé", "ééé"}, {"é", "éééé"}},
         {"(?:ab){2,}?", {"abab", "ababab"}, {"ab"}},
         {"(?<year>\\d{4})-\\x41", {"2024-A"}, {"204-A"}},
         {".", {"x", "é", "😀"}, {"\n", "xx", "\xC3"}},
         {"[\\s\\S]", {"\n", "x"}, {""}},
         {"\\p{Lu}\\P{L}", {"É1"}, {"é1", "ÉÉ"}},
         {"a{,2}", {"a{,2}"}, {"aa"}},
         {"(a{2,3}){2}", {"aaaa", "aaaaaa"}, {"aaa", "aaaaaaa"}},
         {"x{3}y{0,2}", {"xxx", "xxxyy"}, {"xx", "xxxyyy"}}},
        &FormSource::regex);
  for (const char* wrong : {"(",     ")",     "[a",    "a**",      "*",         "\\",       "a{3,2}",
                            "[b-a]", "(?=a)", "(?!a)", "(?<=a)",   "(a)\\1",    "\\bx",     "a^",
                            "a$b",   "(?i)a", "\\u12", "a\\ud83d", "\\u{d800}", "\\p{Foo}", "\xFF"}) {
    CAPTURE(wrong);
    CHECK(!error_of(&FormSource::regex, wrong).empty());
  }
}

TEST_CASE("grammars, as llama.cpp's examples have them") {
  const std::string arithmetic = R"gbnf(root  ::= (expr "=" ws term "\n")+  # lines
expr  ::= term ([-+*/] term)*
term  ::= ident | num | "(" ws expr ")" ws
ident ::= [a-z] [a-z0-9_]* ws
num   ::= [0-9]+ ws
ws    ::= [ \t\n]*
)gbnf";
  const std::string json = R"gbnf(root   ::= object
value  ::= object | array | string | number | ("true" | "false" | "null") ws
object ::= "{" ws (string ":" ws value ("," ws string ":" ws value)*)? "}" ws
array  ::= "[" ws (value ("," ws value)*)? "]" ws
string ::= "\"" ([^"\\\x7F\x00-\x1F] | "\\" (["\\bfnrt] | "u" [0-9a-fA-F]{4}))* "\"" ws
number ::= ("-"? ([0-9] | [1-9] [0-9]{0,15})) ("." [0-9]+)? ([eE] [-+]? [0-9] [1-9]{0,15})? ws
ws     ::= | " " | "\n" [ \t]{0,20}
)gbnf";
  const std::string list = "root ::= item+\n\n# Excludes line ends.\nitem ::= \"- \" "
                           "[^\\r\\n\\x0b\\x0c\\x85\\u2028\\u2029]+ \"\\n\"\n";
  const std::string chess = R"gbnf(root ::= "1. " move " " move "\n" ([1-9] [0-9]? ". " move " " move "\n")+
move ::= (pawn | nonpawn | castle) [+#]?
nonpawn ::= [NBKQR] [a-h]? [1-8]? "x"? [a-h] [1-8]
pawn ::= ([a-h] "x")? [a-h] [1-8] ("=" [NBKQR])?
castle ::= "O-O" "-O"?
)gbnf";
  check({{arithmetic, {"1=2\n", "(a+b1)*3 = 9\nx=y\n"}, {"1=2", "1+=2\n", "(a=2\n"}},
         {json,
          {"{}", R"({"a": [1, -2.5e3, {"é": null}]})", "{\n  \"x\":\"\\u00e9\\n\"}"},
          {"[]", "{\"a\":01}", "{,}"}},
         {list, {"- a\n- bé\n"}, {"- a", "-a\n", "- \n"}},
         {chess,
          {"1. e4 e5\n2. Nf3 Nc6\n", "1. e4 exd5\n12. O-O-O Qxh7#\n"},
          {"1. e4 e5\n", "1. e9 e5\n2. a1 a2\n"}},
         {"root ::= .{2} \"\\x41\\u00E9\\U0001F600\"", {"éxAé😀"}, {"xAé😀"}},
         {"root ::= (\n \"a\" |\n \"b\" # one\n)\n", {"a", "b"}, {"ab"}},
         {"root ::= \"(\" root? \")\"", {"()", "((()))"}, {"(()", ""}},
         {"root ::= a a\na ::= \"x\"?", {"", "x", "xx"}, {"xxx"}}},
        &FormSource::grammar);
  for (const char* wrong : {"a ::= \"x\"", "root := \"x\"", "root ::= b", "root ::= root \"a\" | \"b\"",
                            "root ::= \"a", "root ::= [a", "root ::= (\"a\"", "root ::= *",
                            "root ::= \"a\"{2", "root ::= \"\\q\"", "root ::= <[1]>", "root ::= \"a\" root",
                            "root ::= a root? \"b\"\na ::= \"x\"?", "root ::= \"a\" )"}) {
    CAPTURE(wrong);
    CHECK(!error_of(&FormSource::grammar, wrong).empty());
  }
  CHECK(error_of(&FormSource::grammar, "root ::= root \"a\" | \"b\"") ==
        "the rule root begins with itself (left recursion): let it begin with something else");
}

TEST_CASE("grammars in Lark") {
  const std::string calculator = R"lark(
// A comment, and # another one
?start: sum
      | NAME "=" sum    -> assign
?sum: product
    | sum "+" product   -> add
    | sum "-" product
product.2: atom (("*" | "/") atom)*
atom: NUMBER | "-" atom | NAME | "(" sum ")"
%import common.CNAME -> NAME
%import common.NUMBER
%import common.WS_INLINE
%ignore WS_INLINE
)lark";
  check({{calculator,
          {"1+2", "x = 3 * (y_1 - 4.5e3)", "--x", "1 - 2 - 3  "},
          {"", "1+", "(1", "1 2", " 1", "1\n+ 2", "x = = 2"}},
         {"start: \"a\" | \"b\"\n     | \"c\"", {"a", "b", "c"}, {"ab", "d"}},
         {"start: A~2 B~1..3 \"!\"? [\"?\"]\nA: \"a\"..\"c\"\nB: /[xy]\\d/",
          {"abx1", "ccy0x1x2!?"},
          {"ax1", "abx1x1x1x1", "abz1"}},
         {"start: x{2} y{1,} z{,1}\nx: \"x\"\ny: \"y\"\nz: \"z\"", {"xxy", "xxyyyz"}, {"xy", "xxyzz"}},
         {"start: \"Größe\"i \"\\n\\u00e9\\x41\\\"\"", {"GRÖßE\néA\"", "größe\néA\""}, {"groesse\néA\""}},
         {"start: (\"a\"\n  | \"b\")+ # more\n\n", {"abba"}, {"", "c"}},
         {"start: /a\\/b/ \"//\" /[^\\/]+/", {"a/b//xyz"}, {"a/b/xyz"}},
         {"%import common (INT, ESCAPED_STRING)\nstart: INT ESCAPED_STRING", {"12\"a\\\"b\""}, {"12\"a"}},
         {"start: e\ne: e \"+\" e2 | e2\ne2: \"1\" | \"(\" e \")\"", {"1+1", "(1+1)+1"}, {"1+", "+1"}},
         {"start: C_COMMENT NEWLINE FLOAT\n%import common.C_COMMENT\n%import common.NEWLINE\n%import "
          "common.FLOAT",
          {"/* a * b **/\r\n1.5", "/**/\n\n.5e-3"},
          {"/* */ */\n1.5", "/* *\n1.5", "/**/\n15"}}},
        &FormSource::grammar);
  for (const char* wrong : {"begin: \"a\"",
                            "start: b",
                            "start: B",
                            "start: \"a",
                            "start: /a",
                            "start: (\"a\"",
                            "start: [\"a\"",
                            "start: *",
                            "start: \"a\"~",
                            "start: \"a\"{2",
                            "start: \"a\"{3,2}",
                            "start: \"\\q\"",
                            "start: \"a\"..\"bc\"",
                            "start: \"z\"..\"a\"",
                            "start: start \"a\"",
                            "start: a\na: b \"x\" | \"y\"\nb: a \"z\"",
                            "start: A\nA: b\nb: \"x\"",
                            "start: \"a\"\nstart: \"b\"",
                            "start: /a/i",
                            "start: /(?=a)/",
                            "start: <|end|>",
                            "start: ~A\nA: \"a\"",
                            "start: A & B\nA: \"a\"\nB: \"a\"",
                            "start: %json {}",
                            "%declare A\nstart: A",
                            "start[lazy]: \"a\"",
                            "start{a}: a",
                            "start: f{A}\nA: \"a\"",
                            "start::x: \"a\"",
                            "%import common.FOO\nstart: FOO",
                            "%import other.INT\nstart: INT",
                            "start: \"a\" )",
                            "start \"a\": \"b\"",
                            "start: \"a\" ->"}) {
    CAPTURE(wrong);
    CHECK(!error_of(&FormSource::grammar, wrong).empty());
  }
  CHECK(error_of(&FormSource::grammar, "start: %json {}") ==
        "the grammar, at byte 12: %json within a rule is not supported");
  CHECK(error_of(&FormSource::grammar, "start: a\na: b \"x\" | \"y\"\nb: a \"z\"").find("left recursion") !=
        std::string::npos);
}
