#include "actors/user_process/shared_blocks.hpp"

#include "actors/runtime/tensor_payload.hpp"

#include <utility>

namespace troupe::external {

namespace {

void put_tensor(body_writer& to, const models::parameter_slot& slot) {
  to.put(slot.name)
    .put(static_cast<uint8_t>(slot.kind))
    .put(static_cast<uint8_t>(slot.frozen))
    .put(slot.same_as)
    .put(slot.offset)
    .put(static_cast<uint32_t>(slot.shape.size()));
  for (auto extent : slot.shape)
    to.put(static_cast<uint64_t>(extent));
  if (slot.kind == models::tensor_kind::constant)
    to.put(slot.dtype);
}

const std::byte* address_of(const at::Tensor& block) {
  return static_cast<const std::byte*>(block.const_data_ptr());
}

} // namespace

shared_blocks::shared_blocks(process_line_ptr line, shared_places memory,
                             const models::flat_layout& layout)
  : line_(std::move(line)), memory_(std::move(memory)), layout_(layout),
    weights_(make_pool()) {
  // nop
}

models::flat_pool shared_blocks::make_pool() const {
  if (memory_.gpu)
    return {layout_.count(), layout_.dtype(), memory_.gpu->device(),
            memory_.gpu};
  return {layout_.count(), layout_.dtype(), memory_.host};
}

models::flat_pool shared_blocks::pool_of_gradients() const {
  return make_pool();
}

void shared_blocks::welcome(const config::training_settings& training,
                            const payload& frozen) {
  uint64_t frozen_region = 0;
  if (frozen) {
    models::flat_pool pool{layout_.frozen_count(), layout_.dtype(),
                           memory_.host};
    frozen_ = pool.take_tensor();
    frozen_.copy_(to_tensor(frozen));
    frozen_region = place_of(frozen_).region;
  }
  body_writer out;
  out.put(static_cast<uint32_t>(to_element_type(layout_.dtype())))
    .put(layout_.count())
    .put(layout_.frozen_count())
    .put(frozen_region)
    .put(training.batch_size)
    .put(training.seed)
    .put(uint64_t{training.local_steps.most})
    .put(uint64_t{training.overlap_steps})
    .put(static_cast<uint8_t>(training.local_steps.by_rate))
    .put(static_cast<uint32_t>(layout_.state_dict().size()));
  for (const auto& what : layout_.state_dict())
    put_tensor(out, what);
  line_->send(process_frame_kind::welcome, external::frame_version,
              out.take_bytes());
}

// Where this host has the server's own memory, the process gets the weights
// there. They are in use until it has answered, as by a compute actor.
payload shared_blocks::usable(const payload& weights, uint64_t first) {
  const auto& shape = weights.shape();
  if (!memory_.gpu) {
    auto bytes = weights.host_bytes();
    if (memory_.host->find_foreign(bytes.data(), bytes.size()))
      return {{shape.type, layout_.count()},
              weights.owner(),
              bytes.data() - first * size_of(shape.type)};
  }
  auto copy = weights_.take_tensor();
  write_numbers(copy.narrow(0, static_cast<int64_t>(first),
                            static_cast<int64_t>(shape.count)),
                weights);
  return to_payload(std::move(copy));
}

block_place shared_blocks::place_of(const payload& weights) {
  if (weights.device() != nullptr)
    return place_on_gpu(weights.device_address());
  auto bytes = weights.host_bytes();
  return place_in_host(bytes.data(), bytes.size());
}

block_place shared_blocks::place_of(const at::Tensor& block) {
  if (!block.is_cpu())
    return place_on_gpu(address_of(block));
  return place_in_host(address_of(block), block.nbytes());
}

// The process keeps it open until it ends: the block is used again and again.
block_place shared_blocks::place_on_gpu(const std::byte* block) {
  auto region = memory_.gpu->find(block);
  if (told_on_gpu_.insert(region->id).second)
    line_->send(process_frame_kind::gpu_memory, region->id,
                body_writer{}
                  .put(region->bytes)
                  .put_bytes(region->handle.bytes)
                  .take_bytes());
  return {region->id, 0};
}

block_place shared_blocks::place_in_host(const std::byte* block,
                                         uint64_t bytes) {
  auto where = memory_.host->find(block, bytes);
  if (!where)
    where = memory_.host->find_foreign(block, bytes);
  const auto& region = where->region;
  if (regions_.try_emplace(region->id, region).second)
    line_->send(process_frame_kind::memory, region->id,
                body_writer{}.put(uint64_t{region->memory.size()}).take_bytes(),
                region->file.get());
  return {region->id, where->offset};
}

// In the host's memory: the process may read them when this one has ended, and
// memory of a GPU ends with the process that took it.
void shared_blocks::give_last(version number, const payload& weights,
                              uint64_t applied) {
  models::flat_pool pool{layout_.count(), layout_.dtype(), memory_.host};
  last_ = pool.take_tensor();
  write_numbers(last_, weights);
  auto where = place_of(last_);
  line_->send(process_frame_kind::last, number.value,
              body_writer{}.put(applied).put(where).take_bytes());
}

void shared_blocks::forget_unused() {
  std::erase_if(regions_, [this](const auto& entry) {
    auto gone = entry.second.expired();
    if (gone)
      line_->send(process_frame_kind::forgotten, entry.first);
    return gone;
  });
}

} // namespace troupe::external
