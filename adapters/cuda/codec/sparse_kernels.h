#pragma once
#include <cstddef>
#include <cstdint>

#include "adapters/cuda/cuda_device.h"

// The kernels of topk and threshold, which write and read the forms "dense" and "gaps" of
// codec/sparse/sparse_bytes.h. The blocks of a kernel wait for each other, so all of them run at
// the same time.
namespace tally::cuda {

// Bits of a magnitude that a pass of the selection tells apart: 11, 10 and 10.
inline constexpr unsigned kDigits = 2048;
inline constexpr unsigned kRiceParameters = 32;  // codec::kMaxRice + 1

// Marked values: their number, and the index behind the last one, 0 if there is none.
struct MarkExtent {
  std::uint32_t count = 0;
  std::uint32_t end = 0;
};

// Numbers by which the blocks of an encoder work together. Where blocks may still read what was
// written in one turn when others write the next one, turns use different arrays.
struct SparseEncodeWork {
  static constexpr unsigned kMostBlocks = 1024;
  // Zero at the start.
  std::uint32_t histograms[3][kDigits];
  std::uint32_t unary[kRiceParameters];  // zeros of all gaps by parameter
  static constexpr std::size_t kZeroBytes = sizeof(histograms) + sizeof(unary);

  MarkExtent extents[2][kMostBlocks];
  std::uint32_t block_unary[kMostBlocks][kRiceParameters];
  std::uint64_t bytes;  // of the encoding
};

struct SparseEncode {
  const float* gradient = nullptr;
  float* residual = nullptr;  // null: no feedback
  std::uint32_t count = 0;    // at least 1
  std::byte* out = nullptr;

  // threshold: the bits of the least magnitude that is sent.
  std::uint32_t threshold = 0;
  // topk, if threshold is 0: as in codec::select_top().
  std::uint32_t wanted = 0, least = 0, most = 0;
  std::uint32_t stride = 0, samples = 0;
  std::uint64_t rank = 0;

  std::uint32_t* marks = nullptr;   // a bit per value
  std::uint32_t* sample = nullptr;  // `samples` magnitudes
  SparseEncodeWork* work = nullptr;
};

Result<unsigned> sparse_encode_blocks(CudaDevice& device, std::size_t count);
Result<void> start_sparse_encode(const SparseEncode& task, unsigned blocks, CudaDevice& device);

// The meaning of a part of the bits of all gaps, if its first bits belong to the code before it.
struct GapPart {
  std::uint64_t sum = 0;  // by how much it advances the least index that may follow
  std::uint64_t end = 0;  // bit behind its last code; 0 if it has none
  std::uint32_t codes = 0;
  std::uint32_t exit = 0;  // bits of the next part that belong to the last code
};
struct SparseDecodeWork {
  static constexpr unsigned kMostBlocks = 256;
  GapPart parts[kMostBlocks][kRiceParameters];  // by block, and by the number of such first bits
};

struct SparseDecode {
  const std::byte* bytes = nullptr;
  std::uint64_t size = 0;
  float weight = 1;
  bool adds = false;  // out += weight * value; else out = value, over zeros
  float* out = nullptr;
  std::uint32_t count = 0;
  SparseDecodeWork* work = nullptr;
  std::uint32_t* damaged = nullptr;
};

Result<unsigned> sparse_decode_blocks(CudaDevice& device, std::size_t size);
Result<void> start_sparse_decode(const SparseDecode& task, unsigned blocks, CudaDevice& device);

}  // namespace tally::cuda
