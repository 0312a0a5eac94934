#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <torch/torch.h>

#include "tally/server.h"
#include "tally/sparse.h"

namespace tally::adapter {

struct NamedEmbedding {
  std::string name;  // of the module
  std::shared_ptr<SparseEmbeddingImpl> embedding;
};
std::vector<NamedEmbedding> embeddings_of(torch::nn::Module& module);

// The table on servers of the embedding with this name, and the way back; none for the name of
// another table.
std::string table_of_embedding(const std::string& embedding);
std::optional<std::string> embedding_of_table(const std::string& table);

// The SparseEmbeddings of a module with their rows on servers: each has a sparse table with the
// name of its module. From construction on the embeddings have no parameter; after destruction they
// have a fresh one. Throws Failure.
class ServerEmbeddings final {
 public:
  using Used = std::vector<SparseEmbeddingImpl::Used>;  // by embedding

  explicit ServerEmbeddings(torch::nn::Module& module);
  ~ServerEmbeddings();
  ServerEmbeddings(const ServerEmbeddings&) = delete;
  ServerEmbeddings& operator=(const ServerEmbeddings&) = delete;

  bool empty() const { return embeddings_.empty(); }
  // Defines the tables; call before the first forward pass. `like` has the table settings that do
  // not depend on the embedding.
  void connect(server::Client& client, const server::TableSpec& like);

  // The rows that were read since the last call, with their gradients.
  Used take();
  // Pushes to each table; `used` must stay in place until the tickets are done. Tables without
  // gradients get a push without keys.
  std::vector<server::Ticket> push(const Used& used, const server::PushOptions& facts);
  // Sets these rows of the embedding with the name, and clears their optimizer state.
  void assign(const std::string& embedding, std::span<const std::uint64_t> keys,
              std::span<const float> rows);
  // A pull without keys, which waits like any other pull.
  std::vector<server::Ticket> await(const server::PullOptions& facts);
  // A table for callers without a dense one.
  server::TableId first_table() const { return rows_.front()->table; }
  std::vector<server::TableId> tables() const;
  std::vector<std::string> names() const;  // of tables

 private:
  struct Rows final : SparseEmbeddingImpl::Rows {
    void pull(std::span<const std::uint64_t> keys, std::span<float> rows) override;
    server::Client* client = nullptr;
    server::TableId table = 0;
    std::string name;
  };

  std::vector<std::shared_ptr<SparseEmbeddingImpl>> embeddings_;  // shared with the module
  std::vector<std::unique_ptr<Rows>> rows_;
};

}  // namespace tally::adapter
