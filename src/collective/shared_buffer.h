#pragma once
#include <memory>

#include "net/segment.h"
#include "tally/communicator.h"

namespace tally {

// Owns the memory of a SharedBuffer: a part of a segment, or ordinary memory where there is none.
class SharedBuffer::Owner {
 public:
  static Result<SharedBuffer> from_segment(std::shared_ptr<net::Segment> segment, int member,
                                           std::size_t bytes);
  static Result<SharedBuffer> from_heap(std::size_t bytes);

  Owner(std::shared_ptr<net::Segment> segment, std::byte* data)
      : segment_(std::move(segment)), data_(data) {}
  ~Owner();
  // Memory of a segment is not released with this object.
  void keep() { kept_ = true; }
  Owner(const Owner&) = delete;
  Owner& operator=(const Owner&) = delete;

 private:
  const std::shared_ptr<net::Segment> segment_;  // shared: a buffer may outlive its communicator
  std::byte* const data_;
  bool kept_ = false;
};

}  // namespace tally
