// topk and threshold: marks the values that are sent, one bit each, and writes them as
// codec::write_sparse() does. One kernel does all of it; the phases are separated by barriers of
// the grid. Each warp owns a run of words of 32 marks, in the order of the values.
//
//   sample    topk: every stride-th magnitude
//   mark      values of at least a threshold: for topk the rank-th largest of the sample, with
//             twice the rank until enough are marked
//   trim      topk with too many marks: the `wanted` largest; of equal ones the first
//   measure   zeros of all gaps for each Rice parameter; the best parameter gives the size
//   write     values and codes at their places, which sums over earlier warps give; what was sent
//             leaves the residual
//
// The rank-th largest magnitude is found digit by digit: a histogram of a digit over the magnitudes
// that share the digits found so far.
#include <cooperative_groups.h>

#include <algorithm>

#include "adapters/cuda/codec/codec_math.cuh"
#include "adapters/cuda/codec/launch.cuh"
#include "adapters/cuda/codec/sparse_kernels.h"

namespace tally::cuda {
namespace {

constexpr unsigned kLanes = 32;
constexpr std::uint32_t kHeaderBytes = 6;  // codec::kGapsHeader
constexpr unsigned kHighestParameter = kRiceParameters - 1;

struct EncodeShared {
  std::uint32_t histogram[kDigits];
  std::uint32_t unary[kWarps][kRiceParameters];
  MarkExtent own[kWarps];  // of each warp
  MarkExtent all[kWarps], before[kWarps];
  std::uint32_t sums[kWarps];
  std::uint32_t digit, rank, equal;
  std::uint32_t parameter;
  std::uint64_t bits;
};

// The marks of the whole grid, and of the warps before this one.
struct MarkPlace {
  MarkExtent all, before;
};

__device__ inline void wait_for_grid() { cooperative_groups::this_grid().sync(); }

__device__ inline unsigned warp_in_block() { return threadIdx.x / kLanes; }

__device__ inline std::uint32_t magnitude(float value) {
  return __float_as_uint(value) & kMagnitude;
}

__device__ inline MarkExtent joined(const MarkExtent& a, const MarkExtent& b) {
  return {a.count + b.count, a.end > b.end ? a.end : b.end};
}
__device__ inline MarkExtent warp_joined(const MarkExtent& own) {
  return {warp_sum(own.count), warp_max(own.end)};
}

// The largest of the lanes below this one; 0 in lane 0.
__device__ inline std::uint32_t warp_max_before(std::uint32_t value) {
  std::uint32_t most = __shfl_up_sync(kAllLanes, value, 1);
  if (lane_index() == 0) most = 0;
  for (unsigned distance = 1; distance < kLanes; distance *= 2) {
    const std::uint32_t other = __shfl_up_sync(kAllLanes, most, distance);
    if (lane_index() >= distance && other > most) most = other;
  }
  return most;
}

// The sum of a value over the block, for every thread. `partial` has kWarps elements that nothing
// else uses.
__device__ inline std::uint32_t block_sum(std::uint32_t value, std::uint32_t* partial) {
  const std::uint32_t own = warp_sum(value);
  if (lane_index() == 0) partial[warp_in_block()] = own;
  __syncthreads();
  std::uint32_t sum = 0;
  for (int w = 0; w < kWarps; ++w) sum += partial[w];
  __syncthreads();
  return sum;
}

template <bool kFeedback>
class SparseEncoder {
 public:
  __device__ SparseEncoder(const SparseEncode& task, EncodeShared& shared)
      : task_(task), work_(*task.work), shared_(shared) {
    values_ = kFeedback ? task.residual : task.gradient;
    words_ = (std::size_t{task.count} + kLanes - 1) / kLanes;
    const std::size_t warps = std::size_t{gridDim.x} * kWarps;
    // Whole rounds of a warp.
    const std::size_t each = ((words_ + warps - 1) / warps + kLanes - 1) / kLanes * kLanes;
    begin_ = min_of(warp_index() * each, words_);
    end_ = min_of(begin_ + each, words_);
  }

