#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <torch/torch.h>

#include "adapters/torch/coded_table.h"
#include "adapters/torch/server_embeddings.h"
#include "adapters/torch/tensors.h"
#include "exchange/memory/parameter_layout.h"
#include "plan/codec_spec.h"
#include "tally/server.h"

namespace tally::adapter {

// Parameters as flat tables on servers. There is one table per group and type, with the parameters
// in reverse order, the order of gradients in backward; half types are float32 there. Each
// compressed parameter has its own table. The client owns the memory, so that servers on this host
// use it in place. Throws Failure.
class ServerTables final {
 public:
  struct Options {
    std::vector<exchange::ParameterInfo> parameters;
    std::vector<OptimizerSpec> optimizers;  // by group
    std::string plan;
    int workers = 1;
    std::uint64_t seed = 1;
    plan::CodecSpec codec;
    std::vector<std::string> other_tables;  // names that must not collide
  };
  struct Table {
    server::TableId id = 0;
    std::size_t group = 0;
    DataType type = DataType::kFloat32;
    std::size_t count = 0;  // elements
    bool is_coded = false;  // gradients are encoded; the table has one parameter
    std::uint32_t parts = 0;
    std::size_t part_elements = 0;
    std::vector<std::size_t> parameters;     // in their order in the table
    std::vector<std::uint32_t> part_owners;  // by part: number of parameters with elements in it
    at::Tensor values;                       // of all parameters, flat
  };
  struct Place {
    std::size_t table = 0;
    std::size_t begin = 0;  // element of the table
    std::uint32_t first_part = 0;
    std::uint32_t end_part = 0;
  };
  // Memory for one gradient of all parameters.
  struct Gradients {
    std::vector<at::Tensor> flat;                // by table
    std::vector<at::Tensor> views;               // by parameter, of its shape
    std::vector<CodedTable::Messages> messages;  // by table; by part if it is coded
    ServerEmbeddings::Used rows;                 // of embeddings
    std::vector<server::Ticket> pushes;          // that still use the memory
  };

  // The name of a table that ServerExchange defines; no table id here collides with it.
  static constexpr const char* kMemoryOfSenders = "what encoders remember";

  ServerTables(server::Client& client, const Options& options);

  const std::vector<Table>& tables() const { return tables_; }
  const std::vector<Place>& places() const { return places_; }  // by parameter
  // The parameter's values as a tensor of its shape.
  const at::Tensor& value(std::size_t parameter) const { return values_[parameter]; }
  std::unique_ptr<Gradients> make_gradients();

  // The bytes of a range of parts in a flat tensor of a table.
  static std::span<std::byte> bytes_of(const Table& table, const at::Tensor& flat,
                                       std::uint32_t first, std::uint32_t count);

 private:
  void place_parameters();
  std::vector<std::string> names() const;
  server::TableSpec spec_of(const Table& table, const std::string& name) const;
  at::Tensor allocate(const Table& table);
  std::vector<at::Tensor> views_of(const std::vector<at::Tensor>& flat) const;

  server::Client& client_;
  const Options options_;
  std::vector<Table> tables_;
  std::vector<Place> places_;
  std::vector<at::Tensor> values_;
};

}  // namespace tally::adapter
