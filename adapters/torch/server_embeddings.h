#pragma once
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <torch/torch.h>

#include "exchange/server/sparse_rows.h"
#include "tally/sparse.h"

namespace tally::adapter {

struct NamedEmbedding {
  std::string name;  // of the module
  std::shared_ptr<SparseEmbeddingImpl> embedding;
};
std::vector<NamedEmbedding> embeddings_of(torch::nn::Module& module);
std::vector<std::string> embedding_names_of(torch::nn::Module& module);

// The SparseEmbeddings of a module with their rows on servers: each has a sparse table with the
// name of its module. From construction on the embeddings have no parameter; after destruction they
// have a fresh one. Throws Failure.
class ServerEmbeddings final : public exchange::SparseRows {
 public:
  explicit ServerEmbeddings(torch::nn::Module& module);
  ~ServerEmbeddings() override;
  ServerEmbeddings(const ServerEmbeddings&) = delete;
  ServerEmbeddings& operator=(const ServerEmbeddings&) = delete;

  bool empty() const { return tables_.empty(); }

  std::vector<server::TableSpec> tables() const override;
  // Call before the first forward pass.
  void connect(exchange::ServerClient& client, std::span<const server::TableId> tables) override;
  std::vector<Used> take() override;
  // Sets these rows of the embedding with the name, and clears their optimizer state.
  void assign(const std::string& embedding, std::span<const std::uint64_t> keys,
              std::span<const float> rows);

 private:
  struct Table final : SparseEmbeddingImpl::Rows {
    void pull(std::span<const std::uint64_t> keys, std::span<float> rows) override;
    std::string name;
    std::shared_ptr<SparseEmbeddingImpl> embedding;  // shared with the module
    exchange::ServerClient* client = nullptr;
    server::TableId id = 0;
  };
  std::deque<Table> tables_;  // which embeddings point to
};

}  // namespace tally::adapter