  __device__ void run() {
    MarkPlace place;
    if (task_.threshold != 0) {
      place = share(mark<kFeedback>(task_.threshold));
    } else {
      place = select();
    }
    const std::uint64_t dense = 1 + 4 * std::uint64_t{task_.count};
    const std::uint64_t with_gaps = kHeaderBytes + 4 * std::uint64_t{place.all.count};
    if (with_gaps >= dense) return write_dense(dense);
    measure(place);
    const std::uint64_t size = with_gaps + (shared_.bits + 7) / 8;
    if (size >= dense) return write_dense(dense);
    write_gaps(place, size);
  }

 private:
  static __device__ std::size_t min_of(std::size_t a, std::size_t b) { return a < b ? a : b; }

  // The mark word of this lane in the round that begins at `word`; 0 behind the end.
  __device__ std::uint32_t marks_at(std::size_t word) const {
    return word + lane_index() < end_ ? task_.marks[word + lane_index()] : 0;
  }
  // The index of the first value of this lane's word.
  static __device__ std::uint32_t first_of(std::size_t word) {
    return static_cast<std::uint32_t>((word + lane_index()) * kLanes);
  }
  static __device__ std::uint32_t end_of(std::uint32_t marks, std::uint32_t first) {
    return marks == 0 ? 0 : first + (kLanes - static_cast<unsigned>(__clz(marks)));
  }

  // Tells all blocks the extent of this warp's marks.
  __device__ MarkPlace share(const MarkExtent& own) {
    MarkExtent* const extents = work_.extents[share_turn_++ % 2];
    if (lane_index() == 0) shared_.own[warp_in_block()] = own;
    __syncthreads();
    if (threadIdx.x == 0) {
      MarkExtent block;
      for (int w = 0; w < kWarps; ++w) block = joined(block, shared_.own[w]);
      extents[blockIdx.x] = block;
    }
    wait_for_grid();
    MarkPlace place;
    for (unsigned b = threadIdx.x; b < gridDim.x; b += kCodecThreads) {
      const MarkExtent other = extents[b];
      place.all = joined(place.all, other);
      if (b < blockIdx.x) place.before = joined(place.before, other);
    }
    place = {warp_joined(place.all), warp_joined(place.before)};
    if (lane_index() == 0) {
      shared_.all[warp_in_block()] = place.all;
      shared_.before[warp_in_block()] = place.before;
    }
    __syncthreads();
    place = {};
    for (unsigned w = 0; w < kWarps; ++w) {
      place.all = joined(place.all, shared_.all[w]);
      place.before = joined(place.before, shared_.before[w]);
      if (w < warp_in_block()) place.before = joined(place.before, shared_.own[w]);
    }
    __syncthreads();
    return place;
  }

  // Marks the values of at least `least`. kAdds: first adds the gradient to the residual.
  template <bool kAdds>
  __device__ MarkExtent mark(std::uint32_t least) {
    constexpr int kAtOnce = 16;
    MarkExtent own;
    for (std::size_t word = begin_; word < end_; word += kLanes) {
      std::uint32_t marks = 0;
      for (int part = 0; part < static_cast<int>(kLanes); part += kAtOnce) {
        const std::size_t first = (word + part) * kLanes + lane_index();
        float values[kAtOnce];
#pragma unroll
        for (int w = 0; w < kAtOnce; ++w) {
          const std::size_t i = first + w * kLanes;
          values[w] = i < task_.count ? (kAdds ? task_.gradient[i] : values_[i]) : 0.0F;
        }
        if constexpr (kAdds) {
          float kept[kAtOnce];
#pragma unroll
          for (int w = 0; w < kAtOnce; ++w) {
            const std::size_t i = first + w * kLanes;
            kept[w] = i < task_.count ? task_.residual[i] : 0.0F;
          }
#pragma unroll
          for (int w = 0; w < kAtOnce; ++w) {
            const std::size_t i = first + w * kLanes;
            values[w] = __fadd_rn(kept[w], values[w]);
            if (i < task_.count) task_.residual[i] = values[w];
          }
        }
#pragma unroll
        for (int w = 0; w < kAtOnce; ++w) {
          // `least` is above 0, so that nothing behind the end is marked.
          const std::uint32_t bits = __ballot_sync(kAllLanes, magnitude(values[w]) >= least);
          if (lane_index() == static_cast<unsigned>(part + w)) marks = bits;
        }
      }
      keep(word, marks, own);
    }
    return warp_joined(own);
  }

