#include "gpu/memory.h"

#include <algorithm>

#include <fmt/format.h>

namespace pumice {

namespace {

thread_local int64_t thread_bytes = 0;

} // namespace

MemoryReport with_available(MemoryReport report, HeapBudget driver) {
  const auto left = [](uint64_t all, uint64_t taken) { return all - std::min(all, taken); };
  report.available = left(report.heap, report.allocated);
  if (driver.budget > 0 && driver.usage <= report.heap) {
    const uint64_t budget = std::min(driver.budget, report.heap);
    report.available = std::min(report.available, left(budget, driver.usage));
  }
  if (report.limit > 0) report.available = std::min(report.available, left(report.limit, report.allocated));
  return report;
}

Status MemoryCount::reserve(uint64_t bytes) {
  std::lock_guard lock(mutex_);
  const uint64_t taken = allocated_ + reserved_;
  if (limit_ > 0 && (taken > limit_ || bytes > limit_ - taken)) {
    return Error{Code::out_of_memory,
                 fmt::format("{} bytes of device memory were asked for: with the {} bytes that are allocated "
                             "they would pass the limit of {} bytes",
                             bytes, taken, limit_)};
  }
  reserved_ += bytes;
  return {};
}

void MemoryCount::confirm(uint64_t bytes) {
  std::lock_guard lock(mutex_);
  reserved_ -= bytes;
  allocated_ += bytes;
  peak_ = std::max(peak_, allocated_);
  thread_bytes += static_cast<int64_t>(bytes);
}

void MemoryCount::cancel(uint64_t bytes) {
  std::lock_guard lock(mutex_);
  reserved_ -= bytes;
}

void MemoryCount::release(uint64_t bytes) {
  std::lock_guard lock(mutex_);
  allocated_ -= bytes;
  thread_bytes -= static_cast<int64_t>(bytes);
}

int64_t MemoryCount::of_thread() {
  return thread_bytes;
}

uint64_t MemoryCount::allocated() const {
  std::lock_guard lock(mutex_);
  return allocated_;
}

uint64_t MemoryCount::peak() const {
  std::lock_guard lock(mutex_);
  return peak_;
}

} // namespace pumice
