#include "group/coordinator_session.h"

namespace tally::group {
namespace {

// A job of thousands of ranks, asked about, is some megabytes.
constexpr std::size_t kMaxUnsentBytes = std::size_t{16} << 20;

}  // namespace

CoordinatorSession::CoordinatorSession(std::unique_ptr<net::Stream> stream, std::string caller,
                                       bool is_local, TimePoint now)
    : connection(std::move(stream), {.max_unsent_bytes = kMaxUnsentBytes}),
      from(std::move(caller)),
      local(is_local),
      opened(now) {}

void CoordinatorSession::refuse(const Error& why, TimePoint now) {
  send(connection, message_of(ControlKind::kRefusal, why));
  over = true;
  over_since = now;
}

}  // namespace tally::group
