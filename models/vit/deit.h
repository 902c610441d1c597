#pragma once

#include "models/vit/vit.h"

namespace pumice {

Result<VitConfig> read_deit_config(const Settings& settings);

} // namespace pumice
