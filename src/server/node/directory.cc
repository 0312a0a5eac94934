#include <utility>

#include "group/reporter.h"
#include "server/node/directory_node.h"
#include "server/link/driver.h"
#include "tally/server.h"

namespace tally::server {

class Directory::Impl final {
 public:
  Impl(std::unique_ptr<Driver> driver, const DirectoryOptions& options, const EventSink& on_event)
      : driver_(std::move(driver)),
        node_(*driver_,
              {.servers = options.servers,
               .replicas = options.replicas,
               .silence_limit = options.silence_limit},
              on_event) {
    driver_->start(node_);
  }
  ~Impl() { driver_->stop(); }

  std::string address() const { return driver_->address(); }

 private:
  const std::unique_ptr<Driver> driver_;
  DirectoryNode node_;
};

Result<std::unique_ptr<Directory>> Directory::start(const DirectoryOptions& options,
                                                    EventSink on_event) {
  if (options.servers < 1 || options.servers > 4096 || options.replicas < 0 ||
      options.silence_limit <= std::chrono::milliseconds::zero())
    return Error{.code = ErrorCode::kInvalid,
                 .message = "a directory has 1 to 4096 servers, and limits that are not negative"};
  TALLY_TRY(const net::Address listen, group::address_from(options.listen));
  TALLY_TRY(
      auto driver,
      Driver::make({.role = Role::kDirects, .listen = listen, .secret = options.secret}, on_event));
  auto impl = std::make_unique<Impl>(std::move(driver), options, on_event);
  return std::unique_ptr<Directory>(new Directory(std::move(impl)));
}

Directory::Directory(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Directory::~Directory() = default;
std::string Directory::address() const { return impl_->address(); }

}  // namespace tally::server
