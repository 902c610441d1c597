#include "plan/upload.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "base/align.h"
#include "base/guarded.h"
#include "base/workers.h"
#include "gpu/commands.h"
#include "gpu/timestamps.h"
#include "io/mapped_file.h"

namespace pumice {

namespace {

constexpr uint64_t staging_bytes = uint64_t{8} << 20;
// Bytes that one thread packs at a time: enough to hide the cost of a job, and few enough that all threads
// finish at about the same time.
constexpr uint64_t job_bytes = uint64_t{128} << 10;
constexpr size_t most_upload_threads = 16;
constexpr uint32_t timestamps_of_a_copy = 2;

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// A queue of another family may have none, or cannot reset them. It has no kernels to wait for either.
bool copies_have_timestamps(const Device& device) {
  return device.capabilities().copy_queue_family < 0 && device.capabilities().timestamps;
}

struct Copied {
  uint64_t bytes = 0;
  double seconds = 0;
};

// Gives the host memory to write a range of a weight allocation to: the mapped allocation itself, or a
// staging buffer that is copied to it.
class Writer {
public:
  Writer(std::shared_ptr<Device> device, const std::vector<Buffer>& allocations, const UploadBudget& budget)
      : device_(std::move(device)), copies_(device_->copies()), allocations_(allocations),
        one_at_a_time_(budget.limits()), timed_(budget.seconds > 0) {}
  // Waits for copies in flight, which use the staging buffers.
  ~Writer() {
    for (Slot& slot : slots_) (void)guarded([&] { return wait(slot); });
  }
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  // Memory for bytes [offset, offset + bytes) of an allocation. The caller fills it before the next flush().
  // All ranges between two flushes, each rounded up to 16 bytes, must fit the staging buffer together.
  Result<std::span<std::byte>> place(uint32_t allocation, uint64_t offset, uint64_t bytes) {
    const std::span<std::byte> mapped = allocations_[allocation].mapped();
    if (!mapped.empty()) return mapped.subspan(offset, bytes);
    Slot& slot = slots_[current_];
    if (!slot.buffer) {
      PUMICE_TRY(slot.buffer, Buffer::create(device_, staging_bytes, MemoryUse::upload, "weights staging"));
    }
    slot.copies.push_back({allocation, offset, slot.used, bytes});
    const std::span<std::byte> where = slot.buffer.mapped().subspan(slot.used, bytes);
    slot.used += align(bytes, 16);
    return where;
  }

  // Starts to copy the ranges that were placed, and waits until there is a staging buffer for others. With a
  // budget of time, returns what the copies took.
  Result<Copied> flush() {
    Slot& slot = slots_[current_];
    Copied copied;
    const auto start = Clock::now();
    if (!slot.copies.empty()) {
      PUMICE_TRY(Commands commands, Commands::create(device_, copies_, "weights upload"));
      PUMICE_CHECK(commands.begin());
      PUMICE_CHECK(begin_timing(commands));
      for (const Copy& copy : slot.copies) {
        commands.copy(slot.buffer, copy.from, allocations_[copy.allocation], copy.offset, copy.bytes);
        copied.bytes += copy.bytes;
      }
      if (timestamps_) {
        timestamps_->write(commands, 1);
        timestamps_->finish(commands);
        commands.host_barrier();
      }
      PUMICE_CHECK(commands.end());
      PUMICE_TRY(slot.done, copies_.submit(commands.buffers()));
      last_ = *slot.done;
      slot.commands = std::move(commands);
      slot.copies.clear();
    }
    if (!one_at_a_time_) current_ ^= 1;
    Slot& next = slots_[current_];
    PUMICE_CHECK(wait(next));
    next.used = 0;
    if (timed_ && copied.bytes > 0)
      copied.seconds = timestamps_ ? timestamps_->read()[1] : seconds_since(start);
    return copied;
  }

