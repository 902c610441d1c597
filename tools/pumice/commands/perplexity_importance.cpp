#include <fmt/format.h>

#include "commands/perplexity.h"
#include "input/input_stream.h"
#include "options/subcommand.h"
#include "output/output_files.h"
#include "task/quality/input_sums.h"
#include "terminal/counted.h"
#include "terminal/terminal.h"

namespace pumice::command {

Status write_importance(const PerplexityOptions& options, MeasuredFile file, const TextWindows& windows) {
  PUMICE_CHECK(check_files({{"MODEL", path_of(options.model)}, {"FILE", path_of(options.text)}},
                           {{"--imatrix-out", path_of(options.importance)}}));
  file.size.context = windows.length;
  PUMICE_TRY(OpenedDevice device, open_device(options.device));
  PUMICE_TRY(std::shared_ptr<const Model> model,
             load_model(std::move(file.opened), device, options.size.load, &options.size));
  PUMICE_TRY(const std::unique_ptr<InputSums> sums, InputSums::create(std::move(model), file.size));
  const SavedWork saved; // the windows until Ctrl-C
  ProgressBar bar("reading");
  uint32_t done = 0;
  const auto read_all = [&]() -> Status {
    for (; done < windows.count; ++done) {
      if (!bar.update(done, windows.count)) return interruption();
      PUMICE_CHECK(sums->read(windows.window(done)));
    }
    return {};
  };
  const Status status = read_all();
  bar.erase();
  if (done > 0) {
    PUMICE_CHECK(sums->write(path_of(options.importance), input_name(options.text)));
    if (!status.ok())
      print_note(fmt::format("{} has the first {} of {} windows", options.importance, done, windows.count));
  }
  PUMICE_CHECK(status);
  if (options.json) {
    Json json = {{"path", options.importance}, {"matrices", sums->matrices()}, {"tokens", sums->tokens()}};
    add_device(json, device);
    print_json(json);
  } else {
    print_result(fmt::format("{}: {} matrices of {}, over {}\n", options.importance, sums->matrices(),
                             options.model, counted(sums->tokens(), "token")));
  }
  return device.save_pipelines();
}

} // namespace pumice::command
