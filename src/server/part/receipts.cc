#include "server/part/receipts.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "server/protocol/message.h"
#include "wire/bytes.h"

namespace tally::server {
namespace {

bool contains(const std::vector<std::uint64_t>& numbers, std::uint64_t number) {
  return std::find(numbers.begin(), numbers.end(), number) != numbers.end();
}

constexpr std::uint32_t kMaxWorkers = 65536;
constexpr std::uint32_t kMaxRoundBytes = 4U << 20;

void write(wire::Writer& writer, std::span<const std::uint64_t> numbers) {
  writer.u32(static_cast<std::uint32_t>(numbers.size()));
  for (const std::uint64_t number : numbers) writer.u64(number);
}

Result<std::vector<std::uint64_t>> read_numbers(wire::Reader& reader, std::size_t limit) {
  TALLY_TRY(const std::uint32_t count, reader.u32());
  if (count > limit)
    return corrupt(fmt::format("record with a list of {} numbers, limit {}", count, limit));
  std::vector<std::uint64_t> numbers;
  for (std::uint32_t i = 0; i < count; ++i) {
    TALLY_TRY(const std::uint64_t number, reader.u64());
    numbers.push_back(number);
  }
  return numbers;
}

Result<Receipts> read_receipts(wire::Reader& reader) {
  TALLY_TRY(const std::uint64_t last, reader.u64());
  TALLY_TRY(std::vector<std::uint64_t> held, read_numbers(reader, Receipts::kMaxHeld));
  TALLY_TRY(std::vector<std::uint64_t> dropped, read_numbers(reader, Receipts::kMaxDropped));
  return Receipts::restored(last, std::move(held), std::move(dropped));
}

}  // namespace

Receipts::Standing Receipts::standing(std::uint64_t sequence) const {
  if (sequence > last_) return Standing::kNew;
  if (contains(held_, sequence)) return Standing::kHeld;
  if (contains(dropped_, sequence)) return Standing::kDropped;
  return Standing::kApplied;
}

void Receipts::apply(std::uint64_t sequence) {
  std::erase(held_, sequence);
  last_ = std::max(last_, sequence);
}

void Receipts::drop(std::uint64_t sequence) {
  apply(sequence);
  if (contains(dropped_, sequence)) return;
  if (dropped_.size() == kMaxDropped) dropped_.erase(dropped_.begin());
  dropped_.push_back(sequence);
}

bool Receipts::hold(std::uint64_t sequence) {
  if (contains(held_, sequence)) return true;
  if (held_.size() == kMaxHeld) return false;
  held_.push_back(sequence);
  last_ = std::max(last_, sequence);
  return true;
}

Receipts Receipts::restored(std::uint64_t last, std::vector<std::uint64_t> held,
                            std::vector<std::uint64_t> dropped) {
  Receipts receipts;
  receipts.last_ = last;
  receipts.held_ = std::move(held);
  receipts.dropped_ = std::move(dropped);
  return receipts;
}

std::vector<std::byte> encode(const Book& book) {
  wire::Writer writer;
  writer.u32(static_cast<std::uint32_t>(book.round.size()));
  writer.bytes(book.round);
  writer.u64(book.dropped);
  writer.u32(static_cast<std::uint32_t>(book.workers.size()));
  for (const auto& [id, receipts] : book.workers) {
    writer.u32(id);
    writer.u64(receipts.last());
    write(writer, receipts.held());
    write(writer, receipts.dropped());
  }
  return writer.take();
}

Result<Book> decode_book(std::span<const std::byte> bytes) {
  wire::Reader reader(bytes);
  Book book;
  TALLY_TRY(const std::uint32_t round_bytes, reader.u32());
  if (round_bytes > kMaxRoundBytes)
    return corrupt(fmt::format("record of {} bytes, limit {}", round_bytes, kMaxRoundBytes));
  TALLY_TRY(const std::span<const std::byte> round, reader.bytes(round_bytes));
  book.round.assign(round.begin(), round.end());
  TALLY_TRY(book.dropped, reader.u64());
  TALLY_TRY(const std::uint32_t workers, reader.u32());
  if (workers > kMaxWorkers)
    return corrupt(fmt::format("record of {} workers, limit {}", workers, kMaxWorkers));
  for (std::uint32_t i = 0; i < workers; ++i) {
    TALLY_TRY(const NodeId id, reader.u32());
    if (!book.workers.empty() && book.workers.rbegin()->first >= id)
      return corrupt("record whose workers are not in order");
    TALLY_TRY(Receipts receipts, read_receipts(reader));
    book.workers.emplace_hint(book.workers.end(), id, std::move(receipts));
  }
  TALLY_TRY(reader.end());
  return book;
}

}  // namespace tally::server
