#include "task/split/split_device.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <optional>
#include <span>
#include <type_traits>

#include "base/guarded.h"
#include "stage/message.h"

namespace pumice {

namespace {

enum class Ask : uint32_t { echo, measure, bytes, end };

// What process 0 asks another one; with `echo`, the bytes that come back follow.
struct Question {
  Ask ask = Ask::end;
  uint32_t stages = 0;
  uint32_t first = 0, end = 0; // of a stage's layers
};
static_assert(std::is_trivially_copyable_v<DeviceCosts>);

constexpr size_t long_echo = size_t{60} << 10;
constexpr int echoes = 20;

Status send(Hop& hop, const Question& request, std::span<const std::byte> more = {}) {
  return send_message(hop, {MessageKind::ask}, std::as_bytes(std::span(&request, 1)), more);
}

template <class Value>
Status answer(Hop& hop, const Result<Value>& value) {
  if (!value.ok()) return send_message(hop, {MessageKind::failed}, to_bytes(value.error()));
  return send_message(hop, {MessageKind::answer}, std::as_bytes(std::span(&*value, 1)));
}

Result<Message> receive(Hop& hop) {
  PUMICE_TRY(const std::span<const std::byte> bytes, hop.receive());
  return message_of(bytes, hop);
}

// What one of the two sent, which both have from the same source.
template <class Value>
Result<Value> value_of(const Message& message, const Hop& hop) {
  Value value = {};
  if (message.bytes.size() < sizeof value) {
    return Error{Code::internal, hop.sender() +
                                     ": its message is too short: start all processes with the same "
                                     "program"};
  }
  std::memcpy(&value, message.bytes.data(), sizeof value);
  return value;
}

template <class Value>
Result<Value> answer_from(Hop& hop) {
  PUMICE_TRY(const Message message, receive(hop));
  if (message.header.kind == MessageKind::failed) return error_from(message.bytes);
  if (message.bytes.size() != sizeof(Value)) {
    return Error{Code::internal, hop.sender() + ": its answer has another length: start all processes with "
                                                "the same program"};
  }
  return value_of<Value>(message, hop);
}

class LocalDevice : public SplitDevice {
public:
  LocalDevice(std::string name, DeviceContext context, std::filesystem::path model, UseOfStages use)
      : name_(std::move(name)), context_(std::move(context)), model_(std::move(model)), use_(std::move(use)) {
  }

  std::string name() const override { return name_; }
  Status begin_measuring(uint32_t stages) override {
    stages_ = stages;
    return {};
  }
  Result<DeviceCosts> costs() override { return measure_costs(model_, context_, use_(stages_)); }
  Result<uint64_t> bytes(uint32_t stages, const Stage& stage) override {
    return stage_bytes(model_, context_, use_(stages), stage);
  }

private:
  const std::string name_;
  const DeviceContext context_;
  const std::filesystem::path model_;
  const UseOfStages use_;
  uint32_t stages_ = 1;
};

class RemoteDevice : public SplitDevice {
public:
  RemoteDevice(std::unique_ptr<Hop> to, std::unique_ptr<Hop> from, std::string process)
      : to_(std::move(to)), from_(std::move(from)), name_(std::move(process)) {}
  ~RemoteDevice() override {
    (void)guarded([&] { return send(*to_, {Ask::end}); });
  }

  std::string name() const override { return name_; }
  Status begin_measuring(uint32_t stages) override { return send(*to_, {Ask::measure, stages}); }
  Result<DeviceCosts> costs() override {
    const Result<DeviceCosts> costs = answer_from<DeviceCosts>(*from_);
    return costs.ok() ? costs : Error{costs.error().code, name_ + ": " + costs.error().text()};
  }
  Result<uint64_t> bytes(uint32_t stages, const Stage& stage) override {
    PUMICE_CHECK(send(*to_, {Ask::bytes, stages, stage.first, stage.end}));
    return answer_from<uint64_t>(*from_);
  }

  // Seconds until so many bytes have been there and come back: the least of some times.
  Result<double> echo(size_t bytes) {
    const std::vector<std::byte> sent(bytes);
    double least = 1e9;
    for (int i = 0; i < echoes; ++i) {
      const auto start = std::chrono::steady_clock::now();
      PUMICE_CHECK(send(*to_, {Ask::echo}, sent));
      PUMICE_TRY(const Message back, receive(*from_));
      if (back.bytes.size() != bytes)
        return Error{Code::internal, name_ + ": it sent other bytes back than it got"};
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
      least = std::min(least, took.count());
    }
    return least;
  }

private:
  const std::unique_ptr<Hop> to_, from_;
  const std::string name_;
};

} // namespace

std::unique_ptr<SplitDevice> local_split_device(std::string name, DeviceContext context,
                                                std::filesystem::path model, UseOfStages use) {
  return std::make_unique<LocalDevice>(std::move(name), std::move(context), std::move(model), std::move(use));
}

Result<RemoteSplitDevices> remote_split_devices(Processes& processes) {
  RemoteSplitDevices all;
  for (uint32_t rank = 1; rank < processes.size(); ++rank) {
    PUMICE_TRY(std::unique_ptr<Hop> to, processes.hop_to(rank));
    PUMICE_TRY(std::unique_ptr<Hop> from, processes.hop_from(rank));
    auto device = std::make_unique<RemoteDevice>(std::move(to), std::move(from), processes.name(rank));
    PUMICE_TRY(const double brief, device->echo(0));
    PUMICE_TRY(const double more, device->echo(long_echo));
    all.link.latency = std::max(all.link.latency, brief / 2);
    const double rate = 2.0 * long_echo / std::max(more - brief, 1e-9);
    all.link.bytes_per_second = rank == 1 ? rate : std::min(all.link.bytes_per_second, rate);
    all.devices.push_back(std::move(device));
  }
  return all;
}

Status serve_split_device(Processes& processes,
                          const std::function<Result<std::unique_ptr<SplitDevice>>()>& open) {
  PUMICE_TRY(const std::unique_ptr<Hop> from, processes.hop_from(0));
  PUMICE_TRY(const std::unique_ptr<Hop> to, processes.hop_to(0));
  std::optional<Result<std::unique_ptr<SplitDevice>>> device; // opened when it is first asked for
  for (;;) {
    PUMICE_TRY(const Message message, receive(*from));
    PUMICE_TRY(const Question request, value_of<Question>(message, *from));
    if (request.ask == Ask::end) return {};
    if (request.ask == Ask::echo) {
      PUMICE_CHECK(send_message(*to, {MessageKind::answer}, message.bytes.subspan(sizeof request)));
      continue;
    }
    if (!device) device = open();
    SplitDevice* const opened = device->ok() ? (*device)->get() : nullptr;
    if (request.ask == Ask::bytes) {
      const Stage stage = {request.first, request.end};
      PUMICE_CHECK(
          answer(*to, opened ? opened->bytes(request.stages, stage) : Result<uint64_t>(device->error())));
      continue;
    }
    if (opened) PUMICE_CHECK(opened->begin_measuring(request.stages));
    PUMICE_CHECK(answer(*to, opened ? opened->costs() : Result<DeviceCosts>(device->error())));
  }
}

} // namespace pumice
