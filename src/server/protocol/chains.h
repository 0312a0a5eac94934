#pragma once
#include <vector>

#include "server/protocol/view.h"

namespace tally::server {

// Who is in which chain: functions of the view before and of what happened. Each gives the next
// view, one number higher; the view before where nothing changes.

// The first view: slot s has the servers s, s+1, ... in the order given, `replicas` of them or all.
// `replicas` 0: two.
View founding_view(std::vector<ServerInfo> servers, const std::vector<WorkerInfo>& workers,
                   int replicas);

// How many copies a job with so many servers at first is to have.
int copies(int replicas, int servers);

// A server came: it is put at the end of chains that are shorter than `copies` and not empty.
View with_server(const View& before, const ServerInfo& server, int copies);

// A server is gone: out of all chains. Those that it leaves too short, but not empty, get another
// at their end: that with the fewest places in chains, of these the one with the lowest number.
View without_server(const View& before, NodeId server, int copies);

// A worker came; one that was there with the same rank goes.
View with_worker(const View& before, const WorkerInfo& worker);
View without_worker(const View& before, NodeId worker);

bool has_server(const View& view, NodeId server);
bool has_worker(const View& view, NodeId worker);

}  // namespace tally::server