  __device__ void keep(std::size_t word, std::uint32_t marks, MarkExtent& own) {
    if (word + lane_index() < end_) task_.marks[word + lane_index()] = marks;
    own = joined(own, {static_cast<std::uint32_t>(__popc(marks)), end_of(marks, first_of(word))});
  }

  // Calls visit(bit, index) for each mark of this lane's word; the lanes of a warp diverge.
  template <typename Visit>
  __device__ void for_marked(std::size_t word, std::uint32_t marks, const Visit& visit) const {
    const std::uint32_t first = first_of(word);
    for (; marks != 0; marks &= marks - 1) {
      const auto bit = static_cast<unsigned>(__ffs(static_cast<int>(marks))) - 1;
      visit(bit, first + bit);
    }
  }

  __device__ MarkPlace select() {
    const auto sampled_at = [this](std::size_t i) {
      const float gradient = task_.gradient[i];
      return kFeedback ? __fadd_rn(task_.residual[i], gradient) : gradient;
    };
    std::uint64_t rank = task_.rank;
    if (rank < task_.samples) {
      for (std::uint32_t k = thread(); k < task_.samples; k += threads())
        task_.sample[k] = magnitude(sampled_at(std::size_t{k} * task_.stride));
      wait_for_grid();
    }
    MarkPlace place;
    std::uint32_t threshold = 0;
    bool is_first = true;
    do {
      threshold = 1;
      if (rank < task_.samples) {
        const auto for_sample = [this](const auto& visit) {
          for (std::uint32_t k = thread(); k < task_.samples; k += threads())
            visit(task_.sample[k]);
        };
        threshold = rank_th_largest(for_sample, static_cast<std::uint32_t>(rank)).magnitude;
        threshold = threshold < 1 ? 1 : threshold > kInfinityBits ? kInfinityBits : threshold;
      }
      place = share(is_first ? mark<kFeedback>(threshold) : mark<false>(threshold));
      is_first = false;
      rank *= 2;
    } while (place.all.count < task_.least && threshold > 1);
    return place.all.count <= task_.most ? place : trim();
  }

  static __device__ std::uint32_t thread() { return blockIdx.x * kCodecThreads + threadIdx.x; }
  static __device__ std::uint32_t threads() { return gridDim.x * kCodecThreads; }

  struct Found {
    std::uint32_t magnitude = 0;
    std::uint32_t rank = 0;   // among those of the same magnitude, from 1
    std::uint32_t equal = 0;  // their number
  };
  // for_each(visit) calls visit(magnitude) for this thread's part of all magnitudes, which are at
  // least `rank`.
  template <typename ForEach>
  __device__ Found rank_th_largest(const ForEach& for_each, std::uint32_t rank) {
    Found found = {.magnitude = 0, .rank = rank, .equal = 0};
    for (int shift = 20; shift >= 0; shift -= 10) {
      const int bits = shift == 20 ? 11 : 10;
      for (unsigned d = threadIdx.x; d < kDigits; d += kCodecThreads) shared_.histogram[d] = 0;
      __syncthreads();
      const std::uint32_t known = found.magnitude;
      for_each([&](std::uint32_t own) {
        // The first digit follows bit 31, which is 0 in all magnitudes.
        if (own >> (shift + bits) == known)
          atomicAdd(&shared_.histogram[(own >> shift) & ((1U << bits) - 1)], 1U);
      });
      __syncthreads();
      std::uint32_t* const all = work_.histograms[select_turn_ % 3];
      std::uint32_t* const next = work_.histograms[(select_turn_ + 1) % 3];
      ++select_turn_;
      for (unsigned d = threadIdx.x; d < kDigits; d += kCodecThreads) {
        if (shared_.histogram[d] != 0) atomicAdd(&all[d], shared_.histogram[d]);
        if (blockIdx.x == 0) next[d] = 0;
      }
      wait_for_grid();
      find_digit(all, found.rank);
      found = {
          .magnitude = known << bits | shared_.digit, .rank = shared_.rank, .equal = shared_.equal};
      __syncthreads();
    }
    return found;
  }

