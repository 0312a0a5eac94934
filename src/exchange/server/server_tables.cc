#include "exchange/server/server_tables.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "codec/codec.h"
#include "exchange/lane/codec_state.h"
#include "optimizer/update_rule.h"
#include "server/protocol/payloads.h"

namespace tally::exchange {
namespace {

// Parameters begin at cache lines of float32.
constexpr std::size_t kAlignment = 16;

DataType table_type(DataType type) {
  return type == DataType::kFloat64 ? DataType::kFloat64 : DataType::kFloat32;
}

}  // namespace

std::span<std::byte> ServerTables::Table::bytes_of(const ServerClient::PartRange& range,
                                                   std::span<std::byte> flat) const {
  const std::size_t begin = range.first * part_elements;
  const std::size_t end = std::min(count, (std::size_t{range.first} + range.count) * part_elements);
  return flat.subspan(begin * size_of(type), (end - begin) * size_of(type));
}

Result<ServerTables> ServerTables::make(ServerClient& client, const Options& options,
                                        const std::vector<server::TableSpec>& sparse) {
  ServerTables made(options);
  for (const server::TableSpec& own : sparse) made.sparse_names_.push_back(own.name);
  made.place_parameters();
  const std::vector<std::string> names = made.names();
  for (std::size_t t = 0; t < names.size(); ++t)
    TALLY_TRY(made.define(client, made.tables_[t], names[t]));
  TALLY_TRY(const auto memory, made.allocate(client));
  TALLY_TRY(const auto next, made.allocate(client));
  for (std::size_t t = 0; t < names.size(); ++t) {
    Table& table = made.tables_[t];
    table.values = memory[t];
    table.next = next[t];
    if (table.is_coded) table.coded = made.make_coded(table);
  }
  for (const server::TableSpec& own : sparse) {
    server::TableSpec spec = made.like(0);
    spec.name = own.name;
    spec.kind = server::TableKind::kSparse;
    spec.dimension = own.dimension;
    spec.seed = own.seed;
    spec.initial_scale = own.initial_scale;
    TALLY_TRY(made.sparse_.emplace_back(), client.define(spec, kTableLimit));
  }
  return made;
}

void ServerTables::place_parameters() {
  std::map<std::pair<std::size_t, DataType>, std::size_t> index_of;
  places_.resize(options_.parameters.size());
  for (std::size_t p = options_.parameters.size(); p-- > 0;) {
    const ParameterInfo& info = options_.parameters[p];
    const bool is_coded = is_compressed(options_.codec, info);
    if (is_coded || optimizer::is_layerwise(options_.optimizers[info.group])) {
      places_[p] = {.table = tables_.size(), .begin = 0};
      Table& table = tables_.emplace_back();
      table.group = info.group;
      table.type = table_type(info.type);
      table.count = std::max<std::size_t>(1, info.count());
      table.is_coded = is_coded;
      table.is_own = true;
      table.parameters = {p};
      continue;
    }
    const auto [found, is_new] =
        index_of.try_emplace({info.group, table_type(info.type)}, tables_.size());
    Table& table = is_new ? tables_.emplace_back() : tables_[found->second];
    table.group = info.group;
    table.type = table_type(info.type);
    places_[p] = {.table = found->second, .begin = table.count};
    table.parameters.push_back(p);
    table.count += (info.count() + kAlignment - 1) / kAlignment * kAlignment;
  }
}

// By table. Servers number tables by a short hash of the name, so that two of the many tables of a
// codec might collide; a suffix avoids that. All workers derive the same names.
std::vector<std::string> ServerTables::names() const {
  std::vector<std::string> names(tables_.size());
  std::set<server::TableId> taken = {server::table_id(kMemoryOfSenders)};
  for (const std::string& other : sparse_names_) taken.insert(server::table_id(other));
  for (std::size_t t = 0; t < tables_.size(); ++t) {
    if (tables_[t].is_own) continue;
    names[t] =
        fmt::format("parameters of group {}, {}", tables_[t].group, to_string(tables_[t].type));
    taken.insert(server::table_id(names[t]));
  }
  for (std::size_t t = 0; t < tables_.size(); ++t) {
    if (!tables_[t].is_own) continue;
    names[t] = fmt::format("parameter {}", tables_[t].parameters.front());
    for (int again = 1; !taken.insert(server::table_id(names[t])).second; ++again)
      names[t] = fmt::format("parameter {}, {}", tables_[t].parameters.front(), again);
  }
  return names;
}

server::TableSpec ServerTables::like(std::size_t group) const {
  return {.optimizer = options_.optimizers[group],
          .plan = options_.plan,
          .workers = options_.rules.workers,
          .measured = options_.measured,
          .clip_value = options_.clip_value};
}

server::TableSpec ServerTables::spec_of(const Table& table, const std::string& name) const {
  server::TableSpec spec = like(table.group);
  spec.name = name;
  spec.type = table.type;
  spec.count = table.count;
  spec.seed = options_.seed;
  if (!table.is_coded) return spec;
  const std::size_t p = table.parameters.front();
  spec.codec = plan::to_string(options_.codec);
  spec.columns = static_cast<std::uint32_t>(codec::shape_of(options_.parameters[p].shape).columns);
  spec.first_element = first_element_of(options_.parameters, p);
  return spec;
}

Result<void> ServerTables::define(ServerClient& client, Table& table, const std::string& name) {
  TALLY_TRY(table.id, client.define(spec_of(table, name), kTableLimit));
  table.parts = client.parts(table.id);
  table.part_elements = client.part_elements(table.id);
  table.part_owners.assign(table.parts, 0);
  table.state_arrays = optimizer::state_arrays(options_.optimizers[table.group]);
  for (const std::size_t p : table.parameters) {
    Place& place = places_[p];
    const std::size_t end = place.begin + options_.parameters[p].count();
    place.first_part = static_cast<std::uint32_t>(place.begin / table.part_elements);
    place.end_part =
        static_cast<std::uint32_t>((end + table.part_elements - 1) / table.part_elements);
    for (std::uint32_t part = place.first_part; part < place.end_part; ++part)
      ++table.part_owners[part];
  }
  return {};
}

std::unique_ptr<CodedTable> ServerTables::make_coded(const Table& table) const {
  const std::size_t p = table.parameters.front();
  codec::SenderFacts sender;
  if (table.group < options_.senders.size()) sender = options_.senders[table.group];
  sender.ranks = options_.rules.workers;
  return std::make_unique<CodedTable>(
      CodedTable::Options{.parameter = p,
                          .spec = options_.codec,
                          .shape = options_.parameters[p].shape,
                          .sender = sender,
                          .seed = options_.seed,
                          .first_element = first_element_of(options_.parameters, p),
                          .rank = options_.rank,
                          .table = table.id,
                          .optimizer = options_.optimizers[table.group],
                          .count = table.count,
                          .part_elements = table.part_elements,
                          .clip_value = options_.clip_value,
                          .in_step = options_.rules.update == plan::Update::kBsp});
}

std::vector<server::TableId> ServerTables::ids() const {
  std::vector<server::TableId> ids;
  for (const Table& table : tables_) ids.push_back(table.id);
  ids.insert(ids.end(), sparse_.begin(), sparse_.end());
  return ids;
}

void ServerTables::commit() {
  for (Table& table : tables_) {
    std::swap(table.values, table.next);
    if (table.coded != nullptr) table.coded->adopt();
  }
}

void ServerTables::discard() {
  for (const Table& table : tables_)
    if (table.coded != nullptr) table.coded->discard();
}

std::size_t ServerTables::bytes() const {
  std::size_t bytes = 0;
  for (const Table& table : tables_) bytes += table.values.size();
  return bytes;
}

Result<std::vector<std::span<std::byte>>> ServerTables::allocate(ServerClient& client) const {
  std::vector<std::span<std::byte>> memory;
  for (const Table& table : tables_) {
    TALLY_TRY(const auto flat, client.allocate(table.count * size_of(table.type)));
    // The memory may be longer than asked for.
    memory.push_back(flat.first(table.count * size_of(table.type)));
  }
  return memory;
}

std::span<std::byte> ServerTables::bytes_of(std::size_t parameter,
                                            std::span<std::byte> flat) const {
  const Place& place = places_[parameter];
  const std::size_t element = size_of(tables_[place.table].type);
  return flat.subspan(place.begin * element, options_.parameters[parameter].count() * element);
}

std::span<std::byte> ServerTables::values(std::size_t parameter) const {
  return bytes_of(parameter, tables_[places_[parameter].table].values);
}

}  // namespace tally::exchange
