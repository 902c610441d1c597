#pragma once

#include "subcommand.h"

namespace pumice::command {

// Checks, before any work, that each file that a subcommand will write can be written, and that none of them
// is a file that it reads (a model's folder: one of the model's files) or writes twice. Files are compared by
// what they are on the disk, not by their names.
Status check_files(const CLI::App& app, const FileOptions& options);

} // namespace pumice::command
