#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "exchange/exchange.h"
#include "exchange/server/gradient_rooms.h"
#include "exchange/server/round_norms.h"
#include "exchange/server/server_worker.h"
#include "policy/worker_clock.h"

namespace tally::exchange {

// The pushes and pulls of one update.
//
// Tables without a codec: a request has the gradient of some parts, and its answer the new values
// if the policy pulls with the same request.
// Most codecs: kRun parts are encoded at a time. In step, the answer has the encoded averages,
// which the worker applies to its own copy. Otherwise the answer has values.
// powersgd: all workers sum both factors, and each knows the mean gradient before its push. Servers
// use the factors of the first push; the worker applies the mean to its own copy.
// Warm-up of a codec: pushes have plain gradients. With powersgd the answer has values.
//
// Threads: calls must not overlap.
class StepRequests final {
 public:
  StepRequests(ServerWorker& worker, GradientRooms& rooms) : worker_(worker), rooms_(rooms) {}

  // A new update begins; `room` has its gradient.
  void begin(const policy::StepChoice& choice, GradientRoom& room);
  // Samples and rates of the following pushes.
  void set_contribution(const StepContribution& contribution) { contribution_ = contribution; }
  bool has_pushed() const { return has_pushed_; }

  // The gradient of the parameter is final: pushes the parts that are complete, once there are
  // enough for a message.
  void ready(std::size_t parameter);
  void push_rest();
  // Pushes the gradients of sparse rows. A worker without samples pushes no keys, which completes
  // the round.
  void push_rows();
  // powersgd: sums the factors over all workers, and pushes their means. Collective.
  Result<void> push_low_rank();
  // Reads values as the policy says, `with_push`: from the answers to the pushes.
  void pull(bool with_push);
  // Waits for all requests with an answer that the update needs, and does all of the update that
  // can fail.
  Result<Reading> await();
  // After await(): applies averages, on measured tables as the parts finished the round
  // (`finishes`, by table; otherwise empty). All tables then have their next version.
  void apply(std::span<const RoundNorms::PartFinishes> finishes);
  // Abandons the requests in progress.
  void give_up();

 private:
  // A push whose answer has averages of parts, or the push of a table's factors.
  struct Asked {
    Push push;
    ServerClient::PartRange range;
    bool has_values = false;  // powersgd: servers have applied another mean, and values were pulled
  };

  void push(std::size_t table, std::uint32_t first, std::uint32_t count);
  void send(std::size_t table, ServerClient::Request request);
  Result<void> follow(Asked& asked, Reading& reading);
  Result<void> follow_low_rank(Asked& asked, const server::Completion& completion,
                               Reading& reading);
  std::uint64_t present_codec_step() const;
  bool sends_factors(const ServerTables::Table& table) const;
  server::PushOptions push_facts(std::size_t group) const;
  server::PullOptions pull_facts() const;

  ServerWorker& worker_;
  GradientRooms& rooms_;
  policy::StepChoice choice_;
  GradientRoom* room_ = nullptr;
  StepContribution contribution_;
  bool has_pushed_ = false;
  // By table and part: parameters without a gradient.
  std::vector<std::vector<std::uint32_t>> pending_;
  std::vector<std::uint32_t> next_;  // by table: the first part that is not pushed
  std::vector<Push> requests_;       // in progress; answers have values
  std::vector<Asked> asked_;         // in progress
  std::vector<Asked> answered_;      // to be applied
  double total_weight_ = 0;          // powersgd: of all workers
  // Of this update. With asp other workers may make steps while this one computes: its messages
  // still are all plain or all encoded.
  std::uint64_t codec_step_ = 0;
};

}  // namespace tally::exchange
