#include "task/generated_text.h"

namespace pumice {

SamplingParams usual_sampling() {
  SamplingParams usual;
  usual.temperature = 0.8f;
  usual.top_k = 40;
  usual.top_p = 0.95f;
  usual.min_p = 0.05f;
  return usual;
}

} // namespace pumice
