#include "models/exchange/weights_file.hpp"

#include "config/text/failure.hpp"
#include "config/text/text.hpp"

#include <utility>

namespace troupe::models {

namespace {

/// The header, a JSON object, follows its length.
bool may_be_safetensors(std::span<const std::byte> file) {
  return file.size() > 8 && file[8] == std::byte{'{'};
}

} // namespace

weights_file::weights_file(std::filesystem::path path)
  : path_(std::move(path)) {
  auto where = path_.string();
  auto [content, digest] = read_and_hash(path_);
  sha256_ = to_hex(digest);
  auto bytes = std::as_const(content).span(); // Stays where it is when moved.
  if (is_zip(bytes)) {
    content_ = std::move(content);
    auto found = read_torch(bytes, where);
    copies_ = std::move(found.copies);
    has_optimizer_ = found.has_optimizer;
    sort_tensors(std::move(found.tensors));
  } else if (is_old_torch(bytes)) {
    throw run_error(where + ": is in the form of PyTorch before 1.6; load and "
                            "save it again with a newer one");
  } else if (!may_be_safetensors(bytes)) {
    throw run_error(where + ": is neither a safetensors file nor one of "
                            "torch.save");
  } else {
    safe_ = tensor_file{std::move(content), where};
    sort_tensors({safe_.tensors().begin(), safe_.tensors().end()});
  }
}

void weights_file::sort_tensors(std::vector<named_tensor> all) {
  for (auto& each : all) {
    auto name = each.name;
    if (!tensors_.emplace(name, std::move(each)).second)
      throw run_error(path_.string() + ": has two tensors of the name " +
                      config::shown(name));
  }
}

} // namespace troupe::models
