#pragma once
// Payloads that are sent in pieces, each as far as its receiver has given
// credit.
//
// A member of an actor's state, or of a carrier; not thread-safe.

#include "messages/transport/chunked/chunked.hpp"

#include <map>
#include <utility>

namespace troupe::transport {

class outgoing_payloads {
public:
  /// Begins a transfer; `send` is called with each piece that may be sent now.
  /// An empty payload is done at once: no credit will come.
  template <class Send>
  void begin(transfer_id id, const payload& tensor, Send send) {
    chunk_sender sender{id, tensor};
    if (sender.done())
      return;
    auto& kept = senders_.emplace(id, std::move(sender)).first->second;
    while (auto piece = kept.next())
      send(std::move(*piece));
  }

  /// The receiver has received this many bytes in all. False when that is
  /// impossible. Ignored for a transfer that is done or was never begun.
  template <class Send>
  bool credit(transfer_id id, uint64_t received, Send send) {
    auto found = senders_.find(id);
    if (found == senders_.end())
      return true;
    auto& sender = found->second;
    if (!sender.credit(received))
      return false;
    while (auto piece = sender.next())
      send(std::move(*piece));
    if (sender.done())
      senders_.erase(found);
    return true;
  }

  /// Ends a transfer, however far it is.
  void forget(transfer_id id) { senders_.erase(id); }

  size_t size() const { return senders_.size(); }

private:
  std::map<transfer_id, chunk_sender> senders_;
};

} // namespace troupe::transport
