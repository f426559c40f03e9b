#include "models/device/nccl/network.hpp"

#include "config/text/failure.hpp"
#include "models/device/device_tensor.hpp"
#include "models/device/nccl/launcher.hpp"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/zeros.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <numeric>
#include <utility>
#include <vector>

namespace troupe::models::nccl {

namespace {

using transport::gpu_cut;
using transport::gpu_group;
using transport::payload_taker;
using transport::success_told;
using transport::summand;
using transport::summed_as;

// -- tensors ------------------------------------------------------------------

data_type nccl_type_of(const at::Tensor& x) {
  switch (x.scalar_type()) {
  case at::kDouble:
    return data_type::float64;
  case at::kBFloat16:
    return data_type::bfloat16;
  case at::kHalf:
    return data_type::float16;
  default:
    return data_type::float32;
  }
}

at::ScalarType to_aten(element_type x) {
  return x == element_type::float64 ? at::kDouble : at::kFloat;
}

/// Whether NCCL can send such numbers from this device.
bool is_sendable(const payload& x, int device) {
  return x.device() != nullptr && x.device()->device() == device &&
         x.shape().type != element_type::byte;
}

/// The numbers of a payload, for work that is enqueued on the current stream.
/// Whoever uses them holds the payload until that is over.
at::Tensor numbers_of(const payload& x) {
  c10::impl::VirtualGuardImpl devices{c10::kCUDA};
  c10::Device where{c10::kCUDA,
                    static_cast<c10::DeviceIndex>(x.device()->device())};
  if (auto* written = x.device()->written())
    devices.block(written, devices.getStream(where));
  auto* at = const_cast<std::byte*>(x.device_address()); // It is only read.
  return at::for_blob(at, {static_cast<int64_t>(x.shape().count)})
    .options(at::TensorOptions{to_aten(x.shape().type)}.device(where))
    .target_device(where)
    .make_tensor();
}

payload payload_of(const payload_shape& shape, at::Tensor flat) {
  return {shape, std::make_shared<device_tensor>(std::move(flat), nullptr)};
}

at::Tensor buffer_for(uint64_t count, at::ScalarType type, int device) {
  return at::empty({static_cast<int64_t>(count)},
                   at::TensorOptions{type}.device(
                     c10::kCUDA, static_cast<c10::DeviceIndex>(device)));
}

at::ScalarType summed_type(summed_as form, at::ScalarType own) {
  return form == summed_as::bfloat16  ? at::kBFloat16
         : form == summed_as::float16 ? at::kHalf
                                      : own;
}

// NCCL wants ranges of one size: each has the place of the largest.

uint64_t width_of(const gpu_cut& cut) {
  return std::ranges::max(cut.counts);
}

uint64_t total_of(const gpu_cut& cut) {
  return std::accumulate(cut.counts.begin(), cut.counts.end(), uint64_t{0});
}

/// Calls `work` with each range of the numbers, and of its place.
template <class Work>
void for_each_range(const at::Tensor& places, const gpu_cut& cut, Work work) {
  auto width = static_cast<int64_t>(width_of(cut));
  int64_t first = 0;
  for (size_t i = 0; i < cut.counts.size(); ++i) {
    auto count = static_cast<int64_t>(cut.counts[i]);
    work(places.narrow(0, width * static_cast<int64_t>(i), count), first,
         count);
    first += count;
  }
}

/// What a rank adds to a sum, with each range in its place.
at::Tensor weighted(const std::vector<summand>& own, const gpu_cut& cut,
                    int device) {
  auto out =
    at::zeros({static_cast<int64_t>(width_of(cut) * cut.counts.size())},
              at::TensorOptions{to_aten(cut.type)}.device(
                c10::kCUDA, static_cast<c10::DeviceIndex>(device)));
  for (const auto& each : own) {
    auto x = numbers_of(each.numbers);
    for_each_range(out, cut, [&](at::Tensor place, int64_t first, int64_t n) {
      place.add_(x.narrow(0, first, n), each.share);
    });
  }
  return out;
}

/// The ranges one after the other.
at::Tensor side_by_side(const at::Tensor& places, const gpu_cut& cut) {
  std::vector<at::Tensor> all;
  for_each_range(places, cut, [&](at::Tensor place, int64_t, int64_t) {
    all.push_back(std::move(place));
  });
  return at::cat(all);
}

/// Hands a payload out that is made now, or none.
void hand_out(const payload_taker& take, bool done,
              const std::function<payload()>& make) {
  payload out;
  try {
    if (done)
      out = make();
  } catch (...) {
    take({});
    throw;
  }
  take(std::move(out));
}

// -- a group ------------------------------------------------------------------

std::string text_of(const payload_shape& shape) {
  return std::to_string(shape.bytes()) + " B";
}

class nccl_group final : public gpu_group {
public:
  nccl_group(launcher_ptr by, member_ptr its, int rank)
    : by_(std::move(by)), its_(std::move(its)), rank_(rank) {
    // nop
  }

  ~nccl_group() override {
    {
      std::lock_guard guard{its_->telling};
      its_->told = nullptr;
    }
    end("it is no longer used");
  }

  phase state() const override {
    std::lock_guard guard{its_->mutex};
    return its_->phase;
  }

  std::string why_over() const override {
    std::lock_guard guard{its_->mutex};
    return its_->why;
  }

  void send(int to, payload numbers, success_told done) override {
    auto shape = numbers.shape();
    ask({"send of " + text_of(shape) + " to rank " + std::to_string(to),
         [by = by_.get(), to, numbers](comm with, stream on) {
           if (!is_sendable(numbers, by->device()))
             return result::invalid_argument;
           auto x = numbers_of(numbers);
           return by->lib().call().send(x.const_data_ptr(),
                                        numbers.shape().count, nccl_type_of(x),
                                        to, with, on);
         },
         [done](bool well) {
           if (done)
             done(well);
         }});
  }

