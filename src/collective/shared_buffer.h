#pragma once
#include <memory>

#include "net/segment.h"
#include "tally/communicator.h"

namespace tally {

// Owns the memory of a SharedBuffer: a part of a segment, ordinary memory where there is none, or
// memory from elsewhere.
class SharedBuffer::Owner {
 public:
  static Result<SharedBuffer> from_segment(std::shared_ptr<net::Segment> segment, int member,
                                           std::size_t bytes);
  static Result<SharedBuffer> from_heap(std::size_t bytes);
  // Memory that `owner` frees, such as that of a GPU.
  static SharedBuffer from_outside(std::shared_ptr<const void> owner, std::byte* data,
                                   std::size_t bytes);

  Owner(std::shared_ptr<net::Segment> segment, std::byte* data)
      : segment_(std::move(segment)), data_(data) {}
  explicit Owner(std::shared_ptr<const void> outside)
      : outside_(std::move(outside)), data_(nullptr) {}
  ~Owner();
  // Memory of a segment is not released with this object.
  void keep() { kept_ = true; }
  Owner(const Owner&) = delete;
  Owner& operator=(const Owner&) = delete;

 private:
  const std::shared_ptr<net::Segment> segment_;  // shared: a buffer may outlive its communicator
  const std::shared_ptr<const void> outside_;    // shared with whatever else uses the memory
  std::byte* const data_;                        // null: `outside_` frees the memory
  bool kept_ = false;
};

}  // namespace tally
