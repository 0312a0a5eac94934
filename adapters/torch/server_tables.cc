#include "adapters/torch/server_tables.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "codec/codec.h"
#include "exchange/lane/codec_state.h"
#include "server/protocol/payloads.h"

namespace tally::adapter {
namespace {

// Parameters begin at cache lines of float32.
constexpr std::size_t kAlignment = 16;
constexpr auto kServerTablesSetupTimeout = std::chrono::minutes(5);

DataType table_type(DataType type) {
  return type == DataType::kFloat64 ? DataType::kFloat64 : DataType::kFloat32;
}

at::ScalarType scalar_type(DataType type) {
  return type == DataType::kFloat64 ? at::kDouble : at::kFloat;
}

std::string name_of(std::size_t group, DataType type) {
  return fmt::format("parameters of group {}, {}", group, to_string(type));
}

}  // namespace

ServerTables::ServerTables(server::Client& client, const Options& options)
    : client_(client), options_(options), places_(options.parameters.size()) {
  place_parameters();
  const std::vector<std::string> table_names = names();
  std::vector<at::Tensor> flat;
  for (std::size_t t = 0; t < tables_.size(); ++t) {
    Table& table = tables_[t];
    table.id = or_throw(
        client.define(spec_of(table, table_names[t]), Deadline::after(kServerTablesSetupTimeout)));
    table.parts = client.parts(table.id);
    table.part_elements = client.part_elements(table.id);
    table.part_owners.assign(table.parts, 0);
    table.values = allocate(table);
    flat.push_back(table.values);
    for (const std::size_t p : table.parameters) {
      const std::size_t count = options.parameters[p].count();
      Place& place = places_[p];
      place.first_part = static_cast<std::uint32_t>(place.begin / table.part_elements);
      place.end_part = static_cast<std::uint32_t>((place.begin + count + table.part_elements - 1) /
                                                  table.part_elements);
      for (std::uint32_t part = place.first_part; part < place.end_part; ++part)
        ++table.part_owners[part];
    }
  }
  values_ = views_of(flat);
}

void ServerTables::place_parameters() {
  std::map<std::pair<std::size_t, DataType>, std::size_t> index_of;
  for (std::size_t p = options_.parameters.size(); p-- > 0;) {
    const exchange::ParameterInfo& info = options_.parameters[p];
    if (exchange::is_compressed(options_.codec, info)) {
      places_[p] = {.table = tables_.size(), .begin = 0};
      tables_.push_back(
          {.group = info.group, .count = info.count(), .is_coded = true, .parameters = {p}});
      continue;
    }
    const auto [found, is_new] =
        index_of.try_emplace({info.group, table_type(info.type)}, tables_.size());
    if (is_new) tables_.push_back({.group = info.group, .type = table_type(info.type)});
    Table& table = tables_[found->second];
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
  for (const std::string& other : options_.other_tables) taken.insert(server::table_id(other));
  for (std::size_t t = 0; t < tables_.size(); ++t) {
    if (tables_[t].is_coded) continue;
    names[t] = name_of(tables_[t].group, tables_[t].type);
    taken.insert(server::table_id(names[t]));
  }
  for (std::size_t t = 0; t < tables_.size(); ++t) {
    if (!tables_[t].is_coded) continue;
    names[t] = fmt::format("parameter {}", tables_[t].parameters.front());
    for (int again = 1; !taken.insert(server::table_id(names[t])).second; ++again)
      names[t] = fmt::format("parameter {}, {}", tables_[t].parameters.front(), again);
  }
  return names;
}

server::TableSpec ServerTables::spec_of(const Table& table, const std::string& name) const {
  server::TableSpec spec{.name = name,
                         .type = table.type,
                         .count = table.count,
                         .optimizer = options_.optimizers[table.group],
                         .plan = options_.plan,
                         .workers = options_.workers,
                         .seed = options_.seed};
  if (!table.is_coded) return spec;
  const std::size_t p = table.parameters.front();
  spec.codec = plan::to_string(options_.codec);
  spec.columns = static_cast<std::uint32_t>(codec::shape_of(options_.parameters[p].shape).columns);
  spec.first_element = exchange::first_element_of(options_.parameters, p);
  return spec;
}

at::Tensor ServerTables::allocate(const Table& table) {
  const std::span<std::byte> memory = or_throw(client_.allocate(table.count * size_of(table.type)));
  return at::from_blob(memory.data(), {static_cast<std::int64_t>(table.count)},
                       at::TensorOptions().dtype(scalar_type(table.type)));
}

std::vector<at::Tensor> ServerTables::views_of(const std::vector<at::Tensor>& flat) const {
  std::vector<at::Tensor> views;
  for (std::size_t p = 0; p < places_.size(); ++p) {
    const exchange::ParameterInfo& info = options_.parameters[p];
    const at::Tensor& table = flat[places_[p].table];
    auto* const begin = static_cast<std::byte*>(table.data_ptr()) +
                        places_[p].begin * static_cast<std::size_t>(table.element_size());
    views.push_back(at::from_blob(begin, info.shape, table.options()));
  }
  return views;
}

std::unique_ptr<ServerTables::Gradients> ServerTables::make_gradients() {
  auto made = std::make_unique<Gradients>();
  for (const Table& table : tables_) {
    made->flat.push_back(allocate(table));
    made->messages.emplace_back(table.is_coded ? table.parts : 0);
  }
  made->views = views_of(made->flat);
  return made;
}

std::span<std::byte> ServerTables::bytes_of(const Table& table, const at::Tensor& flat,
                                            std::uint32_t first, std::uint32_t count) {
  const std::size_t element = size_of(table.type);
  const std::size_t begin = first * table.part_elements;
  const std::size_t end = std::min(table.count, (first + count) * table.part_elements);
  return {static_cast<std::byte*>(flat.data_ptr()) + begin * element, (end - begin) * element};
}

}  // namespace tally::adapter
