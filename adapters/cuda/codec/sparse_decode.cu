// Reads what topk and threshold write, from senders that need not be trusted.
//
// The indices are a stream of Rice codes (codec/entropy/rice.h): zeros, a one, then `parameter`
// lower bits. Where a code begins depends on all codes before it, but little: the first bits of a
// part of the stream that belong to the code before are 0 to `parameter`. So
//
//   walk     lane e of a warp reads the warp's part as if e such bits came first (GapPart)
//   join     parts are joined: of the warps of a block, then, behind a barrier of the grid, of all
//            blocks, from the first bit on, where e is 0
//   check    the joined parts are a stream of as many codes as the header says, whose last index
//            is below the number of values, and which ends at the last byte: else nothing is done
//   write    lane 0 of each warp reads the part once more, from its true beginning, and the warp
//            writes the values
#include <cooperative_groups.h>

#include <algorithm>

#include "adapters/cuda/codec/codec_math.cuh"
#include "adapters/cuda/codec/launch.cuh"
#include "adapters/cuda/codec/sparse_kernels.h"

namespace tally::cuda {
namespace {

constexpr unsigned kLanes = 32;
constexpr std::uint64_t kHeaderBytes = 6;  // codec::kGapsHeader
constexpr unsigned kDense = 0, kGaps = 1;  // the first byte
// Sums of wrong indices stop here, far above all right ones.
constexpr std::uint64_t kMostSum = std::uint64_t{1} << 40;

struct DecodeShared {
  GapPart parts[kWarps][kRiceParameters];  // by warp
  std::uint8_t exits[SparseDecodeWork::kMostBlocks][kRiceParameters];
  std::uint8_t enters[SparseDecodeWork::kMostBlocks];
  std::uint32_t indices[kWarps][kLanes];
  GapPart all[kWarps], before[kWarps];
};

// `first`, then `second`, which begins with first.exit bits of the last code of `first`.
__device__ inline GapPart joined(const GapPart& first, const GapPart& second) {
  return {.sum = first.sum + second.sum,
          .end = second.end > first.end ? second.end : first.end,
          .codes = first.codes + second.codes,
          .exit = second.exit};
}

class SparseDecoder {
 public:
  __device__ SparseDecoder(const SparseDecode& task, DecodeShared& shared)
      : task_(task), work_(*task.work), shared_(shared) {}

  __device__ void run() {
    const unsigned form = task_.size == 0 ? kGaps : byte_at(0);
    if (form == kDense && task_.size == 1 + 4 * std::uint64_t{task_.count}) return add_dense();
    if (form == kGaps && read_header() && find_codes()) return add_entries();
    if (blockIdx.x == 0 && threadIdx.x == 0) *task_.damaged = 1;
  }

 private:
  __device__ unsigned byte_at(std::uint64_t at) const {
    return static_cast<unsigned>(task_.bytes[at]);
  }
  __device__ std::uint32_t float_bits_at(std::uint64_t even_address) const {
    const auto* const halves = reinterpret_cast<const std::uint16_t*>(task_.bytes + even_address);
    return halves[0] | static_cast<std::uint32_t>(halves[1]) << 16;
  }
  __device__ void give(std::size_t i, float value) const {
    task_.out[i] = task_.adds ? __fadd_rn(task_.out[i], __fmul_rn(task_.weight, value)) : value;
  }

  __device__ void add_dense() const {
    const std::size_t step = std::size_t{gridDim.x} * kCodecThreads;
    for (std::size_t i = std::size_t{blockIdx.x} * kCodecThreads + threadIdx.x; i < task_.count;
         i += step) {
      const std::uint32_t low = load_word(task_.bytes, 4 * i, task_.size);
      const std::uint32_t high = load_word(task_.bytes, 4 * i + 4, task_.size);
      give(i, __uint_as_float(low >> 8 | high << 24));
    }
  }

