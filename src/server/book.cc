#include "server/book.h"

#include <utility>

#include <fmt/format.h>

#include "policy/staleness.h"
#include "wire/bytes.h"

namespace tally::server {
namespace {

// Members, and those who left.
constexpr std::uint32_t kMaxWorkers = 2 * 65536;

Error corrupt(std::string message) {
  return Error{.code = ErrorCode::kCorrupt, .message = std::move(message)};
}

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

Result<WorkerBook> read_worker(wire::Reader& reader) {
  WorkerBook worker;
  TALLY_TRY(worker.id, reader.u32());
  TALLY_TRY(worker.rank, reader.i32());
  TALLY_TRY(const std::uint8_t is_member, reader.u8());
  if (is_member > 1 || worker.rank < 0) return corrupt("record of a worker that cannot be");
  worker.is_member = is_member == 1;
  TALLY_TRY(worker.clock, reader.u64());
  TALLY_TRY(const std::uint64_t last, reader.u64());
  TALLY_TRY(std::vector<std::uint64_t> held, read_numbers(reader, Receipts::kMaxHeld));
  TALLY_TRY(std::vector<std::uint64_t> dropped, read_numbers(reader, Receipts::kMaxDropped));
  worker.receipts = Receipts::restored(last, std::move(held), std::move(dropped));
  return worker;
}

}  // namespace

std::vector<std::byte> encode(const Book& book) {
  wire::Writer writer;
  writer.u64(book.version);
  writer.u64(book.dropped);
  write(writer, book.staleness);
  writer.u32(static_cast<std::uint32_t>(book.workers.size()));
  for (const WorkerBook& worker : book.workers) {
    writer.u32(worker.id);
    writer.i32(worker.rank);
    writer.u8(worker.is_member ? 1 : 0);
    writer.u64(worker.clock);
    writer.u64(worker.receipts.last());
    write(writer, worker.receipts.held());
    write(writer, worker.receipts.dropped());
  }
  return writer.take();
}

Result<Book> decode_book(std::span<const std::byte> bytes) {
  wire::Reader reader(bytes);
  Book book;
  TALLY_TRY(book.version, reader.u64());
  TALLY_TRY(book.dropped, reader.u64());
  TALLY_TRY(book.staleness, read_numbers(reader, policy::Histogram::kBins));
  TALLY_TRY(const std::uint32_t workers, reader.u32());
  if (workers > kMaxWorkers)
    return corrupt(fmt::format("record of {} workers, limit {}", workers, kMaxWorkers));
  for (std::uint32_t i = 0; i < workers; ++i) {
    TALLY_TRY(WorkerBook worker, read_worker(reader));
    if (!book.workers.empty() && book.workers.back().id >= worker.id)
      return corrupt("record whose workers are not in order");
    book.workers.push_back(std::move(worker));
  }
  TALLY_TRY(reader.end());
  return book;
}

}  // namespace tally::server
