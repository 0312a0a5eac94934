#include "group/bootstrap.h"

#include <fmt/format.h>

#include "group/own_address.h"
#include "group/pmi_client.h"
#include "group/pmix_client.h"
#include "group/secret_text.h"
#include "net/local_socket.h"

namespace tally::group {
namespace {

Error invalid(std::string message) {
  return {.code = ErrorCode::kInvalid, .message = std::move(message)};
}

bool on_one_host(const JobOptions& options) { return options.local_size == options.size; }

bool is_loopback(const std::string& host) { return host == "::1" || host.rfind("127.", 0) == 0; }

// Where rank 0 listens for the others.
Result<std::string> own_host(const JobOptions& options) {
  if (options.listen_on.empty() && (options.meeting == Meeting::kBoard || on_one_host(options)))
    return std::string("127.0.0.1");
  TALLY_TRY(const auto addresses, interface_addresses());
  return choose_address(addresses, options.listen_on);
}

// A host's own name often stands for loopback in its own table, where ranks on other hosts would
// not find rank 0. All ranks of that host go to the address that the others know.
Result<std::string> seen_from_others(const JobOptions& options) {
  const std::string& host = options.master_address;
  if (!options.local_size || on_one_host(options) || is_loopback(host)) return host;
  const auto endpoints = net::resolve({host, options.master_port});
  // Rank 0 has to know; for the others the name may yet appear.
  if (!endpoints.has_value() && options.rank != 0) return host;
  if (!endpoints.has_value()) {
    return invalid(fmt::format("{}; TALLY_MASTER_ADDR says where rank 0 can be reached instead",
                               endpoints.error().message));
  }
  return is_loopback(endpoints->front().address().host) ? own_host(options) : host;
}

// Ranks that know the address only need rank 0 to listen where the others will look for it.
Result<void> listen_at_address(Appointment& appointment) {
  JobOptions& options = appointment.options;
  if (options.rank != 0) {
    TALLY_TRY(options.master_address, seen_from_others(options));
    return {};
  }
  TALLY_TRY(const std::string host,
            options.listen_on.empty() ? seen_from_others(options) : own_host(options));
  if (host == options.master_address) return {};
  TALLY_TRY(appointment.listener, net::Listener::bind({host, options.master_port}));
  return {};
}

// Rank 0 listens and has a secret; its note says so. The secret is left out if the others have it
// already.
Result<std::string> write_note(Appointment& appointment) {
  JobOptions& options = appointment.options;
  TALLY_TRY(const std::string host, own_host(options));
  TALLY_TRY(appointment.listener, net::Listener::bind({host, options.master_port}));
  MeetingPlace place{.address = appointment.listener->address(), .secret = std::nullopt};
  if (!options.secret) {
    TALLY_TRY(options.secret, fresh_secret());
    place.secret = options.secret;
  }
  return to_note(place);
}

Result<void> follow_note(const std::string& note, JobOptions& options) {
  TALLY_TRY(const MeetingPlace place, read_note(note));
  options.master_address = place.address.host;
  options.master_port = place.address.port;
  if (!options.secret) options.secret = place.secret;
  return {};
}

// What names the job on this host: the launcher's name for it, and where that is not enough the
// process that serves all of its ranks.
Result<std::string> job_identity(const JobOptions& options) {
  if (options.job_id.empty()) return invalid("meeting at a board needs a name of the job");
  if (options.pmi_descriptor < 0) return options.job_id;
  TALLY_TRY(const pid_t server, net::peer_of_same_user(options.pmi_descriptor));
  if (server == 0) return invalid("the launcher's process is in another pid namespace");
  return fmt::format("{} {}", options.job_id, server);
}

Result<void> meet_at_board(Appointment& appointment, Deadline by) {
  TALLY_TRY(const std::string identity, job_identity(appointment.options));
  const std::string name = board_name(identity);
  std::string note;
  if (appointment.options.rank == 0) {
    TALLY_TRY(note, write_note(appointment));
    TALLY_TRY(appointment.board, LocalBoard::offer(name, note));
  } else {
    TALLY_TRY(note, fetch_note(name, by));
  }
  return follow_note(note, appointment.options);
}

Result<void> ask_launcher(JobOptions& options) {
  TALLY_TRY(const PmixFacts facts, ask_pmix());
  if (options.size == 0) options.size = facts.size;
  if (options.rank != facts.rank || options.size != facts.size) {
    return invalid(fmt::format("rank {} of {} by the variables, {} of {} by the PMIx server",
                               options.rank, options.size, facts.rank, facts.size));
  }
  if (!options.local_rank) options.local_rank = facts.local_rank;
  if (!options.local_size) options.local_size = facts.local_size;
  return {};
}

Result<void> meet_by_store(Appointment& appointment, Deadline by) {
  JobOptions& options = appointment.options;
  std::string note;
  if (options.rank == 0) {
    TALLY_TRY(note, write_note(appointment));
  }
  if (options.meeting == Meeting::kPmix) {
    TALLY_TRY(note, pass_note_by_pmix(note, by));
  } else {
    TALLY_TRY(note, pass_note_by_pmi(options.pmi_descriptor, options.rank, note, by));
  }
  return follow_note(note, options);
}

}  // namespace

Result<Appointment> find_meeting_place(const JobOptions& options, Deadline by) {
  Appointment appointment{.options = options, .listener = {}, .board = nullptr};
  const bool asks = options.size == 0 && options.meeting == Meeting::kBoard;
  if (options.meeting == Meeting::kPmix || asks) {
    TALLY_TRY(ask_launcher(appointment.options));
  }
  const int size = appointment.options.size;
  if (size < 1 || options.rank < 0 || options.rank >= size)
    return invalid(fmt::format("rank {} of {} ranks does not exist", options.rank, size));
  if (size == 1) {
    // It meets nobody: any port will do.
    appointment.options.master_port = 0;
    return appointment;
  }
  switch (options.meeting) {
    case Meeting::kAddress:
      TALLY_TRY(listen_at_address(appointment));
      break;
    case Meeting::kBoard:
      TALLY_TRY(meet_at_board(appointment, by));
      break;
    case Meeting::kPmix:
    case Meeting::kPmi:
      TALLY_TRY(meet_by_store(appointment, by));
      break;
  }
  return appointment;
}

}  // namespace tally::group
