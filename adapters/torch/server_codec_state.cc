// The codec state of a ServerExchange in checkpoints.
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "adapters/torch/server_exchange.h"
#include "optimizer/update_rule.h"

namespace tally::adapter {
namespace {

constexpr auto kCodecStateTimeout = std::chrono::minutes(5);

Deadline state_deadline() { return Deadline::after(kCodecStateTimeout); }

}  // namespace

std::vector<exchange::CodecTensor> ServerExchange::codec_tensors() const {
  auto tensors = exchange::codec_tensors(options_.codec, options_.infos, ranks_);
  // Only updates in step encode the way back.
  if (options_.rules.update != plan::Update::kBsp)
    std::erase_if(tensors,
                  [](const exchange::CodecTensor& tensor) { return tensor.name == "codec.back"; });
  return tensors;
}

std::vector<exchange::CodecState> ServerExchange::own_codec_states() {
  std::vector<exchange::CodecState> states;
  for (const auto& coded : coded_) {
    if (coded == nullptr) continue;
    for (const CodedTable::State& state : coded->states())
      states.push_back({.parameter = coded->options().parameter,
                        .name = state.name,
                        .is_of_sender = state.is_of_sender,
                        .first = state.first,
                        .values = state.values});
  }
  return states;
}

// Copies the encoder state of every worker to the first worker, one worker after the other, through
// a table on the servers. The state of a lost worker is zero.
void ServerExchange::gather_senders() {
  saved_senders_.clear();
  std::vector<float> own;
  for (const exchange::CodecState& state : own_codec_states())
    if (state.is_of_sender) own.insert(own.end(), state.values.begin(), state.values.end());
  if (own.empty()) return;
  std::vector<double> here(static_cast<std::size_t>(ranks_));
  here[static_cast<std::size_t>(rank_)] = 1;
  here = sum(std::move(here));
  const auto first = static_cast<int>(
      std::find_if(here.begin(), here.end(), [](double is) { return is > 0; }) - here.begin());
  const server::TableId table = or_throw(client().define({.name = ServerTables::kMemoryOfSenders,
                                                          .count = own.size(),
                                                          .optimizer = sgd(),
                                                          .plan = "update=asp",
                                                          .workers = ranks_},
                                                         state_deadline()));
  const server::Client::PartRange all{.table = table, .first = 0, .count = client().parts(table)};
  if (rank_ == first) saved_senders_.assign(here.size(), std::vector<float>(own.size()));
  if (rank_ == first) saved_senders_[static_cast<std::size_t>(first)] = own;
  for (int rank = first + 1; rank < ranks_; ++rank) {
    if (here[static_cast<std::size_t>(rank)] == 0) continue;
    if (rank == rank_)
      wait(client().push(all, {.kind = server::PushKind::kAssign}, std::as_bytes(std::span(own))));
    // If the worker is lost before its push, the table still has the data of an earlier worker.
    const bool has_pushed = sum({rank == rank_ ? 1.0 : 0.0}).front() > 0;
    if (rank_ == first && has_pushed)
      wait(client().pull(
          all, {},
          std::as_writable_bytes(std::span(saved_senders_[static_cast<std::size_t>(rank)]))));
    sum({});
  }
}

void ServerExchange::read_backs() {
  saved_backs_.assign(coded_.size(), {});
  if (!is_first()) return;
  for (std::size_t t = 0; t < coded_.size(); ++t) {
    const Table& table = tables_.tables()[t];
    if (!client().keeps_residual(table.id)) continue;
    saved_backs_[t].resize(table.count);
    or_throw(client().read_state({.table = table.id, .first = 0, .count = table.parts},
                                 optimizer::state_arrays(options_.optimizers[table.group]),
                                 std::as_writable_bytes(std::span(saved_backs_[t])),
                                 state_deadline()));
  }
}

// The name of each sender's state has the sender's number.
std::vector<exchange::CodecState> ServerExchange::codec_states() {
  std::vector<exchange::CodecState> states;
  if (!is_first()) return states;
  std::vector<exchange::CodecState> own = own_codec_states();
  for (std::size_t rank = 0; rank < saved_senders_.size(); ++rank) {
    std::span<float> rest = saved_senders_[rank];
    for (exchange::CodecState state : own) {
      if (!state.is_of_sender) continue;
      state.name = fmt::format("{}.{}", state.name, rank);
      state.is_of_sender = false;
      state.values = rest.first(state.values.size());
      rest = rest.subspan(state.values.size());
      states.push_back(std::move(state));
    }
  }
  for (exchange::CodecState& state : own)
    if (!state.is_of_sender) states.push_back(std::move(state));
  for (std::size_t t = 0; t < saved_backs_.size(); ++t)
    if (!saved_backs_[t].empty())
      states.push_back({.parameter = coded_[t]->options().parameter,
                        .name = "back",
                        .is_of_sender = false,
                        .values = saved_backs_[t]});
  return states;
}

void ServerExchange::restore_backs(const checkpoint::Reader& reader) {
  for (std::size_t t = 0; t < coded_.size(); ++t) {
    const Table& table = tables_.tables()[t];
    if (!client().keeps_residual(table.id)) continue;
    std::vector<float> back(table.count);
    const exchange::CodecState state{.parameter = coded_[t]->options().parameter,
                                     .name = "back",
                                     .is_of_sender = false,
                                     .values = back};
    or_throw(exchange::read_states(reader, options_.infos, std::span(&state, 1), sender()));
    or_throw(client().write_state({.table = table.id, .first = 0, .count = table.parts},
                                  optimizer::state_arrays(options_.optimizers[table.group]),
                                  std::as_bytes(std::span<const float>(back)), state_deadline()));
  }
}

}  // namespace tally::adapter
