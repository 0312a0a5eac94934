#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "adapters/torch/gradient_hooks.h"
#include "adapters/torch/model_exchange.h"
#include "adapters/torch/server_place.h"
#include "adapters/torch/server_tables.h"
#include "policy/rules.h"
#include "policy/worker_clock.h"

namespace tally::adapter {

// home=server: pushes gradients to parameter servers and pulls values from them, as the worker's
// rules say. On the CPU parameters are views of the memory that values are pulled into. Parts whose
// gradients are complete are pushed while backward still runs. After construction only the servers
// are needed: the loss of another worker has no effect here.
class ServerExchange final : public ModelExchange {
 public:
  struct Options {
    std::vector<NamedTensor> parameters;
    std::vector<exchange::ParameterInfo> infos;  // of `parameters`
    std::vector<OptimizerSpec> optimizers;       // by group
    policy::Rules rules;
    std::string plan;
    std::uint64_t seed = 1;
    plan::CodecSpec codec;
    std::vector<codec::SenderFacts> senders;  // by group
    std::optional<double> clip_value;         // for this worker's own gradient, like clip_norm
    std::optional<double> clip_norm;
    ServerEmbeddings* embeddings = nullptr;  // borrowed; their rows are pulled and pushed too
    ServerOptions servers;
    server::EventSink on_event;
  };
  // Collective; copies the values of rank 0 to all ranks.
  ServerExchange(Job& job, Options options);
  // Gives the parameters memory of their own again.
  ~ServerExchange() override;

  const std::vector<exchange::ParameterInfo>& parameters() const override { return options_.infos; }
  bool begin() override;
  void announce(const StepGift& gift) override;
  bool is_announced() const override { return has_begun_; }
  StepResult complete(const StepGift& gift) override;
  void forget_gradients() override;
  void drain(const StepGift& first) override;
  std::uint64_t steps() const override;
  bool in_step() const override;
  std::vector<double> sum(std::vector<double> values) override;
  std::vector<double> meet(std::vector<double> values) override;
  bool is_due(std::uint64_t step) override;
  bool is_first() const override { return client().membership().lowest_rank == rank_; }
  void broadcast(const std::vector<NamedTensor>& tensors) override;
  exchange::UpdateTimes times() const override { return {.update = copying_, .wait = waited_}; }
  const policy::Histogram& staleness() const override { return staleness_; }
  std::uint64_t dropped() const override { return dropped_; }
  std::vector<exchange::SliceState> states() override;
  std::vector<exchange::CodecTensor> codec_tensors() const override;
  // The first rank returns those of all workers.
  std::vector<exchange::CodecState> codec_states() override;
  exchange::Sender sender() const override { return {.number = rank_, .of = ranks_}; }
  SavedCourse course() const override;
  std::uint64_t updates_of(const SavedCourse& course) const override;
  void restore(const checkpoint::Reader& reader, const SavedCourse& course) override;
  std::size_t state_bytes() override { return 0; }

 private:
  using Table = ServerTables::Table;
  // The versions in the answers to pulls.
  struct Reading {
    std::optional<policy::Read> read;
    void take(const server::Completion& completion);
  };

  // A push whose answer has averages of parts, or the push of a table's factors.
  struct Asked {
    server::Ticket ticket = 0;
    std::size_t table = 0;
    std::uint32_t first = 0;
    std::uint32_t count = 0;
  };

  server::Client& client() { return place_.client(); }
  const server::Client& client() const { return place_.client(); }

  // Setup.
  void place_views();
  void assign_values();
  void pull_first();

  // Gradients.
  void arrived(std::size_t parameter);
  void collect(std::size_t parameter);
  ServerTables::Gradients& gradients();
  void gather();
  void prepare(const StepGift& gift);
  void clip();
  void add_up();
  bool is_too_late() const;

