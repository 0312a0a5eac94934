#include "exchange/device/device_fit.h"

#include <fmt/format.h>

namespace tally::exchange {
namespace {

bool has_kernels(plan::Codec kind) {
  switch (kind) {
    case plan::Codec::kNone:
    case plan::Codec::kFp16:
    case plan::Codec::kBf16:
    case plan::Codec::kInt8:
    case plan::Codec::kFp8:
    case plan::Codec::kOnebit:
    case plan::Codec::kSign:
    case plan::Codec::kTopk:
    case plan::Codec::kThreshold:
      return true;
    default:
      return false;
  }
}

DeviceFit no(std::string reason) { return {.fits = false, .reason = std::move(reason)}; }

}  // namespace

std::string why_no_device_codec(const plan::CodecSpec& spec) {
  const std::string codec = "codec=" + plan::to_string(spec);
  if (!has_kernels(spec.kind)) return codec + " has no GPU kernels";
  if (spec.stage != plan::EntropyStage::kNone) return codec + ": entropy stages run on the CPU";
  if (spec.kind == plan::Codec::kSign && spec.vote) return codec + ": votes are counted on the CPU";
  return {};
}

DeviceFit device_fit(const DeviceWish& wish) {
  const plan::Plan& plan = wish.plan;
  if (plan.home == plan::Home::kServer) return no("home=server keeps the parameters on servers");
  if (plan.update != plan::Update::kBsp)
    return no(plan::update_text(plan) + " makes its updates in host memory; update=bsp does not");
  const plan::CodecSpec& codec = wish.codec;
  if (codec.kind == plan::Codec::kAuto) {
    if (wish.workers == 1) return {};
    return no("codec=auto tries its codecs on the CPU; a codec by name does not");
  }
  // Device::make_low_rank()
  if (codec.kind == plan::Codec::kPowersgd) return {};
  if (std::string reason = why_no_device_codec(codec); !reason.empty()) return no(reason);
  if (codec.early_momentum && wish.discards_nonfinite)
    return no(
        fmt::format("codec={} with loss scaling: a momentum on the GPU would keep a gradient "
                    "that is not finite; momentum=late does not need one",
                    plan::to_string(codec)));
  return {};
}

}  // namespace tally::exchange
