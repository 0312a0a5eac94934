// Measures the capacity of a link: both sides send and receive BYTES over one plain TCP connection.
//
//   link_pump listen PORT BYTES ROUNDS
//   link_pump call ADDRESS PORT BYTES ROUNDS    prints "took MICROSECONDS", the best of the rounds
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "net/socket.h"

namespace {

using tally::net::Socket;

constexpr auto kPatience = std::chrono::seconds(20);

bool pump(const Socket& socket, std::size_t bytes) {
  const std::vector<char> outgoing(1 << 20);
  std::vector<char> incoming(1 << 20);
  std::size_t sent = 0;
  std::size_t received = 0;
  const auto by = tally::Deadline::after(kPatience);
  std::jthread sender([&] {
    while (sent < bytes) {
      const ssize_t count = send(socket.descriptor(), outgoing.data(),
                                 std::min(outgoing.size(), bytes - sent), MSG_NOSIGNAL);
      if (count > 0) sent += static_cast<std::size_t>(count);
      if (count <= 0 && errno != EAGAIN) return;
      if (count <= 0 && !wait_ready(socket.descriptor(), tally::net::Readiness::kWrite, by)) return;
    }
  });
  while (received < bytes) {
    const ssize_t count =
        recv(socket.descriptor(), incoming.data(), std::min(incoming.size(), bytes - received), 0);
    if (count > 0) received += static_cast<std::size_t>(count);
    if (count == 0 || (count < 0 && errno != EAGAIN)) break;
    if (count < 0 && !wait_ready(socket.descriptor(), tally::net::Readiness::kRead, by)) break;
  }
  sender.join();
  return sent == bytes && received == bytes;
}

tally::Result<Socket> connection(const std::vector<std::string>& words) {
  const auto by = tally::Deadline::after(kPatience);
  if (words.at(0) == "call")
    return tally::net::connect_retrying(
        {.host = words.at(1), .port = static_cast<std::uint16_t>(std::stoi(words.at(2)))}, by);
  TALLY_TRY(auto listener,
            tally::net::Listener::bind(
                {.host = "0.0.0.0", .port = static_cast<std::uint16_t>(std::stoi(words.at(1)))}));
  return listener.accept(by);
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  const auto socket = connection(words);
  if (!socket.has_value()) return 1;
  const std::size_t bytes = std::stoull(words.at(words.size() - 2));
  std::vector<double> took;
  for (int round = std::stoi(words.back()); round > 0; --round) {
    const auto begin = std::chrono::steady_clock::now();
    if (!pump(*socket, bytes)) return 1;
    took.push_back(
        std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin)
            .count());
  }
  fmt::print("took {}\n", *std::min_element(took.begin(), took.end()));
  return 0;
}
