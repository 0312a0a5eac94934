#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "server/protocol/message.h"
#include "server/part/receipts.h"
#include "tally/error.h"

namespace tally::server {

// What a part is beside its numbers: with both, another server goes on where this one ended. A
// value.
struct Book {
  std::vector<std::byte> round;  // policy::Round::encode()
  std::uint64_t dropped = 0;     // pushes that came too late, of all workers
  std::map<NodeId, Receipts> workers;
};

std::vector<std::byte> encode(const Book& book);
// kCorrupt for anything that encode() would not make of a book within the limits of Receipts and
// View. What is in `round` is not looked at.
Result<Book> decode_book(std::span<const std::byte> bytes);

}  // namespace tally::server
