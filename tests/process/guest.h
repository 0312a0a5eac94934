#pragma once
#include <cstddef>
#include <memory>
#include <vector>

#include "group/bodies.h"
#include "net/message_connection.h"
#include "wire/frame.h"

namespace tally::process {

// A rank that the test plays over plain TCP, so that it can send what no real rank would.
class Guest final {
 public:
  explicit Guest(std::uint16_t rendezvous_port, Rank rank = 1, int size = 2);

  // Joins as an honest rank would; after that it is connected with rank 0.
  Result<void> join();

  Result<void> send(const std::vector<std::byte>& bytes);
  // The next frame with data; frames of other kinds are skipped.
  struct Frame {
    wire::FrameHeader header;
    std::vector<std::byte> payload;
  };
  Result<Frame> receive();
  // Ends the connection.
  void leave() { mesh_.reset(); }

 private:
  Result<void> meet();
  Result<void> connect();

  const std::uint16_t port_;
  const Rank rank_;
  const int size_;
  std::unique_ptr<net::MessageConnection> rendezvous_;
  std::unique_ptr<net::Stream> mesh_;
  group::Welcome welcome_;
};

// A whole frame with correct checksums, as it crosses the wire.
std::vector<std::byte> frame_bytes(wire::FrameHeader header, const std::vector<std::byte>& payload);

}  // namespace tally::process