  // The digit of the rank-th largest, its rank among those of the same digit, and their number.
  __device__ void find_digit(const std::uint32_t* histogram, std::uint32_t rank) {
    constexpr unsigned kEach = kDigits / kCodecThreads;
    // Thread 0 has the largest digits.
    const unsigned highest = kDigits - 1 - threadIdx.x * kEach;
    std::uint32_t counts[kEach];
    std::uint32_t own = 0;
#pragma unroll
    for (unsigned d = 0; d < kEach; ++d) {
      counts[d] = histogram[highest - d];
      own += counts[d];
    }
    const std::uint32_t before_lane = warp_sum_before(own);
    if (lane_index() == kLanes - 1) shared_.sums[warp_in_block()] = before_lane + own;
    __syncthreads();
    std::uint32_t above = before_lane;
    for (unsigned w = 0; w < warp_in_block(); ++w) above += shared_.sums[w];
    if (above < rank && rank <= above + own) {
#pragma unroll
      for (unsigned d = 0; d < kEach; ++d) {
        if (above < rank && rank <= above + counts[d]) {
          shared_.digit = highest - d;
          shared_.rank = rank - above;
          shared_.equal = counts[d];
        }
        above += counts[d];
      }
    }
    __syncthreads();
  }

  // Keeps the marks of the `wanted` largest, or of all that are not finite if these are more.
  __device__ MarkPlace trim() {
    const auto for_candidates = [this](const auto& visit) {
      for (std::size_t word = begin_; word < end_; word += kLanes)
        for_marked(word, marks_at(word),
                   [&](unsigned, std::uint32_t i) { visit(magnitude(values_[i])); });
    };
    const Found last = rank_th_largest(for_candidates, task_.wanted);
    const bool is_number = last.magnitude < kInfinityBits;
    const std::uint32_t sure = is_number ? last.magnitude + 1 : kInfinityBits;
    const std::uint32_t equal_ones = is_number ? last.rank : 0;
    const bool has_order = is_number && equal_ones < last.equal;

    const auto equal_marks = [&](std::size_t word, std::uint32_t marks) {
      std::uint32_t equal = 0;
      for_marked(word, marks, [&](unsigned bit, std::uint32_t i) {
        if (magnitude(values_[i]) == last.magnitude) equal |= 1U << bit;
      });
      return equal;
    };
    std::uint32_t equal_before = 0;
    if (has_order) {
      std::uint32_t own = 0;
      for (std::size_t word = begin_; word < end_; word += kLanes)
        own += static_cast<std::uint32_t>(__popc(equal_marks(word, marks_at(word))));
      equal_before = share({warp_sum(own), 0}).before.count;
    }

    MarkExtent kept_extent;
    for (std::size_t word = begin_; word < end_; word += kLanes) {
      const std::uint32_t marks = marks_at(word);
      std::uint32_t kept = 0;
      for_marked(word, marks, [&](unsigned bit, std::uint32_t i) {
        if (magnitude(values_[i]) >= sure) kept |= 1U << bit;
      });
      if (is_number) {
        std::uint32_t equal = equal_marks(word, marks);
        if (has_order) {
          const auto count = static_cast<std::uint32_t>(__popc(equal));
          std::uint32_t before = equal_before + warp_sum_before(count);
          equal_before += warp_sum(count);
          // The first ones, as many as are left.
          std::uint32_t first_ones = 0;
          for (; equal != 0 && before < equal_ones; ++before) {
            first_ones |= equal & (0U - equal);
            equal &= equal - 1;
          }
          equal = first_ones;
        }
        kept |= equal;
      }
      keep(word, kept, kept_extent);
    }
    return share(warp_joined(kept_extent));
  }

  // Adds up the zeros of all gaps for each parameter, and chooses the parameter.
  __device__ void measure(const MarkPlace& place) {
    std::uint32_t zeros[kRiceParameters] = {};
    for_gaps(place, [&](std::size_t word, std::uint32_t marks, std::uint32_t next) {
      for_marked(word, marks, [&](unsigned, std::uint32_t i) {
        const std::uint32_t gap = i - next;
        next = i + 1;
#pragma unroll
        for (unsigned p = 0; p < kRiceParameters; ++p) zeros[p] += gap >> p;
      });
    });
    // Lane p gets the sum for parameter p.
    std::uint32_t own = 0;
#pragma unroll
    for (unsigned p = 0; p < kRiceParameters; ++p) {
      const std::uint32_t sum = warp_sum(zeros[p]);
      if (lane_index() == p) own = sum;
    }
    shared_.unary[warp_in_block()][lane_index()] = own;
    __syncthreads();
    if (threadIdx.x < kRiceParameters) {
      std::uint32_t block = 0;
      for (int w = 0; w < kWarps; ++w) block += shared_.unary[w][threadIdx.x];
      work_.block_unary[blockIdx.x][threadIdx.x] = block;
      if (block != 0) atomicAdd(&work_.unary[threadIdx.x], block);
    }
    wait_for_grid();
    if (threadIdx.x == 0) choose(place.all);
    __syncthreads();
  }

