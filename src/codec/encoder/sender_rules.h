#pragma once
#include "codec/encoder/encoder.h"
#include "tally/optimizer.h"

namespace tally::codec {

// The optimizer of compressed parameters where senders do a part of its work: dgc has the momentum
// of sgd, as others have with momentum=early, so it is applied without, and with 1 / (1 - momentum)
// of the decay, which had been under it; onebit-adam freezes the second moment of adam or adamw
// after its warm-up. Others: as it is. kInvalid where the codec needs another optimizer.
Result<OptimizerSpec> optimizer_behind(const plan::CodecSpec& spec, const OptimizerSpec& optimizer);

// The same optimizer, as it was before.
SenderFacts sender_facts(const plan::CodecSpec& spec, const OptimizerSpec& optimizer, int ranks);

}  // namespace tally::codec
