#include "compilers/bytes_in_flight.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <vector>

namespace {

constexpr size_t none = std::numeric_limits<size_t>::max();

// A line of a listing, as far as it matters here. It waits before it loads.
struct Line {
  uint64_t waits_for = 0;      // a bit for each slot, of those that Load::slot has
  std::optional<size_t> keeps; // it waits until only so many of the newest loads are under way
  double bytes = 0;            // of a load, for each invocation
  size_t slot = 0;             // what a later line names to wait for the load
  std::string label, jumps_to; // in it, and of a jump
};

constexpr uint64_t all_slots = std::numeric_limits<uint64_t>::max();

// What stands behind the first `mark`, and nothing where there is none.
std::string_view behind(std::string_view text, std::string_view mark) {
  const size_t at = text.find(mark);
  return at == text.npos ? std::string_view() : text.substr(at + mark.size());
}

size_t number(std::string_view text, size_t otherwise = none) {
  size_t value = otherwise;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

std::string_view word(std::string_view text) {
  const size_t begin = std::min(text.find_first_not_of(' '), text.size());
  return text.substr(begin, text.find_first_of(" ,:\t", begin) - begin);
}

// NVIDIA's by NAK: "r12..16 = ld.global.a64.constant.b128 [r8..10], pT // delay=1 wr:1", "wt=000110" waits
// for the slots 1 and 2. "block 2 L4 [1, 18] -> {" begins a block, "} -> [3, 4]" ends it.
void read_nak(std::string_view text, Line& line) {
  if (text.starts_with("block")) line.label = word(behind(text, " "));
  if (text.starts_with("} -> [")) line.jumps_to = text.substr(6, text.find(']') - 6);
  for (const char slot : behind(text, "wt=").substr(0, 6))
    line.waits_for = line.waits_for * 2 + (slot == '1');
  const std::string_view slot = behind(text, "wr:");
  const std::string_view load = behind(text, "ld.global");
  if (load.empty() || slot.empty()) return;
  line.bytes = static_cast<double>(number(behind(word(load), ".b"), 0)) / 8;
  line.slot = number(slot, 0);
}

// AMD's by ACO: "buffer_load_b128 v[4:7], ...", "s_waitcnt vmcnt(6)" waits until six loads are under way.
void read_aco(std::string_view text, Line& line) {
  text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
  if (text.starts_with("BB")) line.label = word(text);
  if (text.starts_with("s_branch") || text.starts_with("s_cbranch")) line.jumps_to = word(behind(text, " "));
  if (const std::string_view count = behind(text, "vmcnt("); !count.empty()) line.keeps = number(count, 0);
  if (text.starts_with("s_wait_loadcnt")) line.keeps = number(behind(text, "0x"), 0);
  const std::string_view load = text.starts_with("buffer_load_")   ? behind(text, "buffer_load_")
                                : text.starts_with("global_load_") ? behind(text, "global_load_")
                                                                   : std::string_view();
  if (load.empty()) return;
  const std::string_view type = word(load);
  if (type.starts_with("dword")) {
    line.bytes = 4 * static_cast<double>(number(behind(type, "x"), 1));
  } else {
    const size_t digits = type.find_first_of("0123456789");
    const size_t bits = digits == type.npos ? none : number(type.substr(digits));
    line.bytes = bits != none ? static_cast<double>(bits) / 8 : type.find("short") != type.npos ? 2 : 1;
  }
}

// Intel's: a message of two lines, "send(16) ..." and "ugm MsgDesc: ( load, a32, d32, V4, ... ) { ... $2 };".
// Other lines wait with "$2.dst". A transposed load is one of the whole subgroup.
void read_gen(std::string_view text, Line& line) {
  if (text.starts_with("LABEL")) line.label = word(text);
  if (text.starts_with("while")) line.jumps_to = word(behind(text, "JIP:"));
  for (std::string_view rest = behind(text, "$"); !rest.empty(); rest = behind(rest, "$")) {
    const size_t slot = number(rest, 0) % 64;
    if (behind(rest, std::to_string(slot)).starts_with(".dst")) line.waits_for |= uint64_t{1} << slot;
  }
  if (text.find("sync allwr") != text.npos) line.waits_for = all_slots;
  const std::string_view message = behind(text, "MsgDesc:");
  if (message.empty()) return;
  const std::string_view slot = message.substr(std::min(message.rfind('$'), message.size() - 1) + 1);
  line.slot = number(slot, 0) % 64;
  line.waits_for |= uint64_t{1} << line.slot; // a token is for one message at a time
  if (text.find("ugm") != text.npos && message.find("( load") != message.npos) {
    const double elements = static_cast<double>(number(behind(message, ", V"), 1));
    const double bytes = elements * static_cast<double>(number(behind(message, ", d"), 32)) / 8;
    line.bytes = message.find("transpose") != message.npos ? bytes / 16 : bytes;
  } else if (message.find("surface read") != message.npos) { // before Xe-HPG: registers of eight lanes
    const double registers = static_cast<double>(number(behind(message, "rlen "), 0));
    line.bytes = 4 * registers / (message.find("SIMD16") != message.npos ? 2 : 1);
  }
}

// Qualcomm's by ir3: "isam.v.base0 (u32)(xyzw)r5.z, ..." or "ldib.b.untyped.1d.u32.4...", and any instruction
// with "(sy)" waits for all.
void read_ir3(std::string_view text, Line& line) {
  if (text.find("(sy)") != text.npos) line.waits_for = all_slots;
  if (text.starts_with('l') && text.find(':') != text.npos && number(text.substr(1)) != none)
    line.label = word(text);
  if (text.find("jump #") != text.npos || text.find("br ") != text.npos)
    line.jumps_to = word(behind(text, "#"));
  const size_t load = std::min({text.find("isam"), text.find("ldib"), text.find("ldg")});
  if (load == text.npos) return;
  text.remove_prefix(load);
  const double size = text.find("16") < text.find(' ') + 6 ? 2 : 4;
  if (text.starts_with("isam")) {
    const std::string_view parts = behind(text, ")(");
    line.bytes = size * static_cast<double>(std::min(parts.find(')'), parts.size()));
  } else {
    line.bytes = size * static_cast<double>(number(behind(text, size == 2 ? "16." : "32."), 1));
  }
}

struct Loop {
  size_t begin = 0, end = 0;
  double bytes = 0;
};

// A jump to a label before it is a loop. Those with another in them are left out.
std::vector<Loop> innermost_loops(const std::vector<Line>& lines) {
  std::map<std::string, size_t, std::less<>> labels;
  std::vector<Loop> loops;
  for (size_t i = 0; i < lines.size(); ++i) {
    if (!lines[i].label.empty()) labels[lines[i].label] = i;
    std::string_view targets = lines[i].jumps_to;
    while (!targets.empty()) {
      const std::string_view target = word(targets);
      if (const auto found = labels.find(target); found != labels.end())
        loops.push_back({found->second, i, 0});
      targets = behind(targets, ",");
    }
  }
  const auto has_another = [&](const Loop& loop) {
    return std::ranges::any_of(loops, [&](const Loop& other) {
      return other.begin >= loop.begin && other.end <= loop.end &&
             other.end - other.begin < loop.end - loop.begin;
    });
  };
  std::vector<Loop> innermost;
  for (Loop loop : loops) {
    if (has_another(loop)) continue;
    for (size_t i = loop.begin; i <= loop.end; ++i) loop.bytes += lines[i].bytes;
    innermost.push_back(loop);
  }
  return innermost;
}

} // namespace

std::optional<double> bytes_in_flight(std::string_view name, std::string_view listing) {
  void (*read)(std::string_view, Line&) = nullptr;
  if (name == "NAK assembly") read = read_nak;
  if (name == "Assembly") read = read_aco;
  if (name == "GEN Assembly") read = read_gen;
  if (name == "IR3 Assembly") read = read_ir3;
  if (!read) return {};
  std::vector<Line> lines;
  while (!listing.empty()) {
    const size_t end = std::min(listing.find('\n'), listing.size());
    read(listing.substr(0, end), lines.emplace_back());
    listing.remove_prefix(std::min(end + 1, listing.size()));
  }
  Loop loop{0, lines.empty() ? 0 : lines.size() - 1, 0};
  for (const Loop& each : innermost_loops(lines)) {
    if (each.bytes > loop.bytes) loop = each;
  }
  struct Load {
    size_t slot;
    double bytes;
  };
  std::vector<Load> under_way;
  double most = 0;
  // Twice: what the end of a pass loads may be waited for in the next one.
  for (int pass = 0; pass < 2 && !lines.empty(); ++pass) {
    for (size_t i = loop.begin; i <= loop.end; ++i) {
      const Line& line = lines[i];
      std::erase_if(under_way, [&](const Load& load) { return line.waits_for >> load.slot & 1; });
      if (line.keeps && under_way.size() > *line.keeps)
        under_way.erase(under_way.begin(), under_way.end() - static_cast<ptrdiff_t>(*line.keeps));
      if (line.bytes == 0) continue;
      under_way.push_back({line.slot, line.bytes});
      double bytes = 0;
      for (const Load& load : under_way) bytes += load.bytes;
      most = std::max(most, bytes);
    }
    if (loop.bytes == 0) break; // no loop
  }
  return most;
}
