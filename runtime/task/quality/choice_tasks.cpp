#include "task/quality/choice_tasks.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <random>

#include <fmt/format.h>

#include "io/bytes.h"

namespace pumice {

namespace {

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    lines.emplace_back(text.substr(0, end));
    if (lines.back().ends_with('\r')) lines.back().pop_back();
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return lines;
}

Error wrong(const std::string& source, size_t line, const std::string& what) {
  return {Code::invalid_file, fmt::format("{}: line {}: {}", source, line, what)};
}

// Six lines for each task: the scene, the number of the right ending from 0, four endings.
Result<std::vector<ChoiceTask>> read_hellaswag(std::string_view text, const std::string& source) {
  constexpr size_t endings = 4, each = 2 + endings;
  const std::vector<std::string> lines = lines_of(text);
  if (lines.empty() || lines.size() % each != 0) {
    return Error{Code::invalid_file,
                 fmt::format("{}: it has {} lines: expected six for each task, the scene, the number of the "
                             "right ending and four endings",
                             source, lines.size())};
  }
  std::vector<ChoiceTask> tasks;
  for (size_t at = 0; at < lines.size(); at += each) {
    const std::string& number = lines[at + 1];
    if (number.size() != 1 || number[0] < '0' || number[0] > '3') {
      return wrong(
          source, at + 2,
          fmt::format("expected the number of the right ending, 0 to 3, found '{}'", printable(number)));
    }
    ChoiceTask& task = tasks.emplace_back();
    task.source = fmt::format("{}: task {}", source, tasks.size());
    for (size_t i = 0; i < endings; ++i) task.texts.push_back(lines[at] + " " + lines[at + 2 + i]);
    task.right.assign(endings, false);
    task.right[static_cast<size_t>(number[0] - '0')] = true;
  }
  return tasks;
}

// The five fields of a line, of which the second may be in quotes.
std::vector<std::string> fields_of(const std::string& line) {
  std::vector<std::string> fields(1);
  bool quoted = false;
  for (const char c : line) {
    if (c == '"') {
      quoted = !quoted;
    } else if (c == ',' && !quoted && fields.size() < 5) {
      fields.emplace_back();
      continue;
    }
    fields.back() += c;
  }
  std::string& sentence = fields[std::min<size_t>(1, fields.size() - 1)];
  if (sentence.size() > 1 && sentence.starts_with('"') && sentence.ends_with('"'))
    sentence = sentence.substr(1, sentence.size() - 2);
  return fields;
}

// A line for each task: its number, a sentence with _, two names and which of them is meant, 1 or 2.
Result<std::vector<ChoiceTask>> read_winogrande(std::string_view text, const std::string& source) {
  std::vector<ChoiceTask> tasks;
  const std::vector<std::string> lines = lines_of(text);
  for (size_t i = 0; i < lines.size(); ++i) {
    if (lines[i].empty()) continue;
    const std::vector<std::string> fields = fields_of(lines[i]);
    const size_t gap = fields.size() == 5 ? fields[1].find('_') : std::string::npos;
    if (gap == std::string::npos || (fields[4] != "1" && fields[4] != "2")) {
      return wrong(source, i + 1,
                   "expected a number, a sentence with _, two names and 1 or 2, with commas between them");
    }
    ChoiceTask& task = tasks.emplace_back();
    task.source = fmt::format("{}: line {}", source, i + 1);
    const std::string before = fields[1].substr(0, gap), after = fields[1].substr(gap + 1);
    for (size_t name : {2, 3}) {
      task.heads.push_back(before + fields[name]);
      task.texts.push_back(task.heads.back() + after);
    }
    task.right = {fields[4] == "1", fields[4] == "2"};
  }
  if (tasks.empty()) return Error{Code::invalid_file, fmt::format("{}: it has no tasks", source)};
  return tasks;
}

bool read_string(ByteReader& reader, std::string& text) {
  uint32_t size = 0;
  std::span<const std::byte> bytes;
  if (!reader.read(size) || !reader.take(size, bytes)) return false;
  text = as_text(bytes);
  return true;
}

// Answers, and of each whether it is right.
bool read_answers(ByteReader& reader, std::vector<std::string>& answers, std::vector<bool>& right) {
  constexpr uint32_t most = 100;
  uint32_t count = 0;
  if (!reader.read(count) || count > most) return false;
  answers.resize(count);
  for (std::string& answer : answers) {
    if (!read_string(reader, answer)) return false;
  }
  for (uint32_t i = 0; i < count; ++i) {
    int32_t label = 0;
    if (!reader.read(label)) return false;
    right.push_back(label == 1);
  }
  return true;
}

// Whole numbers of 32 bits: how many tasks there are, and where each begins. A task is the question, answers
// of which one is right, and answers of which several are.
Result<std::vector<ChoiceTask>> read_multiple_choice(std::span<const std::byte> bytes,
                                                     const std::string& source) {
  const Error damaged = {Code::invalid_file,
                         fmt::format("{}: expected a binary file of questions with answers, as llama.cpp's "
                                     "--multiple-choice reads it",
                                     source)};
  ByteReader head(bytes);
  uint32_t count = 0;
  if (!head.read(count) || count == 0 || head.remaining() / 4 < count) return damaged;
  std::vector<ChoiceTask> tasks;
  for (uint32_t i = 0; i < count; ++i) {
    uint32_t at = 0;
    if (!head.read(at) || at > bytes.size()) return damaged;
    ByteReader reader(bytes.subspan(at));
    std::string question;
    std::vector<std::string> answers;
    ChoiceTask& task = tasks.emplace_back();
    task.source = fmt::format("{}: task {}", source, tasks.size());
    if (!read_string(reader, question) || !read_answers(reader, answers, task.right) || answers.empty())
      return damaged;
    for (const std::string& answer : answers) task.texts.push_back(question + " " + answer);
  }
  return tasks;
}

// All in a random order, or the first of that.
std::vector<size_t> hellaswag_order(size_t all, size_t count) {
  std::mt19937 random(1);
  std::vector<size_t> left(all), order;
  std::iota(left.begin(), left.end(), 0);
  while (order.size() < count) {
    const size_t at = std::uniform_int_distribution<size_t>(0, left.size() - 1)(random);
    order.push_back(left[at]);
    left.erase(left.begin() + static_cast<ptrdiff_t>(at));
  }
  return order;
}

std::vector<size_t> other_order(size_t all, size_t count) {
  std::vector<size_t> left(all), order;
  std::iota(left.begin(), left.end(), 0);
  if (count == all) return left;
  std::mt19937 random(1);
  constexpr float scale = 1 / (1 + static_cast<float>(std::mt19937::max()));
  while (order.size() < count) {
    const float place = scale * static_cast<float>(random()) * static_cast<float>(left.size());
    const size_t at = std::min(static_cast<size_t>(place), left.size() - 1);
    order.push_back(left[at]);
    left[at] = left.back();
    left.pop_back();
  }
  return order;
}

// How many tokens all texts begin with, so that each has at least one more.
size_t common_tokens(const std::vector<std::vector<uint32_t>>& texts) {
  size_t common = texts[0].size();
  for (const std::vector<uint32_t>& text : texts) {
    const auto end = std::ranges::mismatch(texts[0], text).in1;
    common = std::min({common, static_cast<size_t>(end - texts[0].begin()), text.size() - 1});
  }
  return common;
}

} // namespace

