#include "generate.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "input_stream.h"
#include "prompt.h"
#include "requests.h"

// The prompts of `pumice generate`.
namespace pumice::command {

namespace {

// The mask of prompt_ids: 0 is padding. If the file has input_ids, its attention_mask is for those instead.
Result<IdTable> read_mask(const SafetensorsFile& file, const std::string& path, const IdTable& ids) {
  const bool own = file.find("prompt_mask");
  IdTable mask = ids;
  std::ranges::fill(mask.values, 1);
  if (own || (file.find("attention_mask") && !file.find("input_ids"))) {
    PUMICE_TRY(mask, read_table(file, path, own ? "prompt_mask" : "attention_mask"));
  }
  if (mask.rows != ids.rows || mask.columns != ids.columns) {
    return Error{Code::invalid_file,
                 fmt::format("{}: expected the shape of prompt_ids, [{}, {}]; found [{}, {}]", mask.source,
                             ids.rows, ids.columns, mask.rows, mask.columns)};
  }
  return mask;
}

// "--ids", or "--ids 2" if there are several prompts.
std::string numbered(const char* option, size_t index, size_t count) {
  return count > 1 ? fmt::format("{} {}", option, index + 1) : option;
}

// A prompt that is continued as the options say.
Text make_text(const GenerateOptions& options, std::string source) {
  Text text{std::move(source), {}, {}};
  text.samples = options.samples;
  text.count = options.count;
  text.stops = options.stops;
  text.sampling = options.sampling.params;
  return text;
}

Result<Text> text_of_request(const GenerateOptions& options, const Request& request,
                             const MaybeTokenizer& tokenizer) {
  Text text = make_text(options, request.source);
  if (request.prompt) {
    if (!tokenizer.ok()) return tokenizer.error();
    PUMICE_TRY(text.prompt, encode_prompt(**tokenizer, *request.prompt, request.source));
  } else {
    text.prompt = request.ids;
  }
  text.id = request.id;
  text.samples = request.samples.value_or(text.samples);
  text.count = request.count.value_or(text.count);
  text.stops = request.stops.value_or(text.stops);
  text.sampling = request.sampling;
  text.seed = request.seed;
  return text;
}

} // namespace

Result<std::vector<Text>> read_prompt_tensors(const GenerateOptions& options) {
  const std::string& path = options.inputs;
  PUMICE_TRY(SafetensorsFile file, SafetensorsFile::open(path));
  PUMICE_TRY(const IdTable table, read_table(file, path, "prompt_ids"));
  PUMICE_TRY(const IdTable mask, read_mask(file, path, table));
  std::vector<Text> texts(table.rows, make_text(options, ""));
  for (uint64_t i = 0; i < table.values.size(); ++i) {
    if (!mask.values[i]) continue;
    const int64_t id = table.values[i];
    if (id < 0 || id > UINT32_MAX) {
      return Error{Code::invalid_file, fmt::format("{}: {} is not the id of a token", table.source, id)};
    }
    texts[i / table.columns].prompt.push_back(static_cast<uint32_t>(id));
  }
  for (size_t row = 0; row < texts.size(); ++row) {
    texts[row].source = texts.size() > 1 ? fmt::format("{}: row {}", table.source, row) : table.source;
  }
  return texts;
}

Result<std::vector<Text>> read_prompts(const GenerateOptions& options, const MaybeTokenizer& tokenizer) {
  std::vector<Text> texts;
  for (const std::string& ids : options.ids) {
    Text text = make_text(options, numbered("--ids", texts.size(), options.ids.size()));
    PUMICE_TRY(text.prompt, parse_ids(ids, text.source));
    texts.push_back(std::move(text));
  }
  const bool reads_text = !options.prompts.empty() || !options.files.empty();
  if (reads_text && !tokenizer.ok()) return tokenizer.error();
  for (const std::string& prompt : options.prompts) {
    Text text = make_text(options, numbered("--prompt", texts.size(), options.prompts.size()));
    PUMICE_TRY(text.prompt, encode_prompt(**tokenizer, prompt, text.source));
    texts.push_back(std::move(text));
  }
  for (const std::string& file : options.files) {
    Text text = make_text(options, input_name(file));
    PUMICE_TRY(const std::string prompt, read_text(file));
    PUMICE_TRY(text.prompt, encode_prompt(**tokenizer, prompt, text.source));
    texts.push_back(std::move(text));
  }
  if (options.requests.empty()) return texts;
  PUMICE_TRY(const std::vector<Request> requests, read_requests(options.requests, options.sampling.params));
  for (const Request& request : requests) {
    PUMICE_TRY(Text text, text_of_request(options, request, tokenizer));
    texts.push_back(std::move(text));
  }
  return texts;
}

std::vector<Text> with_samples(std::vector<Text> prompts, uint64_t seed) {
  std::vector<Text> texts;
  std::map<std::vector<uint32_t>, uint64_t> seen; // texts of each prompt so far, however it was given
  for (size_t index = 0; index < prompts.size(); ++index) {
    Text& prompt = prompts[index];
    uint64_t next = prompt.seed ? *prompt.seed : seed + seen[prompt.prompt];
    if (!prompt.seed) seen[prompt.prompt] += prompt.samples;
    for (uint32_t sample = 0; sample < prompt.samples; ++sample) {
      Text& text = texts.emplace_back(prompt);
      text.index = index;
      text.sample = sample;
      text.sampling.seed = next++;
    }
  }
  return texts;
}

} // namespace pumice::command
