#include "adapters/torch/server_embeddings.h"

#include <fmt/format.h>

#include "adapters/torch/tensors.h"
#include "server/snapshot/saved_tables.h"

namespace tally::adapter {

std::vector<NamedEmbedding> embeddings_of(torch::nn::Module& module) {
  // libtorch cannot return the module itself if it is a local variable.
  const bool is_one = dynamic_cast<const SparseEmbeddingImpl*>(&module) != nullptr;
  std::vector<NamedEmbedding> embeddings;
  for (const auto& part : module.named_modules("", /*include_self=*/is_one))
    if (auto found = std::dynamic_pointer_cast<SparseEmbeddingImpl>(part.value()))
      embeddings.push_back({part.key(), std::move(found)});
  return embeddings;
}

ServerEmbeddings::ServerEmbeddings(torch::nn::Module& module) {
  for (auto& [name, embedding] : embeddings_of(module)) {
    auto rows = std::make_unique<Rows>();
    rows->name = server::table_of_embedding(name);
    embedding->attach(rows.get());
    embeddings_.push_back(std::move(embedding));
    rows_.push_back(std::move(rows));
  }
}

ServerEmbeddings::~ServerEmbeddings() {
  for (const auto& embedding : embeddings_) embedding->attach(nullptr);
}

std::vector<server::TableSpec> ServerEmbeddings::tables() const {
  std::vector<server::TableSpec> specs;
  for (std::size_t i = 0; i < embeddings_.size(); ++i) {
    const SparseEmbeddingOptions& options = embeddings_[i]->options();
    specs.push_back({.name = rows_[i]->name,
                     .dimension = static_cast<std::uint32_t>(options.dimension),
                     .seed = options.seed,
                     .initial_scale = options.initial_scale});
  }
  return specs;
}

void ServerEmbeddings::connect(exchange::ServerClient& client,
                               std::span<const server::TableId> tables) {
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    rows_[i]->client = &client;
    rows_[i]->table = tables[i];
  }
}

void ServerEmbeddings::Rows::pull(std::span<const std::uint64_t> keys, std::span<float> rows) {
  if (client == nullptr)
    refuse(ErrorCode::kInvalid, name + " is used before the servers are connected");
  or_throw(client->wait(client->pull_rows(table, {}, keys, rows)));
}

void ServerEmbeddings::assign(const std::string& embedding, std::span<const std::uint64_t> keys,
                              std::span<const float> rows) {
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    if (rows_[i]->name != server::table_of_embedding(embedding)) continue;
    const auto dimension = static_cast<std::size_t>(embeddings_[i]->options().dimension);
    if (rows.size() != keys.size() * dimension)
      refuse(ErrorCode::kInvalid, fmt::format("{} values for {} rows of {}, which have {} values",
                                              rows.size(), keys.size(), embedding, dimension));
    exchange::ServerClient& client = *rows_[i]->client;
    or_throw(client.wait(
        client.push_rows(rows_[i]->table, {.kind = server::PushKind::kAssign}, keys, rows)));
    return;
  }
  refuse(ErrorCode::kInvalid, fmt::format("no embedding {}", embedding));
}

std::vector<exchange::SparseRows::Used> ServerEmbeddings::take() {
  std::vector<Used> all;
  for (const auto& embedding : embeddings_) {
    SparseEmbeddingImpl::Used taken = embedding->take();
    Used& used = all.emplace_back();
    used.keys = std::move(taken.keys);
    if (!taken.gradient.defined()) continue;
    const auto gradient = std::make_shared<at::Tensor>(taken.gradient.contiguous());
    used.gradient = {gradient->data_ptr<float>(), static_cast<std::size_t>(gradient->numel())};
    used.memory = gradient;
  }
  return all;
}

}  // namespace tally::adapter
