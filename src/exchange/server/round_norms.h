#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "exchange/server/server_worker.h"

namespace tally::exchange {

// The end of a round on measured tables. The update needs norms over the mean gradient of all
// workers: for clipping by norm, for the layerwise optimizers, and to discard gradients that are
// not finite. Servers have the mean in parts, so that the workers put the norms together:
//
//   measure   each part tells the sums of squares of its mean gradient and values
//   finish    every worker computes the same norms, and tells each part to apply its mean with them
//
// The first finish that reaches a part sets its factor and norms. A worker that measures a part
// later receives these numbers and uses them for the other parts, so that a round ends in the same
// way everywhere even if the first worker dies between two parts.
//
// Workers may compute different norms if a server is lost in between: its successor gathers the
// round again, perhaps without the gradient of a worker that is lost as well. The answer to finish
// therefore has the numbers that the part has used, and workers that apply averages to their own
// copies use those.
class RoundNorms final {
 public:
  struct Options {
    std::optional<double> clip_norm;
    bool discards_nonfinite = false;  // rounds whose mean gradient is not finite
  };
  RoundNorms(ServerWorker& worker, const Options& options) : worker_(worker), options_(options) {}

  // How the parts of a table finished a round.
  using PartFinishes = std::vector<ServerClient::FinishOptions>;

  struct Finished {
    // By dense table: the numbers that its parts have used. For a part that skipped the round, the
    // options of this worker.
    std::vector<PartFinishes> tables;
    // A part of any table has discarded the round. Workers that were in time for the round agree;
    // with backup:B a late worker may find only parts that have gone on.
    bool discarded = false;
  };
  // Finishes the round of a version on all tables.
  Result<Finished> finish(std::uint64_t version);

 private:
  using Parts = std::vector<ServerClient::Measured>;

  Result<std::vector<Parts>> measure(const ServerClient::MeasureOptions& options,
                                     std::size_t tables);
  ServerClient::FinishOptions common(const std::vector<Parts>& tables, std::uint64_t version) const;
  static void set_norms(const Parts& parts, double factor, ServerClient::FinishOptions& table);

  ServerWorker& worker_;
  const Options options_;
};

}  // namespace tally::exchange
