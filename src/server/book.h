#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "server/message.h"
#include "server/receipts.h"
#include "tally/error.h"

namespace tally::server {

// What a part knows of a worker.
struct WorkerBook {
  NodeId id = kUnnumbered;
  std::int32_t rank = 0;
  bool is_member = true;  // it has not left
  std::uint64_t clock = 0;
  Receipts receipts;
};

// What a part is beside its numbers: with these two, another server goes on where this one ended. A value.
struct Book {
  std::uint64_t version = 0;
  std::uint64_t dropped = 0;             // pushes that came too late, of all workers
  std::vector<std::uint64_t> staleness;  // how stale applied pushes were, by bins
  std::vector<WorkerBook> workers;       // by id
};

std::vector<std::byte> encode(const Book& book);
// kCorrupt for anything that encode() would not make of a book within the limits of Receipts and View.
Result<Book> decode_book(std::span<const std::byte> bytes);

}  // namespace tally::server
