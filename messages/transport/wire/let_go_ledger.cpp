#include "messages/transport/wire/let_go_ledger.hpp"

#include <utility>

namespace troupe::transport {

void let_go_ledger::on_entry(std::function<void()> call) {
  std::lock_guard guard{mutex_};
  call_ = std::move(call);
}

void let_go_ledger::enter(uint64_t number) {
  std::function<void()> call;
  {
    std::lock_guard guard{mutex_};
    numbers_.push_back(number);
    if (std::exchange(called_, true))
      return;
    call = call_;
  }
  if (call)
    call();
}

void let_go_ledger::heard() {
  std::lock_guard guard{mutex_};
  called_ = false;
}

std::vector<uint64_t> let_go_ledger::remove_entries(size_t most) {
  std::lock_guard guard{mutex_};
  if (numbers_.size() <= most)
    return std::exchange(numbers_, {});
  std::vector<uint64_t> out(numbers_.end() - static_cast<ptrdiff_t>(most),
                            numbers_.end());
  numbers_.resize(numbers_.size() - most);
  return out;
}

} // namespace troupe::transport
