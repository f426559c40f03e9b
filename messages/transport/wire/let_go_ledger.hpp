#pragma once
// Records the tensors of the other end's memory that nobody here reads any
// more, until the other end is told. Shared by a path and the readers of its
// tensors, which may outlive the path. Thread-safe.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

namespace troupe::transport {

class let_go_ledger {
public:
  /// Sets a function that is called, on any thread, when there is something to
  /// tell. It is not called again before `heard`, because usually the next
  /// frame carries the news.
  void on_entry(std::function<void()> call);

  void enter(uint64_t number);

  /// Lets the next entry call the function again.
  void heard();

  /// Takes out at most so many entries; the others stay.
  std::vector<uint64_t> remove_entries(size_t most);

private:
  std::mutex mutex_;
  std::vector<uint64_t> numbers_;
  std::function<void()> call_;
  bool called_ = false;
};

using let_go_ledger_ptr = std::shared_ptr<let_go_ledger>;

} // namespace troupe::transport