  Status finish() {
    for (Slot& slot : slots_) PUMICE_CHECK(wait(slot));
    if (last_ == TimelinePoint{}) return {};
    // Kernels that are submitted from now on see the weights.
    const SemaphoreValue copied = copies_.at(last_);
    PUMICE_CHECK(device_->submit({}, {.wait = {&copied, 1}, .signal = {}}));
    return {};
  }

private:
  struct Copy {
    uint32_t allocation;
    uint64_t offset, from, bytes;
  };
  struct Slot {
    Buffer buffer;
    Commands commands;
    std::vector<Copy> copies;
    uint64_t used = 0;
    std::optional<TimelinePoint> done; // after which the buffer may be written again
  };
  Status begin_timing(Commands& commands) {
    if (!timed_ || !copies_have_timestamps(*device_)) return {};
    if (!timestamps_) {
      PUMICE_TRY(timestamps_, Timestamps::create(device_, timestamps_of_a_copy));
    }
    timestamps_->reset(commands);
    timestamps_->write(commands, 0);
    return {};
  }
  Status wait(Slot& slot) {
    const std::optional<TimelinePoint> done = std::exchange(slot.done, std::nullopt);
    return done ? copies_.wait(*done) : Status();
  }

  std::shared_ptr<Device> device_;
  Queue& copies_;
  TimelinePoint last_; // after which all copies so far are done
  const std::vector<Buffer>& allocations_;
  std::optional<Timestamps> timestamps_;
  Slot slots_[2];
  int current_ = 0;
  const bool one_at_a_time_, timed_;
};

// The share of an item that one thread packs: `count` tiles from tile `first` on, or bytes of its values.
struct Job {
  const WeightStore::Item* item;
  uint64_t first, count;
  std::span<std::byte> payload = {}, scales = {}; // where they go

