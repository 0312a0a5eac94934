#include "collective/shared_buffer.h"

#include <cstdlib>
#include <cstring>

#include "base/errors.h"

namespace tally {
namespace {

constexpr std::size_t kPage = 4096;

}  // namespace

SharedBuffer::SharedBuffer(std::byte* data, std::size_t bytes, std::shared_ptr<Owner> owner)
    : data_(data), bytes_(bytes), owner_(std::move(owner)) {}
SharedBuffer::~SharedBuffer() = default;
SharedBuffer::SharedBuffer(SharedBuffer&& other) noexcept = default;
SharedBuffer& SharedBuffer::operator=(SharedBuffer&& other) noexcept = default;

void SharedBuffer::keep() {
  if (owner_) owner_->keep();
}

SharedBuffer::Owner::~Owner() {
  if (segment_) {
    if (!kept_) segment_->release(data_);
  } else {
    std::free(data_);
  }
}

Result<SharedBuffer> SharedBuffer::Owner::from_segment(std::shared_ptr<net::Segment> segment,
                                                       int member, std::size_t bytes) {
  TALLY_TRY(std::byte* const data, segment->allocate(member, bytes));
  return SharedBuffer(data, bytes, std::make_shared<Owner>(std::move(segment), data));
}

SharedBuffer SharedBuffer::Owner::from_outside(std::shared_ptr<const void> owner, std::byte* data,
                                               std::size_t bytes) {
  return {data, bytes, std::make_shared<Owner>(std::move(owner))};
}

Result<SharedBuffer> SharedBuffer::Owner::from_heap(std::size_t bytes) {
  const std::size_t rounded = (bytes / kPage + 1) * kPage;
  auto* const data = static_cast<std::byte*>(std::aligned_alloc(kPage, rounded));
  if (data == nullptr) return make_error(ErrorCode::kExhausted, "{} bytes of memory", bytes);
  std::memset(data, 0, rounded);
  return SharedBuffer(data, bytes, std::make_shared<Owner>(nullptr, data));
}

}  // namespace tally
