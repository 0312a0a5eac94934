#pragma once
#include "collective/launch_facts.h"
#include "tally/job.h"

namespace tally::collective {

// Decides how the ranks of a job meet and fills in what that needs: meeting, job_id,
// pmi_descriptor, listen_on, master_address and master_port. What options_from() says of TALLY_MEET
// and its companions holds. kInvalid if a way is asked for by name that this launcher does not
// have.
Result<void> choose_meeting(const LaunchFacts& facts, const Variables& variable,
                            JobOptions& options);

// The port that a Slurm step without PMIx meets at, 21000 to 29191: below the ports that systems
// give out.
std::uint16_t slurm_port(std::string_view job_id);

}  // namespace tally::collective
