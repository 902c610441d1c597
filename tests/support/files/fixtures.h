#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <doctest/doctest.h>

// Small models and what a reference makes of them: tests/README.md. There is the repository's own set, and
// another, made by others, where PUMICE_FIXTURES or ../shared/fixtures beside the checkout is a folder.
class FixtureSet {
public:
  // `made`: the weights are not stored; they are made of the descriptions under `folder` when asked for.
  FixtureSet(std::filesystem::path folder, bool made) : folder_(std::move(folder)), made_(made) {}

  const std::filesystem::path& folder() const { return folder_; }

  // A folder with config.json, model.safetensors, expected.safetensors, and model.gguf if it has a GGUF form;
  // NAME/FILE is a file in it.
  std::filesystem::path model(const std::string& name) const;
  // A file NAME.gguf, with NAME.expected.safetensors beside it.
  std::filesystem::path gguf(const std::string& name) const;
  // The same of a model that was trained, in float numbers: stories of 260 thousand parameters.
  std::filesystem::path story() const { return gguf(made_ ? "stories260K-F16" : "stories260K-F32"); }
  // A folder with tokenizer.json and cases.json.
  std::filesystem::path tokenizer(const std::string& name) const { return folder_ / "tokenizers" / name; }

  // Every name, in order.
  std::vector<std::string> models() const;
  std::vector<std::string> ggufs() const;

private:
  std::filesystem::path folder_;
  bool made_;
};

// The answers that stand beside a GGUF file.
inline std::filesystem::path expected_of(std::filesystem::path gguf) {
  return gguf.replace_extension(".expected.safetensors");
}

// The repository's own set first.
const std::vector<FixtureSet>& fixture_sets();

// The set of the running FIXTURE_TEST_CASE; in any other test case the repository's own.
const FixtureSet& fixtures();

void for_each_fixture_set(void (*body)());

// A test case that runs once for each set.
#define FIXTURE_TEST_CASE(name) FIXTURE_TEST_CASE_OF(DOCTEST_ANONYMOUS(fixture_case_), name)
#define FIXTURE_TEST_CASE_OF(body, name)                                                                     \
  static void body();                                                                                        \
  TEST_CASE(name) {                                                                                          \
    for_each_fixture_set(body);                                                                              \
  }                                                                                                          \
  static void body()
