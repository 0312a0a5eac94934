#include "group/bootstrap.h"

#include <fmt/format.h>

#include "base/errors.h"
#include "group/host.h"
#include "group/pmi_client.h"
#include "group/pmix_client.h"
#include "group/secret_text.h"
#include "net/local_socket.h"

namespace tally::group {
namespace {

bool on_one_host(const JobOptions& options) { return options.local_size == options.size; }

bool is_loopback(const std::string& host) { return host == "::1" || host.rfind("127.", 0) == 0; }

// The address on which rank 0 listens for the others.
Result<std::string> own_host(const JobOptions& options) {
  if (options.listen_on.empty() && (options.bootstrap == Bootstrap::kLocal || on_one_host(options)))
    return std::string("127.0.0.1");
  TALLY_TRY(const auto addresses, interface_addresses());
  return choose_address(addresses, options.listen_on);
}

// The name of a host often resolves to loopback on that host itself, where ranks on other hosts
// cannot reach rank 0. All ranks of that host then use the address that the other hosts know.
Result<std::string> seen_from_others(const JobOptions& options) {
  const std::string& host = options.master_address;
  if (!options.local_size || on_one_host(options) || is_loopback(host)) return host;
  const auto endpoints = net::resolve({host, options.master_port});
  // Rank 0 needs the address now; for other ranks the name may resolve later.
  if (!endpoints.has_value() && options.rank != 0) return host;
  if (!endpoints.has_value()) {
    return invalid("{}; TALLY_MASTER_ADDR says where rank 0 can be reached instead",
                   endpoints.error().message);
  }
  return is_loopback(endpoints->front().address().host) ? own_host(options) : host;
}

// All ranks know the address, so rank 0 only has to listen there.
Result<void> listen_at_address(BootstrapResult& result) {
  JobOptions& options = result.options;
  if (options.rank != 0) {
    TALLY_TRY(options.master_address, seen_from_others(options));
    return {};
  }
  TALLY_TRY(const std::string host,
            options.listen_on.empty() ? seen_from_others(options) : own_host(options));
  if (host == options.master_address) return {};
  TALLY_TRY(result.listener, net::Listener::bind({host, options.master_port}));
  return {};
}

// Rank 0 listens, makes a secret if there is none, and returns the note for the other ranks. The
// note has no secret if the others have it already.
Result<std::string> write_note(BootstrapResult& result) {
  JobOptions& options = result.options;
  TALLY_TRY(const std::string host, own_host(options));
  TALLY_TRY(result.listener, net::Listener::bind({host, options.master_port}));
  RendezvousPoint place{.address = result.listener->address(), .secret = std::nullopt};
  if (!options.secret) {
    TALLY_TRY(options.secret, fresh_secret());
    place.secret = options.secret;
  }
  return to_note(place);
}

Result<void> follow_note(const std::string& note, JobOptions& options) {
  TALLY_TRY(const RendezvousPoint place, read_note(note));
  options.master_address = place.address.host;
  options.master_port = place.address.port;
  if (!options.secret) options.secret = place.secret;
  return {};
}

// The identity of the job on this host: the launcher's name of the job, and where that is not
// unique also the launcher's process that serves all of its ranks.
Result<std::string> job_identity(const JobOptions& options) {
  if (options.job_id.empty())
    return invalid("the local bootstrap (TALLY_MEET=board) needs the job's name");
  if (options.pmi_descriptor < 0) return options.job_id;
  TALLY_TRY(const pid_t server, net::peer_of_same_user(options.pmi_descriptor));
  if (server == 0) return invalid("the launcher's process is in another pid namespace");
  return fmt::format("{} {}", options.job_id, server);
}

Result<void> bootstrap_locally(BootstrapResult& result, Deadline by) {
  TALLY_TRY(const std::string identity, job_identity(result.options));
  const std::string name = bootstrap_name(identity);
  std::string note;
  if (result.options.rank == 0) {
    TALLY_TRY(note, write_note(result));
    TALLY_TRY(result.local, LocalBootstrap::offer(name, note));
  } else {
    TALLY_TRY(note, fetch_note(name, by));
  }
  return follow_note(note, result.options);
}

Result<void> ask_launcher(JobOptions& options) {
  TALLY_TRY(const PmixFacts facts, ask_pmix());
  if (options.size == 0) options.size = facts.size;
  if (options.rank != facts.rank || options.size != facts.size) {
    return invalid("rank {} of {} by the variables, {} of {} by the PMIx server", options.rank,
                   options.size, facts.rank, facts.size);
  }
  if (!options.local_rank) options.local_rank = facts.local_rank;
  if (!options.local_size) options.local_size = facts.local_size;
  return {};
}

Result<void> bootstrap_by_store(BootstrapResult& result, Deadline by) {
  JobOptions& options = result.options;
  std::string note;
  if (options.rank == 0) {
    TALLY_TRY(note, write_note(result));
  }
  if (options.bootstrap == Bootstrap::kPmix) {
    TALLY_TRY(note, pass_note_by_pmix(note, by));
  } else {
    TALLY_TRY(note, pass_note_by_pmi(options.pmi_descriptor, options.rank, note, by));
  }
  return follow_note(note, options);
}

}  // namespace

Result<BootstrapResult> bootstrap(const JobOptions& options, Deadline by) {
  BootstrapResult result{.options = options, .listener = {}, .local = nullptr};
  const bool asks = options.size == 0 && options.bootstrap == Bootstrap::kLocal;
  if (options.bootstrap == Bootstrap::kPmix || asks) {
    TALLY_TRY(ask_launcher(result.options));
  }
  const int size = result.options.size;
  if (size < 1 || options.rank < 0 || options.rank >= size)
    return invalid("rank {} of {} ranks does not exist", options.rank, size);
  if (size == 1) {
    // A single rank meets no other: any port will do.
    result.options.master_port = 0;
    return result;
  }
  switch (options.bootstrap) {
    case Bootstrap::kAddress:
      TALLY_TRY(listen_at_address(result));
      break;
    case Bootstrap::kLocal:
      TALLY_TRY(bootstrap_locally(result, by));
      break;
    case Bootstrap::kPmix:
    case Bootstrap::kPmi:
      TALLY_TRY(bootstrap_by_store(result, by));
      break;
  }
  return result;
}

}  // namespace tally::group
