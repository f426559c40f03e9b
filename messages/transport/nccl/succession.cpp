#include "messages/transport/nccl/succession.hpp"

#include <algorithm>
#include <cstring>

namespace troupe::transport::nccl {

namespace {

/// Epochs whose outcomes are remembered. Nobody asks for older ones: a step is
/// long decided by then.
constexpr size_t remembered = 8;

} // namespace

bool succession::begin(epoch number, const id_bytes& id, int rank, int size,
                       int device, double now) {
  if (number <= current_)
    return false;
  end(current_, "membership " + to_string(number) + " has begun", now);
  current_ = number;
  auto comm = std::make_unique<communicator>(
    lib_, place{to_abi(id), rank, size, device}, limits_, now);
  eras_.push_back({number, std::move(comm)});
  return true;
}

void succession::end(epoch number, const std::string& why, double now) {
  if (number != current_ || eras_.empty() || eras_.back().over)
    return;
  eras_.back().over = true;
  eras_.back().comm->stop(why, now);
}

epoch_ticket succession::submit(epoch number, std::vector<transfer> transfers,
                                double deadline, abi::stream after) {
  if (number != current_ || eras_.empty() || eras_.back().over)
    return {number, 0};
  auto& last = eras_.back();
  last.submitted = last.comm->submit(std::move(transfers), deadline, after);
  return {number, last.submitted};
}

outcome succession::look(const epoch_ticket& x) const {
  const auto* era = find(x.number);
  if (era == nullptr || x.operation == 0)
    return {progress::failed, "membership " + to_string(x.number) +
                                " is over: take the stream for this step"};
  auto result = era->comm->look(x.operation);
  if (!result.why.empty())
    result.why = "membership " + to_string(x.number) + ": " + result.why;
  return result;
}

void succession::poll(double now) {
  for (auto& x : eras_)
    x.comm->poll(now);
  // A communicator that is settled is a few numbers and a line.
  while (eras_.size() > remembered && eras_.front().comm->settled())
    eras_.pop_front();
}

bool succession::ready(epoch number) const {
  const auto* era = find(number);
  return era != nullptr && era->comm->state() == communicator::phase::ready;
}

std::string succession::failure(epoch number) const {
  const auto* era = find(number);
  if (era == nullptr)
    return "membership " + to_string(number) + " is over";
  auto state = era->comm->state();
  auto fine = state == communicator::phase::initialising ||
              state == communicator::phase::ready;
  return fine ? "" : era->comm->why();
}

bool succession::settled() const {
  return std::all_of(eras_.begin(), eras_.end(), [&](const era& x) {
    auto at_work = x.number == current_ && !x.over;
    return at_work || x.comm->settled();
  });
}

const succession::era* succession::find(epoch number) const {
  auto found = std::find_if(eras_.begin(), eras_.end(), [number](const era& x) {
    return x.number == number;
  });
  return found == eras_.end() ? nullptr : &*found;
}

abi::unique_id to_abi(const id_bytes& id) {
  abi::unique_id result;
  static_assert(sizeof result == sizeof id);
  std::memcpy(result.bytes, id.data(), sizeof result);
  return result;
}

id_bytes to_bytes(const abi::unique_id& id) {
  id_bytes result;
  std::memcpy(result.data(), id.bytes, sizeof result);
  return result;
}

} // namespace troupe::transport::nccl
