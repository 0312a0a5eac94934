#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <torch/torch.h>

#include "tally/server.h"
#include "tally/sparse.h"

namespace tally::adapter {

// The SparseEmbeddings of a module with their rows on servers: each a sparse table by the name of
// its module. From the constructor on they have no parameter of their own; afterwards a fresh one.
// Throws Failure.
class ServerEmbeddings final {
 public:
  using Used = std::vector<SparseEmbeddingImpl::Used>;  // by embedding

  explicit ServerEmbeddings(torch::nn::Module& module);
  ~ServerEmbeddings();
  ServerEmbeddings(const ServerEmbeddings&) = delete;
  ServerEmbeddings& operator=(const ServerEmbeddings&) = delete;

  bool empty() const { return embeddings_.empty(); }
  // Before the first forward pass: defines the tables. What of the spec is not the embeddings' own
  // comes with `like`.
  void connect(server::Client& client, const server::TableSpec& like);

  // What was read since the last time, with its gradients.
  Used take();
  // One for each table; `used` stays in place until they are done. Without keys where there are
  // none.
  std::vector<server::Ticket> push(const Used& used, const server::PushOptions& facts);
  // Reads nothing, but waits as a reader does.
  std::vector<server::Ticket> await(const server::PullOptions& facts);
  // For whoever has no dense table.
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
