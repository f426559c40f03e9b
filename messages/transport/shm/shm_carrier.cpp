#include "messages/transport/shm/shm_carrier.hpp"

#include <cstring>
#include <utility>

namespace troupe::transport {

namespace {

/// The most regions that a peer needs: one for each tensor in use.
constexpr size_t max_regions = 4096;

} // namespace

shm_carrier::shm_carrier(frame_line& line, const path_terms& terms,
                         std::shared_ptr<shared_memory> memory, bool keeps_lent)
  : terms_(terms), ledger_(line.ledger()), memory_(std::move(memory)),
    keeps_lent_(keeps_lent), copies_(terms.expected.bytes(), memory_),
    activations_(terms.activations().bytes(), memory_) {
  // nop
}

shm_carrier::~shm_carrier() {
  if (keeps_lent_)
    for (const auto& [number, tensor] : lent_)
      memory_->retire(tensor.host_bytes().data());
}

// -- out ----------------------------------------------------------------------

/// The tensor itself, or a copy, in memory that the other end can map.
payload shm_carrier::at_home(frame_kind kind, const payload& tensor) {
  auto bytes = tensor.host_bytes();
  if (memory_->find(bytes.data(), bytes.size()))
    return tensor;
  auto memory = has_activations(kind) ? activations_.take_block()
                : bytes.size() > terms_.expected.bytes()
                  ? memory_->take_block(bytes.size())
                  : copies_.take_block();
  auto* data = memory.get();
  std::memcpy(data, bytes.data(), bytes.size());
  return {tensor.shape(), std::move(memory), data};
}

outgoing_tensor shm_carrier::place(frame_head& head, const payload& tensor) {
  outgoing_tensor out;
  auto lent = at_home(head.kind, tensor);
  auto where =
    memory_->find(lent.host_bytes().data(), lent.host_bytes().size());
  head.region = where->region->id;
  head.offset = where->offset;
  head.carried = carriage::region;
  if (told_.insert(head.region).second) {
    head.carried = carriage::new_region;
    out.file = where->region->file.get();
    out.file_owner = where->region;
  }
  std::lock_guard guard{lending_};
  lent_.insert_or_assign(head.request.value, std::move(lent));
  return out;
}

void shm_carrier::let_go(uint64_t request) {
  payload gone; // Dropped after the lock.
  std::lock_guard guard{lending_};
  if (auto found = lent_.find(request); found != lent_.end()) {
    gone = std::move(found->second);
    lent_.erase(found);
  }
}

// -- in -----------------------------------------------------------------------

void shm_carrier::learn(const frame_head& head,
                        std::vector<descriptor>& files) {
  if (files.size() != 1 || known_.size() == max_regions)
    throw path_error{"a region without its file, or too many of them"};
  known_[head.region] =
    memory_->map_foreign(std::move(files.front()), terms_.most_region_bytes());
}

incoming_tensor shm_carrier::expect(const frame_head& head,
                                    std::vector<descriptor>& files) {
  if (head.kind == frame_kind::piece)
    throw path_error{"a piece of a tensor on a path that sends them whole"};
  if (head.carried == carriage::follows)
    throw path_error{"a tensor's bytes on a path that shares memory"};
  if (head.carried == carriage::new_region)
    learn(head, files);
  else if (head.carried != carriage::region)
    throw path_error{"a tensor that comes no way that this path has"};
  auto found = known_.find(head.region);
  if (found == known_.end())
    throw path_error{"a tensor in a region that nobody has shown"};
  const auto& region = found->second;
  auto bytes = head.shape.bytes();
  auto size = region->memory.size();
  if (head.offset % size_of(head.shape.type) != 0 || head.offset > size ||
      bytes > size - head.offset)
    throw path_error{"a tensor that reaches past its region"};
  auto* data = region->memory.data() + head.offset;
  std::shared_ptr<const void> owner{
    data, [region, told = ledger_, number = head.request.value](const void*) {
      told->enter(number);
    }};
  return {payload{head.shape, std::move(owner), data}, {}, 0, false};
}

path_row shm_row() {
  path_row out;
  out.facts.name = "shm";
  out.facts.across = config::reach::host;
  out.offered = [](const proto::PathOffer& offer) {
    return !offer.shm_name().empty();
  };
  out.possible = [](const path_means& means) {
    return means.memory != nullptr;
  };
  out.trouble = [](const path_means&, const proto::PathOffer&, uint64_t bytes) {
    return shared_memory::trouble(bytes);
  };
  out.remedy = "give this process more memory";
  out.near_end = [](socket line, const path_terms& terms,
                    const path_means& means) {
    return make_path<shm_carrier>(std::move(line), terms, means.memory, true);
  };
  out.far_end = [](socket line, const path_terms& terms,
                   const path_means& means) {
    return make_path<shm_carrier>(std::move(line), terms, means.memory, false);
  };
  return out;
}

} // namespace troupe::transport
