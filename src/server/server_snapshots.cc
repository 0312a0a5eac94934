// Snapshots are written and read on a thread of their own: those who serve messages wait for a part while that one part is copied.
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "server/bodies.h"
#include "server/server_node.h"
#include "server/snapshot.h"

namespace tally::server {
namespace {

constexpr std::size_t kPieceBytes = std::size_t{4} << 20;

// Answers a restore when the last of its parts is safe on all copies. Shared by those parts.
class Countdown {
 public:
  Countdown(std::size_t count, std::function<void()> done)
      : count_(count), done_(std::move(done)) {}
  void one_done() {
    if (count_.fetch_sub(1) == 1) done_();
  }

 private:
  std::atomic<std::size_t> count_;
  const std::function<void()> done_;
};

}  // namespace

std::vector<Table*> ServerNode::all_tables() const {
  const MutexLock lock(structure_);
  std::vector<Table*> tables;
  for (const auto& table : tables_.all()) tables.push_back(table.get());
  return tables;
}

// Refuses, or does the work elsewhere and answers with what comes of it.
void ServerNode::in_background(NodeId from, const MessageHeader& request,
                               std::function<Result<std::vector<std::byte>>()> work) {
  const bool taken = background_.run([this, from, request, work = std::move(work)] {
    auto done = work();
    if (!done) return refuse(from, request, done.error());
    answer(from, request, Outcome::kDone, std::move(*done));
  });
  if (!taken)
    refuse(from, request,
           {.code = ErrorCode::kExhausted,
            .message = "too many snapshots are asked for at the same time"});
}

void ServerNode::snapshot(NodeId from, const Message& message) {
  const MessageHeader& header = message.header;
  {
    const MutexLock lock(structure_);
    if (!admits(from, header)) return;
  }
  if (options_.snapshots.empty())
    return refuse(from, header,
                  {.code = ErrorCode::kInvalid,
                   .message = fmt::format("server {} has no folder for snapshots", id())});
  if (header.push_kind == kPublishSnapshot) {
    auto asked = decode_publication(message.payload);
    if (!asked) return refuse(from, header, asked.error());
    return in_background(from, header, [this, asked = std::move(*asked)] {
      return publish(asked.name, asked.files);
    });
  }
  auto name = decode_text(message.payload);
  if (!name) return refuse(from, header, name.error());
  in_background(from, header, [this, name = std::move(*name)] { return write_snapshot(name); });
}

Result<std::vector<std::byte>> ServerNode::write_snapshot(const std::string& name) {
  TALLY_TRY(const auto writer, SnapshotWriter::begin(options_.snapshots, name, id()));
  for (Table* const table : all_tables()) {
    const TableFacts& facts = table->facts();
    for (std::uint32_t index = 0; index < facts.parts; ++index) {
      const auto copy = table->part(index)->copy(kPieceBytes);
      if (!copy) continue;
      TALLY_TRY(writer->add(facts.spec,
                            {.part = index, .parts = facts.parts, .version = copy->version},
                            copy->pieces));
    }
  }
  TALLY_TRY(const SnapshotFile file, writer->finish());
  return encode(std::span(&file, 1));
}

Result<std::vector<std::byte>> ServerNode::publish(const std::string& name,
                                                   const std::vector<SnapshotFile>& files) {
  TALLY_TRY(const std::filesystem::path path,
            publish_snapshot(options_.snapshots, name, id(), files));
  newest_snapshot_.set(path.string());
  return encode_text(path.string());
}

void ServerNode::restore(NodeId from, const Message& message) {
  const MessageHeader header = message.header;
  {
    const MutexLock lock(structure_);
    if (!admits(from, header)) return;
  }
  auto path = decode_text(message.payload);
  if (!path) return refuse(from, header, path.error());
  const bool taken = background_.run([this, from, header, path = std::move(*path)] {
    auto done = read_snapshot(path, [this, from, header] { answer(from, header, Outcome::kDone); });
    if (!done) refuse(from, header, done.error());
  });
  if (!taken)
    refuse(from, header,
           {.code = ErrorCode::kExhausted,
            .message = "too many snapshots are asked for at the same time"});
}

// Parts are read one after the other beside the old ones, and put in their place when whole; copies follow by record.
Result<void> ServerNode::read_snapshot(const std::filesystem::path& path,
                                       std::function<void()> when_safe) {
  TALLY_TRY(const SnapshotReader reader, SnapshotReader::open(path));
  std::vector<Part*> parts;
  std::vector<Table*> owners;
  for (const std::string& name : reader.tables()) {
    Table* const table = tables_.find(table_id(name));
    if (table == nullptr || table->facts().spec.name != name)
      return Error{
          .code = ErrorCode::kInvalid,
          .message = fmt::format("{} has table '{}', which is not defined", path.string(), name)};
    for (const auto& part : table->parts()) {
      if (!part->is_primary()) continue;
      parts.push_back(part.get());
      owners.push_back(table);
    }
  }
  // One more for this thread, so that it is not over before all parts have been begun.
  const auto countdown = std::make_shared<Countdown>(parts.size() + 1, std::move(when_safe));
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const TableFacts& facts = owners[i]->facts();
    TALLY_TRY(std::unique_ptr<Storage> storage,
              make_storage(facts.stored, parts[i]->index(), budget_));
    SnapshotReader::Wanted wanted{.part = parts[i]->index(), .storage = storage.get()};
    TALLY_TRY(reader.restore(facts.spec, facts.parts, std::span(&wanted, 1)));
    parts[i]->replace(std::move(storage), wanted.version, [countdown] { countdown->one_done(); });
  }
  countdown->one_done();
  return {};
}

}  // namespace tally::server
