#include "server/snapshot/saved_piece.h"

#include <cstring>
#include <string>

#include <fmt/format.h>

#include "base/errors.h"
#include "optimizer/update_rule.h"
#include "wire/fields.h"

namespace tally::server {
namespace {

// Bytes of one row of the tensor.
std::size_t width_of(const checkpoint::TensorInfo& tensor) {
  const std::size_t columns = tensor.shape.size() == 2 ? tensor.shape[1] : 1;
  return columns * size_of(tensor.type);
}

template <typename Fields>
void fields(Fields& f, wire::FieldsOf<Fields, SavedPiece>& saved) {
  f.number(saved.part.part);
  f.number(saved.part.parts);
  f.number(saved.part.version);
  f.number(saved.piece);
  f.number(saved.pieces);
  f.bytes(saved.header);
  f.check(saved.part.part < saved.part.parts && saved.piece < saved.pieces,
          "a part that its table does not have");
}

}  // namespace

std::string name_of(const SavedPiece& piece) {
  return fmt::format("{}/{}.{}", piece.spec.name, piece.part.part, piece.piece);
}

std::vector<std::byte> encode(const SavedPiece& piece) {
  wire::Writer out;
  wire::FieldWriter writer(out);
  fields(writer, piece);
  out.bytes(encode(piece.spec));
  return out.take();
}

Result<SavedPiece> decode_saved_piece(std::span<const std::byte> bytes) {
  wire::Reader in(bytes);
  SavedPiece piece;
  wire::FieldReader reader(in);
  fields(reader, piece);
  TALLY_TRY(reader.outcome());
  TALLY_TRY(const auto spec, in.bytes(in.remaining_bytes()));
  TALLY_TRY(piece.spec, decode_spec(spec));
  return piece;
}

Result<std::vector<checkpoint::TensorInfo>> tensors_of(const SavedPiece& piece) {
  std::vector<checkpoint::TensorInfo> tensors;
  const auto add = [&](const std::string& array, DataType type, std::vector<std::int64_t> shape) {
    tensors.push_back({fmt::format("{}/{}", name_of(piece), array), type, std::move(shape)});
  };
  std::vector<std::string> arrays = optimizer::state_names(piece.spec.optimizer);
  arrays.insert(arrays.begin(), "values");
  std::size_t expected = 0;
  if (piece.spec.kind == TableKind::kSparse) {
    TALLY_TRY(const SparsePiece sparse, read_sparse_header(piece.header));
    expected = sparse.dimension == piece.spec.dimension ? sparse.arrays : 0;
    add("keys", DataType::kInt64, {sparse.rows});
    add("steps", DataType::kInt32, {sparse.rows});
    for (const std::string& array : arrays)
      add(array, DataType::kFloat32, {sparse.rows, sparse.dimension});
  } else {
    TALLY_TRY(const DensePiece dense, read_dense_header(piece.header));
    expected = dense.arrays;
    if (expected == arrays.size() + 1 + (dense.has_mean_square ? 1 : 0))
      arrays.emplace_back("residual");
    if (dense.has_mean_square) arrays.emplace_back("mean_square");
    for (const std::string& array : arrays) add(array, dense.type, {dense.count});
  }
  if (expected != arrays.size()) return corrupt("{} has other arrays", name_of(piece));
  return tensors;
}

std::vector<std::byte> rearranged(std::span<const checkpoint::TensorInfo> tensors,
                                  std::span<const std::byte> bytes, Arrangement to) {
  std::size_t row_bytes = 0;
  for (const checkpoint::TensorInfo& tensor : tensors) row_bytes += width_of(tensor);
  std::vector<std::byte> result(bytes.size());
  std::size_t field_at = 0, at = 0;  // in a row, in the tensors
  for (const checkpoint::TensorInfo& tensor : tensors) {
    const std::size_t width = width_of(tensor);
    for (std::size_t in_rows = field_at; in_rows < bytes.size();
         in_rows += row_bytes, at += width) {
      if (to == Arrangement::kTensors)
        std::memcpy(result.data() + at, bytes.data() + in_rows, width);
      else
        std::memcpy(result.data() + in_rows, bytes.data() + at, width);
    }
    field_at += width;
  }
  return result;
}

}  // namespace tally::server
