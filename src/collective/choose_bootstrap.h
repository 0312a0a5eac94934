#pragma once
#include "collective/launch_facts.h"
#include "tally/job.h"

namespace tally::collective {

// Decides how the ranks of a job find the rendezvous, and fills in the options for it: bootstrap,
// job_id, pmi_descriptor, listen_on, master_address and master_port. options_from() documents
// TALLY_MEET and the other variables. kInvalid if a variable asks for a way that this launcher does
// not have.
Result<void> choose_bootstrap(const LaunchFacts& facts, const Variables& variable,
                              JobOptions& options);

// The port of the rendezvous of a Slurm step without PMIx, 21000 to 29191: below the ephemeral
// ports.
std::uint16_t slurm_port(std::string_view job_id);

}  // namespace tally::collective