  __device__ bool read_header() {
    if (task_.size < kHeaderBytes) return false;
    parameter_ = byte_at(1);
    entries_ = float_bits_at(2);
    if (parameter_ >= kRiceParameters || entries_ > task_.count) return false;
    if ((task_.size - kHeaderBytes) / 4 < entries_) return false;
    codes_at_ = kHeaderBytes + 4 * std::uint64_t{entries_};
    bits_ = (task_.size - codes_at_) * 8;
    const std::uint64_t warps = std::uint64_t{gridDim.x} * kWarps;
    // Longer than the lower bits of a code.
    const std::uint64_t each = ((bits_ + warps - 1) / warps + 63) / 64 * 64;
    begin_ = warp_index() * each;
    begin_ = begin_ < bits_ ? begin_ : bits_;
    end_ = begin_ + each < bits_ ? begin_ + each : bits_;
    return true;
  }

  // 32 bits of the codes; zeros behind the end.
  __device__ std::uint32_t window(std::uint64_t bit) const {
    const std::uint64_t at = codes_at_ * 8 + bit;
    const std::uint32_t low = load_word(task_.bytes, at / 32 * 4, task_.size);
    const std::uint32_t high = load_word(task_.bytes, at / 32 * 4 + 4, task_.size);
    return __funnelshift_r(low, high, static_cast<unsigned>(at % 32));
  }

  // Reads zeros from `at` on, and a code, if its one is in this part. Moves `at`, and adds what the
  // least next index advances by to `sum`.
  __device__ bool next_code(std::uint64_t& at, std::uint64_t& sum) const {
    while (at < end_) {
      const std::uint32_t ahead = window(at);
      const unsigned zeros =
          ahead == 0 ? 32 : static_cast<unsigned>(__ffs(static_cast<int>(ahead))) - 1;
      const std::uint64_t left = end_ - at;
      if (zeros >= left) {
        sum += left << parameter_;
        at = end_;
        return false;
      }
      sum += std::uint64_t{zeros} << parameter_;
      at += zeros;
      if (ahead == 0) continue;
      const std::uint32_t lower = window(at + 1) & ((1U << parameter_) - 1);
      sum += lower + std::uint64_t{1};
      at += 1 + parameter_;
      return true;
    }
    return false;
  }

  __device__ GapPart walk(unsigned entered) const {
    GapPart part;
    if (begin_ == end_) {
      part.exit = entered;
      return part;
    }
    std::uint64_t at = begin_ + entered;
    while (next_code(at, part.sum)) {
      ++part.codes;
      part.end = at;
    }
    part.exit = static_cast<std::uint32_t>(at - end_);
    if (part.sum > kMostSum) part.sum = kMostSum;
    return part;
  }

  // Finds where this warp's part of the codes begins. False, in all threads, if the bytes are no
  // encoding.
  __device__ bool find_codes() {
    const unsigned warp = threadIdx.x / kLanes, lane = lane_index();
    shared_.parts[warp][lane] = lane <= parameter_ ? walk(lane) : GapPart();
    __syncthreads();
    if (warp == 0) {
      GapPart block = shared_.parts[0][lane];
      for (int w = 1; w < kWarps; ++w) block = joined(block, shared_.parts[w][block.exit % kLanes]);
      work_.parts[blockIdx.x][lane] = block;
    }
    cooperative_groups::this_grid().sync();

    for (unsigned k = threadIdx.x; k < gridDim.x * kRiceParameters; k += kCodecThreads) {
      const unsigned exit = work_.parts[k / kRiceParameters][k % kRiceParameters].exit;
      shared_.exits[k / kRiceParameters][k % kRiceParameters] =
          static_cast<std::uint8_t>(exit % kRiceParameters);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      std::uint8_t entered = 0;
      for (unsigned b = 0; b < gridDim.x; ++b) {
        shared_.enters[b] = entered;
        entered = shared_.exits[b][entered];
      }
    }
    __syncthreads();
    GapPart all, before;
    for (unsigned b = threadIdx.x; b < gridDim.x; b += kCodecThreads) {
      const GapPart part = work_.parts[b][shared_.enters[b]];
      all = joined(all, part);
      if (b < blockIdx.x) before = joined(before, part);
    }
    all = block_joined(all, shared_.all);
    before = block_joined(before, shared_.before);

    // This warp's beginning.
    entered_ = shared_.enters[blockIdx.x];
    for (unsigned w = 0; w < warp; ++w) {
      const GapPart& part = shared_.parts[w][entered_];
      before = joined(before, part);
      entered_ = part.exit % kLanes;
    }
    before_ = before;
    // Zeros behind the last code are padding.
    if (all.end > bits_ || (all.end + 7) / 8 * 8 != bits_) return false;
    const std::uint64_t padding = (bits_ - all.end) << parameter_;
    return all.codes == entries_ && all.sum - padding <= task_.count;
  }

