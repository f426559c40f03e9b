#pragma once
// Drafts of an optimiser's file, for tests of what fills them in.

#include "models/storage/checkpoint.hpp"
#include "tests/support/temporary_folder.hpp"

#include <ATen/ops/empty.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

namespace troupe::test {

/// A draft with slots of `count` float32 numbers each, and its folder.
struct slot_draft {
  slot_draft(int64_t count, size_t slots = 1) : count(count) {
    std::vector<models::named_tensor> all;
    for (size_t i = 0; i < slots; ++i)
      all.push_back({"optim.slot" + std::to_string(i), "F32", {count}, {}});
    file = models::draft_optimizer_file(folder.path(), all);
  }

  /// The numbers of a slot.
  at::Tensor numbers(size_t slot = 0) const {
    auto out = at::empty({count});
    auto* to = static_cast<std::byte*>(out.mutable_data_ptr());
    file->read(slot * out.nbytes(), out.nbytes(),
               [&](std::span<const std::byte> bytes) {
                 std::memcpy(to, bytes.data(), bytes.size());
                 to += bytes.size();
               });
    return out;
  }

  uint64_t bytes() const { return static_cast<uint64_t>(count) * 4; }

  testing::temporary_folder folder;
  int64_t count;
  std::shared_ptr<models::tensor_draft> file;
};

} // namespace troupe::test
