#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "open_device.h"
#include "options.h"
#include "prompt.h"
#include "session/runner.h"
#include "subcommand.h"
#include "terminal.h"

namespace pumice::command {

namespace {

struct EvalOptions {
  std::string model;
  std::string inputs;
  std::string outputs;
  std::vector<std::string> names;
  DeviceOptions device;
  SizeOptions size;
};

// A sequence of a batch without its padding: tokens, and the column that each came from.
struct Sequence {
  std::vector<uint32_t> ids;
  std::vector<uint64_t> columns;
};

struct Batch {
  uint64_t columns = 0;
  std::vector<Sequence> rows;

  uint64_t longest() const {
    uint64_t longest = 0;
    for (const Sequence& row : rows) longest = std::max<uint64_t>(longest, row.ids.size());
    return longest;
  }
};

Result<Batch> read_batch(const std::string& path, uint32_t vocabulary) {
  PUMICE_TRY(SafetensorsFile file, SafetensorsFile::open(path));
  PUMICE_TRY(IdTable ids, read_table(file, path, "input_ids"));
  IdTable mask = ids;
  std::fill(mask.values.begin(), mask.values.end(), 1);
  if (file.find("attention_mask")) {
    PUMICE_TRY(mask, read_table(file, path, "attention_mask"));
  }
  if (mask.rows != ids.rows || mask.columns != ids.columns) {
    return Error{Code::invalid_file,
                 fmt::format("{}: expected the shape of input_ids, [{}, {}]; found [{}, {}]", mask.source,
                             ids.rows, ids.columns, mask.rows, mask.columns)};
  }
  Batch batch{ids.columns, std::vector<Sequence>(ids.rows)};
  for (uint64_t i = 0; i < ids.values.size(); ++i) {
    if (!mask.values[i]) continue;
    const uint64_t row = i / ids.columns, column = i % ids.columns;
    if (ids.values[i] < 0 || ids.values[i] >= vocabulary) {
      return Error{Code::invalid_argument,
                   fmt::format("{}: element [{}, {}] is not in the vocabulary: expected 0 to {}; found {}",
                               ids.source, row, column, vocabulary - 1, ids.values[i])};
    }
    batch.rows[row].ids.push_back(static_cast<uint32_t>(ids.values[i]));
    batch.rows[row].columns.push_back(column);
  }
  return batch;
}

// An output of the whole batch, [rows, columns, width], or of attention weights [rows, heads, columns,
// columns]. Zeros where there is padding.
struct Output {
  std::string name;
  uint64_t width = 0; // of what the runner gives for a token
  uint64_t heads = 0; // 0: no attention weights
  std::vector<float> values;

