#include "messages/transport/nccl/ferry.hpp"

#include "messages/transport/nccl/succession.hpp"

#include <utility>

namespace troupe::transport::nccl {

namespace {

constexpr auto fine = abi::cuda_status::success;

/// Ranks of the two.
constexpr int sender = 0;
constexpr int receiver = 1;

} // namespace

std::optional<data_type> type_of(element_type x) {
  switch (x) {
  case element_type::float32:
    return data_type::float32;
  case element_type::float64:
    return data_type::float64;
  default:
    return std::nullopt;
  }
}

ferry::ferry(library_ptr lib, const ferry_terms& terms, double now)
  : lib_(std::move(lib)), terms_(terms),
    comm_(
      lib_,
      place{to_abi(terms.id), terms.sends ? sender : receiver, 2, terms.device},
      terms.limits, now) {
  device_guard guard{*lib_, terms_.device};
  copies_ = std::make_unique<owned_stream>(lib_);
  take_memory();
  if (copies_->status() != fine)
    fail(lib_->explain(copies_->status()), now);
  else if (!staging_)
    fail("the device has no memory for a tensor of " +
           std::to_string(terms_.largest.bytes()) + " bytes",
         now);
}

ferry::~ferry() {
  for (auto& one : loads_)
    if (one.done)
      one.done->break_off();
  if (staging_ && device_is_done()) {
    device_guard guard{*lib_, terms_.device};
    lib_->call().memory_give(staging_);
  }
}

/// With the memory that is ours.
bool ferry::device_is_done() const {
  if (failure_.empty())
    return loads_.empty();
  return comm_.settled() && comm_.look(last_).what != progress::lost;
}

void ferry::take_memory() {
  if (lib_->call().memory_take(
        &staging_, static_cast<size_t>(terms_.largest.bytes())) != fine)
    staging_ = nullptr;
}

// -- what is asked for --------------------------------------------------------

bool ferry::takes(const payload_shape& shape) const {
  std::lock_guard guard{mutex_};
  return failure_.empty() && type_of(shape.type) && shape.count > 0 &&
         shape.bytes() <= terms_.largest.bytes() &&
         comm_.state() == communicator::phase::ready;
}

void ferry::send(payload tensor) {
  load next;
  next.type = *type_of(tensor.shape().type);
  next.count = tensor.shape().count;
  next.tensor = std::move(tensor);
  std::lock_guard guard{mutex_};
  loads_.push_back(std::move(next));
}

void ferry::receive(std::span<std::byte> target, element_type type,
                    arrival_ptr done) {
  std::lock_guard guard{mutex_};
  auto known = type_of(type);
  if (!failure_.empty() || !known || target.size() > terms_.largest.bytes())
    return done->break_off();
  load next;
  next.type = *known;
  next.count = target.size() / troupe::size_of(type);
  next.target = target;
  next.done = std::move(done);
  loads_.push_back(std::move(next));
}

// -- what becomes of it -------------------------------------------------------

bool ferry::poll(double now) {
  std::deque<load> gone; // Let go of after the lock.
  std::lock_guard guard{mutex_};
  comm_.poll(now);
  auto state = comm_.state();
  auto stopping = state == communicator::phase::stopping;
  if (failure_.empty() && (stopping || comm_.settled()))
    failure_ = comm_.why();
  if (!failure_.empty()) {
    gone.swap(loads_);
    for (auto& one : gone)
      if (one.done)
        one.done->break_off();
    return stopping;
  }
  while (!loads_.empty()) {
    auto& next = loads_.front();
    if (next.number == 0)
      begin(next, now);
    if (!failure_.empty() || !finish(next))
      return true;
    gone.push_back(std::move(next));
    loads_.pop_front();
  }
  return state == communicator::phase::initialising;
}

void ferry::begin(load& what, double now) {
  if (what.tensor) {
    auto bytes = what.tensor.bytes();
    if (!copy(staging_, bytes.data(), bytes.size()))
      return fail("the device does not take a copy", now);
  }
  auto way = what.tensor
               ? send_to(receiver, staging_, what.count, what.type)
               : receive_from(sender, staging_, what.count, what.type);
  what.number = comm_.submit({way}, now + terms_.transfer, copies_->get());
  last_ = what.number;
}

/// True when nothing more is to be done for it.
bool ferry::finish(load& what) {
  if (comm_.look(what.number).what != progress::done)
    return false;
  if (what.tensor)
    return true;
  if (!what.landing) {
    what.landing = true;
    if (!copy(what.target.data(), staging_, what.target.size())) {
      what.done->break_off();
      return true;
    }
  }
  device_guard guard{*lib_, terms_.device};
  auto status = lib_->call().stream_query(copies_->get());
  if (status == abi::cuda_status::not_ready)
    return false;
  if (status == fine)
    what.done->reach(what.target.size());
  else
    what.done->break_off();
  return true;
}

bool ferry::copy(void* to, const void* from, size_t bytes) {
  device_guard guard{*lib_, terms_.device};
  return guard.status() == fine &&
         lib_->call().memory_copy(to, from, bytes, abi::copy_kind::by_address,
                                  copies_->get()) == fine;
}

void ferry::stop(const std::string& why, double now) {
  std::lock_guard guard{mutex_};
  fail(why, now);
}

void ferry::fail(const std::string& why, double now) {
  if (failure_.empty())
    failure_ = why;
  comm_.stop(why, now);
}

std::string ferry::failure() const {
  std::lock_guard guard{mutex_};
  return failure_;
}

} // namespace troupe::transport::nccl
