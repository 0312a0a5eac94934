#include "server/storage/storage.h"

#include <utility>

#include <fmt/format.h>

#include "base/check.h"
#include "server/storage/dense_storage.h"
#include "server/storage/sparse_storage.h"
#include "server/storage/table_codec.h"

namespace tally::server {

bool MemoryBudget::take(std::uint64_t bytes) {
  std::uint64_t used = used_.load(std::memory_order_relaxed);
  do {
    if (limit_ != 0 && (bytes > limit_ || used > limit_ - bytes)) return false;
  } while (!used_.compare_exchange_weak(used, used + bytes, std::memory_order_relaxed));
  return true;
}

void MemoryBudget::give_back(std::uint64_t bytes) {
  const std::uint64_t before = used_.fetch_sub(bytes, std::memory_order_relaxed);
  TALLY_CHECK(before >= bytes);
}

Result<std::unique_ptr<Storage>> make_storage(const TableSpec& spec, std::uint32_t part,
                                              MemoryBudget& budget) {
  TALLY_TRY(check(spec));
  if (spec.kind == TableKind::kSparse)
    return std::unique_ptr<Storage>(std::make_unique<SparseStorage>(spec, part, budget));
  if (const std::uint32_t parts = parts_of(spec, 1); part >= parts)
    return Error{
        .code = ErrorCode::kInvalid,
        .message = fmt::format("table '{}' has {} parts, but no part {}", spec.name, parts, part)};
  TALLY_TRY(auto codec, TableCodec::make(spec));
  if (spec.type == DataType::kFloat32)
    return DenseStorage<float>::make(spec, part, std::move(codec), budget);
  return DenseStorage<double>::make(spec, part, nullptr, budget);
}

}  // namespace tally::server
