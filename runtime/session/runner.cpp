#include "session/runner.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "plan/profile.h"
#include "shaders/common/step.h"

namespace pumice {

Result<std::unique_ptr<Runner>> Runner::create(std::shared_ptr<const Model> model, RunnerOptions options) {
  const uint32_t longest = model->shape().context;
  if (options.size.context > longest) {
    return Error{Code::invalid_argument,
                 fmt::format("{}: a context of {} tokens was asked for, and the model was "
                             "made for {}",
                             model->file().path(), options.size.context, longest)};
  }
  if (options.size.sequences == 0) {
    return Error{Code::invalid_argument, "a session of 0 sequences: expected at least one"};
  }
  std::unique_ptr<Runner> runner(new Runner(std::move(model), std::move(options)));
  PUMICE_CHECK(runner->plan_all());
  PUMICE_CHECK(runner->allocate());
  return runner;
}

Status Runner::plan_all() {
  memory_ = plan_memory(model_->shape(), model_->context(), options_.size);
  const uint64_t limit = model_->context().device->capabilities().max_storage_range_bytes;
  for (size_t layer = 0; layer < memory_.caches.size(); ++layer) {
    const uint64_t bytes = memory_.caches[layer].keys.bytes;
    if (bytes <= limit) continue;
    return Error{Code::unsupported,
                 fmt::format("{}: a context of {} tokens takes {} bytes of keys for layer {}, and this "
                             "device's kernels can reach {}: ask for a shorter one",
                             model_->file().path(), memory_.size.context, bytes, layer, limit)};
  }
  PUMICE_TRY(graph_, model_->graph(options_.sampling, options_.kept, memory_.size.context));
  const PlanContext context = memory_.plan_context(model_->context(), model_->weights());
  for (const Bucket& bucket : step_buckets(memory_.size, options_.all_outputs)) {
    PUMICE_TRY(Plan plan, make_plan(graph_, context, bucket));
    buckets_.emplace(bucket.tokens, Bucketed{std::move(plan), nullptr});
  }
  return {};
}

Status Runner::allocate() {
  const std::shared_ptr<Device>& device = model_->context().device;
  uint64_t scratch = 0, outputs = 0;
  for (const auto& [tokens, bucket] : buckets_) {
    scratch = std::max(scratch, bucket.plan.scratch_bytes);
    outputs = std::max(outputs, bucket.plan.output_bytes);
  }
  for (uint64_t bytes : memory_.cache_part_bytes) {
    PUMICE_TRY(Buffer part, Buffer::create(device, bytes, MemoryUse::device));
    caches_.push_back(std::move(part));
  }
  PUMICE_TRY(scratch_, Buffer::create(device, scratch, MemoryUse::device));
  PUMICE_TRY(step_, Buffer::create(device, memory_.step.bytes, MemoryUse::shared));
  PUMICE_TRY(sampling_, Buffer::create(device, memory_.sampling.bytes, MemoryUse::shared));
  if (outputs) {
    PUMICE_TRY(outputs_, Buffer::create(device, outputs, MemoryUse::shared));
  }
  std::memset(step_.mapped().data(), 0, step_.mapped().size());
  std::memset(sampling_.mapped().data(), 0, sampling_.mapped().size());
  return {};
}

uint64_t Runner::device_bytes() const {
  uint64_t sum =
      scratch_.memory_bytes() + step_.memory_bytes() + sampling_.memory_bytes() + outputs_.memory_bytes();
  for (const Buffer& part : caches_) sum += part.memory_bytes();
  return sum;
}

bool Runner::can_resume(uint32_t position, uint32_t written_end) const {
  return std::ranges::all_of(
      memory_.caches, [&](const CacheRef& cache) { return cache.layout.can_resume(position, written_end); });
}

const Buffer& Runner::buffer(const BufferRef& ref) const {
  switch (ref.space) {
  case Space::step:
    return step_;
  case Space::results:
    return sampling_;
  case Space::scratch:
    return scratch_;
  case Space::inputs:
    return inputs_;
  case Space::outputs:
    return outputs_;
  case Space::cache:
    return caches_[ref.part];
  case Space::weights:
    return model_->weight_part(ref.part);
  }
  return scratch_;
}

Runner::Bucketed& Runner::bucket_for(uint32_t tokens) {
  return buckets_.lower_bound(tokens)->second;
}

Result<const Plan*> Runner::plan(uint32_t tokens) {
  if (tokens < 1 || tokens > memory_.size.chunk) {
    return Error{Code::invalid_argument,
                 fmt::format("a step of {} tokens: expected 1 to {}", tokens, memory_.size.chunk)};
  }
  return static_cast<const Plan*>(&bucket_for(tokens).plan);
}

Status Runner::prepare(uint32_t tokens) {
  Bucketed& bucket = bucket_for(tokens);
  if (bucket.recording) return {};
  PUMICE_TRY(Recording recording,
             Recording::create(model_->context(), bucket.plan,
                               [this](const BufferRef& ref) -> const Buffer& { return buffer(ref); }));
  bucket.recording = std::make_unique<Recording>(std::move(recording));
  return {};
}

Status Runner::write_step(std::span<const StepToken> rows) {
  const uint32_t capacity = memory_.size.chunk;
  if (rows.empty() || rows.size() > capacity) {
    return Error{Code::invalid_argument,
                 fmt::format("a step of {} tokens: expected 1 to {}", rows.size(), capacity)};
  }
  for (const StepToken& row : rows) {
    if (const uint32_t token = std::max(row.token, row.target); token >= model_->shape().vocabulary) {
      return Error{Code::invalid_argument,
                   fmt::format("{}: token {} is not in the vocabulary of {}", model_->file().path(), token,
                               model_->shape().vocabulary)};
    }
    if (row.position >= memory_.size.context || row.sequence >= memory_.size.sequences) {
      return Error{Code::invalid_argument,
                   fmt::format("position {} of sequence {} is outside the session's {} "
                               "positions of {} sequences",
                               row.position, row.sequence, memory_.size.context, memory_.size.sequences)};
    }
  }
  const auto wanted = static_cast<uint64_t>(std::ranges::count_if(rows, &StepToken::output));
  if (const uint32_t most = bucket_for(static_cast<uint32_t>(rows.size())).plan.bucket.outputs;
      wanted > most) {
    return Error{
        Code::invalid_argument,
        fmt::format("a step of {} tokens with {} outputs: expected at most {}", rows.size(), wanted, most)};
  }
  PUMICE_CHECK(wait(last_submission_));
  auto* quads = reinterpret_cast<uint32_t*>(step_.mapped().data());
  uint32_t outputs = 0;
  for (uint32_t i = 0; i < rows.size(); ++i) {
    uint32_t* quad = quads + (STEP_HEADER_QUADS + i) * 4;
    quad[0] = rows[i].token;
    quad[1] = rows[i].position;
    quad[2] = rows[i].sequence;
    quad[3] = rows[i].first;
    if (!rows[i].output) continue;
    uint32_t* output = quads + (STEP_HEADER_QUADS + capacity + outputs++) * 4;
    output[0] = i;
    output[1] = rows[i].target;
  }
  quads[0] = static_cast<uint32_t>(rows.size());
  quads[1] = outputs;
  return {};
}

Result<uint64_t> Runner::submit(uint32_t tokens) {
  PUMICE_CHECK(prepare(tokens));
  last_tokens_ = tokens;
  PUMICE_TRY(last_submission_, bucket_for(tokens).recording->submit());
  return last_submission_;
}

Result<std::vector<double>> Runner::profile(uint32_t tokens) {
  return pumice::profile(model_->context(), bucket_for(tokens).plan,
                         [this](const BufferRef& ref) -> const Buffer& { return buffer(ref); });
}

uint32_t Runner::columns(const std::string& name) const {
  for (const KeptTensor& kept : buckets_.begin()->second.plan.kept) {
    if (kept.name == name) return kept.where.columns;
  }
  return 0;
}

Result<std::vector<float>> Runner::read(const std::string& name, uint32_t rows) const {
  // The last step's bucket decides where the tensor lies.
  const Plan& plan = buckets_.lower_bound(last_tokens_)->second.plan;
  PUMICE_CHECK(wait(last_submission_));
  for (const KeptTensor& kept : plan.kept) {
    if (kept.name != name) continue;
    std::vector<float> values(size_t{rows} * kept.where.columns);
    for (uint32_t row = 0; row < rows; ++row) {
      std::memcpy(values.data() + size_t{row} * kept.where.columns,
                  outputs_.mapped().data() + kept.where.buffer.offset + size_t{row} * kept.where.stride * 4,
                  size_t{kept.where.columns} * 4);
    }
    return values;
  }
  return Error{Code::invalid_argument, fmt::format("the tensor '{}' was not kept", name)};
}

} // namespace pumice
