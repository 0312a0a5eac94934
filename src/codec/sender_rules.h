#pragma once
#include "codec/encoder.h"
#include "tally/optimizer.h"

namespace tally::codec {

// The optimizer of compressed parameters where senders do a part of its work: dgc has the momentum of sgd, so it is applied
// without; onebit-adam freezes the second moment of adam or adamw after its warm-up. Others: as it is. kInvalid where the codec needs
// another optimizer.
Result<OptimizerSpec> optimizer_behind(const plan::CodecSpec& spec, const OptimizerSpec& optimizer);

SenderFacts sender_facts(const OptimizerSpec& optimizer, int ranks);

}  // namespace tally::codec