  void receive(int from, payload_shape shape, payload_taker take) override {
    auto out = std::make_shared<at::Tensor>();
    ask({"receive of " + text_of(shape) + " from rank " + std::to_string(from),
         [by = by_.get(), from, shape, out](comm with, stream on) {
           *out = buffer_for(shape.count, to_aten(shape.type), by->device());
           return by->lib().call().receive(out->mutable_data_ptr(), shape.count,
                                           nccl_type_of(*out), from, with, on);
         },
         [shape, take, out](bool done) {
           hand_out(take, done, [&] { return payload_of(shape, *out); });
         }});
  }

  void sum(std::vector<summand> own, const gpu_cut& cut, summed_as form,
           payload_taker take) override {
    struct tensors {
      at::Tensor in, out;
    };
    auto its = std::make_shared<tensors>();
    payload_shape shape{cut.type, cut.counts.at(static_cast<size_t>(rank_))};
    ask({"sum of " + text_of({cut.type, width_of(cut)}) + " for each rank",
         [by = by_.get(), its, own = std::move(own), cut, form](comm with,
                                                                stream on) {
           auto fit = std::ranges::all_of(own, [&](const summand& each) {
             return is_sendable(each.numbers, by->device());
           });
           if (!fit)
             return result::invalid_argument;
           its->in = weighted(own, cut, by->device());
           auto type = summed_type(form, its->in.scalar_type());
           its->in = its->in.to(type);
           its->out = buffer_for(width_of(cut), type, by->device());
           return by->lib().call().reduce_scatter(
             its->in.const_data_ptr(), its->out.mutable_data_ptr(),
             width_of(cut), nccl_type_of(its->out), reduction::sum, with, on);
         },
         [its, take, shape](bool done) {
           hand_out(take, done, [&] {
             auto range = its->out.to(to_aten(shape.type));
             return payload_of(
               shape, range.narrow(0, 0, static_cast<int64_t>(shape.count)));
           });
         }});
  }

  void gather(payload range, const gpu_cut& cut, payload_taker take) override {
    struct tensors {
      at::Tensor in, out;
    };
    auto its = std::make_shared<tensors>();
    ask({"gathering of " + text_of({cut.type, total_of(cut)}),
         [by = by_.get(), range = std::move(range), its, cut](comm with,
                                                              stream on) {
           if (!is_sendable(range, by->device()))
             return result::invalid_argument;
           auto type = to_aten(cut.type);
           auto ranks = static_cast<uint64_t>(cut.counts.size());
           its->in = buffer_for(width_of(cut), type, by->device());
           its->in.narrow(0, 0, static_cast<int64_t>(range.shape().count))
             .copy_(numbers_of(range));
           its->out = buffer_for(width_of(cut) * ranks, type, by->device());
           return by->lib().call().all_gather(
             its->in.const_data_ptr(), its->out.mutable_data_ptr(),
             width_of(cut), nccl_type_of(its->in), with, on);
         },
         [its, take, cut](bool done) {
           hand_out(take, done, [&] {
             return payload_of({cut.type, total_of(cut)},
                               side_by_side(its->out, cut));
           });
         }});
  }

  void end(const std::string& why) override {
    by_->order([its = its_, why] { its->its->stop(why, seconds_now()); });
  }

private:
  void ask(transfer job) {
    by_->order([its = its_, job = std::move(job)]() mutable {
      its->its->ask(std::move(job));
      std::unique_lock guard{its->mutex};
      if (its->phase != phase::over)
        return;
      guard.unlock();
      its->its->tell_failures();
    });
  }

  launcher_ptr by_;
  member_ptr its_;
  int rank_;
};

class nccl_network final : public transport::gpu_network {
public:
  nccl_network(library_ptr lib, int device, std::string gpu)
    : by_(launcher::start(std::move(lib), device)), gpu_(std::move(gpu)) {
    // nop
  }

  int device() const override { return by_->device(); }

  const std::string& gpu() const override { return gpu_; }

  transport::group_id make_id() override {
    unique_id id;
    if (auto code = by_->lib().call().get_unique_id(&id);
        code != result::success)
      throw run_error("NCCL gives no id: " + by_->lib().explain(code));
    transport::group_id out;
    static_assert(sizeof out == sizeof id);
    std::memcpy(out.data(), id.bytes, sizeof id);
    return out;
  }

  transport::gpu_group_ptr open(const transport::group_id& id, int rank,
                                int size,
                                const transport::group_patience& patience,
                                transport::phase_told told) override {
    auto its = std::make_shared<member>();
    its->told = std::move(told);
    place where{{},
                rank,
                size,
                {c10::kCUDA, static_cast<c10::DeviceIndex>(by_->device())}};
    std::memcpy(where.id.bytes, id.data(), sizeof where.id);
    auto* by = by_.get();
    by->order([by, its, where, patience] {
      its->its = std::make_unique<communicator>(by->shared_lib(), where,
                                                patience, seconds_now());
      by->add(its);
    });
    return std::make_shared<nccl_group>(by_, its, rank);
  }

private:
  launcher_ptr by_;
  std::string gpu_;
};

} // namespace

transport::gpu_network_ptr make_network(library_ptr lib, int device,
                                        std::string gpu) {
  return std::make_shared<nccl_network>(std::move(lib), device, std::move(gpu));
}

} // namespace troupe::models::nccl