  // As codec::choose_rice().
  __device__ void choose(const MarkExtent& all) {
    const auto bits_with = [&](unsigned parameter) {
      return work_.unary[parameter] + std::uint64_t{all.count} * (1 + std::uint64_t{parameter});
    };
    shared_.parameter = 0;
    shared_.bits = 0;
    if (all.count == 0) return;
    const double left_out = static_cast<double>(all.end) - static_cast<double>(all.count);
    const double half =
        __dmul_rn(__ddiv_rn(left_out, static_cast<double>(all.count)), 0.69314718055994530942);
    unsigned best = 0;
    if (half >= 1) {
      const auto nearest = static_cast<unsigned>(lround(log2(half)));
      best = nearest < kHighestParameter ? nearest : kHighestParameter;
    }
    std::uint64_t bits = bits_with(best);
    if (best < kHighestParameter && bits_with(best + 1) < bits) {
      shared_.parameter = best + 1;
      shared_.bits = bits_with(best + 1);
      return;
    }
    for (; best > 0 && bits_with(best - 1) < bits; --best) bits = bits_with(best - 1);
    if (all.end < bits) {
      best = 0;
      bits = all.end;
    }
    shared_.parameter = best;
    shared_.bits = bits;
  }

  // Calls take(round, marks of this lane, least index that may follow the marks before) in each
  // round of this warp.
  template <typename Take>
  __device__ void for_gaps(const MarkPlace& place, const Take& take) {
    std::uint32_t next = place.before.end;
    for (std::size_t word = begin_; word < end_; word += kLanes) {
      const std::uint32_t marks = marks_at(word);
      const std::uint32_t end = end_of(marks, first_of(word));
      const std::uint32_t before = warp_max_before(end);
      take(word, marks, before > next ? before : next);
      const std::uint32_t last = warp_max(end);
      if (last > next) next = last;
    }
  }

  __device__ void write_gaps(const MarkPlace& place, std::uint64_t size) {
    const std::uint32_t entries = place.all.count;
    const unsigned parameter = shared_.parameter;
    auto* const words = reinterpret_cast<std::uint32_t*>(task_.out);
    // From the word that the last value and the first code share.
    for (std::uint64_t w = std::uint64_t{entries} + 1 + thread(); w < (size + 3) / 4;
         w += threads())
      words[w] = 0;
    std::uint32_t unary_before = 0;
    for (unsigned b = threadIdx.x; b < blockIdx.x; b += kCodecThreads)
      unary_before += work_.block_unary[b][parameter];
    unary_before = block_sum(unary_before, shared_.sums);
    for (unsigned w = 0; w < warp_in_block(); ++w) unary_before += shared_.unary[w][parameter];
    wait_for_grid();

    if (thread() == 0) {
      work_.bytes = size;
      words[0] = 1U | parameter << 8 | entries << 16;
      store_half(4, entries >> 16);
    }
    const std::uint64_t first_code = (kHeaderBytes + 4 * std::uint64_t{entries}) * 8;
    const std::uint32_t lower = (std::uint32_t{1} << parameter) - 1;
    std::uint32_t entry = place.before.count;
    std::uint32_t zeros = unary_before;
    for_gaps(place, [&](std::size_t word, std::uint32_t marks, std::uint32_t next) {
      const auto count = static_cast<std::uint32_t>(__popc(marks));
      std::uint32_t own_zeros = 0;
      std::uint32_t begin = next;
      for_marked(word, marks, [&](unsigned, std::uint32_t i) {
        own_zeros += (i - begin) >> parameter;
        begin = i + 1;
      });
      std::uint32_t own_entry = entry + warp_sum_before(count);
      std::uint32_t zeros_so_far = zeros + warp_sum_before(own_zeros);
      entry += warp_sum(count);
      zeros += warp_sum(own_zeros);
      for_marked(word, marks, [&](unsigned, std::uint32_t i) {
        const std::uint32_t gap = i - next;
        next = i + 1;
        zeros_so_far += gap >> parameter;
        // The one behind the zeros.
        const std::uint64_t at =
            first_code + zeros_so_far + std::uint64_t{own_entry} * (1 + parameter);
        const std::uint64_t code = (std::uint64_t{gap & lower} << 1 | 1) << (at % 32);
        atomicOr(&words[at / 32], static_cast<std::uint32_t>(code));
        if (code >> 32 != 0) atomicOr(&words[at / 32 + 1], static_cast<std::uint32_t>(code >> 32));
        store_value(words, own_entry, own_entry + 1 == entries, __float_as_uint(values_[i]));
        if constexpr (kFeedback) task_.residual[i] = 0;
        ++own_entry;
      });
    });
  }

