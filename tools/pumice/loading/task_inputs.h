#pragma once

#include <algorithm>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "input/waiting_lines.h"
#include "loading/open_device.h"
#include "options/options.h"
#include "task/input_runner.h"

namespace pumice::command {

struct LineOptions {
  std::string model;
  RunOptions run;
  DeviceOptions device;
  LoadOptions load;
};
void add_line_options(CLI::App& app, LineOptions& options);

// Adds --ids: token ids that are read in the place of texts.
void add_ids_option(CLI::App& app, std::vector<std::string>& ids);

// Reads the lines and the pictures of a command for a task of the library, and counts what is computed.
class TaskInputs {
public:
  TaskInputs(const OpenedDevice& device, InputRunner& runner) : device_(device), runner_(runner) {}

  using Read = std::function<Result<EncoderInput>(const std::string& text, const std::string& name)>;
  // Receives a line and its row of the task's tensor.
  using Take = std::function<Status(const Line& line, std::vector<float> row)>;
  // What reads ids in the place of texts.
  Read ids() const;
  // The results come in the order of the lines, after each step. A line that cannot be used is rejected when
  // its turn comes (WaitingLines::reject).
  Status run(WaitingLines& lines, const Read& read, const Take& take);
  // The same of lines that are several inputs each: the rows of all of them, one after the other.
  using ReadParts =
      std::function<Result<std::vector<EncoderInput>>(const std::string& text, const std::string& name)>;
  Status run_parts(WaitingLines& lines, const ReadParts& read, const Take& take);

  // Receives a picture's index and its row.
  using TakePicture = InputRunner::Take;
  // Receives the index of a picture that cannot be read, of which was told, when its turn comes.
  using BadPicture = std::function<Status(size_t index, const Error& error)>;
  // The results come in the order of the pictures.
  Status run(std::span<const std::string> pictures, const char* doing, const TakePicture& take,
             const BadPicture& bad);

  // Runs `work`, whose steps the runner counts, and shows a progress bar.
  Status watch(const char* doing, const std::function<Status(ProgressBar& bar)>& work);

  // Without those of kernels, of which several are compiled at a time.
  double seconds() const { return std::max(runner_.figures().seconds - compiling_, 0.0); }
  // Prints the figures of lines on standard error, and saves the compiled pipelines.
  Status finish() const;

private:
  const OpenedDevice& device_;
  InputRunner& runner_;
  double compiling_ = 0;      // seconds of the steps
  bool unknown_told_ = false; // that a text is mostly of unknown tokens
};

// An error, before the model is loaded, if no picture can be used.
Status check_any(const TaskModel& model, std::span<const std::string> pictures);

} // namespace pumice::command
