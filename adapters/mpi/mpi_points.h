#pragma once
#include <mpi.h>

#include "adapters/mpi/mpi_collectives.h"

namespace tally::mpi {

// Begins the message that a kSend or kReceive piece stands for. Messages of the program go by its
// tag on a communicator of their own; those that a collective is made of go on the collectives', so
// neither takes the other's.
Result<MPI_Request> begin_send(const Scene& scene, const Request& request, const Piece& piece);
Result<MPI_Request> begin_receive(const Scene& scene, const Request& request, const Piece& piece);

// kMismatch if what arrived has not as many elements as the piece. Longer messages MPI itself
// refuses.
Result<void> check_received(const MPI_Status& status, const Request& request, const Piece& piece);

// Withdraws a receive that nobody has sent to. False if it can be neither withdrawn nor completed:
// a message is just arriving.
bool withdraw_receive(MPI_Request& started);

}  // namespace tally::mpi