  uint64_t payload_unit() const { return item->tiles.empty() ? 1 : item->format.tile_payload_bytes(); }
  uint64_t scale_unit() const { return item->tiles.empty() ? 0 : item->format.tile_scale_bytes(); }
  uint64_t bytes() const { return count * (payload_unit() + scale_unit()); }
  uint64_t staged_bytes() const {
    return align(count * payload_unit(), 16) + align(count * scale_unit(), 16);
  }
};

Result<std::vector<Job>> split_into_jobs(const WeightStore& store) {
  std::vector<Job> jobs;
  for (const WeightStore::Item& item : store.items()) {
    const Job one{&item, 0, 1};
    if (one.staged_bytes() > staging_bytes) {
      return Error{
          Code::unsupported,
          fmt::format("a row of a weight takes {} bytes, and {} can be uploaded at once: this model is "
                      "not supported",
                      one.staged_bytes(), uint64_t{staging_bytes})};
    }
    const uint64_t total = item.tiles.empty() ? item.payload.bytes : item.tiles.size();
    const uint64_t most = std::max<uint64_t>(1, job_bytes / std::max<uint64_t>(1, one.bytes()));
    for (uint64_t first = 0; first < total; first += most) {
      jobs.push_back({&item, first, std::min(most, total - first)});
    }
  }
  return jobs;
}

// How many jobs from the first on fit `most` bytes of a staging buffer together: one at least.
size_t batch_size(std::span<const Job> jobs, uint64_t most) {
  size_t count = 0;
  for (uint64_t used = 0; count < jobs.size(); ++count) {
    used += jobs[count].staged_bytes();
    if (used > most && count > 0) break;
  }
  return count;
}

Status place(Writer& writer, Job& job) {
  const WeightStore::Item& item = *job.item;
  const uint64_t payload = job.payload_unit(), scale = job.scale_unit();
  PUMICE_TRY(job.payload, writer.place(item.payload.allocation, item.payload.offset + job.first * payload,
                                       job.count * payload));
  if (scale == 0) return {};
  PUMICE_TRY(job.scales,
             writer.place(item.scales.allocation, item.scales.offset + job.first * scale, job.count * scale));
  return {};
}

void pack(const Job& job) {
  const WeightStore::Item& item = *job.item;
  if (item.tiles.empty()) {
    const std::span<const std::byte> bytes = std::as_bytes(std::span(item.values));
    std::memcpy(job.payload.data(), bytes.data() + job.first, job.count);
    return;
  }
  const uint64_t payload = job.payload_unit(), scale = job.scale_unit();
  for (uint64_t i = 0; i < job.count; ++i) {
    pack_tile(item.format, item.tiles[job.first + i], job.payload.subspan(i * payload, payload),
              scale ? job.scales.subspan(i * scale, scale) : std::span<std::byte>());
  }
}

// Asks the operating system to read the weights of these jobs from the disk, while the jobs before them are
// packed.
void read_ahead(std::span<const Job> jobs) {
  for (const Job& job : jobs) {
    if (job.item->tiles.empty()) continue;
    const TileSource &first = job.item->tiles[job.first], &last = job.item->tiles[job.first + job.count - 1];
    if (!first.weight || first.weight != last.weight || !first.weight->in_rows()) continue;
    const WeightView& weight = *first.weight;
    const uint64_t begin = weight.source_row(first.first_row);
    const uint64_t end = weight.source_row(last.first_row + last.rows - 1) + 1;
    const uint64_t stride = weight.tensor_row_bytes();
    will_be_read(weight.tensor->data.subspan(begin * stride, (end - begin) * stride));
  }
}

} // namespace

Result<UploadBytes> upload_bytes(const Device& device, const WeightStore& store, const UploadBudget& budget) {
  UploadBytes sum;
  for (const WeightStore::Allocation& allocation : store.allocations()) {
    PUMICE_TRY(const uint64_t needed, Buffer::memory_needed(device, allocation.bytes));
    (allocation.on_host ? sum.host : sum.weights) += needed;
  }
  PUMICE_TRY(const bool mapped, Buffer::will_be_mapped(device, MemoryUse::device));
  if (mapped) return sum;
  PUMICE_TRY(std::vector<Job> jobs, split_into_jobs(store));
  std::erase_if(jobs,
                [&](const Job& job) { return store.allocations()[job.item->payload.allocation].on_host; });
  PUMICE_TRY(const uint64_t slot, Buffer::memory_needed(device, staging_bytes));
  std::span<const Job> left(jobs);
  const int most_slots = budget.limits() ? 1 : 2;
  for (int slots = 0; slots < most_slots && !left.empty(); ++slots) {
    left = left.subspan(batch_size(left, staging_bytes));
    sum.staging += slot;
  }
  if (budget.seconds > 0 && sum.staging > 0 && copies_have_timestamps(device)) {
    PUMICE_TRY(const uint64_t times, Timestamps::memory_needed(device, timestamps_of_a_copy));
    sum.staging += times;
  }
  return sum;
}

Result<std::vector<Buffer>> upload_weights(const std::shared_ptr<Device>& device, const WeightStore& store,
                                           const Progress& progress, size_t threads,
                                           const UploadBudget& budget) {
  std::vector<Buffer> allocations;
  for (const auto& [bytes, on_host] : store.allocations()) {
    const MemoryUse use = on_host ? MemoryUse::host : MemoryUse::device;
    PUMICE_TRY(Buffer allocation, Buffer::create(device, bytes, use, "weights"));
    allocations.push_back(std::move(allocation));
  }
  PUMICE_TRY(std::vector<Job> jobs, split_into_jobs(store));
  Writer writer(device, allocations, budget);
  UploadPace pace(budget, job_bytes, staging_bytes);
  Workers workers(threads ? std::min(threads, most_upload_threads) : most_upload_threads);
  const uint64_t total = store.bytes();
  uint64_t done = 0;
  std::span<Job> left(jobs);
  while (!left.empty()) {
    const std::span<Job> batch = left.first(batch_size(left, pace.bytes()));
    left = left.subspan(batch.size());
    uint64_t bytes = 0;
    for (Job& job : batch) {
      PUMICE_CHECK(place(writer, job));
      bytes += job.bytes();
    }
    done += bytes;
    read_ahead(left.first(batch_size(left, pace.bytes())));
    const auto start = Clock::now();
    PUMICE_CHECK(workers.run(batch.size(), [&](size_t i) { pack(batch[i]); }));
    const double packed = seconds_since(start);
    PUMICE_TRY(const Copied copied, writer.flush());
    if (copied.bytes > 0) {
      pace.took(copied.bytes, copied.seconds);
    } else {
      pace.took(bytes, packed);
    }
    if (progress && !left.empty() && !progress(done, total)) {
      return Error{Code::cancelled, "loading was cancelled"};
    }
  }
  PUMICE_CHECK(writer.finish());
  if (progress && !progress(total, total)) return Error{Code::cancelled, "loading was cancelled"};
  return allocations;
}

} // namespace pumice
