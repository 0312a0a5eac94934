#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "exchange/memory/parameter_layout.h"
#include "exchange/real_span.h"
#include "exchange/server/coded_table.h"
#include "exchange/server/server_client.h"
#include "exchange/server/sparse_rows.h"
#include "plan/codec_spec.h"
#include "policy/rules.h"

namespace tally::exchange {

// A model as tables on servers. The parameters lie in flat tables, one per group and type, in
// reverse order, the order of gradients in backward; half types are float32 there. A compressed
// parameter, and one whose optimizer needs its norm, has its own table. The client owns the memory,
// so that servers on this host use it in place. Sparse tables have no memory here.
//
// An update writes the next version beside the present one: commit() makes it the present one. The
// same holds for the optimizer state of the workers' own copies.
class ServerTables final {
 public:
  struct Options {
    std::vector<ParameterInfo> parameters;
    std::vector<OptimizerSpec> optimizers;  // by group
    policy::Rules rules;
    std::string plan;
    std::uint64_t seed = 1;
    plan::CodecSpec codec;
    std::vector<codec::SenderFacts> senders;  // by group, or empty
    int rank = 0;
    // Rounds whose update needs norms over all ranks' mean gradient: TableSpec::measured.
    bool measured = false;
    double clip_value = 0;  // with `measured`; 0: none
  };
  struct Table {
    server::TableId id = 0;
    std::size_t group = 0;
    DataType type = DataType::kFloat32;
    std::size_t count = 0;  // elements
    bool is_coded = false;  // gradients are encoded
    bool is_own = false;    // the table has one parameter; set if is_coded
    std::uint32_t parts = 0;
    std::size_t part_elements = 0;
    std::vector<std::size_t> parameters;     // in their order in the table
    std::vector<std::uint32_t> part_owners;  // by part: number of parameters with elements in it
    std::span<std::byte> values;             // of all parameters, in the present version
    std::span<std::byte> next;               // memory for the next version
    int state_arrays = 0;                    // of the optimizer
    std::unique_ptr<CodedTable> coded;       // if is_coded

    ServerClient::PartRange all() const { return {.table = id, .first = 0, .count = parts}; }
    // The bytes of some parts in memory with the layout of this table.
    std::span<std::byte> bytes_of(const ServerClient::PartRange& range,
                                  std::span<std::byte> flat) const;
    bool is_low_rank() const { return coded != nullptr && coded->is_low_rank(); }
  };
  struct Place {
    std::size_t table = 0;
    std::size_t begin = 0;  // element of the table
    std::uint32_t first_part = 0;
    std::uint32_t end_part = 0;
  };

  // The name of a table for the state of encoders; no table id here collides with it.
  static constexpr const char* kMemoryOfSenders = "what encoders remember";

  // Defines the tables. `sparse` have the settings of each sparse table that are its own.
  static Result<ServerTables> make(ServerClient& client, const Options& options,
                                   const std::vector<server::TableSpec>& sparse);

  const Options& options() const { return options_; }
  const std::vector<Table>& all() const { return tables_; }
  const std::vector<Place>& places() const { return places_; }  // by parameter
  const std::vector<server::TableId>& sparse() const { return sparse_; }
  const std::vector<std::string>& sparse_names() const { return sparse_names_; }
  // Of dense and sparse tables; there is at least one.
  std::vector<server::TableId> ids() const;

  // All values of the next version have arrived: moves to it.
  void commit();
  // The next version is given up: forgets the optimizer state that was read for it.
  void discard();

  std::size_t bytes() const;  // of one version of the values
  // Memory for one value of each element, by table.
  Result<std::vector<std::span<std::byte>>> allocate(ServerClient& client) const;
  // The bytes of a parameter in such memory.
  std::span<std::byte> bytes_of(std::size_t parameter, std::span<std::byte> flat) const;
  // Its present values.
  std::span<std::byte> values(std::size_t parameter) const;

 private:
  explicit ServerTables(const Options& options) : options_(options) {}
  void place_parameters();
  std::vector<std::string> names() const;
  server::TableSpec like(std::size_t group) const;
  server::TableSpec spec_of(const Table& table, const std::string& name) const;
  Result<void> define(ServerClient& client, Table& table, const std::string& name);
  std::unique_ptr<CodedTable> make_coded(const Table& table) const;

  Options options_;
  std::vector<Table> tables_;
  std::vector<Place> places_;
  std::vector<server::TableId> sparse_;
  std::vector<std::string> sparse_names_;
};

}  // namespace tally::exchange
