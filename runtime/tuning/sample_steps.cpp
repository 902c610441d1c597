#include "tuning/sample_steps.h"

#include <algorithm>
#include <cstring>
#include <random>

#include "step/patch_order.h"

namespace pumice {

namespace {

// Bits that make sense in a cache of any type: as halves, they are from 1/8 to 1 with either sign; as floats,
// small numbers; as quantised blocks, ordinary codes and scales.
std::vector<uint16_t> plausible_halves(size_t count) {
  std::mt19937 random(1);
  std::vector<uint16_t> halves(count);
  for (uint16_t& half : halves) {
    const uint32_t bits = static_cast<uint32_t>(random());
    half = static_cast<uint16_t>((bits & 0x8000) | (0x3000 + bits % 0x0c00));
  }
  return halves;
}

Status fill(const DeviceContext& context, const Buffer& buffer, DeviceWork& work) {
  constexpr uint64_t most_bytes = 1 << 20;
  const uint64_t block = std::min<uint64_t>(most_bytes, buffer.size() / 4 * 4);
  if (block == 0) return {};
  const std::vector<uint16_t> halves = plausible_halves(block / 2);
  PUMICE_TRY(Buffer staging, Buffer::create(context.device, block, MemoryUse::upload, "sample step staging"));
  std::memcpy(staging.mapped().data(), halves.data(), block);
  std::vector<WorkPiece> pieces;
  for (uint64_t at = 0; at < buffer.size() / 4 * 4; at += block) {
    const uint64_t bytes = std::min(block, buffer.size() / 4 * 4 - at);
    pieces.push_back(
        {context.profile.speed.copy_seconds(bytes), [&staging, &buffer, at, bytes](Commands& commands) {
           commands.copy(staging, 0, buffer, at, bytes);
           return Status();
         }});
  }
  PUMICE_CHECK(work.run(pieces));
  return {};
}

Result<std::shared_ptr<const Caches>> filled_caches(const Model& model, const SessionSize& size,
                                                    DeviceWork& work) {
  const DeviceContext& context = model.context();
  const SessionMemory memory = model.lay_out_memory(size);
  PUMICE_TRY(std::shared_ptr<const Caches> caches, Caches::create(context.device, memory));
  for (uint32_t i = 0; i < memory.cache_allocation_bytes.size(); ++i) {
    PUMICE_CHECK(fill(context, caches->allocation(i), work));
  }
  return caches;
}

} // namespace

Result<SampleSteps> SampleSteps::create(std::shared_ptr<const Model> model, ModelPart part, SessionSize size,
                                        DeviceWork& work) {
  RunnerOptions options;
  options.part = part;
  options.sampling = part == ModelPart::decoder;
  options.size = size;
  const ModelShape& shape = model->shape();
  if (part == ModelPart::encoder) {
    options.size.chunk = shape.encoder->context;
    options.size.sequences = 1;
  } else {
    PUMICE_TRY(options.caches, filled_caches(*model, size, work));
  }
  PUMICE_TRY(std::unique_ptr<Runner> runner, Runner::create(model, options));
  for (uint32_t i = 0; part == ModelPart::decoder && shape.encoder && i < runner->size().sequences; ++i) {
    PUMICE_CHECK(runner->set_input(i, {0, runner->size().input_positions}));
  }
  return SampleSteps(std::move(runner), part, work);
}

std::vector<uint32_t> SampleSteps::sizes() const {
  std::vector<uint32_t> sizes;
  for (const Bucket& bucket : part_ == ModelPart::encoder ? encoder_buckets(*shape().encoder, runner_->size())
                                                          : step_buckets(runner_->size(), false)) {
    if (fits(bucket.tokens)) sizes.push_back(bucket.tokens);
  }
  return sizes;
}

bool SampleSteps::fits(uint32_t tokens) const {
  if (part_ == ModelPart::decoder)
    return tokens <= (several() ? runner_->size().sequences : runner_->size().chunk);
  const EncoderShape& encoder = *shape().encoder;
  // A picture or a sound always has all positions.
  return encoder.of_one_length() ? tokens == encoder.context : tokens <= encoder.context;
}

uint32_t SampleSteps::outputs(uint32_t tokens) const {
  return several() ? tokens : 1;
}

Status SampleSteps::write(uint32_t tokens) {
  PUMICE_CHECK(part_ == ModelPart::decoder ? write_decoder(tokens) : write_encoder(tokens));
  const WorkPiece rows{0, [this](Commands& commands) {
                         runner_->record_rows(commands);
                         return Status();
                       }};
  PUMICE_CHECK(work_->run(std::span(&rows, 1)));
  return {};
}

Status SampleSteps::write_decoder(uint32_t tokens) {
  const SessionSize& size = runner_->size();
  const uint32_t first = std::min(size.context / 2, size.context - (several() ? 1 : tokens));
  std::vector<StepToken> rows(tokens);
  for (uint32_t i = 0; i < tokens; ++i) {
    rows[i].token = (i * 7 + 1) % shape().vocabulary;
    rows[i].sequence = several() ? i : 0;
    rows[i].position = several() ? first : first + i;
    rows[i].output = several() || i + 1 == tokens;
  }
  return runner_->write_step(rows);
}

Status SampleSteps::write_encoder(uint32_t tokens) {
  const EncoderShape& encoder = *shape().encoder;
  const bool reads_tokens = encoder.kind == InputKind::tokens;
  std::vector<StepToken> rows(tokens);
  for (uint32_t i = 0; i < tokens; ++i) {
    rows[i].token = reads_tokens ? (i * 7 + 1) % encoder.vocabulary : 0;
    if (encoder.patch_groups) {
      const uint32_t side = encoder.patch_groups->merge * encoder.patch_groups->window;
      rows[i].token = side > 0 ? window_token(0, std::min(tokens, side * side)) : grid_token({1, tokens});
      rows[i].across = i;
    }
    rows[i].position = i;
    rows[i].end = tokens;
    rows[i].output = i == 0;
  }
  if (encoder.kind == InputKind::samples) rows[0].target = encoder.input_values();
  PUMICE_CHECK(runner_->write_step(rows));
  if (reads_tokens) return {};
  std::mt19937 random(2);
  std::vector<float> values(encoder.input_values());
  for (float& value : values) value = static_cast<float>(random()) * 0x1p-31f - 1;
  return runner_->write_input(tokens, 0, values);
}

} // namespace pumice
