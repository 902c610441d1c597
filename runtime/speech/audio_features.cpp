#include "speech/audio_features.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "base/guarded.h"
#include "io/json_text.h"
#include "io/mapped_file.h"
#include "plan/upload.h"

namespace pumice {

namespace {

// Checks that a number in the file agrees with the one that follows from other fields.
Status check_follows(const Fields& fields, const char* name, uint32_t found, uint32_t expected,
                     const std::string& reason) {
  if (found == expected) return {};
  return fields.error(name, fmt::format("expected {}, {}; found {}", expected, reason, found));
}

Result<LogMelShape> read(const Fields& fields, const EncoderShape& encoder) {
  const uint32_t mels = encoder.input_shape[0], frames = encoder.input_shape[1];
  LogMelShape shape;
  PUMICE_TRY(shape.mels, fields.u32_or("feature_size", 1, UINT32_MAX, mels));
  PUMICE_TRY(shape.sample_rate, fields.u32_or("sampling_rate", 1, UINT32_MAX, shape.sample_rate));
  PUMICE_TRY(shape.n_fft, fields.u32_or("n_fft", 1, UINT32_MAX, shape.n_fft));
  PUMICE_TRY(shape.hop, fields.u32_or("hop_length", 1, UINT32_MAX, shape.hop));
  PUMICE_TRY(const uint32_t seconds, fields.u32_or("chunk_length", 1, UINT32_MAX, 30));
  const auto samples =
      static_cast<uint32_t>(std::min<uint64_t>(uint64_t{seconds} * shape.sample_rate, UINT32_MAX));
  PUMICE_TRY(shape.samples, fields.u32_or("n_samples", 1, UINT32_MAX, samples));
  PUMICE_CHECK(check_follows(fields, "n_samples", shape.samples, samples, "chunk_length * sampling_rate"));
  PUMICE_TRY(const uint32_t own_frames, fields.u32_or("nb_max_frames", 1, UINT32_MAX, shape.frames()));
  PUMICE_CHECK(check_follows(fields, "nb_max_frames", own_frames, shape.frames(), "n_samples / hop_length"));
  PUMICE_CHECK(check_follows(fields, "feature_size", shape.mels, mels, "the model's num_mel_bins"));
  PUMICE_CHECK(
      check_follows(fields, "nb_max_frames", own_frames, frames, "twice the model's max_source_positions"));
  if (const Status status = check(shape); !status.ok()) {
    return Error{status.error().code, fmt::format("{}: {}", fields.file(), status.error().message)};
  }
  return shape;
}

bool reads_samples(const ModelShape& shape) {
  return shape.encoder && shape.encoder->kind == InputKind::samples;
}

} // namespace

Result<LogMelShape> read_log_mel_shape(const ModelFile& file, const ModelShape& shape) {
  if (!shape.encoder || shape.encoder->kind != InputKind::features) {
    return Error{Code::unsupported, fmt::format("{}: a model of the architecture '{}' does not read "
                                                "sound: use a speech model, such as Whisper",
                                                file.path(), file.architecture())};
  }
  if (file.fields().has("preprocessor_config")) { // of a model that is one file
    PUMICE_TRY(const Fields own, file.fields().object("preprocessor_config"));
    return read(own, *shape.encoder);
  }
  constexpr const char* name = "preprocessor_config.json";
  const std::string path = file.folder().path(name);
  PUMICE_TRY(const std::optional<nlohmann::json> json, file.folder().object(name));
  if (json) return read(Fields(*json, path), *shape.encoder);
  const nlohmann::json nothing = nlohmann::json::object();
  return read(Fields(nothing, path + " (which is not there)"), *shape.encoder);
}

Result<LogMelShape> read_sound_shape(const ModelFile& file, const ModelShape& shape) {
  if (!reads_samples(shape)) return read_log_mel_shape(file, shape);
  constexpr const char* name = "preprocessor_config.json";
  PUMICE_TRY(const std::optional<nlohmann::json> json, file.folder().object(name));
  const nlohmann::json nothing = nlohmann::json::object();
  const Fields fields(json ? *json : nothing, file.folder().path(name));
  LogMelShape result;
  result.samples = shape.encoder->input_values();
  PUMICE_TRY(result.sample_rate, fields.u32_or("sampling_rate", 1000, 1 << 20, result.sample_rate));
  PUMICE_TRY(const bool normalises, fields.boolean_or("do_normalize", false));
  if (normalises) return fields.error("do_normalize", "expected false; found true");
  return result;
}

Result<std::unique_ptr<AudioFeatures>> AudioFeatures::create(const Model& model) {
  PUMICE_TRY(const LogMelShape shape, read_sound_shape(model.file(), model.shape()));
  std::unique_ptr<AudioFeatures> features(new AudioFeatures(model.context(), shape));
  features->samples_ = reads_samples(model.shape());
  if (!features->samples_) PUMICE_CHECK(features->plan());
  return features;
}

AudioFeatures::~AudioFeatures() {
  (void)guarded([&] { return context_.device->wait(submitted_); });
}

Status AudioFeatures::plan() {
  const std::shared_ptr<Device>& device = context_.device;
  WeightStore tables(context_.profile, device->capabilities());
  PlanContext context;
  context.profile = context_.profile;
  context.device = device->capabilities();
  context.weights = &tables;
  context.step_layout = {shape_.frames(), 1, 0};
  context.step = {Space::step, 0, 0, context.step_layout.bytes()};
  PUMICE_TRY(plan_, make_plan(log_mel_graph(shape_), context, {shape_.frames(), 1}));
  PUMICE_TRY(tables_, upload_weights(device, tables, {}));
  PUMICE_TRY(step_, Buffer::create(device, context.step.bytes, MemoryUse::shared, "audio step block"));
  PUMICE_TRY(scratch_, Buffer::create(device, plan_.scratch_bytes, MemoryUse::device, "audio scratch"));
  PUMICE_TRY(inputs_,
             Buffer::create(device, plan_.input->where.buffer.bytes, MemoryUse::shared, "audio samples"));
  PUMICE_TRY(outputs_, PlanOutputs::create(device, plan_.output_bytes, "audio features"));
  const uint32_t header[4] = {shape_.frames(), 1, 0, 0};
  std::memset(step_.mapped().data(), 0, step_.mapped().size());
  std::memcpy(step_.mapped().data(), header, sizeof header);
  PUMICE_TRY(Recording recording,
             Recording::create(context_, plan_,
                               [this](const BufferRef& ref) -> const Buffer& { return buffer(ref); },
                               {{}, outputs_.copies(plan_)}));
  recording_ = std::make_unique<Recording>(std::move(recording));
  return {};
}

const Buffer& AudioFeatures::buffer(const BufferRef& ref) const {
  switch (ref.space) {
  case Space::step:
    return step_;
  case Space::inputs:
    return inputs_;
  case Space::outputs:
    return outputs_.written();
  case Space::weights:
    return tables_[ref.allocation];
  default:
    return scratch_;
  }
}

Result<std::vector<float>> AudioFeatures::compute(std::span<const float> samples) {
  if (samples.size() > shape_.samples) {
    return Error{Code::invalid_argument, fmt::format("a sound of {} samples: expected at most {}, a window",
                                                     samples.size(), shape_.samples)};
  }
  if (samples_) return std::vector<float>(samples.begin(), samples.end());
  PUMICE_CHECK(context_.device->wait(submitted_));
  std::byte* input = inputs_.mapped().data() + plan_.input->where.buffer.offset;
  if (!samples.empty()) std::memcpy(input, samples.data(), samples.size_bytes());
  std::memset(input + samples.size_bytes(), 0, (shape_.samples - samples.size()) * sizeof(float));
  PUMICE_TRY(submitted_, recording_->submit());
  PUMICE_CHECK(context_.device->wait(submitted_));
  const ActivationRef& output = plan_.readable[0].where;
  std::vector<float> features(output.columns);
  std::memcpy(features.data(), outputs_.bytes().data() + output.buffer.offset,
              features.size() * sizeof(float));
  return features;
}

Status replace_samples(const Model& model, uint32_t sample_rate, std::span<EncoderInput> inputs) {
  PUMICE_TRY(std::unique_ptr<AudioFeatures> features, AudioFeatures::create(model));
  if (const uint32_t rate = features->shape().sample_rate; rate != sample_rate) {
    return Error{Code::invalid_argument,
                 fmt::format("{}: sound at {} Hz: expected {} Hz", model.file().path(), sample_rate, rate)};
  }
  for (EncoderInput& input : inputs) {
    PUMICE_TRY(input.values, features->compute(input.values));
  }
  return {};
}

} // namespace pumice