  __device__ void store_half(std::size_t at, std::uint32_t bits) {
    *reinterpret_cast<std::uint16_t*>(task_.out + at) = static_cast<std::uint16_t>(bits);
  }
  // Values lie across words; the last one shares its second word with codes.
  __device__ void store_value(std::uint32_t* words, std::uint32_t entry, bool is_last,
                              std::uint32_t bits) {
    const std::size_t at = kHeaderBytes + 4 * std::size_t{entry};
    store_half(at, bits);
    if (is_last) {
      atomicOr(&words[at / 4 + 1], bits >> 16);
    } else {
      store_half(at + 2, bits >> 16);
    }
  }

  // One byte for the form, then all values: each word has the end of one value and the beginning of
  // the next.
  __device__ void write_dense(std::uint64_t size) {
    const auto sent_bits = [this](std::size_t i) {
      const bool is_marked = (task_.marks[i / kLanes] >> (i % kLanes) & 1U) != 0;
      return is_marked ? __float_as_uint(values_[i]) : 0U;
    };
    if (thread() == 0) work_.bytes = size;
    auto* const words = reinterpret_cast<std::uint32_t*>(task_.out);
    for (std::size_t word = begin_; word < end_; ++word) {
      const std::size_t i = word * kLanes + lane_index();
      if (i >= task_.count) continue;
      const std::uint32_t before = i == 0 ? 0U : sent_bits(i - 1) >> 24;
      const std::uint32_t own = sent_bits(i);
      words[i] = before | own << 8;
      if (i + 1 == task_.count) task_.out[size - 1] = static_cast<std::byte>(own >> 24);
    }
    if constexpr (kFeedback) {
      wait_for_grid();
      for (std::size_t word = begin_; word < end_; word += kLanes)
        for_marked(word, marks_at(word), [&](unsigned, std::uint32_t i) { task_.residual[i] = 0; });
    }
  }

  const SparseEncode& task_;
  SparseEncodeWork& work_;
  EncodeShared& shared_;
  const float* values_;
  std::size_t words_;
  std::size_t begin_, end_;  // words of this warp
  unsigned share_turn_ = 0;
  unsigned select_turn_ = 0;
};

template <bool kFeedback>
__global__ void __launch_bounds__(kCodecThreads, 4) encode_sparse(SparseEncode task) {
  __shared__ EncodeShared shared;
  SparseEncoder<kFeedback>(task, shared).run();
}

}  // namespace

Result<unsigned> sparse_encode_blocks(CudaDevice& device, std::size_t count) {
  constexpr std::size_t kLeastValues = 8192;  // of a block
  constexpr unsigned kMostEach = 4;
  TALLY_TRY(const unsigned plain, resident_blocks(device, encode_sparse<false>));
  TALLY_TRY(const unsigned feedback, resident_blocks(device, encode_sparse<true>));
  const unsigned each = std::min({plain, feedback, kMostEach});
  const std::size_t most = std::min<std::size_t>(
      SparseEncodeWork::kMostBlocks, static_cast<std::size_t>(device.multiprocessors()) * each);
  const std::size_t wanted = (count + kLeastValues - 1) / kLeastValues;
  return static_cast<unsigned>(std::clamp<std::size_t>(wanted, 1, std::max<std::size_t>(most, 1)));
}

Result<void> start_sparse_encode(const SparseEncode& task, unsigned blocks, CudaDevice& device) {
  return task.residual == nullptr ? launch_together(device, encode_sparse<false>, blocks, task)
                                  : launch_together(device, encode_sparse<true>, blocks, task);
}

}  // namespace tally::cuda
