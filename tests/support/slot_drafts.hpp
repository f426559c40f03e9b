#pragma once
// Drafts of a checkpoint's files, for tests of what fills them in.

#include "messages/types.hpp"
#include "models/storage/checkpoint.hpp"
#include "tests/support/temporary_folder.hpp"

#include <ATen/ops/empty.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

namespace troupe::test {

/// The files of weights and slots of `count` float32 numbers each, and their
/// folder. In the file the second half of the weights comes first.
struct slot_draft {
  slot_draft(int64_t count, size_t slots = 1) : count(count) {
    auto half = count / 2;
    std::vector<models::named_tensor> weights{{"b", "F32", {count - half}, {}},
                                              {"a", "F32", {half}, {}}};
    std::vector<models::named_tensor> all;
    for (size_t i = 0; i < slots; ++i)
      all.push_back({name(i), "F32", {count}, {}});
    files =
      std::make_shared<models::checkpoint_drafts>(folder.path(), weights, all);
    auto first = static_cast<uint64_t>(half);
    auto total = static_cast<uint64_t>(count);
    places.weights = {files->model.path().string(),
                      {{0, first, files->model.position("a")},
                       {first, total - first, files->model.position("b")}}};
    places.slots.file = files->optimizer.path().string();
    for (size_t i = 0; i < slots; ++i)
      places.slots.parts.push_back(
        {0, total, files->optimizer.position(name(i))});
  }

  /// The numbers of a slot.
  at::Tensor numbers(size_t slot = 0) const {
    return read(files->optimizer, {places.slots.parts.at(slot)});
  }

  at::Tensor weights() const {
    return read(files->model, places.weights.parts);
  }

  testing::temporary_folder folder;
  int64_t count;
  std::shared_ptr<models::checkpoint_drafts> files;
  state_request places;

private:
  static std::string name(size_t slot) {
    return "optim.slot" + std::to_string(slot);
  }

  at::Tensor read(const models::tensor_draft& file,
                  const std::vector<file_part>& parts) const {
    auto out = at::empty({count});
    auto* all = static_cast<std::byte*>(out.mutable_data_ptr());
    for (const auto& part : parts) {
      auto* to = all + 4 * part.first;
      file.read(part.at, 4 * part.count, [&](std::span<const std::byte> bytes) {
        std::memcpy(to, bytes.data(), bytes.size());
        to += bytes.size();
      });
    }
    return out;
  }
};

} // namespace troupe::test
