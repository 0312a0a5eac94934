// Snapshots and restores of a server, on its job thread. Messages wait for a part only while that
// part is copied. A restore reads parts one after the other into new storages and puts each in
// place when it is complete; copies follow by record.
#include <memory>
#include <utility>

#include "server/node/server_node.h"
#include "server/storage/piece.h"
#include "wire/error_body.h"

namespace tally::server {
namespace {

// Ends a restore when all copies have the last of its parts, or failed. Shared by those parts.
class Countdown {
 public:
  using Done = std::function<void(const Result<void>&)>;
  Countdown(std::size_t count, Done done) : count_(count), done_(std::move(done)) {}
  void one_done(const Result<void>& part) {
    const MutexLock lock(mutex_);
    if (!part && outcome_) outcome_ = part;
    if (--count_ == 0) done_(outcome_);
  }

 private:
  Mutex mutex_;
  std::size_t count_ TALLY_GUARDED_BY(mutex_);
  Result<void> outcome_ TALLY_GUARDED_BY(mutex_);
  const Done done_;
};

}  // namespace

std::vector<Table*> ServerNode::all_tables() const {
  const MutexLock lock(structure_);
  std::vector<Table*> tables;
  for (const auto& table : tables_.all()) tables.push_back(table.get());
  return tables;
}

// Runs the job on the job thread, unless an earlier copy of the request has started it.
void ServerNode::run_job(NodeId from, const MessageHeader& request, std::function<void()> job) {
  const JobHistory::Standing standing = jobs_.ask(from, request.sequence);
  if (standing.answer)
    return answer(from, request, standing.answer->outcome, standing.answer->payload);
  if (!standing.is_new || job_thread_.run(std::move(job))) return;
  end_job(from, request,
          make_error(ErrorCode::kExhausted, "too many snapshots are asked for at the same time"));
}

void ServerNode::end_job(NodeId from, const MessageHeader& request,
                         const Result<std::vector<std::byte>>& done) {
  const JobHistory::Answer told{.outcome = done ? Outcome::kDone : Outcome::kRefused,
                                .payload = done ? *done : wire::encode_error(done.error())};
  jobs_.finish(from, request.sequence, told);
  answer(from, request, told.outcome, told.payload);
}

void ServerNode::snapshot(NodeId from, const Message& message) {
  const MessageHeader header = message.header;
  {
    const MutexLock lock(structure_);
    if (!admits(from, header)) return;
  }
  if (options_.snapshots.empty())
    return refuse(from, header, invalid("server {} has no folder for snapshots", id()));
  if (header.push_kind == kPublishSnapshot) {
    auto asked = decode_publication(message.payload);
    if (!asked) return refuse(from, header, asked.error());
    return run_job(from, header, [this, from, header, asked = std::move(*asked)] {
      end_job(from, header, publish(asked.name, asked.files));
    });
  }
  if (header.push_kind != kWriteSnapshot && header.push_kind != kDropSnapshot)
    return refuse(from, header, corrupt("a snapshot has no round {}", header.push_kind));
  auto name = decode_text(message.payload);
  if (!name) return refuse(from, header, name.error());
  run_job(from, header, [this, from, header, name = std::move(*name)] {
    end_job(from, header,
            header.push_kind == kDropSnapshot ? drop_snapshot(name) : write_snapshot(name));
  });
}

Result<std::vector<std::byte>> ServerNode::write_snapshot(const std::string& name) {
  const auto add_parts = [this](const PartSink& add) -> Result<void> {
    for (Table* const table : all_tables()) {
      const TableConfig& config = table->config();
      for (std::uint32_t index = 0; index < config.parts; ++index) {
        const auto copy = table->part(index)->copy(kPieceBytes);
        if (!copy) continue;
        TALLY_TRY(add(config.spec, {.part = index, .parts = config.parts, .version = copy->version},
                      copy->pieces));
      }
    }
    return {};
  };
  TALLY_TRY(const std::vector<SnapshotFile> files,
            server::write_snapshot(options_.snapshots, name, id(), add_parts));
  return encode(std::span(files));
}

Result<std::vector<std::byte>> ServerNode::publish(const std::string& name,
                                                   const std::vector<SnapshotFile>& files) {
  TALLY_TRY(const std::filesystem::path path,
            publish_snapshot(options_.snapshots, name, id(), files));
  newest_snapshot_.set(path.string());
  return encode_text(path.string());
}

Result<std::vector<std::byte>> ServerNode::drop_snapshot(const std::string& name) {
  TALLY_TRY(server::drop_snapshot(options_.snapshots, name, id()));
  return std::vector<std::byte>();
}

void ServerNode::restore(NodeId from, const Message& message) {
  const MessageHeader header = message.header;
  {
    const MutexLock lock(structure_);
    if (!admits(from, header)) return;
  }
  auto asked = decode_restoration(message.payload);
  if (!asked) return refuse(from, header, asked.error());
  run_job(from, header, [this, from, header, asked = std::move(*asked)] {
    const auto tell = [this, from, header](const Result<void>& done) {
      if (!done) return end_job(from, header, done.error());
      end_job(from, header, std::vector<std::byte>());
    };
    if (auto read = read_snapshot(asked, tell); !read) tell(read);
  });
}

// Does not call `when_safe` where it fails.
Result<void> ServerNode::read_snapshot(const SnapshotRestoration& asked,
                                       std::function<void(const Result<void>&)> when_safe) {
  TALLY_TRY(const SnapshotReader reader, SnapshotReader::open(asked.folder));
  std::vector<std::pair<const Table*, std::vector<TablePart*>>> wanted;
  std::size_t count = 0;
  for (const std::string& name : asked.only.empty() ? reader.tables() : asked.only) {
    Table* const table = tables_.find(table_id(name));
    if (table == nullptr || table->config().spec.name != name)
      return invalid("table '{}' of {} is not defined", name, asked.folder);
    wanted.emplace_back(table, std::vector<TablePart*>());
    for (const auto& part : table->parts())
      if (part->is_primary()) wanted.back().second.push_back(part.get());
    count += wanted.back().second.size();
  }
  // One more for this thread: the restore does not end before the last part has started.
  const auto countdown = std::make_shared<Countdown>(count + 1, std::move(when_safe));
  const PartDone one_done = [countdown](const Result<void>& done) { countdown->one_done(done); };
  for (const auto& [table, parts] : wanted) {
    if (parts.empty()) continue;
    const TableConfig& config = table->config();
    // Redistributed rows come from all files: they are read once for all parts.
    TALLY_TRY(const bool anew, reader.deals_anew(config.spec, config.parts));
    const std::size_t together = anew ? parts.size() : 1;
    for (std::size_t i = 0; i < parts.size(); i += together)
      TALLY_TRY(read_parts(reader, config, std::span(parts).subspan(i, together), one_done));
  }
  one_done({});
  return {};
}

Result<void> ServerNode::read_parts(const SnapshotReader& reader, const TableConfig& config,
                                    std::span<TablePart* const> parts, const PartDone& one_done) {
  std::vector<std::unique_ptr<Storage>> storages;
  std::vector<SnapshotReader::Wanted> wanted;
  for (TablePart* const part : parts) {
    TALLY_TRY(auto storage, make_storage(config.spec, part->index(), budget_));
    wanted.push_back({.part = part->index(), .storage = storage.get()});
    storages.push_back(std::move(storage));
  }
  TALLY_TRY(reader.restore(config.spec, config.parts, wanted));
  for (std::size_t i = 0; i < parts.size(); ++i)
    parts[i]->replace(std::move(storages[i]), wanted[i].version, one_done);
  return {};
}

}  // namespace tally::server
