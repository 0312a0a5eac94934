#pragma once
#include <cuda_runtime_api.h>
#include <nccl.h>

#include <cstddef>

#include "adapters/nccl/nccl_group.h"
#include "collective/external.h"
#include "tally/communicator.h"

namespace tally::nccl {

ncclDataType_t type_of(DataType type);
// Averages are sums here; the result is divided afterwards.
ncclRedOp_t op_of(ReduceOp op);

// Whether NCCL can carry out the collective on this rank of a group of this GPU: its memory must be
// that of the GPU, or pinned, and aligned to elements. kInvalid names the wrong argument; kSystem
// if the GPU has failed.
Result<void> check_memory(const Request& request, const NcclGroup& group);

// A collective by NCCL, over memory of the GPU: one call of NCCL, or a group of sends and receives.
// Unequal parts are grouped broadcasts or reductions, one for each part.
class NcclOperation final : public collective::ExternalOperation {
 public:
  // `done` is for this operation alone until it ends.
  NcclOperation(NcclGroup& group, const Request& request, cudaEvent_t done)
      : group_(group), request_(request), done_(done) {}

  // NCCL cannot take an operation back, so it begins when all ranks have entered.
  Result<bool> advance(bool all_entered) override;
  void cancel() override {
    if (stage_ != Stage::kWaiting) group_.abort();
  }

 private:
  enum class Stage { kWaiting, kIssued, kOnStream };

  ncclResult_t issue();
  ncclResult_t issue_parts();
  Result<void> divide_average();

  std::size_t parts(std::size_t rank) const;
  std::size_t own_part() const { return parts(static_cast<std::size_t>(group_.rank())); }

  NcclGroup& group_;
  const Request& request_;
  const cudaEvent_t done_;
  Stage stage_ = Stage::kWaiting;
};

}  // namespace tally::nccl
