// A server that stood still (stopped, or without a processor) may have been given up, and others
// serve its parts: what it would answer then is old, and the memory that a worker had lent it for
// an answer is used for something else. So it asks the directory first. Messages wait until the
// answer is there, as if they were of a newer view; views wait, too, unless they say that it is
// out.
#include <utility>

#include "server/protocol/chains.h"
#include "server/node/server_node.h"

namespace tally::server {
namespace {

// Nobody writes down more often that time has gone by.
constexpr Duration kCloseEnough = std::chrono::milliseconds(1);

}  // namespace

void ServerNode::look_at_clock(TimePoint now) {
  const std::int64_t before = last_seen_.load();
  if (expelled() || now.count() - before < kCloseEnough.count()) return;
  last_seen_.store(now.count());
  const std::int64_t lease = lease_.load();
  if (lease == 0 || before == 0 || now.count() - before <= lease) return;
  {
    const MutexLock lock(early_mutex_);
    awaited_beat_.store(++beats_asked_);
    admitted_view_.store(0, std::memory_order_release);
  }
  beat();
}

void ServerNode::beat() {
  postman_.send(
      kDirectory,
      {.kind = MessageKind::kBeat, .view = view_number_.load(), .sequence = awaited_beat_.load()},
      {});
}

void ServerNode::take_beat(const Message& message) {
  {
    const MutexLock lock(early_mutex_);
    if (message.header.sequence == 0 || message.header.sequence != awaited_beat_.load()) return;
    awaited_beat_.store(0);
  }
  Message view;
  std::vector<std::byte> payload;
  {
    const MutexLock lock(structure_);
    view.header = kept_header_;
    payload = std::exchange(kept_view_, {});
  }
  view.payload = payload;
  if (!payload.empty()) return take_view(view);
  admit(view_number_.load());
}

bool ServerNode::keep_view(const Message& message, const View& view) {
  if (awaited_beat_.load() == 0 || !has_server(view, message.header.part)) return false;
  kept_header_ = message.header;
  kept_view_.assign(message.payload.begin(), message.payload.end());
  return true;
}

}  // namespace tally::server
