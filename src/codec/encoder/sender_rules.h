#pragma once
#include "codec/encoder/encoder.h"
#include "tally/optimizer.h"

namespace tally::codec {

// The optimizer that is applied to compressed parameters. With dgc, and with momentum=early, the
// senders apply the momentum of sgd: the optimizer gets none, and its weight decay is multiplied by
// 1 / (1 - momentum), because the decay no longer passes through the momentum. onebit-adam freezes
// the second moment of adam or adamw after its warm-up. Other codecs leave the optimizer as it is.
// kInvalid where the codec needs another optimizer.
Result<OptimizerSpec> optimizer_behind(const plan::CodecSpec& spec, const OptimizerSpec& optimizer);

// The part that senders do; `optimizer` is the one that the user gave.
SenderFacts sender_facts(const plan::CodecSpec& spec, const OptimizerSpec& optimizer, int ranks);

}  // namespace tally::codec
