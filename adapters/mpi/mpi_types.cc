#include "adapters/mpi/mpi_types.h"

#include "adapters/mpi/mpi_process.h"
#include "kernel/reduce/reduce.h"

namespace tally::mpi {
namespace {

template <DataType kType, ReduceOp kOp>
void combine(void* from, void* into, int* count, MPI_Datatype* /*type*/) {
  kernel::kernels().combine(kType, kOp, into, from, static_cast<std::size_t>(*count));
}

// The number of an operation among sum, min, max and product.
int index_of(ReduceOp op) {
  return op == ReduceOp::kSum || op == ReduceOp::kAverage ? 0 : static_cast<int>(op) - 1;
}

template <DataType kType>
Result<void> make_half(MPI_Op* ops) {
  constexpr int kCommutes = 1;
  MPI_User_function* const functions[] = {
      &combine<kType, ReduceOp::kSum>, &combine<kType, ReduceOp::kMin>,
      &combine<kType, ReduceOp::kMax>, &combine<kType, ReduceOp::kProduct>};
  for (MPI_User_function* const function : functions)
    TALLY_TRY(outcome_of(MPI_Op_create(function, kCommutes, ops++), "MPI_Op_create"));
  return {};
}

}  // namespace

MPI_Datatype type_of(DataType type) {
  // In the order of DataType.
  const MPI_Datatype types[kDataTypeCount] = {MPI_FLOAT,  MPI_DOUBLE,  MPI_UINT16_T, MPI_UINT16_T,
                                              MPI_INT8_T, MPI_UINT8_T, MPI_INT32_T,  MPI_INT64_T};
  return types[static_cast<int>(type)];
}

MpiOps::~MpiOps() {
  int finalised = 0;
  MPI_Finalized(&finalised);
  if (finalised != 0) return;
  for (auto& ops : half_)
    for (MPI_Op& op : ops)
      if (op != MPI_OP_NULL) MPI_Op_free(&op);
}

Result<void> MpiOps::make() {
  TALLY_TRY(make_half<DataType::kFloat16>(half_[0]));
  return make_half<DataType::kBFloat16>(half_[1]);
}

MPI_Op MpiOps::of(DataType type, ReduceOp op) const {
  if (type == DataType::kFloat16) return half_[0][index_of(op)];
  if (type == DataType::kBFloat16) return half_[1][index_of(op)];
  const MPI_Op plain[] = {MPI_SUM, MPI_MIN, MPI_MAX, MPI_PROD};
  return plain[index_of(op)];
}

}  // namespace tally::mpi
