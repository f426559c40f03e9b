// The operators of the fake device: each works on the bytes behind its tensors
// with LibTorch's operator of the CPU, so that both give the same bits, and
// notes what it read and wrote in the order of its stream.

#include "tests/device/fake/device.hpp"

#include <ATen/EmptyTensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/_local_scalar_dense.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <torch/library.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace troupe::testing::fake {

namespace {

constexpr c10::DispatchKeySet on_cpu{c10::DispatchKey::CPU};
constexpr c10::DispatchKeySet on_device{c10::DispatchKey::CUDA};

bool is_on_device(const at::Tensor& x) {
  return x.defined() && x.is_cuda();
}

/// The bytes of memory between a tensor's first element and its last.
size_t extent_of(const at::Tensor& x) {
  if (x.numel() == 0)
    return 0;
  int64_t last = 0;
  for (int64_t i = 0; i < x.dim(); ++i)
    last += (x.size(i) - 1) * x.stride(i);
  return static_cast<size_t>(last + 1) * x.element_size();
}

const void* address_of(const at::Tensor& x) {
  return x.numel() == 0 ? nullptr : x.const_data_ptr();
}

/// The same bytes as a tensor of the CPU.
at::Tensor on_host(const at::Tensor& x) {
  auto* at = bytes_behind(address_of(x));
  return at::from_blob(at, x.sizes(), x.strides(),
                       x.options().device(at::kCPU).requires_grad(false));
}

void reads(operation& by, const at::Tensor& x) {
  by.reads(address_of(x), extent_of(x));
}

void writes(operation& by, const at::Tensor& x) {
  by.writes(address_of(x), extent_of(x));
}

c10::Stream stream_for(const at::Tensor& x) {
  return current_stream(x.device());
}

at::Tensor empty_like_host(const at::Tensor& x, c10::Device where) {
  c10::DeviceGuard guard{where};
  return at::Tensor{at::detail::empty_strided_generic(
    x.sizes(), x.strides(), c10::GetAllocator(c10::kCUDA), on_device,
    x.scalar_type())};
}

/// A call of an operator whose tensors are exchanged for those of the host.
class call {
public:
  call(const c10::OperatorHandle& op, torch::jit::Stack& stack)
    : op_(op), stack_(stack), count_(op.schema().arguments().size()),
      first_(stack.size() - count_) {
    // nop
  }

  void run() {
    for (size_t i = 0; i < count_; ++i)
      exchange(i);
    TORCH_CHECK(where_.has_value(), "fake device: ", op_.schema().name(),
                " without a tensor of the device");
    operation now{current_stream(*where_), op_.schema().name()};
    for (const auto& x : pairs_) {
      reads(now, x.device);
      if (x.written)
        writes(now, x.device);
    }
    op_.redispatchBoxed(on_cpu, &stack_);
    auto found = op_.schema().returns().size();
    for (size_t i = 0; i < found; ++i)
      give_back(stack_[stack_.size() - found + i], i, now);
  }

private:
  struct pair {
    at::Tensor device;
    at::Tensor host;
    size_t argument;
    bool written;
  };

  void exchange(size_t i) {
    auto& value = stack_[first_ + i];
    if (value.isTensor()) {
      value = exchanged(value.toTensor(), i);
    } else if (value.isTensorList()) {
      auto all = value.toTensorVector();
      for (auto& x : all)
        x = exchanged(x, i);
      value = c10::List<at::Tensor>(all);
    } else if (value.isOptionalTensorList()) {
      auto all = value.toOptionalTensorList();
      c10::List<std::optional<at::Tensor>> out;
      for (std::optional<at::Tensor> x : all)
        out.push_back(x ? std::optional{exchanged(*x, i)} : x);
      value = out;
    } else if (value.isDevice()) {
      value = c10::Device(c10::kCPU);
    }
  }

  at::Tensor exchanged(const at::Tensor& x, size_t i) {
    if (!is_on_device(x))
      return x;
    if (!where_)
      where_ = x.device();
    auto written = is_written(i);
    // An empty result gets its size from the operator.
    auto grows = written && x.numel() == 0;
    pairs_.push_back(
      {x, grows ? at::empty({0}, x.options().device(at::kCPU)) : on_host(x), i,
       written});
    return pairs_.back().host;
  }

  /// Batch normalisation writes its running statistics, which its schema does
  /// not say.
  bool is_written(size_t i) const {
    const auto& its = op_.schema().arguments()[i];
    if (its.alias_info() != nullptr)
      return its.alias_info()->isWrite();
    if (!its.name().starts_with("running_"))
      return false;
    auto at = op_.schema().argumentIndexWithName("training");
    return at && stack_[first_ + static_cast<size_t>(*at)].isBool() &&
           stack_[first_ + static_cast<size_t>(*at)].toBool();
  }

  void give_back(c10::IValue& value, size_t i, operation& now) {
    if (value.isTensor()) {
      value = given_back(value.toTensor(), i, now);
    } else if (value.isTensorList()) {
      auto all = value.toTensorVector();
      for (auto& x : all)
        x = given_back(x, i, now);
      value = c10::List<at::Tensor>(all);
    }
  }

