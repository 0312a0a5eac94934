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

std::vector<std::string> embedding_names_of(torch::nn::Module& module) {
  std::vector<std::string> names;
  for (const NamedEmbedding& named : embeddings_of(module)) names.push_back(named.name);
  return names;
}

ServerEmbeddings::ServerEmbeddings(torch::nn::Module& module) {
  for (const auto& [name, embedding] : embeddings_of(module)) {
    Table& table = tables_.emplace_back();
    table.name = server::table_of_embedding(name);
    table.embedding = embedding;
    embedding->attach(&table);
  }
}

ServerEmbeddings::~ServerEmbeddings() {
  for (const Table& table : tables_) table.embedding->attach(nullptr);
}

std::vector<server::TableSpec> ServerEmbeddings::tables() const {
  std::vector<server::TableSpec> specs;
  for (const Table& table : tables_) {
    const SparseEmbeddingOptions& options = table.embedding->options();
    specs.push_back({.name = table.name,
                     .dimension = static_cast<std::uint32_t>(options.dimension),
                     .seed = options.seed,
                     .initial_scale = options.initial_scale});
  }
  return specs;
}

void ServerEmbeddings::connect(exchange::ServerClient& client,
                               std::span<const server::TableId> tables) {
  for (std::size_t i = 0; i < tables_.size(); ++i) {
    tables_[i].client = &client;
    tables_[i].id = tables[i];
  }
}

void ServerEmbeddings::Table::pull(std::span<const std::uint64_t> keys, std::span<float> rows) {
  if (client == nullptr)
    refuse(ErrorCode::kInvalid, name + " is used before the servers are connected");
  or_throw(client->wait(client->pull_rows(id, {}, keys, rows)));
}

void ServerEmbeddings::assign(const std::string& embedding, std::span<const std::uint64_t> keys,
                              std::span<const float> rows) {
  for (const Table& table : tables_) {
    if (table.name != server::table_of_embedding(embedding)) continue;
    const auto dimension = static_cast<std::size_t>(table.embedding->options().dimension);
    if (rows.size() != keys.size() * dimension)
      refuse(ErrorCode::kInvalid, fmt::format("{} values for {} rows of {}, which have {} values",
                                              rows.size(), keys.size(), embedding, dimension));
    or_throw(table.client->wait(
        table.client->push_rows(table.id, {.kind = server::PushKind::kAssign}, keys, rows)));
    return;
  }
  refuse(ErrorCode::kInvalid, fmt::format("no embedding {}", embedding));
}

std::vector<exchange::SparseRows::Used> ServerEmbeddings::take() {
  std::vector<Used> all;
  for (const Table& table : tables_) {
    SparseEmbeddingImpl::Used taken = table.embedding->take();
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
