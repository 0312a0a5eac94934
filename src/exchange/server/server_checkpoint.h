#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "exchange/exchange.h"
#include "exchange/server/server_codec_states.h"
#include "exchange/server/server_step.h"
#include "exchange/server/server_worker.h"

namespace tally::exchange {

// The tables of a training in checkpoints. The first worker saves and restores all of them; sparse
// tables go into a snapshot beside the checkpoint, for they may exceed the memory of one worker.
class ServerCheckpoint final : public CheckpointState {
 public:
  ServerCheckpoint(ServerWorker& worker, ServerStep& step)
      : worker_(worker), step_(step), codecs_(worker) {}

  // No rank pushes meanwhile.
  Result<std::vector<SliceState>> states() override;
  std::vector<CodecTensor> codec_tensors() const override { return codecs_.tensors(); }
  Result<std::vector<CodecState>> codec_states() override { return codecs_.states(); }
  Sender sender() const override { return codecs_.sender(); }
  SavedCourse course() const override;
  std::uint64_t updates_of(const SavedCourse& course) const override;
  Result<void> restore(const checkpoint::Reader& reader, const SavedCourse& course) override;

 private:
  Result<std::vector<SliceState>> read_tables();
  Result<void> read_table(const ServerTables::Table& table, std::vector<SliceState>& states);
  std::span<std::byte> keep(std::span<const std::byte> bytes);
  Result<void> restore_tables(const checkpoint::Reader& reader, const SavedCourse& course);
  Result<void> restore_table(const ServerTables::Table& table, const checkpoint::Reader& reader,
                             std::uint64_t version);

  ServerWorker& worker_;
  ServerStep& step_;
  ServerCodecStates codecs_;
  std::vector<std::vector<std::byte>> saved_;  // memory of states()
  std::string snapshot_;                       // of the last states()
};

}  // namespace tally::exchange