  std::vector<uint64_t> shape(const Batch& batch) const {
    if (heads) return {batch.rows.size(), heads, batch.columns, batch.columns};
    return {batch.rows.size(), batch.columns, width};
  }
};

Output make_output(const Runner& runner, const Batch& batch, const std::string& name) {
  Output output{name, runner.columns(name), 0, {}};
  if (name.starts_with("attentions.")) output.heads = output.width / runner.size().context;
  uint64_t count = 1;
  for (uint64_t size : output.shape(batch)) count *= size;
  output.values.resize(count);
  return output;
}

// Puts what the runner gave for token `index` of a row in its place. Keys go to the columns they came from
// too.
void place(Output& output, const Batch& batch, uint64_t row, size_t index, std::span<const float> values) {
  const std::vector<uint64_t>& columns = batch.rows[row].columns;
  if (!output.heads) {
    const uint64_t at = (row * batch.columns + columns[index]) * output.width;
    std::copy(values.begin(), values.end(), output.values.begin() + static_cast<ptrdiff_t>(at));
    return;
  }
  const uint64_t context = output.width / output.heads;
  for (uint64_t head = 0; head < output.heads; ++head) {
    const uint64_t at = ((row * output.heads + head) * batch.columns + columns[index]) * batch.columns;
    for (size_t key = 0; key < columns.size(); ++key) {
      output.values[at + columns[key]] = values[head * context + key];
    }
  }
}

// A token of the batch.
struct Place {
  uint64_t row = 0;
  size_t index = 0; // in its sequence
};

Status run_step(Runner& runner, const Batch& batch, std::span<const Place> tokens, uint64_t first_row,
                std::vector<Output>& outputs) {
  std::vector<StepToken> step;
  for (const Place& token : tokens) {
    step.push_back({batch.rows[token.row].ids[token.index], static_cast<uint32_t>(token.index),
                    static_cast<uint32_t>(token.row - first_row), 0, true});
  }
  const uint32_t count = static_cast<uint32_t>(step.size());
  if (interrupted()) return interruption();
  PUMICE_CHECK(runner.write_step(step));
  PUMICE_TRY(uint64_t submitted, runner.submit(count));
  PUMICE_CHECK(runner.wait(submitted));
  for (Output& output : outputs) {
    PUMICE_TRY(std::vector<float> values, runner.read(output.name, count));
    for (uint32_t i = 0; i < count; ++i) {
      place(output, batch, tokens[i].row, tokens[i].index,
            std::span(values).subspan(i * output.width, output.width));
    }
  }
  return {};
}

// The rows are the runner's sequences, as many at once as it has, and share its steps.
Status run_batch(Runner& runner, const Batch& batch, std::vector<Output>& outputs, ProgressBar& bar) {
  const uint64_t together = runner.size().sequences;
  for (uint64_t first_row = 0; first_row < batch.rows.size(); first_row += together) {
    const uint64_t end_row = std::min<uint64_t>(first_row + together, batch.rows.size());
    std::vector<Place> tokens;
    for (uint64_t row = first_row; row < end_row; ++row) {
      for (size_t i = 0; i < batch.rows[row].ids.size(); ++i) tokens.push_back({row, i});
    }
    for (size_t first = 0; first < tokens.size(); first += runner.size().chunk) {
      const size_t count = std::min<size_t>(runner.size().chunk, tokens.size() - first);
      PUMICE_CHECK(run_step(runner, batch, std::span(tokens).subspan(first, count), first_row, outputs));
    }
    bar.update(end_row, batch.rows.size());
  }
  return {};
}

Status write_outputs(const std::string& path, const Batch& batch, const std::vector<Output>& outputs) {
  std::vector<SafetensorsFile::Entry> entries;
  for (const Output& output : outputs) {
    entries.push_back({output.name, "F32", output.shape(batch), std::as_bytes(std::span(output.values))});
  }
  return write_safetensors(path, entries);
}

Status eval(const EvalOptions& options) {
  PUMICE_TRY(ModelFile file, ModelFile::open(options.model));
  PUMICE_TRY(std::unique_ptr<Definition> definition, open_definition(file));
  const ModelShape shape = definition->shape();
  PUMICE_TRY(Batch batch, read_batch(options.inputs, shape.vocabulary));
  const uint64_t limit = options.size.context ? options.size.context : shape.context;
  if (batch.longest() > limit) {
    return Error{Code::invalid_argument,
                 fmt::format("{}: tensor 'input_ids': expected at most {} tokens, the context; found {}",
                             options.inputs, limit, batch.longest())};
  }
  RunnerOptions runner_options;
  runner_options.size = session_size(options.size, shape);
  if (!options.size.context)
    runner_options.size.context = static_cast<uint32_t>(std::max<uint64_t>(batch.longest(), 1));
  // More would not fit one step.
  runner_options.size.sequences =
      static_cast<uint32_t>(std::min<uint64_t>(batch.rows.size(), runner_options.size.chunk));
  runner_options.sampling = false;
  runner_options.all_outputs = true;
  runner_options.kept = {"logits"};
  for (const std::string& name : options.names) {
    if (std::count(runner_options.kept.begin(), runner_options.kept.end(), name) == 0) {
      runner_options.kept.push_back(name);
    }
  }

  PUMICE_TRY(OpenedDevice device, open_device(options.device));
  PUMICE_TRY(std::shared_ptr<const Model> model, load_model(std::move(file), device, options.size.load));
  PUMICE_TRY(std::unique_ptr<Runner> runner, Runner::create(model, runner_options));
  std::vector<Output> outputs;
  for (const std::string& name : runner_options.kept) outputs.push_back(make_output(*runner, batch, name));
  ProgressBar bar("evaluating");
  PUMICE_CHECK(run_batch(*runner, batch, outputs, bar));
  bar.erase();
  PUMICE_CHECK(write_outputs(options.outputs, batch, outputs));
  fmt::print(stderr, "{} ({})\n", device.name(), device.driver());
  return device.save_pipelines();
}

} // namespace

Subcommand add_eval(CLI::App& app) {
  CLI::App* sub = app.add_subcommand("eval", "Run one forward pass on the tensors of a file");
  auto options = std::make_shared<EvalOptions>();
  sub->add_option("MODEL", options->model, "A GGUF file or a Hugging Face folder")->required();
  sub->add_option(
         "--inputs", options->inputs,
         "A safetensors file with 'input_ids' [batch, tokens], and 'attention_mask' where there is padding")
      ->type_name("FILE")
      ->required()
      ->group("Tensors");
  sub->add_option("--outputs", options->outputs, "The safetensors file to write, with 'logits' in it")
      ->type_name("FILE")
      ->required()
      ->group("Tensors");
  sub->add_option("--output", options->names, "Another output to write: hidden_states.N or attentions.N")
      ->type_name("NAME")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->group("Tensors");
  add_size_options(*sub, options->size, "f32");
  add_device_options(*sub, options->device);
  sub->footer(example("pumice eval model.gguf --inputs in.safetensors --outputs out.safetensors "
                      "--output hidden_states.0"));
  return {sub, [options] { return eval(*options); }};
}

} // namespace pumice::command
