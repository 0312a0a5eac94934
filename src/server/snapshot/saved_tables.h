#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "server/snapshot/saved_rows.h"
#include "server/snapshot/snapshot.h"
#include "tally/checkpoint.h"
#include "tally/error.h"

namespace tally::server {

// The name of the table with the rows of an embedding.
inline std::string table_of_embedding(const std::string& embedding) {
  return "embedding " + embedding;
}

// Sparse tables of a trained model that are stored by key: in the snapshot that a checkpoint of
// home=server names, or in a safetensors file as NAME.keys, int64 [rows], and NAME.weight, float32
// [rows, dimension]. Errors name the file and the remedy. Threads: calls must not overlap.
class SavedTables final {
 public:
  struct Table {
    std::string name;  // of the module
    std::uint32_t dimension = 0;
  };

  // None if the checkpoint or the file has no such tables. The table of module NAME on servers is
  // PREFIX NAME. The reader must outlive the object.
  static Result<SavedTables> open(const checkpoint::Reader& reader, std::string prefix);

  const std::vector<Table>& tables() const { return tables_; }
  const Table* find(const std::string& name) const;  // null: none
  // Whether the file has these tables among its tensors.
  bool are_tensors() const { return !snapshot_.has_value(); }

  // Passes all rows of a table to `each`, in batches of a few MiB.
  Result<void> visit(const std::string& name, const RowSink& each) const;
  // All rows in memory. Only for tables of a snapshot, which knows the rows of other keys.
  Result<std::unique_ptr<SavedRows>> load(const std::string& name) const;

 private:
  SavedTables(const checkpoint::Reader& reader, std::string prefix)
      : reader_(&reader), prefix_(std::move(prefix)) {}
  Result<void> open_snapshot();
  void find_tensors();
  Result<void> visit_tensors(const Table& table, const RowSink& each) const;
  Error with_remedy(Error error) const;

  const checkpoint::Reader* reader_;
  std::string prefix_;
  std::optional<SnapshotReader> snapshot_;
  std::vector<Table> tables_;
};

// The tensor of a module: "embedding.weight", or "weight" for the module without a name.
std::string tensor_name(const std::string& module, const char* tensor);

// kMismatch if a training cannot resume from the checkpoint because its sparse tables have another
// home than those of the checkpoint. `embeddings` are the names of the modules.
Result<void> check_home_of_rows(const checkpoint::Reader& reader,
                                const std::vector<std::string>& embeddings, bool on_servers);

}  // namespace tally::server