  at::Tensor given_back(const at::Tensor& x, size_t i, operation& now) {
    if (!x.defined())
      return x;
    const auto* alias = op_.schema().returns()[i].alias_info();
    for (const auto& each : pairs_)
      if (alias != nullptr && alias->isWrite() &&
          op_.schema().arguments()[each.argument].alias_info() != nullptr &&
          op_.schema().arguments()[each.argument].alias_info()->beforeSets() ==
            alias->beforeSets()) {
        if (each.host.numel() != each.device.numel())
          each.device.set_data(on_device_from(each.host, now));
        return each.device;
      }
    for (const auto& each : pairs_)
      if (x.is_alias_of(each.host))
        return view_of(each, x);
    return on_device_from(x, now);
  }

  at::Tensor on_device_from(const at::Tensor& x, operation& now) const {
    auto out = empty_like_host(x, *where_);
    writes(now, out);
    on_host(out).copy_(x);
    return out;
  }

  /// What the operator gave as a view of an argument is one here, too.
  static at::Tensor view_of(const pair& of, const at::Tensor& x) {
    auto bytes = static_cast<const std::byte*>(x.const_data_ptr()) -
                 static_cast<const std::byte*>(of.host.const_data_ptr());
    return of.device.as_strided(x.sizes(), x.strides(),
                                of.device.storage_offset() +
                                  bytes /
                                    static_cast<ptrdiff_t>(x.element_size()));
  }

  const c10::OperatorHandle& op_;
  torch::jit::Stack& stack_;
  size_t count_;
  size_t first_;
  std::optional<c10::Device> where_;
  std::vector<pair> pairs_;
};

void run_on_bytes(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  call{op, *stack}.run();
}

// -- what is of the device itself ---------------------------------------------

at::Tensor empty(c10::IntArrayRef sizes, std::optional<at::ScalarType> dtype,
                 std::optional<at::Layout>, std::optional<at::Device> where,
                 std::optional<bool>, std::optional<at::MemoryFormat> format) {
  c10::OptionalDeviceGuard guard{where};
  return at::Tensor{
    at::detail::empty_generic(sizes, c10::GetAllocator(c10::kCUDA), on_device,
                              c10::dtype_or_default(dtype), format)};
}

at::Tensor empty_strided(c10::IntArrayRef sizes, c10::IntArrayRef strides,
                         std::optional<at::ScalarType> dtype,
                         std::optional<at::Layout>,
                         std::optional<at::Device> where, std::optional<bool>) {
  c10::OptionalDeviceGuard guard{where};
  return at::Tensor{at::detail::empty_strided_generic(
    sizes, strides, c10::GetAllocator(c10::kCUDA), on_device,
    c10::dtype_or_default(dtype))};
}

at::Tensor as_strided(const at::Tensor& x, c10::IntArrayRef sizes,
                      c10::IntArrayRef strides, std::optional<int64_t> offset) {
  auto out = at::detail::make_tensor<c10::TensorImpl>(
    c10::TensorImpl::VIEW, c10::Storage(x.storage()), x.key_set(), x.dtype());
  auto* its = out.unsafeGetTensorImpl();
  its->set_storage_offset(offset.value_or(x.storage_offset()));
  its->set_sizes_and_strides(sizes, strides);
  return out;
}

/// As the CPU's view has it, by its sizes alone.
at::Tensor view(const at::Tensor& x, c10::IntArrayRef sizes) {
  auto out = on_host(x).view(sizes);
  return as_strided(x, out.sizes(), out.strides(), x.storage_offset());
}

at::Tensor reshape_alias(const at::Tensor& x, c10::IntArrayRef sizes,
                         c10::IntArrayRef strides) {
  return as_strided(x, sizes, strides, x.storage_offset());
}

at::Scalar local_scalar(const at::Tensor& x) {
  auto where = stream_for(x);
  {
    operation now{where, "aten::_local_scalar_dense"};
    reads(now, x);
  }
  finish(where);
  return at::_local_scalar_dense(on_host(x));
}

/// As CUDA does it: memory of the host that is not pinned is read before the
/// call is over, and written before, too.
at::Tensor& copy(at::Tensor& to, const at::Tensor& from, bool non_blocking) {
  if (to.is_same(from) || to.numel() == 0)
    return to;
  auto where = is_on_device(to) ? stream_for(to) : stream_for(from);
  c10::DeviceGuard guard{where.device()};
  auto own = from.expand_as(to);
  {
    operation now{where, "aten::copy_"};
    reads(now, from);
    writes(now, to);
    on_host(to).copy_(on_host(own));
  }
  auto to_host = !is_on_device(to);
  auto crosses = to_host || !is_on_device(from);
  if (crosses && (!non_blocking || (to_host && !is_pinned(address_of(to)))))
    finish(where);
  return to;
}

void record_stream(at::Tensor& x, at::Stream where) {
  use_on(x.storage().data_ptr(), where);
}

TORCH_LIBRARY_IMPL(_, CUDA, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&run_on_bytes>());
}

TORCH_LIBRARY_IMPL(aten, CUDA, m) {
  m.impl("empty.memory_format", &empty);
  m.impl("empty_strided", &empty_strided);
  m.impl("as_strided", &as_strided);
  m.impl("view", &view);
  m.impl("_reshape_alias", &reshape_alias);
  m.impl("_local_scalar_dense", &local_scalar);
  m.impl("copy_", &copy);
  m.impl("record_stream", &record_stream);
  // LibTorch would take these apart by the kind of device.
  for (const auto* name : {"convolution", "convolution_backward"})
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<&run_on_bytes>());
}

} // namespace

} // namespace troupe::testing::fake
