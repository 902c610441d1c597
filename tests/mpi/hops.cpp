// Hops between two processes, started by mpirun: messages arrive whole and in their order, one that is too
// long is refused before it is written, and prints what a hop takes.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

#include "tools/mpi/mpi_world.h"

using namespace pumice;
using pumice::mpi::MpiWorld;

namespace {

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "hops: not so: %s\n", what);
  std::_Exit(1);
}

template <class T>
T need(Result<T> result) {
  if (!result.ok()) std::fprintf(stderr, "hops: %s\n", result.error().text().c_str());
  require(result.ok(), "a call succeeds");
  return *std::move(result);
}

void need(const Status& status) {
  if (!status.ok()) std::fprintf(stderr, "hops: %s\n", status.error().text().c_str());
  require(status.ok(), "a call succeeds");
}

std::byte value_at(size_t message, size_t i) {
  return static_cast<std::byte>((message * 31 + i * 7 + i / 256) & 255);
}

void send(Hop& hop, size_t number, size_t length) {
  const std::span<std::byte> room = need(hop.begin(length));
  for (size_t i = 0; i < length; ++i) room[i] = value_at(number, i);
  need(hop.send());
}

void expect(Hop& hop, size_t number, size_t length) {
  const std::span<const std::byte> bytes = need(hop.receive());
  require(bytes.size() == length, "a message has its length");
  for (size_t i = 0; i < length; ++i) require(bytes[i] == value_at(number, i), "a message has its bytes");
}

// Lengths below and above those that MPI libraries hand over in another way.
void check_messages(bool sends, Hop& to, Hop& from) {
  size_t number = 0;
  for (const size_t most : {small_message_bytes, size_t{70001}, size_t{1} << 20, size_t{3} << 20}) {
    need(to.reserve(most));
    need(from.reserve(most));
    for (const size_t length : {size_t{1}, size_t{16}, size_t{4095}, size_t{4097}, most - 1, most}) {
      for (int again = 0; again < 3; ++again, ++number) {
        if (sends) send(to, number, length);
        if (!sends) expect(from, number, length);
        // The answer may arrive while the next message is being sent.
        if (sends && again == 1) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        if (!sends) send(to, number, length / 2 + 1);
        if (sends) expect(from, number, length / 2 + 1);
      }
    }
  }
  // More messages than there are places.
  for (size_t i = 0; i < 40; ++i) {
    if (sends) send(to, i, 100000 + i);
    if (!sends && i % 7 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    if (!sends) expect(from, i, 100000 + i);
  }
}

double microseconds_of_a_hop(bool sends, Hop& to, Hop& from, size_t length) {
  std::vector<double> all;
  for (int i = 0; i < 400; ++i) {
    const auto start = std::chrono::steady_clock::now();
    for (const bool mine : {sends, !sends}) {
      if (mine) {
        need(to.begin(length));
        need(to.send());
      } else {
        need(from.receive());
      }
    }
    all.push_back(
        std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count());
  }
  std::ranges::nth_element(all, all.begin() + 200);
  return all[200] / 2; // there and back
}

// One end has agreed on less than the other.
void check_too_long(bool sends, Hop& to, Hop& from) {
  const size_t most = size_t{3} << 20, longer = most + 400000;
  if (sends) {
    need(to.reserve(longer));
    send(to, 0, longer);
    need(from.receive()); // that it was refused
    return;
  }
  const Result<std::span<const std::byte>> refused = from.receive();
  require(!refused.ok(), "a message that is too long is refused");
  const std::string text = refused.error().text();
  for (const std::string& part : {std::to_string(longer), std::to_string(most), std::string("rank 0")})
    require(text.find(part) != std::string::npos, "the error has the lengths and the rank");
  send(to, 0, 1);
}

} // namespace

int main() {
  const std::unique_ptr<MpiWorld> world = need(MpiWorld::open(20));
  const bool sends = world->rank() == 0;
  require(world->size() == 2, "there are two processes");
  const std::unique_ptr<Hop> to = need(world->hop_to(1 - world->rank()));
  const std::unique_ptr<Hop> from = need(world->hop_from(1 - world->rank()));
  check_messages(sends, *to, *from);
  for (const size_t length : {size_t{256}, size_t{16} << 10, size_t{256} << 10}) {
    const double each = microseconds_of_a_hop(sends, *to, *from, length);
    if (sends) std::printf("a hop of %zu bytes takes %.1f us\n", length, each);
  }
  check_too_long(sends, *to, *from);
}
