#include "loading/task_inputs.h"

#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "media/preprocess.h"
#include "options/option_text.h"
#include "options/option_values.h"
#include "options/prompt.h"
#include "terminal/counted.h"
#include "terminal/terminal.h"

namespace pumice::command {

namespace {

constexpr size_t lines_ahead = 1024; // most lines that are read before they are encoded

// Lines that cannot be used, among others: each is told of after the results of the lines before it.
class BadLines {
public:
  explicit BadLines(const WaitingLines& source) : source_(source) {}

  // `before`: how many others come first.
  void add(size_t before, Line line, Error error) {
    line.error = std::move(error);
    lines_.emplace_back(before, std::move(line));
  }
  // Those that come before the other line `index`.
  Status tell_before(size_t index) {
    for (; told_ < lines_.size() && lines_[told_].first <= index; ++told_)
      PUMICE_CHECK(source_.reject(lines_[told_].second, *lines_[told_].second.error));
    return {};
  }

private:
  const WaitingLines& source_;
  std::vector<std::pair<size_t, Line>> lines_;
  size_t told_ = 0;
};

} // namespace

void add_line_options(CLI::App& app, LineOptions& options) {
  app.add_option("MODEL", options.model,
                 "A Hugging Face folder or GGUF file of a text encoder, or of a decoder made for this")
      ->required()
      ->type_name("");
  app.add_option("--max-tokens", options.run.max_tokens,
                 fmt::format("Cut lines after N tokens (default: the model's setting, at most {})",
                             InputRunner::most_text_tokens))
      ->type_name("N")
      ->check(within(1u, 1u << 24))
      ->group(more_of("Text"));
  add_batch_option(app, options.run.batch_tokens, device_group);
  add_weights_option(app, options.load);
  add_device_options(app, options.device);
}

void add_ids_option(CLI::App& app, std::vector<std::string>& ids) {
  app.add_option(
         "--ids", ids,
         "Read these token ids, such as 101,7592,102, in the place of texts: with those around a text, "
         "and without a tokenizer. Can be given more than once")
      ->type_name("IDS")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->group(more_of("Text"));
}

TaskInputs::Read TaskInputs::ids() const {
  return [this](const std::string& text, const std::string& name) -> Result<EncoderInput> {
    const std::string source = "--ids" + name.substr(std::min(name.find(' '), name.size()));
    PUMICE_TRY(std::vector<uint32_t> ids, parse_ids(text, source));
    return runner_.read(std::move(ids), source);
  };
}

Status TaskInputs::watch(const char* doing, const std::function<Status(ProgressBar& bar)>& work) {
  const double before = compiled_kernels().seconds;
  ProgressBar bar(doing);
  Status status = work(bar);
  compiling_ += compiled_kernels().seconds - before;
  if (!status.ok() && interrupted()) return interruption();
  return status;
}

Status TaskInputs::run(WaitingLines& source, const Read& read, const Take& take) {
  const ReadParts read_one = [&](const std::string& text,
                                 const std::string& name) -> Result<std::vector<EncoderInput>> {
    PUMICE_TRY(EncoderInput input, read(text, name));
    return std::vector<EncoderInput>{std::move(input)};
  };
  return run_parts(source, read_one, take);
}

Status TaskInputs::run_parts(WaitingLines& source, const ReadParts& read, const Take& take) {
  while (true) {
    PUMICE_TRY(std::vector<Line> arrived, source.next(lines_ahead));
    if (arrived.empty()) return {};
    std::vector<Line> lines;
    std::vector<std::vector<EncoderInput>> inputs;
    BadLines bad(source);
    for (Line& line : arrived) {
      const uint64_t unknown = runner_.figures().unknown; // before it
      Result<std::vector<EncoderInput>> input =
          line.error ? Result<std::vector<EncoderInput>>(*line.error) : read(line.text, source.name(line));
      if (!input.ok()) {
        bad.add(lines.size(), std::move(line), input.error());
        continue;
      }
      if (runner_.figures().unknown > unknown && !std::exchange(unknown_told_, true)) {
        print_note(
            fmt::format("{}: the model's vocabulary lacks most of it, so what comes out says little of it",
                        source.name(line)));
      }
      lines.push_back(std::move(line));
      inputs.push_back(*std::move(input));
    }
    const uint64_t done = runner_.figures().inputs; // of many lines that arrive a part at a time
    const std::string doing = done ? fmt::format("encoding, {} done", counted(done, "line")) : "encoding";
    PUMICE_CHECK(watch(doing.c_str(), [&](ProgressBar& bar) {
      const auto take_row = [&](size_t i, std::vector<float> row) -> Status {
        bar.erase();
        PUMICE_CHECK(bad.tell_before(i));
        return take(lines[i], std::move(row));
      };
      return runner_.run_parts(inputs, take_row, bar.callback());
    }));
    PUMICE_CHECK(bad.tell_before(lines.size()));
  }
}

Status TaskInputs::run(std::span<const std::string> pictures, const char* doing, const TakePicture& take,
                       const BadPicture& bad) {
  return watch(doing, [&](ProgressBar& bar) -> Status {
    for (size_t next = 0; next < pictures.size();) {
      std::vector<EncoderInput> inputs;
      std::vector<size_t> numbers; // of the pictures
      std::map<size_t, Error> errors;
      for (; inputs.size() < runner_.most_inputs() && next < pictures.size(); ++next) {
        const std::string& path = pictures[next];
        const Result<Image> picture = read_image(path_of(path));
        Result<EncoderInput> input =
            picture.ok() ? runner_.read(*picture, path) : Result<EncoderInput>(picture.error());
        if (input.ok()) {
          inputs.push_back(*std::move(input));
          numbers.push_back(next);
        } else {
          errors.emplace(next, std::move(input).error());
        }
      }
      const auto tell_before = [&](size_t number) -> Status {
        for (auto at = errors.begin(); at != errors.end() && at->first < number; at = errors.erase(at)) {
          bar.erase();
          print_part_error(at->second.text());
          PUMICE_CHECK(bad(at->first, at->second));
        }
        return {};
      };
      const auto take_row = [&](size_t i, std::vector<float> row) -> Status {
        bar.erase();
        PUMICE_CHECK(tell_before(numbers[i]));
        return take(numbers[i], std::move(row));
      };
      const auto progress = [&](uint64_t, uint64_t) {
        return bar.update(next - inputs.size(), pictures.size());
      };
      PUMICE_CHECK(runner_.run(inputs, take_row, progress));
      PUMICE_CHECK(tell_before(next));
    }
    return {};
  });
}

Status TaskInputs::finish() const {
  const InputRunner::Figures& figures = runner_.figures();
  if (figures.cut) {
    const char* what =
        runner_.limit() == runner_.source().shape().context ? "the model's context" : "the most";
    print_note(fmt::format("{} {} longer than {} of {} tokens and cut off there",
                           counted(figures.cut, "line"), figures.cut == 1 ? "was" : "were", what,
                           runner_.limit()));
  }
  if (figures.inputs == 0 && exit_status() != 0) return device_.save_pipelines(); // no line could be used
  const std::string took = seconds() > 0 ? fmt::format(", {:.3f} s", seconds()) : "";
  print_figures(fmt::format("{} ({})\n{}{}, {}, {}{}{}\n", device_.name(), device_.driver(), compiled_text(),
                            counted(figures.inputs, "line"), counted(figures.tokens, "token"),
                            counted(figures.steps, "step"), took, rate_text(figures.tokens, seconds())));
  return device_.save_pipelines();
}

Status check_any(const TaskModel& model, std::span<const std::string> pictures) {
  Status first;
  for (const std::string& path : pictures) {
    const Result<Image> picture = read_image(path_of(path));
    const auto values = picture.ok() ? prepare(*picture, *model.preparation, path)
                                     : Result<std::vector<float>>(picture.error());
    if (values.ok()) return {};
    if (first.ok()) first = values.error();
  }
  return first;
}

} // namespace pumice::command
