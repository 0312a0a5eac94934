#include "server/part/table.h"

#include "base/check.h"

namespace tally::server {

Table::Table(TableConfig config, const PartContext& context) : config_(std::move(config)) {
  parts_.reserve(config_.parts);
  for (std::uint32_t index = 0; index < config_.parts; ++index)
    parts_.push_back(std::make_unique<TablePart>(config_, index, context));
}

TableSet::~TableSet() {
  for (const std::atomic<Page*>& page : pages_) delete page.load();
}

Table* TableSet::find(TableId id) const {
  const Page* page = pages_[id / kFan].load(std::memory_order_acquire);
  return page == nullptr ? nullptr : (*page)[id % kFan].load(std::memory_order_acquire);
}

void TableSet::add(std::unique_ptr<Table> table) {
  const TableId id = table->config().id;
  Page* page = pages_[id / kFan].load(std::memory_order_relaxed);
  if (page == nullptr) {
    page = new Page{};
    pages_[id / kFan].store(page, std::memory_order_release);
  }
  TALLY_CHECK((*page)[id % kFan].load(std::memory_order_relaxed) == nullptr);
  (*page)[id % kFan].store(table.get(), std::memory_order_release);
  owned_.push_back(std::move(table));
}

}  // namespace tally::server
