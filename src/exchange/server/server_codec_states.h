#pragma once
#include <vector>

#include "exchange/lane/codec_state.h"
#include "exchange/server/server_worker.h"
#include "tally/checkpoint.h"

namespace tally::exchange {

// The codec state of all workers and servers in checkpoints. The first worker saves all of it.
class ServerCodecStates final {
 public:
  explicit ServerCodecStates(ServerWorker& worker) : worker_(worker) {}

  std::vector<CodecTensor> tensors() const;
  // Copies the states to the first worker. Collective.
  Result<void> gather();
  // On the first worker: what gather() has copied; valid until the next gather().
  std::vector<CodecState> states();
  Sender sender() const { return {.number = worker_.rank(), .of = worker_.ranks()}; }

  // Restores this worker's states; the first worker first restores those of servers.
  Result<void> restore_servers(const checkpoint::Reader& reader);
  Result<void> restore_own(const checkpoint::Reader& reader);

 private:
  std::vector<CodecState> own_states();
  Result<void> gather_senders();
  Result<void> read_backs();

  ServerWorker& worker_;
  // On the first worker.
  std::vector<std::vector<float>> senders_;  // by rank
  std::vector<std::vector<float>> backs_;    // by table: residuals of the way back
};

}  // namespace tally::exchange
