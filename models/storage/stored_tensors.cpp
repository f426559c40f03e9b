#include "models/storage/stored_tensors.hpp"

#include "config/text/failure.hpp"
#include "models/storage/durable_file.hpp"

#include <algorithm>
#include <utility>

namespace troupe::models {

stored_tensors::stored_tensors(std::unique_ptr<const config::input_file> file,
                               std::string where)
  : file_(std::move(file)), where_(std::move(where)) {
  uint64_t length = 0;
  if (file_->size() < sizeof(length))
    throw run_error(where_ + ": too short for a safetensors file");
  read_exactly(*file_, 0, std::as_writable_bytes(std::span{&length, 1}),
               where_);
  auto behind = file_->size() - sizeof(length);
  check_header_length(length, behind, where_);
  std::string header(length, '\0');
  read_exactly(*file_, sizeof(length),
               std::as_writable_bytes(std::span{header}), where_);
  auto begin = sizeof(length) + length;
  auto index = read_tensor_index(header, behind - length, where_);
  metadata_ = std::move(index.metadata);
  for (auto& [what, first, bytes] : index.tensors) {
    tensors_.push_back(std::move(what));
    places_.push_back(begin + first);
  }
}

const named_tensor* stored_tensors::find(std::string_view name) const noexcept {
  auto found = std::ranges::find(tensors_, name, &named_tensor::name);
  return found == tensors_.end() ? nullptr : &*found;
}

void stored_tensors::read(const named_tensor& which, uint64_t first,
                          std::span<std::byte> to) const {
  auto index = static_cast<size_t>(&which - tensors_.data());
  read_exactly(*file_, places_.at(index) + first, to, where_);
}

} // namespace troupe::models