  // Requests.
  void push_ready(std::size_t table);
  void push(std::size_t table, std::uint32_t first, std::uint32_t count);
  void push_rest();
  void pull_all(const server::PullOptions& facts, std::vector<server::Ticket>& tickets);
  void push_rows();
  void await_rows(const server::PullOptions& facts, std::vector<server::Ticket>& tickets);
  void tell_clock(std::uint64_t clock);
  bool has_embeddings() const {
    return options_.embeddings != nullptr && !options_.embeddings->empty();
  }
  server::TableId first_table() const;
  std::vector<at::Tensor> all_gradients();
  server::Completion wait(server::Ticket ticket);
  void settle(ServerTables::Gradients& gradients);
  void settle_all();
  void note(const server::Completion& completion);
  void move_own_copy(const StepGift& gift);
  void take_in(const policy::StepChoice& step, const Reading& reading);
  void end_update();
  void give_up();
  void values_to_parameters();
  void refresh();
  void flush();
  void take_snapshot();
  // asp: every version is one gradient.
  bool counts_gradients() const {
    return options_.rules.update == plan::Update::kAsp && options_.rules.push_every == 1;
  }
  std::uint64_t known_version() const;
  void share_missing_gradients(std::span<const double> present);

  // Tables with a codec.
  void make_coded();
  void push_coded(std::size_t table, std::uint32_t first, std::uint32_t count);
  void push_low_rank(Reading& reading);
  void make_means(const std::vector<std::size_t>& tables);
  void follow(Reading& reading);
  void read_own_state();
  CodedTable::Step coded_step(std::size_t table) const;
  server::PushOptions push_facts(std::size_t table) const;
  bool is_low_rank(std::size_t table) const {
    return coded_[table] != nullptr && coded_[table]->is_low_rank();
  }
  std::vector<exchange::CodecState> own_codec_states();
  void gather_senders();
  void read_backs();
  void restore_backs(const checkpoint::Reader& reader);

  const Rank rank_;
  const int ranks_;
  const Options options_;
  const bool plain_;  // sgd without state: a worker can update its own copy as servers do
  // Requests use the memory of these members, so they must outlive the client in place_.
  std::vector<std::unique_ptr<CodedTable>> coded_;  // by table; null: gradients are not encoded
  std::vector<std::unique_ptr<ServerTables::Gradients>> rooms_;
  ServerPlace place_;
  ServerTables tables_;
  ServerTables::Gradients* room_ = nullptr;  // of the current update; null: not needed yet
  std::vector<at::Tensor> kept_;             // by table: sum for a later push; empty: none
  std::unique_ptr<GradientHooks> hooks_;

  policy::WorkerClock me_;
  policy::StepChoice choice_;
  bool has_chosen_ = false;
  std::uint64_t first_version_ = 0;  // at `first_step_`
  std::string snapshot_;             // of embeddings, from the last states()
  std::uint64_t first_clock_ = 0;
  std::uint64_t first_step_ = 0;
  std::uint64_t met_step_ = 0;
  // asp: the version of the next meeting, and the clock at which this worker comes to it; none:
  // when the version is near.
  std::uint64_t meeting_version_ = 0;
  std::optional<std::uint64_t> meeting_clock_;

  // The current update.
  bool announced_ = false;
  bool has_begun_ = false;  // the first push was sent
  StepGift gift_;
  std::vector<bool> is_collected_;  // by parameter
  std::vector<bool> is_told_;       // by parameter, since announce()
  std::vector<std::vector<std::uint32_t>>
      pending_;                           // by table and part: parameters without a gradient
  std::vector<std::uint32_t> next_;       // by table: the first part that is not pushed
  std::vector<server::Ticket> requests_;  // in progress; answers have values
  std::vector<Asked> asked_;              // in progress; answers have averages
  std::vector<Asked> factors_;            // in progress; powersgd
  double total_weight_ = 0;               // powersgd: of all workers, in this update
  bool is_counted_ = false;               // the figures include the fate of the push

  std::vector<at::Tensor> saved_;                  // memory of states()
  std::vector<std::vector<float>> saved_senders_;  // on the first rank: encoder state, by rank
  std::vector<std::vector<float>> saved_backs_;    // on the first rank: residuals, by table
  Duration copying_{};
  Duration waited_{};
  policy::Histogram staleness_;
  std::uint64_t dropped_ = 0;
};

}  // namespace tally::adapter
