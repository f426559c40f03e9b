#include "messages/transport/nccl/nccl_transfer.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace troupe::transport::nccl {

namespace {

constexpr auto fine = abi::cuda_status::success;

/// The neutral element of sums: -0, since 0 + x would turn x = -0 into 0.
template <class T>
std::span<const std::byte> nothing() {
  static const std::vector<T> block((size_t{1} << 20) / sizeof(T), T{-0.0});
  return std::as_bytes(std::span{block});
}

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

abi::unique_id to_abi(const id_bytes& id) {
  abi::unique_id out;
  static_assert(sizeof out == sizeof id);
  std::memcpy(out.bytes, id.data(), sizeof out);
  return out;
}

id_bytes to_bytes(const abi::unique_id& id) {
  id_bytes out;
  std::memcpy(out.data(), id.bytes, sizeof out);
  return out;
}

nccl_transfer::nccl_transfer(library_ptr lib, const nccl_transfer_terms& terms,
                             double now)
  : lib_(std::move(lib)), terms_(terms),
    comm_(lib_, place{to_abi(terms.id), terms.rank, terms.size, terms.device},
          terms.limits, now) {
  device_guard guard{*lib_, terms_.device};
  copies_ = std::make_unique<owned_stream>(lib_);
  staging_ = take_memory();
  if (copies_->status() != fine)
    fail(lib_->explain(copies_->status()), now);
  else if (staging_ == nullptr)
    fail("the device has no memory for a tensor of " +
           std::to_string(terms_.largest.bytes()) + " bytes",
         now);
}

nccl_transfer::~nccl_transfer() {
  for (auto& one : loads_)
    if (one.done)
      one.done(false);
  if (!device_is_done())
    return;
  device_guard guard{*lib_, terms_.device};
  for (auto* memory : {staging_, nothing_})
    if (memory != nullptr)
      lib_->call().memory_give(memory);
}

/// Whether the device no longer uses any memory, ours included.
bool nccl_transfer::device_is_done() const {
  if (failure_.empty())
    return loads_.empty();
  return comm_.settled() && comm_.look(last_).what != progress::lost;
}

void* nccl_transfer::take_memory() {
  void* out = nullptr;
  auto bytes = static_cast<size_t>(terms_.largest.bytes());
  return lib_->call().memory_take(&out, bytes) == fine ? out : nullptr;
}

// -- what is asked for --------------------------------------------------------

bool nccl_transfer::takes(const payload_shape& shape) const {
  std::lock_guard guard{mutex_};
  return failure_.empty() && type_of(shape.type) && shape.count > 0 &&
         shape.bytes() <= terms_.largest.bytes() &&
         comm_.state() == communicator::phase::ready;
}

void nccl_transfer::send(int to, payload tensor, transfer_done done) {
  leave(transfer_kind::send, to, std::move(tensor), 1, std::move(done));
}

void nccl_transfer::receive(int from, std::span<std::byte> target,
                            element_type type, transfer_done done) {
  come(transfer_kind::receive, from, target, type, std::move(done));
}

void nccl_transfer::give(payload tensor, double scale, transfer_done done) {
  auto how = terms_.size == 2 ? transfer_kind::send : transfer_kind::reduce;
  leave(how, root, std::move(tensor), scale, std::move(done));
}

void nccl_transfer::sum(std::span<std::byte> target, element_type type,
                        transfer_done done) {
  auto how = terms_.size == 2 ? transfer_kind::receive : transfer_kind::reduce;
  come(how, 1, target, type, std::move(done));
}

void nccl_transfer::tell(payload tensor, transfer_done done) {
  leave(transfer_kind::broadcast, root, std::move(tensor), 1, std::move(done));
}

void nccl_transfer::hear(std::span<std::byte> target, element_type type,
                         transfer_done done) {
  come(transfer_kind::broadcast, root, target, type, std::move(done));
}

void nccl_transfer::leave(transfer_kind how, int peer, payload tensor,
                          double scale, transfer_done done) {
  load what;
  what.kind = how;
  what.peer = peer;
  what.type = tensor.shape().type;
  what.tensor = std::move(tensor);
  what.scale = scale;
  what.done = std::move(done);
  ask(std::move(what));
}

void nccl_transfer::come(transfer_kind how, int peer,
                         std::span<std::byte> target, element_type type,
                         transfer_done done) {
  load what;
  what.kind = how;
  what.peer = peer;
  what.target = target;
  what.type = type;
  what.done = std::move(done);
  ask(std::move(what));
}

void nccl_transfer::ask(load request) {
  auto bytes =
    request.tensor ? request.tensor.shape().bytes() : request.target.size();
  request.count = bytes / troupe::size_of(request.type);
  {
    std::lock_guard guard{mutex_};
    if (failure_.empty() && type_of(request.type) &&
        bytes <= terms_.largest.bytes())
      return loads_.push_back(std::move(request));
  }
  if (request.done)
    request.done(false);
}

// -- what becomes of it -------------------------------------------------------

bool nccl_transfer::poll(double now) {
  endings over;
  auto busy = false;
  {
    std::lock_guard guard{mutex_};
    move_on(now, over);
    auto state = comm_.state();
    busy = !loads_.empty() || state == communicator::phase::initialising ||
           state == communicator::phase::stopping;
  }
  for (auto& [what, done] : over)
    if (what.done)
      what.done(done);
  return busy;
}

void nccl_transfer::move_on(double now, endings& over) {
  comm_.poll(now);
  while (failure_.empty() && !loads_.empty()) {
    auto& next = loads_.front();
    if (next.number == 0 && !begin(next, now))
      fail("the device does not take a copy", now);
    auto done = finish(next);
    if (!done)
      break;
    over.emplace_back(std::move(next), *done);
    loads_.pop_front();
  }
  if (failure_.empty() &&
      (comm_.state() == communicator::phase::stopping || comm_.settled()))
    failure_ = comm_.why();
  if (failure_.empty())
    return;
  for (auto& one : std::exchange(loads_, {}))
    over.emplace_back(std::move(one), false);
}

bool nccl_transfer::begin(load& request, double now) {
  if (request.tensor) {
    auto bytes = request.tensor.host_bytes();
    if (!copy(staging_, bytes.data(), bytes.size()))
      return false;
  } else if (request.kind == transfer_kind::reduce && nothing_ == nullptr &&
             !fill_with_nothing()) {
    return false;
  }
  request.number =
    comm_.submit({way_of(request)}, now + terms_.transfer, copies_->get());
  last_ = request.number;
  return true;
}

transfer nccl_transfer::way_of(const load& request) const {
  auto type = *type_of(request.type);
  switch (request.kind) {
  case transfer_kind::send:
    return send_to(request.peer, staging_, request.count, type);
  case transfer_kind::receive:
    return receive_from(request.peer, staging_, request.count, type);
  case transfer_kind::reduce:
    return request.tensor
             ? reduce_to(root, staging_, nullptr, request.count, type,
                         request.scale)
             : reduce_to(root, nothing_, staging_, request.count, type);
  default:
    return broadcast_from(root, staging_, request.count, type);
  }
}

/// Whether the transfer succeeded; nothing while it is under way.
std::optional<bool> nccl_transfer::finish(load& request) {
  if (request.number == 0 || comm_.look(request.number).what != progress::done)
    return std::nullopt;
  if (request.tensor)
    return true;
  if (!std::exchange(request.landing, true) &&
      !copy(request.target.data(), staging_, request.target.size()))
    return false;
  device_guard guard{*lib_, terms_.device};
  auto status = lib_->call().stream_query(copies_->get());
  if (status == abi::cuda_status::not_ready)
    return std::nullopt;
  return status == fine;
}

/// Fills the memory that the root adds to sums with the neutral element.
bool nccl_transfer::fill_with_nothing() {
  device_guard guard{*lib_, terms_.device};
  nothing_ = take_memory();
  if (nothing_ == nullptr)
    return false;
  auto block = terms_.largest.type == element_type::float64 ? nothing<double>()
                                                            : nothing<float>();
  auto bytes = static_cast<size_t>(terms_.largest.bytes());
  for (size_t at = 0; at < bytes; at += block.size())
    if (!copy(static_cast<std::byte*>(nothing_) + at, block.data(),
              std::min(block.size(), bytes - at)))
      return false;
  return true;
}

bool nccl_transfer::copy(void* to, const void* from, size_t bytes) {
  device_guard guard{*lib_, terms_.device};
  return guard.status() == fine &&
         lib_->call().memory_copy(to, from, bytes, abi::copy_kind::by_address,
                                  copies_->get()) == fine;
}

void nccl_transfer::stop(const std::string& why, double now) {
  std::lock_guard guard{mutex_};
  fail(why, now);
}

void nccl_transfer::fail(const std::string& why, double now) {
  if (failure_.empty())
    failure_ = why;
  comm_.stop(why, now);
}

std::string nccl_transfer::failure() const {
  std::lock_guard guard{mutex_};
  return failure_;
}

} // namespace troupe::transport::nccl