  // Joins the parts of all threads, in any order.
  static __device__ GapPart block_joined(GapPart own, GapPart* partial) {
    for (unsigned distance = 16; distance > 0; distance /= 2) {
      const GapPart other = {.sum = __shfl_xor_sync(kAllLanes, own.sum, distance),
                             .end = __shfl_xor_sync(kAllLanes, own.end, distance),
                             .codes = __shfl_xor_sync(kAllLanes, own.codes, distance),
                             .exit = 0};
      own = joined(own, other);
    }
    if (lane_index() == 0) partial[threadIdx.x / kLanes] = own;
    __syncthreads();
    GapPart all;
    for (int w = 0; w < kWarps; ++w) all = joined(all, partial[w]);
    return all;
  }

  __device__ void add_entries() {
    const unsigned lane = lane_index();
    std::uint32_t* const indices = shared_.indices[threadIdx.x / kLanes];
    std::uint64_t at = begin_ + entered_;
    std::uint64_t sum = before_.sum;
    std::uint64_t entry = before_.codes;
    unsigned found = kLanes;
    while (found == kLanes) {
      found = 0;
      if (lane == 0)
        for (; found < kLanes && next_code(at, sum); ++found)
          indices[found] = static_cast<std::uint32_t>(sum - 1);
      found = __shfl_sync(kAllLanes, found, 0);
      __syncwarp();
      if (lane < found) {
        const std::uint32_t bits = float_bits_at(kHeaderBytes + 4 * (entry + lane));
        give(indices[lane], __uint_as_float(bits));
      }
      entry += found;
      __syncwarp();
    }
  }

  const SparseDecode& task_;
  SparseDecodeWork& work_;
  DecodeShared& shared_;
  unsigned parameter_ = 0;
  std::uint32_t entries_ = 0;
  std::uint64_t codes_at_ = 0;         // byte of the first code
  std::uint64_t bits_ = 0;             // of all codes
  std::uint64_t begin_ = 0, end_ = 0;  // this warp's bits
  unsigned entered_ = 0;
  GapPart before_;  // the parts before this warp's
};

__global__ void __launch_bounds__(kCodecThreads, 2) decode_sparse(SparseDecode task) {
  __shared__ DecodeShared shared;
  SparseDecoder(task, shared).run();
}

}  // namespace

Result<unsigned> sparse_decode_blocks(CudaDevice& device, std::size_t size) {
  constexpr std::size_t kLeastBytes = 512;  // of a block
  constexpr unsigned kMostEach = 2;
  TALLY_TRY(const unsigned resident, resident_blocks(device, decode_sparse));
  const std::size_t most = std::min<std::size_t>(
      SparseDecodeWork::kMostBlocks,
      static_cast<std::size_t>(device.multiprocessors()) * std::min(resident, kMostEach));
  const std::size_t wanted = (size + kLeastBytes - 1) / kLeastBytes;
  return static_cast<unsigned>(std::clamp<std::size_t>(wanted, 1, std::max<std::size_t>(most, 1)));
}

Result<void> start_sparse_decode(const SparseDecode& task, unsigned blocks, CudaDevice& device) {
  return launch_together(device, decode_sparse, blocks, task);
}

}  // namespace tally::cuda
