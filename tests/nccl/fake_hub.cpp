#include "tests/nccl/fake_hub.hpp"

#include <cstring>

namespace fake {

hub& the() {
  static hub instance;
  return instance;
}

thread_local int current_device = 0;
thread_local int group_depth = 0;
thread_local std::vector<std::pair<abi::stream, group_ptr>> group_calls;

bool chance() {
  return std::uniform_real_distribution<>{0, 1}(the().random) < the().pace;
}

void blame(const std::string& text) {
  the().violations.push_back(text);
}

// -- moving things on ---------------------------------------------------------

template <class T>
void sum(const std::vector<posted_ptr>& all, const posted& root) {
  // The order of a sum is not promised.
  std::vector<T> total(root.count);
  for (const auto& x : all) {
    const auto* numbers = static_cast<const T*>(x->from);
    auto scale = static_cast<T>(x->scale);
    for (size_t i = 0; i < root.count; ++i)
      total[i] += numbers[i] * scale;
  }
  std::memcpy(root.to, total.data(), root.bytes());
}

void carry_out(std::vector<posted_ptr> all, const posted& root) {
  std::shuffle(all.begin(), all.end(), the().random);
  if (root.what == kind::broadcast) {
    for (const auto& x : all)
      if (x->to != root.from)
        std::memcpy(x->to, root.from, root.bytes());
  } else if (root.type == abi::data_type::float64) {
    sum<double>(all, root);
  } else if (root.type == abi::data_type::float32) {
    sum<float>(all, root);
  } else {
    blame("the double cannot add numbers of 16 bits");
  }
  for (const auto& x : all)
    x->done = true;
  ++(root.what == kind::reduce ? the().sums : the().broadcasts);
}

bool fit(const posted& a, const posted& b) {
  auto fits = a.count == b.count && a.type == b.type;
  if (!fits)
    blame("the two sides name different sizes");
  return fits;
}

void match_pairs(clique& ranks) {
  for (auto& [way, sends] : ranks.sends) {
    auto& recvs = ranks.recvs[way];
    if (sends.empty() || recvs.empty() || !chance())
      continue;
    auto from = sends.front();
    auto to = recvs.front();
    sends.pop_front();
    recvs.pop_front();
    if (fit(*from, *to))
      std::memcpy(to->to, from->from, from->bytes());
    from->done = to->done = true;
    ++the().transfers;
  }
}

void match_collectives(clique& ranks) {
  std::vector<posted_ptr> all;
  posted_ptr root;
  for (auto& [rank, queue] : ranks.collectives) {
    if (queue.empty())
      continue;
    all.push_back(queue.front());
    if (queue.front()->peer == rank)
      root = queue.front();
  }
  if (static_cast<int>(all.size()) < ranks.size || !chance())
    return;
  if (!root)
    return blame("a collective without its root");
  for (const auto& x : all)
    if (x->what != root->what || !fit(*x, *root))
      return blame("ranks are in different collectives");
  for (auto& [rank, queue] : ranks.collectives)
    queue.pop_front();
  carry_out(std::move(all), *root);
}

void enter(clique& ranks, const group& members) {
  for (const auto& x : members.parts) {
    switch (x->what) {
    case kind::send:
      ranks.sends[{members.rank, x->peer}].push_back(x);
      break;
    case kind::recv:
      ranks.recvs[{x->peer, members.rank}].push_back(x);
      break;
    default:
      ranks.collectives[members.rank].push_back(x);
    }
  }
}

/// True when the head of the stream has ended.
bool advance(work& head) {
  if (head.mark != nullptr) {
    if (!chance())
      return false;
    if (the().events.contains(head.mark))
      head.mark->reached = true;
    return true;
  }
  if (head.awaited != nullptr)
    return !the().events.contains(head.awaited) || head.awaited->reached;
  auto& what = *head.transfers;
  if (what.cancelled) {
    if (the().wrong.stuck.contains(what.rank) || !chance())
      return false;
    // Until now the device could write to this memory. So a caller that gave it
    // back too early is found.
    for (const auto& x : what.parts)
      if (!x->done && x->to != nullptr)
        std::memset(x->to, 0xee, x->bytes());
    return true;
  }
  if (!what.begun) {
    what.begun = true;
    enter(*what.owner->ranks, what);
  }
  auto broadcasts = what.parts.front()->what == kind::broadcast;
  if (broadcasts && the().wrong.no_broadcast.contains(what.rank))
    return false;
  return !the().wrong.never_done.contains(what.rank) &&
         std::all_of(what.parts.begin(), what.parts.end(),
                     [](const auto& x) { return x->done; });
}

bool all_met(const clique& ranks) {
  if (static_cast<int>(ranks.ranks.size()) < ranks.size)
    return false;
  return std::none_of(ranks.ranks.begin(), ranks.ranks.end(), [](auto& x) {
    return the().wrong.never_meets.contains(x.first);
  });
}

void advance(abi::comm comm) {
  const auto& wrong = the().wrong;
  if (comm->state != abi::result::in_progress) {
    if (wrong.comm_fails.contains(comm->rank) &&
        comm->state == abi::result::success)
      comm->state = abi::result::internal_error;
    return;
  }
  if (!chance())
    return;
  if (comm->at == stage::meeting) {
    if (wrong.meets_badly.contains(comm->rank)) {
      comm->state = abi::result::system_error;
    } else if (all_met(*comm->ranks)) {
      comm->at = stage::ready;
      comm->state = abi::result::success;
    }
  } else if (comm->arriving) {
    if (wrong.never_issued.contains(comm->rank))
      return;
    comm->target->queue.push_back({std::exchange(comm->arriving, nullptr)});
    comm->state = abi::result::success;
  } else if (comm->at == stage::leaving) {
    if (wrong.never_leaves.contains(comm->rank))
      return;
    comm->at = stage::left;
    comm->state = abi::result::success;
  }
}

void move_on() {
  for (auto comm : the().comms)
    advance(comm);
  for (auto& [id, ranks] : the().cliques) {
    match_pairs(ranks);
    match_collectives(ranks);
  }
  for (auto stream : the().streams)
    while (!stream->held && !stream->queue.empty() &&
           advance(stream->queue.front()))
      stream->queue.pop_front();
}

// -- the rules ----------------------------------------------------------------

bool known(abi::comm comm, const char* who) {
  if (!the().comms.contains(comm)) {
    blame(std::string{who} + ": no such communicator, or its end has been");
    return false;
  }
  if (comm->device != current_device)
    blame(std::string{who} + ": on the wrong device");
  return true;
}

abi::result issue_calls(std::vector<std::pair<abi::stream, group_ptr>> calls) {
  for (auto& [stream, what] : calls) {
    auto comm = what->owner;
    if (comm->arriving)
      return abi::result::invalid_usage;
    comm->arriving = std::move(what);
    comm->target = stream;
    comm->state = abi::result::in_progress;
  }
  return calls.empty() ? abi::result::success : abi::result::in_progress;
}

abi::result ask(posted operation, abi::comm comm, abi::stream stream) {
  lock guard{the().mutex};
  if (!known(comm, "a transfer"))
    return abi::result::invalid_argument;
  if (comm->state == abi::result::in_progress)
    blame("a transfer before the call before it has come in");
  else if (comm->state != abi::result::success)
    return comm->state; // An error may come between any two calls.
  if (!the().streams.contains(stream))
    blame("a transfer in no stream");
  if (the().wrong.call_fails.contains(comm->rank))
    return abi::result::internal_error;
  auto part = std::make_shared<posted>(operation);
  for (auto& [where, other] : group_calls)
    if (other->owner == comm && where == stream) {
      other->parts.push_back(std::move(part));
      return abi::result::success;
    }
  auto calls = std::make_shared<group>(group{comm, comm->rank, {part}});
  if (group_depth != 0) {
    group_calls.emplace_back(stream, std::move(calls));
    return abi::result::success;
  }
  return issue_calls({{stream, std::move(calls)}});
}

void withdraw(abi::comm comm) {
  for (auto stream : the().streams)
    for (auto& item : stream->queue)
      if (item.transfers && item.transfers->owner == comm)
        item.transfers->cancelled = true;
  auto rank = comm->rank;
  auto& ranks = *comm->ranks;
  for (auto& [way, queue] : ranks.sends)
    if (way.first == rank)
      queue.clear();
  for (auto& [way, queue] : ranks.recvs)
    if (way.second == rank)
      queue.clear();
  ranks.collectives[rank].clear();
  ranks.ranks.erase(rank);
}

void end(abi::comm comm) {
  if (!comm->sums.empty())
    blame("a scaled sum that was not ended");
  std::erase(the().comms, comm);
  ++the().ended;
  delete comm;
}

abi::result take_group() {
  return issue_calls(std::exchange(group_calls, {}));
}

} // namespace fake
