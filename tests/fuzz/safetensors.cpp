#include "models/storage/safetensors.hpp"

#include "models/storage/described_tensors.hpp"
#include "tests/fuzz/memory_file.hpp"
#include "tests/fuzz/targets.hpp"

#include <algorithm>
#include <optional>

namespace troupe::fuzz {

namespace {

/// Checks that the tensors that were read can be written, and are the same when
/// they are read again.
void rewrite_tensors(const models::tensor_file& found) {
  memory_file file;
  models::output_file out{file.path()};
  models::write_safetensors(out, found.tensors(), found.metadata());
  out.finish();
  auto again = models::read_safetensors(file.path());
  require(again.metadata() == found.metadata() &&
            again.tensors().size() == found.tensors().size(),
          "a copy has as much");
  for (const auto& one : found.tensors()) {
    const auto* copy = again.find(one.name);
    require(copy && copy->dtype == one.dtype && copy->shape == one.shape &&
              std::ranges::equal(copy->bytes, one.bytes),
            "a copy has the same tensors");
  }
}

/// Reads the file as the description of a network, since any file may be given
/// as one.
void read_description(const models::tensor_file& found) {
  auto constants =
    models::described_constants(found.tensors(), found.metadata());
  for (const auto& name : constants)
    require(found.find(name) != nullptr, "a constant is a tensor");
  for (const auto& [key, value] : found.metadata())
    for (const auto& line : models::description_lines(found.metadata(), key)) {
      std::string_view rest{line};
      models::take_name(rest);
      require(rest.size() < line.size() || line.empty(), "a name is taken");
    }
  auto digest = models::digest_of_described(found.tensors(), found.metadata());
  require(digest.size() == 64, "a description has a digest");
}

} // namespace

bool safetensors(bytes_view data) {
  memory_file file{data};
  std::optional<models::tensor_file> found;
  if (!taken([&] { found = models::read_safetensors(file.path()); }))
    return false;
  rewrite_tensors(*found);
  read_description(*found);
  return true;
}

} // namespace troupe::fuzz
