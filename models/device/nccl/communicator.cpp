#include "models/device/nccl/communicator.hpp"

#include "config/text/one_line.hpp"

#include <c10/core/DeviceGuard.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/Exception.h>

#include <utility>

namespace troupe::models::nccl {

namespace {

/// s between two looks at a transfer that is running, ...
constexpr double running_pace = 50e-6;

/// ... at a communicator that begins or ends, ...
constexpr double slow_pace = 2e-3;

/// ... and at an idle one, whose errors nothing else would notice.
constexpr double idle_pace = .5;

/// From a pool that nobody computes on: work of others behind a transfer would
/// wait for a peer.
c10::Stream stream_for(c10::Device where) {
  return c10::impl::VirtualGuardImpl{where.type()}.getStreamFromGlobalPool(
    where, /*isHighPriority=*/true);
}

/// What the device never lets go of.
void keep_for_good(std::deque<transfer> jobs) {
  static auto* all = new std::deque<std::deque<transfer>>;
  all->push_back(std::move(jobs));
}

std::string line_of(const std::exception& err) {
  const auto* its = dynamic_cast<const c10::Error*>(&err);
  return cause_in(its != nullptr ? its->what_without_backtrace() : err.what());
}

} // namespace

communicator::communicator(library_ptr lib, const place& where,
                           const transport::group_patience& patience,
                           double now)
  : lib_(std::move(lib)), where_(where), patience_(patience),
    deadline_(now + patience.meeting), stream_(stream_for(where.device)) {
  c10::DeviceGuard guard{where_.device};
  comm_config how;
  auto code =
    lib_->call().comm_init(&comm_, where_.size, where_.id, where_.rank, &how);
  if (!is_fine(code))
    stop("NCCL refused to begin: " + lib_->explain(code, comm_), now);
}

communicator::~communicator() {
  stop("it is no longer used", 0);
  tell_failures();
  if (phase_ == phase::stopping)
    keep_for_good(std::move(asked_));
}

void communicator::ask(transfer job) {
  if (phase_ == phase::meeting || phase_ == phase::open)
    asked_.push_back(std::move(job));
  else
    failures_.push_back(std::move(job.finish));
}

void communicator::tell_failures() {
  for (auto& finish : std::exchange(failures_, {}))
    finish(false);
}

double communicator::pace() const {
  if (phase_ == phase::open)
    return asked_.empty() ? idle_pace : running_pace;
  return slow_pace;
}

double communicator::poll(double now) {
  try {
    c10::StreamGuard guard{stream_};
    if (phase_ == phase::stopping)
      await_quiet(now);
    else if (phase_ != phase::gone)
      move_on(now);
  } catch (const std::exception& err) {
    // A device that has failed: nothing that it is asked succeeds any more.
    stop(line_of(err), now);
    if (now >= deadline_)
      give_up();
  }
  return pace();
}

void communicator::move_on(double now) {
  while (free_to_call(now)) {
    if (phase_ == phase::meeting)
      phase_ = phase::open;
    if (begun_ && !is_current_over())
      break;
    if (asked_.empty())
      return;
    begin_next(now);
  }
  watch(now);
}

/// Whether NCCL has finished the last call: only then is that in the stream,
/// and the next one may come. If the call had an error, all is over.
bool communicator::free_to_call(double now) {
  if (phase_ != phase::meeting && phase_ != phase::open)
    return false;
  auto state = result::success;
  auto code = lib_->call().comm_async_error(comm_, &state);
  if (code == result::success)
    code = state;
  if (!is_fine(code))
    stop("NCCL: " + lib_->explain(code, comm_), now);
  return code == result::success;
}

void communicator::begin_next(double now) {
  begun_ = true;
  deadline_ = now + patience_.transfer;
  auto code = asked_.front().begin(comm_, stream_.native_handle());
  if (!is_fine(code))
    stop(asked_.front().name + ": " + lib_->explain(code, comm_), now);
}

/// An event behind the current transfer tells; whoever gets its numbers then
/// waits for nothing any more.
bool communicator::is_current_over() {
  if (!over_) {
    over_.emplace(where_.device.type());
    over_->record(stream_);
  }
  if (!over_->query())
    return false;
  over_.reset();
  begun_ = false;
  auto job = std::move(asked_.front());
  asked_.pop_front();
  job.finish(true);
  return true;
}

void communicator::watch(double now) {
  if (now < deadline_)
    return;
  if (phase_ == phase::meeting)
    stop("not all of " + std::to_string(where_.size) + " ranks came in time",
         now);
  else if (phase_ == phase::open && begun_)
    stop(asked_.front().name + " was not done in time", now);
}

void communicator::stop(const std::string& why, double now) {
  if (phase_ == phase::stopping || phase_ == phase::gone)
    return;
  why_ = why;
  phase_ = phase::stopping;
  deadline_ = now + patience_.quiet;
  c10::DeviceGuard guard{where_.device};
  if (comm_ != nullptr)
    lib_->call().comm_abort(std::exchange(comm_, nullptr));
  for (auto& each : asked_)
    failures_.push_back(std::move(each.finish));
}

/// What has begun is kept until the device uses no memory of it any more.
void communicator::await_quiet(double now) {
  auto quiet =
    c10::impl::VirtualGuardImpl{where_.device.type()}.queryStream(stream_);
  if (quiet) {
    asked_.clear();
    phase_ = phase::gone;
  } else if (now >= deadline_) {
    give_up();
  }
}

void communicator::give_up() {
  keep_for_good(std::exchange(asked_, {}));
  phase_ = phase::gone;
}

} // namespace troupe::models::nccl
