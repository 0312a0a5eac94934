#include <algorithm>
#include <vector>

#include "base/check.h"
#include "codec/entropy/byte_coders.h"
#include "codec/families.h"
#include "wire/little_endian.h"

namespace tally::codec {
namespace {

struct ByteCoder {
  std::size_t (*encode)(std::span<const std::byte> in, std::span<std::byte> out) = nullptr;
  Result<void> (*decode)(std::span<const std::byte> in, std::span<std::byte> out) = nullptr;
};

ByteCoder byte_coder(plan::EntropyStage stage) {
  switch (stage) {
    case plan::EntropyStage::kRans:
      return {.encode = rans_encode, .decode = rans_decode};
    case plan::EntropyStage::kHuffman:
      return {.encode = huffman_encode, .decode = huffman_decode};
    case plan::EntropyStage::kZstd:
      return {.encode = zstd_encode, .decode = zstd_decode};
    case plan::EntropyStage::kNone:
      break;
  }
  TALLY_UNREACHABLE();
  return {};
}

// An encoding has u8 mode and u32 size of the inner encoding, then its bytes, coded or stored.
enum class Mode : std::uint8_t { kStored = 0, kCoded = 1 };
constexpr std::size_t kHeadBytes = 5;

class Staged final : public Codec {
 public:
  Staged(std::unique_ptr<Codec> inner, plan::EntropyStage stage)
      : inner_(std::move(inner)), coder_(byte_coder(stage)) {}

  Traits traits() const override {
    Traits traits = inner_->traits();
    traits.fixed_size = false;
    return traits;
  }
  std::size_t max_bytes(std::size_t count) const override {
    return kHeadBytes + inner_->max_bytes(count);
  }

  std::size_t encode(std::span<const float> values, const Draw& draw,
                     std::span<std::byte> out) const override {
    std::vector<std::byte> plain(inner_->max_bytes(values.size()));
    plain.resize(inner_->encode(values, draw, plain));
    TALLY_CHECK(out.size() >= kHeadBytes + plain.size());
    wire::store(out, 1, static_cast<std::uint32_t>(plain.size()));
    // The room is smaller than the input, so that the coder fails where it does not compress.
    const std::size_t coded =
        plain.empty() ? 0 : coder_.encode(plain, out.subspan(kHeadBytes, plain.size() - 1));
    out[0] = static_cast<std::byte>(coded > 0 ? Mode::kCoded : Mode::kStored);
    if (coded > 0) return kHeadBytes + coded;
    std::copy(plain.begin(), plain.end(), out.begin() + kHeadBytes);
    return kHeadBytes + plain.size();
  }

  Result<void> read(std::span<const std::byte> bytes, const float* weight,
                    std::span<float> out) const override {
    std::vector<std::byte> scratch;
    TALLY_TRY(const auto plain, unpacked(bytes, out.size(), scratch));
    return inner_->read(plain, weight, out);
  }

 private:
  // The inner encoding: in `bytes`, or decoded into `scratch`.
  Result<std::span<const std::byte>> unpacked(std::span<const std::byte> bytes, std::size_t count,
                                              std::vector<std::byte>& scratch) const {
    if (bytes.size() < kHeadBytes) return corrupt_code("truncated in the header");
    const std::size_t size = wire::load<std::uint32_t>(bytes, 1);
    const std::span<const std::byte> rest = bytes.subspan(kHeadBytes);
    if (size > inner_->max_bytes(count)) return corrupt_code("the stated size exceeds the limit");
    switch (Mode{std::to_integer<std::uint8_t>(bytes[0])}) {
      case Mode::kStored:
        if (rest.size() != size) return corrupt_code("the size differs from the stated one");
        return rest;
      case Mode::kCoded:
        scratch.resize(size);
        TALLY_TRY(coder_.decode(rest, scratch));
        return std::span<const std::byte>(scratch);
    }
    return corrupt_code("unknown mode");
  }

  const std::unique_ptr<Codec> inner_;
  const ByteCoder coder_;
};

}  // namespace

std::unique_ptr<Codec> make_staged(std::unique_ptr<Codec> inner, plan::EntropyStage stage) {
  if (stage == plan::EntropyStage::kNone) return inner;
  return std::make_unique<Staged>(std::move(inner), stage);
}

}  // namespace tally::codec