Result<std::vector<ChoiceTask>> read_choice_tasks(ChoiceKind kind, std::span<const std::byte> bytes,
                                                  const std::string& source, size_t count) {
  PUMICE_TRY(std::vector<ChoiceTask> tasks,
             kind == ChoiceKind::hellaswag    ? read_hellaswag(as_text(bytes), source)
             : kind == ChoiceKind::winogrande ? read_winogrande(as_text(bytes), source)
                                              : read_multiple_choice(bytes, source));
  const size_t wanted = count ? std::min(count, tasks.size()) : tasks.size();
  std::vector<ChoiceTask> chosen;
  for (const size_t at : kind == ChoiceKind::hellaswag ? hellaswag_order(tasks.size(), wanted)
                                                       : other_order(tasks.size(), wanted))
    chosen.push_back(std::move(tasks[at]));
  return chosen;
}

Result<Choice> choose(ContinuationScorer& scorer, const Tokenizer& tokenizer, const ChoiceTask& task) {
  std::vector<std::vector<uint32_t>> texts;
  for (const std::string& text : task.texts) {
    texts.push_back(tokenizer.encode(text, true));
    if (texts.back().size() < 2)
      return Error{Code::invalid_file, fmt::format("{}: an answer has no tokens to score", task.source)};
  }
  const size_t common = std::max<size_t>(common_tokens(texts), 1);
  std::vector<std::vector<uint32_t>> continuations;
  for (const std::vector<uint32_t>& text : texts)
    continuations.emplace_back(text.begin() + static_cast<ptrdiff_t>(common), text.end());
  Result<ContinuationScores> scores = scorer.score(std::span(texts[0]).first(common), continuations);
  if (!scores.ok()) return Error{scores.error().code, task.source + ": " + scores.error().message};

  constexpr size_t least_behind = 3;
  const bool skips = !task.heads.empty() && std::ranges::all_of(continuations, [](const auto& each) {
    return each.size() > least_behind;
  });
  Choice choice;
  for (size_t i = 0; i < texts.size(); ++i) {
    const std::vector<float>& values = (*scores)[i];
    size_t first = 0, last = values.size();
    if (skips) {
      const size_t head = tokenizer.encode(task.heads[i], true).size();
      first = std::min(head - std::min(head, common), values.size() - 1);
    }
    if (!task.heads.empty() && last - first > 1) --last; // the end of the sentence says nothing of the name
    const double sum = std::accumulate(values.begin() + static_cast<ptrdiff_t>(first),
                                       values.begin() + static_cast<ptrdiff_t>(last), 0.0);
    choice.scores.push_back(sum / static_cast<double>(last - first));
  }
  choice.chosen = static_cast<size_t>(std::ranges::max_element(choice.scores) - choice.scores.begin());
  choice.right = task.right[choice.chosen];
  return choice;
}

Share share_of(size_t part, size_t all) {
  if (all == 0) return {};
  constexpr double z = 1.95996398454;
  const double count = static_cast<double>(all), share = static_cast<double>(part) / count;
  const double term = z * z / count;
  const double middle = share + term / 2, half = std::sqrt(term * (share * (1 - share) + term / 4));
  return {share, (middle - half) / (1 + term), (middle + half) / (1 + term)};
}

} // namespace pumice
