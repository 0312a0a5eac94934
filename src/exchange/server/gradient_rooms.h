#pragma once
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "exchange/real_span.h"
#include "exchange/server/server_worker.h"

namespace tally::exchange {

// A request with a push of some parts of a dense table, or of rows.
struct Push {
  server::Ticket ticket = 0;
  std::optional<std::size_t> table = {};  // index of the dense table
};

// Memory for one gradient of all parameters, and the pushes that use it.
struct GradientRoom {
  std::vector<std::span<std::byte>> flat;      // by table
  std::vector<CodedTable::Messages> messages;  // by table; by part if it is coded
  std::vector<SparseRows::Used> rows;          // by sparse table
  std::vector<Push> pushes;                    // in progress
  bool is_counted = false;                     // the figures include the fate of the gradient
  bool is_plain = false;                       // the messages are not encoded (a warm-up)

  // The gradients of tables, and of the rows that were read.
  std::vector<RealSpan> all(const ServerTables& tables) const;
};

// The gradients of a worker whose pushes may still be in progress. Threads: calls must not overlap.
class GradientRooms final {
 public:
  explicit GradientRooms(ServerWorker& worker) : worker_(worker) {}

  std::size_t count() const { return rooms_.size(); }

  // A room that no push uses any more. Waits for the oldest pushes if there are many.
  Result<GradientRoom*> take();
  // Waits for the pushes of one room, or of all rooms.
  Result<void> settle(GradientRoom& room);
  Result<void> settle_all();
  // Abandons all pushes.
  void give_up();
  // Records the outcome of a push. The first push with an outcome counts its gradient in the
  // figures. Dropped encoded parts return to their encoders and are sent again.
  void note(GradientRoom& room, const Push& push, const server::Completion& completion);

 private:
  ServerWorker& worker_;
  std::vector<std::unique_ptr<GradientRoom>> rooms_;
};

}  // namespace tally::exchange
