#include "messages/transport/nccl/library/communicator.hpp"

#include <algorithm>
#include <cassert>
#include <stdexcept>

namespace troupe::transport::nccl {

namespace {

constexpr auto fine = abi::cuda_status::success;

bool is_collective(const transfer& x) {
  return x.kind == transfer_kind::reduce || x.kind == transfer_kind::broadcast;
}

} // namespace

communicator::communicator(library_ptr lib, const place& where,
                           const patience& limits, double now)
  : lib_(std::move(lib)), where_(where), limits_(limits),
    phase_deadline_(now + limits.init) {
  begin(now);
}

communicator::~communicator() {
  if (settled())
    return;
  device_guard guard{*lib_, where_.device};
  abort_comm();
  let_go();
}

// -- operations ---------------------------------------------------------------

ticket communicator::submit(std::vector<transfer> transfers, double deadline,
                            abi::stream after) {
  for (const auto& x : transfers)
    check(x);
  if (transfers.size() > 1 &&
      std::any_of(transfers.begin(), transfers.end(), is_collective))
    throw std::invalid_argument{"NCCL: a collective runs alone"};
  // NCCL moves nothing for an empty transfer. The other ranks skip it too,
  // since all name the same count.
  std::erase_if(transfers, [](const transfer& x) { return x.count == 0; });
  operation what;
  what.transfers = std::move(transfers);
  what.deadline = deadline;
  if (after != nullptr && !settled() && phase_ != phase::stopping) {
    device_guard guard{*lib_, where_.device};
    what.after = std::make_unique<owned_event>(lib_, after);
  }
  operations_.push_back(std::move(what));
  return completed_ + operations_.size();
}

void communicator::check(const transfer& x) const {
  auto collective = is_collective(x);
  auto root = collective && x.peer == where_.rank;
  auto no_peer = x.peer < 0 || x.peer >= where_.size ||
                 (!collective && x.peer == where_.rank);
  auto reads = x.kind != transfer_kind::receive;
  auto writes =
    x.kind != transfer_kind::send && (x.kind != transfer_kind::reduce || root);
  auto no_memory = x.count != 0 && ((reads && x.from == nullptr) ||
                                    (writes && x.to == nullptr));
  if (no_peer || no_memory)
    throw std::invalid_argument{
      "NCCL: rank " + std::to_string(where_.rank) + " of " +
      std::to_string(where_.size) + " cannot do a " + to_string(x) +
      (no_peer ? ": there is no such peer" : ": it names no memory")};
}

outcome communicator::look(ticket number) const {
  if (number != 0 && number <= completed_)
    return {progress::done, ""};
  if (number == 0 || number > completed_ + operations_.size())
    return {progress::failed, "there is no such operation"};
  if (phase_ == phase::stopping)
    return {progress::stopping, why_};
  if (settled())
    return {lost_ ? progress::lost : progress::failed, why_};
  return {progress::waiting, ""};
}

// -- life ---------------------------------------------------------------------

void communicator::begin(double now) {
  device_guard guard{*lib_, where_.device};
  if (guard.status() != fine)
    return stop(lib_->explain(guard.status()), now);
  stream_ = std::make_unique<owned_stream>(lib_);
  if (stream_->status() != fine)
    return stop(lib_->explain(stream_->status()), now);
  abi::config config;
  auto code = lib_->call().comm_init(&comm_, where_.size, where_.id,
                                     where_.rank, &config);
  if (code != abi::result::success && code != abi::result::in_progress)
    stop("NCCL refused to begin: " + lib_->explain(code, comm_), now);
}

void communicator::poll(double now) {
  if (settled())
    return;
  device_guard guard{*lib_, where_.device};
  switch (phase_) {
  case phase::initialising:
    await_ready(now);
    break;
  case phase::ready:
    advance(now);
    break;
  case phase::closing:
    await_goodbye(now);
    break;
  default:
    break;
  }
  // Comes last, since the calls above may just have stopped the communicator.
  if (phase_ == phase::stopping)
    await_quiet(now);
}

void communicator::await_ready(double now) {
  if (free_to_call(now)) {
    phase_ = phase::ready;
    advance(now);
  } else if (phase_ == phase::initialising && now >= phase_deadline_) {
    stop("not all of " + std::to_string(where_.size) +
           " ranks came to the communicator in time",
         now);
  } else {
    watch_deadlines(now);
  }
}

void communicator::advance(double now) {
  auto free = free_to_call(now);
  if (free)
    mark_issued(now);
  collect_done(now);
  if (free)
    issue_next(now);
  watch_deadlines(now);
}

/// Whether NCCL has finished the last call: only then does it take the next
/// one. If that call had an error, the communicator stops.
bool communicator::free_to_call(double now) {
  auto state = abi::result::success;
  auto code = lib_->call().comm_async_error(comm_, &state);
  if (code == abi::result::success)
    code = state;
  if (code != abi::result::success && code != abi::result::in_progress)
    stop("NCCL: " + lib_->explain(code, comm_), now);
  return code == abi::result::success;
}

/// The issued operation is in the stream now; an event behind it tells its end.
void communicator::mark_issued(double now) {
  if (phase_ != phase::ready || !issuing_)
    return;
  issuing_ = false;
  auto newest = std::find_if(operations_.rbegin(), operations_.rend(),
                             [](const operation& x) { return x.issued; });
  assert(newest != operations_.rend());
  newest->finish = std::make_unique<owned_event>(lib_, stream_->get());
  if (newest->finish->status() != fine)
    stop(lib_->explain(newest->finish->status()), now);
}

void communicator::collect_done(double now) {
  while (phase_ == phase::ready && !operations_.empty() &&
         operations_.front().finish) {
    auto code = lib_->call().event_query(operations_.front().finish->get());
    if (code == abi::cuda_status::not_ready)
      return;
    if (code != fine)
      return stop(lib_->explain(code), now);
    operations_.pop_front();
    ++completed_;
  }
}

/// Issues operations until NCCL needs time for one.
void communicator::issue_next(double now) {
  for (auto& what : operations_) {
    if (phase_ != phase::ready || issuing_)
      return;
    if (what.issued)
      continue;
    what.issued = true;
    issuing_ = true;
    auto code = issue(what);
    if (code != abi::result::success && code != abi::result::in_progress)
      return stop(describe(what) + ": " + lib_->explain(code, comm_), now);
    // Success says only that the call was taken.
    if (free_to_call(now))
      mark_issued(now);
  }
}

abi::result communicator::issue(const operation& action) {
  const auto& call = lib_->call();
  if (action.after) {
    if (action.after->status() != fine ||
        call.stream_wait_event(stream_->get(), action.after->get(), 0) != fine)
      return abi::result::unhandled_cuda_error;
  }
  if (action.transfers.empty())
    return abi::result::success;
  if (action.transfers.size() == 1)
    return issue(action.transfers.front());
  auto code = call.group_start();
  if (code != abi::result::success)
    return code;
  for (const auto& x : action.transfers) {
    code = issue(x);
    if (code != abi::result::success && code != abi::result::in_progress)
      break;
  }
  // A group that was begun is ended, whatever happened in it.
  auto end = call.group_end();
  auto fault = code != abi::result::success && code != abi::result::in_progress;
  return fault ? code : end;
}

abi::result communicator::issue(const transfer& x) {
  const auto& call = lib_->call();
  auto stream = stream_->get();
  switch (x.kind) {
  case transfer_kind::send:
    return call.send(x.from, x.count, x.type, x.peer, comm_, stream);
  case transfer_kind::receive:
    return call.recv(x.to, x.count, x.type, x.peer, comm_, stream);
  case transfer_kind::reduce:
    return reduce(x);
  case transfer_kind::broadcast:
    return call.broadcast(x.from, x.to, x.count, x.type, x.peer, comm_, stream);
  }
  return abi::result::invalid_argument;
}

abi::result communicator::reduce(const transfer& x) {
  const auto& call = lib_->call();
  auto how = abi::reduction::sum;
  if (x.scale != 1) {
    auto narrow = static_cast<float>(x.scale);
    auto wide = x.scale;
    auto* scale = x.type == data_type::float64 ? static_cast<void*>(&wide)
                                               : static_cast<void*>(&narrow);
    auto code = call.make_scaled_sum(&how, scale, x.type,
                                     abi::residence::host_now, comm_);
    if (code != abi::result::success)
      return code;
  }
  auto code = call.reduce(x.from, x.to, x.count, x.type, how, x.peer, comm_,
                          stream_->get());
  if (x.scale != 1)
    call.end_scaled_sum(how, comm_); // The sum keeps a copy.
  return code;
}

void communicator::watch_deadlines(double now) {
  if (phase_ != phase::initialising && phase_ != phase::ready)
    return;
  for (const auto& what : operations_)
    if (now >= what.deadline)
      return stop(describe(what) + " was not done in time", now);
}

// -- the end ------------------------------------------------------------------

void communicator::close(double now) {
  if (phase_ != phase::initialising && phase_ != phase::ready)
    return;
  device_guard guard{*lib_, where_.device};
  if (phase_ == phase::ready)
    advance(now);
  if (settled() || phase_ == phase::stopping)
    return;
  if (phase_ == phase::initialising || !operations_.empty())
    return stop("closed before all was done", now);
  phase_ = phase::closing;
  phase_deadline_ = now + limits_.close;
  auto code = lib_->call().comm_finalize(comm_);
  if (code != abi::result::success && code != abi::result::in_progress)
    return stop("NCCL: " + lib_->explain(code, comm_), now);
  await_goodbye(now);
}

void communicator::await_goodbye(double now) {
  if (free_to_call(now)) {
    lib_->call().comm_destroy(std::exchange(comm_, nullptr));
    let_go();
    why_ = "it was closed";
    phase_ = phase::closed;
  } else if (phase_ == phase::closing && now >= phase_deadline_) {
    stop("the others did not say goodbye in time", now);
  }
}

void communicator::stop(const std::string& reason, double now) {
  if (settled() || phase_ == phase::stopping)
    return;
  device_guard guard{*lib_, where_.device};
  why_ = reason;
  phase_ = phase::stopping;
  phase_deadline_ = now + limits_.quiet;
  abort_comm();
  await_quiet(now);
}

/// Aborted operations must still leave the device.
void communicator::await_quiet(double now) {
  if (stream_ && stream_->status() == fine) {
    auto code = lib_->call().stream_query(stream_->get());
    if (code == abi::cuda_status::not_ready && now < phase_deadline_)
      return;
    lost_ = code != fine;
  }
  let_go();
  phase_ = phase::failed;
}

/// Releases everything except the list of unfinished operations.
void communicator::let_go() {
  for (auto& what : operations_) {
    what.after.reset();
    what.finish.reset();
  }
  stream_.reset();
}

void communicator::abort_comm() {
  if (comm_ != nullptr)
    lib_->call().comm_abort(std::exchange(comm_, nullptr));
}

std::string communicator::describe(const operation& action) const {
  if (action.transfers.empty())
    return "waiting for another stream";
  auto text = to_string(action.transfers.front());
  if (action.transfers.size() > 1)
    text += " and " + std::to_string(action.transfers.size() - 1) + " more";
  return text;
}

std::string_view to_string(communicator::phase x) {
  using phase = communicator::phase;
  switch (x) {
  case phase::initialising:
    return "initialising";
  case phase::ready:
    return "ready";
  case phase::closing:
    return "closing";
  case phase::closed:
    return "closed";
  case phase::stopping:
    return "stopping";
  case phase::failed:
    return "failed";
  }
  return "unknown";
}

} // namespace troupe::transport::nccl
