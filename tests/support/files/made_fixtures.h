#pragma once

#include <filesystem>

// The repository's own fixtures, of which the weights are made from a seed. A description that is wrong fails
// the test.

// Of a folder with weights.json, and gguf.json where it has a GGUF form: tests/README.md says what is in
// them.
void make_model_fixture(const std::filesystem::path& description, const std::filesystem::path& folder);

// Of a file such as gguf/random-Q4_0.json.
void make_gguf_fixture(const std::filesystem::path& description, const std::filesystem::path& file);
