#include "exchange/server/server_codec_states.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace tally::exchange {

std::vector<CodecTensor> ServerCodecStates::tensors() const {
  auto tensors = codec_tensors(worker_.tables().options().codec,
                               worker_.tables().options().parameters, worker_.ranks());
  // Only updates in step encode the way back.
  if (worker_.rules().update != plan::Update::kBsp)
    std::erase_if(tensors, [](const CodecTensor& tensor) { return tensor.name == "codec.back"; });
  return tensors;
}

std::vector<CodecState> ServerCodecStates::own_states() {
  std::vector<CodecState> states;
  for (const ServerTables::Table& table : worker_.tables().all()) {
    if (table.coded == nullptr) continue;
    for (CodecState& state : table.coded->states()) states.push_back(std::move(state));
  }
  return states;
}

Result<void> ServerCodecStates::gather() {
  TALLY_TRY(gather_senders());
  return worker_.agree(read_backs());
}

// Copies the encoder state of every worker to the first worker, one worker after the other, through
// a table on the servers. The state of a lost worker is zero.
Result<void> ServerCodecStates::gather_senders() {
  senders_.clear();
  std::vector<float> own;
  for (const CodecState& state : own_states())
    if (state.is_of_sender) own.insert(own.end(), state.values.begin(), state.values.end());
  if (own.empty()) return {};
  const int me = worker_.rank();
  std::vector<double> here(static_cast<std::size_t>(worker_.ranks()));
  here[static_cast<std::size_t>(me)] = 1;
  TALLY_TRY(worker_.sum(here));
  const auto first = static_cast<int>(
      std::find_if(here.begin(), here.end(), [](double is) { return is > 0; }) - here.begin());
  ServerClient& client = worker_.client();
  TALLY_TRY(const server::TableId table, client.define({.name = ServerTables::kMemoryOfSenders,
                                                        .count = own.size(),
                                                        .optimizer = sgd(),
                                                        .plan = "update=asp",
                                                        .workers = worker_.ranks()},
                                                       kTableLimit));
  const ServerClient::PartRange all{.table = table, .first = 0, .count = client.parts(table)};
  if (me == first) senders_.assign(here.size(), std::vector<float>(own.size()));
  if (me == first) senders_[static_cast<std::size_t>(first)] = own;
  for (int rank = first + 1; rank < worker_.ranks(); ++rank) {
    if (here[static_cast<std::size_t>(rank)] == 0) continue;
    if (rank == me) TALLY_TRY(worker_.assign(all, std::as_bytes(std::span(own))));
    // If the worker is lost before its push, the table still has the data of an earlier worker.
    double has_pushed = rank == me ? 1 : 0;
    TALLY_TRY(worker_.sum(std::span(&has_pushed, 1)));
    if (me == first && has_pushed > 0)
      TALLY_TRY(worker_.wait(client.send({.range = all,
                                          .pull = server::PullOptions(),
                                          .values = std::as_writable_bytes(std::span(
                                              senders_[static_cast<std::size_t>(rank)]))})));
    TALLY_TRY(worker_.barrier());
  }
  return {};
}

Result<void> ServerCodecStates::read_backs() {
  backs_.assign(worker_.tables().all().size(), {});
  if (!worker_.is_first()) return {};
  for (std::size_t t = 0; t < backs_.size(); ++t) {
    const ServerTables::Table& table = worker_.tables().all()[t];
    if (!worker_.client().keeps_residual(table.id)) continue;
    backs_[t].resize(table.count);
    TALLY_TRY(worker_.client().read_state(table.all(), table.state_arrays,
                                          std::as_writable_bytes(std::span(backs_[t])),
                                          kTableLimit));
  }
  return {};
}

// The name of each sender's state has the sender's number.
std::vector<CodecState> ServerCodecStates::states() {
  std::vector<CodecState> states;
  if (!worker_.is_first()) return states;
  std::vector<CodecState> own = own_states();
  for (std::size_t rank = 0; rank < senders_.size(); ++rank) {
    std::span<float> rest = senders_[rank];
    for (CodecState state : own) {
      if (!state.is_of_sender) continue;
      state.name = fmt::format("{}.{}", state.name, rank);
      state.is_of_sender = false;
      state.values = rest.first(state.values.size());
      rest = rest.subspan(state.values.size());
      states.push_back(std::move(state));
    }
  }
  for (CodecState& state : own)
    if (!state.is_of_sender) states.push_back(std::move(state));
  for (std::size_t t = 0; t < backs_.size(); ++t)
    if (!backs_[t].empty())
      states.push_back({.parameter = worker_.tables().all()[t].parameters.front(),
                        .name = "back",
                        .is_of_sender = false,
                        .values = backs_[t]});
  return states;
}

Result<void> ServerCodecStates::restore_servers(const checkpoint::Reader& reader) {
  for (const ServerTables::Table& table : worker_.tables().all()) {
    if (!worker_.client().keeps_residual(table.id)) continue;
    std::vector<float> back(table.count);
    const CodecState state{.parameter = table.parameters.front(),
                           .name = "back",
                           .is_of_sender = false,
                           .values = back};
    TALLY_TRY(
        read_states(reader, worker_.tables().options().parameters, std::span(&state, 1), sender()));
    TALLY_TRY(worker_.client().write_state(table.all(), table.state_arrays,
                                           std::as_bytes(std::span(back)), kTableLimit));
  }
  return {};
}

Result<void> ServerCodecStates::restore_own(const checkpoint::Reader& reader) {
  return read_states(reader, worker_.tables().options().parameters, own_states(), sender());
}

}  // namespace tally::exchange
