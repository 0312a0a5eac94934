#include "apps/tally/launch/hosts.h"
#include "base/errors.h"

#include <algorithm>
#include <charconv>
#include <optional>

namespace tally::launch {
namespace {

constexpr std::string_view kSpace = " \t\r";

// Removes the surrounding spaces.
std::string_view trimmed(std::string_view text) {
  const std::size_t start = text.find_first_not_of(kSpace);
  if (start == std::string_view::npos) return {};
  return text.substr(start, text.find_last_not_of(kSpace) - start + 1);
}

// Cuts the part before `separator`, or all that is left, off the front of `text`.
std::string_view cut(std::string_view& text, std::string_view separators) {
  const std::size_t stop = text.find_first_of(separators);
  const std::string_view part = text.substr(0, stop);
  text = stop == std::string_view::npos ? std::string_view() : text.substr(stop + 1);
  return part;
}

std::optional<int> slots_in(std::string_view digits) {
  int value = 0;
  const char* const end = digits.data() + digits.size();
  const auto [stop, problem] = std::from_chars(digits.data(), end, value);
  if (problem != std::errc() || stop != end || value < 1 || value > kMaxRanks) return std::nullopt;
  return value;
}

// A name that begins with a dash would be an option of the remote shell.
bool is_name(std::string_view name) {
  if (name.empty() || name.front() == '-') return false;
  return std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view(".-_:@%").find(c) != std::string_view::npos;
  });
}

// Parses "a", "a:2", "[::1]:2", and "::1": several colons without brackets are an address alone.
Result<Host> parse_host(std::string_view text) {
  std::string_view name = text;
  std::string_view digits;
  if (text.front() == '[') {
    const std::size_t close = text.find(']');
    if (close == std::string_view::npos) return invalid("no ] in host {}", text);
    name = text.substr(1, close - 1);
    digits = text.substr(close + 1);
    if (!digits.empty() && digits.front() != ':') return invalid("host {}", text);
    if (!digits.empty()) digits.remove_prefix(1);
  } else if (std::count(text.begin(), text.end(), ':') == 1) {
    name = cut(digits = text, ":");
    if (digits.empty()) return invalid("host {} has no number after the colon", text);
  }
  if (!is_name(name)) return invalid("\"{}\" is no name of a host", name);
  Host host{.name = std::string(name)};
  if (digits.empty()) return host;
  const auto slots = slots_in(digits);
  if (!slots) return invalid("host {}: {} is not a number from 1 to {}", name, digits, kMaxRanks);
  host.slots = *slots;
  return host;
}

Result<void> add(std::vector<Host>& hosts, Host host) {
  const auto same = std::find_if(hosts.begin(), hosts.end(),
                                 [&host](const Host& other) { return other.name == host.name; });
  if (same == hosts.end()) {
    hosts.push_back(std::move(host));
    return {};
  }
  if (same->slots + host.slots > kMaxRanks)
    return invalid("host {} has more than {} slots", host.name, kMaxRanks);
  same->slots += host.slots;
  return {};
}

// Adds the host of a line: a name and settings.
Result<void> add_line(std::string_view line, std::vector<Host>& hosts) {
  TALLY_TRY(Host host, parse_host(cut(line, kSpace)));
  while (!line.empty()) {
    const std::string_view word = trimmed(cut(line, kSpace));
    if (word.empty()) continue;
    if (word.find('=') == std::string_view::npos)
      return invalid("\"{}\" after host {} is not understood", word, host.name);
    if (word.rfind("slots=", 0) != 0) continue;
    const auto slots = slots_in(word.substr(6));
    if (!slots) return invalid("{} of host {}", word, host.name);
    host.slots = *slots;
  }
  return add(hosts, std::move(host));
}

}  // namespace

Result<std::vector<Host>> parse_hosts(std::string_view text) {
  std::vector<Host> hosts;
  while (!text.empty()) {
    const std::string_view part = trimmed(cut(text, ","));
    if (part.empty()) return invalid("a host without a name between two commas");
    TALLY_TRY(Host host, parse_host(part));
    TALLY_TRY(add(hosts, std::move(host)));
  }
  if (hosts.empty()) return invalid("no host is named");
  return hosts;
}

Result<std::vector<Host>> parse_host_file(std::string_view text) {
  std::vector<Host> hosts;
  for (int number = 1; !text.empty(); ++number) {
    std::string_view line = cut(text, "\n");
    line = trimmed(line.substr(0, line.find('#')));
    if (line.empty()) continue;
    if (const auto added = add_line(line, hosts); !added)
      return invalid("line {}: {}", number, added.error().message);
  }
  if (hosts.empty()) return invalid("no host is named");
  return hosts;
}

Result<std::vector<HostRanks>> place_ranks(const std::vector<Host>& hosts, int size) {
  long slots = 0;
  for (const Host& host : hosts) slots += host.slots;
  if (size == 0) size = static_cast<int>(std::min<long>(slots, kMaxRanks + 1));
  if (size > kMaxRanks) return invalid("more than {} ranks", kMaxRanks);
  if (size > slots) {
    return invalid("{} ranks, and the hosts have {} slots: give some more, as in {}:{}", size,
                   slots, hosts.front().name, hosts.front().slots + size - slots);
  }
  std::vector<HostRanks> places;
  Rank next = 0;
  for (const Host& host : hosts) {
    const int count = std::min(host.slots, size - next);
    if (count > 0) places.push_back({.host = host.name, .first = next, .count = count});
    next += count;
  }
  return places;
}

std::string address_of(const std::string& host) { return host.substr(host.find('@') + 1); }

}  // namespace tally::launch
