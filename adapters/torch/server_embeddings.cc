#include "adapters/torch/server_embeddings.h"

#include <fmt/format.h>

#include "adapters/torch/tensors.h"

namespace tally::adapter {
namespace {

constexpr auto kServerEmbeddingsSetupTimeout = std::chrono::minutes(5);

std::span<const float> embedding_floats(const at::Tensor& tensor) {
  if (!tensor.defined()) return {};
  return {tensor.data_ptr<float>(), static_cast<std::size_t>(tensor.numel())};
}

constexpr std::string_view kTableStart = "embedding ";

}  // namespace

std::string table_of_embedding(const std::string& embedding) {
  return std::string(kTableStart) + embedding;
}

std::optional<std::string> embedding_of_table(const std::string& table) {
  if (!table.starts_with(kTableStart)) return std::nullopt;
  return table.substr(kTableStart.size());
}

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
    rows->name = table_of_embedding(name);
    embedding->attach(rows.get());
    embeddings_.push_back(std::move(embedding));
    rows_.push_back(std::move(rows));
  }
}

ServerEmbeddings::~ServerEmbeddings() {
  for (const auto& embedding : embeddings_) embedding->attach(nullptr);
}

void ServerEmbeddings::connect(server::Client& client, const server::TableSpec& like) {
  for (std::size_t i = 0; i < embeddings_.size(); ++i) {
    const SparseEmbeddingOptions& options = embeddings_[i]->options();
    server::TableSpec spec = like;
    spec.name = rows_[i]->name;
    spec.kind = server::TableKind::kSparse;
    spec.dimension = static_cast<std::uint32_t>(options.dimension);
    spec.seed = options.seed;
    spec.initial_scale = options.initial_scale;
    rows_[i]->client = &client;
    rows_[i]->table = or_throw(client.define(spec, Deadline::after(kServerEmbeddingsSetupTimeout)));
  }
}

void ServerEmbeddings::Rows::pull(std::span<const std::uint64_t> keys, std::span<float> rows) {
  if (client == nullptr)
    refuse(ErrorCode::kInvalid, name + " is used before the servers are connected");
  or_throw(client->wait(client->pull(table, {}, keys, rows)));
}

std::vector<std::string> ServerEmbeddings::names() const {
  std::vector<std::string> names;
  for (const auto& rows : rows_) names.push_back(rows->name);
  return names;
}

void ServerEmbeddings::assign(const std::string& embedding, std::span<const std::uint64_t> keys,
                              std::span<const float> rows) {
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    if (rows_[i]->name != table_of_embedding(embedding)) continue;
    const auto dimension = static_cast<std::size_t>(embeddings_[i]->options().dimension);
    if (rows.size() != keys.size() * dimension)
      refuse(ErrorCode::kInvalid, fmt::format("{} values for {} rows of {}, which have {} values",
                                              rows.size(), keys.size(), embedding, dimension));
    server::Client& client = *rows_[i]->client;
    or_throw(
        client.wait(client.push(rows_[i]->table, {.kind = server::PushKind::kAssign}, keys, rows)));
    return;
  }
  refuse(ErrorCode::kInvalid, fmt::format("no embedding {}", embedding));
}

std::vector<server::TableId> ServerEmbeddings::tables() const {
  std::vector<server::TableId> tables;
  for (const auto& rows : rows_) tables.push_back(rows->table);
  return tables;
}

ServerEmbeddings::Used ServerEmbeddings::take() {
  Used used;
  for (const auto& embedding : embeddings_) {
    used.push_back(embedding->take());
    at::Tensor& gradient = used.back().gradient;
    if (gradient.defined()) gradient = gradient.contiguous();
  }
  return used;
}

std::vector<server::Ticket> ServerEmbeddings::push(const Used& used,
                                                   const server::PushOptions& facts) {
  std::vector<server::Ticket> tickets;
  for (std::size_t i = 0; i < rows_.size(); ++i)
    tickets.push_back(rows_[i]->client->push(rows_[i]->table, facts, used[i].keys,
                                             embedding_floats(used[i].gradient)));
  return tickets;
}

std::vector<server::Ticket> ServerEmbeddings::await(const server::PullOptions& facts) {
  std::vector<server::Ticket> tickets;
  for (const auto& rows : rows_) tickets.push_back(rows->client->pull(rows->table, facts, {}, {}));
  return tickets;
}

}  // namespace tally::adapter
