#pragma once

#include <functional>
#include <string>

#include "api/handles.h"
#include "task/input_runner.h"

// What the functions of embedders, rerankers, classifiers and indexes have in common.
namespace pumice::api {

inline std::string text_or_empty(const char* text) {
  return text ? text : "";
}

// How vectors of tokens become one; empty: as the model's settings say.
Result<std::string> read_pooling(const char* name);

// An error if the model is a decoder that was not loaded for this. `purpose`: the value that it takes.
Status check_purpose(const pumice_model& model, pumice_purpose purpose);

// An error if the head of a masked language model was not loaded.
Status check_head(const pumice_model& model);

using ReadText = std::function<Result<EncoderInput>(const std::string& text, const std::string& name)>;
// The application's texts as inputs. `cut`, which may be null: how many of them were too long.
Result<std::vector<EncoderInput>> read_texts(const InputRunner& runner, const char* const* texts,
                                             size_t count, size_t* cut, const ReadText& read);
// And runs them.
Status run_texts(InputRunner& runner, const char* const* texts, size_t count, size_t* cut,
                 const ReadText& read, const InputRunner::Take& take);
// The same of texts that are several inputs each.
using ReadParts =
    std::function<Result<std::vector<EncoderInput>>(const std::string& text, const std::string& name)>;
Status run_parts(InputRunner& runner, const char* const* texts, size_t count, const char* name,
                 const ReadParts& read, const InputRunner::Take& take);
Status run_pictures(InputRunner& runner, const pumice_picture* pictures, size_t count,
                    const InputRunner::Take& take);

// Writes rows of one size after each other.
inline InputRunner::Take write_rows(float* to, std::function<std::vector<float>(std::vector<float>)> finish) {
  return [=](size_t index, std::vector<float> row) -> Status {
    const std::vector<float> values = finish(std::move(row));
    std::copy(values.begin(), values.end(), to + index * values.size());
    return {};
  };
}

} // namespace pumice::api
