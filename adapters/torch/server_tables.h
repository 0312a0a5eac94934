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
#include "plan/codec_spec.h"
#include "tally/server.h"
#include "train/parameter_layout.h"

namespace tally::adapter {

// Parameters as flat tables on servers: one for each group and type, in which they lie in the
// reverse order, as gradients come; halves as float32. What the codec compresses has a table for
// each parameter. Memory is the client's, so that servers on this host use it in place. Throws
// Failure.
class ServerTables final {
 public:
  struct Options {
    std::vector<train::ParameterInfo> parameters;
    std::vector<OptimizerSpec> optimizers;  // by group
    std::string plan;
    int workers = 1;
    std::uint64_t seed = 1;
    plan::CodecSpec codec;
    std::vector<std::string> other_tables;  // names that are not to be met
  };
  struct Table {
    server::TableId id = 0;
    std::size_t group = 0;
    DataType type = DataType::kFloat32;
    std::size_t count = 0;  // elements
    bool is_coded = false;  // gradients are encoded; it has one parameter
    std::uint32_t parts = 0;
    std::size_t part_elements = 0;
    std::vector<std::size_t> parameters;     // in their order here
    std::vector<std::uint32_t> part_owners;  // by part: how many parameters have elements in it
    at::Tensor values;                       // all of them, flat
  };
  struct Place {
    std::size_t table = 0;
    std::size_t begin = 0;  // element
    std::uint32_t first_part = 0;
    std::uint32_t end_part = 0;
  };
  // Room for one gradient of everything.
  struct Gradients {
    std::vector<at::Tensor> flat;                // by table
    std::vector<at::Tensor> views;               // by parameter, of its shape
    std::vector<CodedTable::Messages> messages;  // by table; by part where it is coded
    ServerEmbeddings::Used rows;                 // of embeddings
    std::vector<server::Ticket> pushes;          // that still use it
  };

  // The name of a table that others make: none here meets its number.
  static constexpr const char* kMemoryOfSenders = "what encoders remember";

  ServerTables(server::Client& client, const Options& options);

  const std::vector<Table>& tables() const { return tables_; }
  const std::vector<Place>& places() const { return places_; }  // by parameter
  // The parameter's values as a tensor of its shape.
  const at::Tensor& value(std::size_t parameter) const { return values_[parameter]; }
  std::unique_ptr<Gradients> make_gradients();

  // The bytes of some parts in a flat tensor of a table.
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
