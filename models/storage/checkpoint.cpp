#include "models/storage/checkpoint.hpp"

#include "config/text/failure.hpp"
#include "config/text/text.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <system_error>

namespace troupe::models {

namespace {

namespace fs = std::filesystem;

constexpr const char* manifest_file = "manifest.pb";
constexpr const char* model_file = "model.safetensors";
constexpr const char* optimizer_file = "optimizer.safetensors";
constexpr std::string_view slot_prefix = "optim.";

// A config.ini, a ledger and counters are some kilobytes.
constexpr uint64_t max_manifest = 64u << 20;

std::string system_text(int code) {
  return std::system_category().message(code);
}

// -- the manifest's own checksum ----------------------------------------------

/// The field that ends a manifest, to be written behind it: a reader sees
/// messages that follow each other as one message with the fields of all.
std::string seal_of(std::string_view body) {
  auto digest = sha256_of(std::as_bytes(std::span{body.data(), body.size()}));
  proto::Manifest seal;
  seal.set_self_sha256(digest.data(), digest.size());
  return seal.SerializeAsString();
}

std::string sealed(proto::Manifest manifest) {
  manifest.clear_self_sha256();
  auto body = manifest.SerializeAsString();
  return body + seal_of(body);
}

proto::Manifest unsealed(std::string_view text) {
  static const auto seal_size = seal_of("").size();
  if (text.size() < seal_size)
    throw run_error("manifest.pb is too short");
  auto body = text.substr(0, text.size() - seal_size);
  if (text.substr(body.size()) != seal_of(body))
    throw run_error("the checksum of manifest.pb does not match");
  proto::Manifest result;
  if (!result.ParseFromArray(text.data(), static_cast<int>(text.size())))
    throw run_error("manifest.pb cannot be parsed");
  return result;
}

// -- writing ------------------------------------------------------------------

void note_file(proto::Manifest& manifest, const fs::path& path, uint64_t size,
               const sha256_digest& digest) {
  auto* record = manifest.add_files();
  record->set_name(path.filename().string());
  record->set_size(size);
  record->set_sha256(digest.data(), digest.size());
}

tensor_metadata with_format(tensor_metadata about) {
  about.emplace("format", "pt");
  return about;
}

void write_tensors(const fs::path& path, std::span<const named_tensor> tensors,
                   const tensor_metadata& about, proto::Manifest& manifest) {
  output_file out{path, output_file::sum::sha256};
  write_safetensors(out, tensors, with_format(about));
  auto size = out.size();
  note_file(manifest, path, size, out.finish());
}

/// Writes both tensor files in a folder, and notes them.
using tensor_writer = std::function<void(const fs::path&, proto::Manifest&)>;

void fill_folder(const fs::path& folder, proto::Manifest manifest,
                 const tensor_writer& write) {
  manifest.set_format_version(checkpoint_format);
  manifest.clear_files();
  write(folder, manifest);
  output_file out{folder / manifest_file};
  out.write(sealed(std::move(manifest)));
  out.finish();
  sync_folder(folder);
}

void rename_folder(const fs::path& from, const fs::path& to) {
  if (::rename(from.c_str(), to.c_str()) != 0)
    throw run_error("cannot rename " + from.string() + ": " +
                    system_text(errno));
}

/// Gives `temporary` its final name. A checkpoint that has this name changes
/// places with it in one step where the file system can do that. Elsewhere a
/// crash in between leaves the old one under `.old-...`, from where
/// `remove_leftovers` fetches it.
void publish(const fs::path& temporary, const fs::path& path) {
  auto dir = path.parent_path();
  auto old = temporary;
  std::error_code error;
  if (!fs::exists(fs::symlink_status(path, error))) {
    rename_folder(temporary, path);
  } else if (::renameat2(AT_FDCWD, temporary.c_str(), AT_FDCWD, path.c_str(),
                         RENAME_EXCHANGE) != 0) {
    old = dir / (".old-" + path.filename().string());
    fs::remove_all(old, error);
    rename_folder(path, old);
    try {
      rename_folder(temporary, path);
    } catch (const run_error&) {
      ::rename(old.c_str(), path.c_str());
      throw;
    }
  }
  sync_folder(dir);
  fs::remove_all(old, error);
}

void check_slot_keys(std::span<const named_tensor> slots) {
  for (const auto& x : slots)
    if (!x.name.starts_with(slot_prefix))
      throw run_error(config::shown(x.name) +
                      ": the name of an optimizer's state begins with optim.");
}

// -- reading ------------------------------------------------------------------

/// Ranks become places in memory: a wrong one must not cost gigabytes.
void check_ranks(const proto::Manifest& manifest) {
  auto check = [](uint64_t rank) {
    if (rank >= most_ranks)
      throw run_error("manifest.pb counts a worker of rank " +
                      std::to_string(rank) + ": it is damaged");
  };
  for (const auto& one : manifest.counters().workers())
    check(one.worker());
  for (const auto& one : manifest.ledger().parts())
    check(one.part());
  if (auto workers = manifest.ledger().workers(); workers > 0)
    check(workers - 1);
}

const proto::FileRecord& record_of(const proto::Manifest& manifest,
                                   std::string_view name) {
  const proto::FileRecord* result = nullptr;
  for (const auto& x : manifest.files()) {
    if (x.name() != name)
      continue;
    if (result != nullptr)
      throw run_error("manifest.pb lists twice: " + x.name());
    result = &x;
  }
  if (result == nullptr)
    throw run_error("manifest.pb does not list " + std::string{name});
  return *result;
}

void check_size(uint64_t size, const proto::FileRecord& record) {
  if (size != record.size())
    throw run_error(record.name() + " has " + std::to_string(size) +
                    " bytes instead of " + std::to_string(record.size()));
}

uint64_t size_of(const fs::path& path) {
  std::error_code error;
  auto result = fs::file_size(path, error);
  if (error)
    throw run_error("cannot read " + path.filename().string() + ": " +
                    error.message());
  return result;
}

void check_digest(const sha256_digest& found, const proto::FileRecord& record) {
  if (std::string_view{reinterpret_cast<const char*>(found.data()),
                       found.size()} != record.sha256())
    throw run_error("the checksum of " + record.name() + " does not match");
}

tensor_file load_tensors(const fs::path& folder,
                         const proto::FileRecord& record) {
  auto path = folder / record.name();
  check_size(size_of(path), record);
  auto [content, digest] = read_and_hash(path, record.size());
  check_size(content.size(), record);
  check_digest(digest, record);
  return tensor_file{std::move(content), record.name()};
}

stored_tensors find_tensors(const fs::path& folder,
                            const proto::FileRecord& record) {
  auto path = folder / record.name();
  auto file = open_file(path);
  check_size(file->size(), record);
  check_digest(digest_of(*file, record.name()), record);
  return {std::move(file), record.name()};
}

proto::Manifest load_manifest(const fs::path& folder) {
  auto content = read_file(folder / manifest_file, max_manifest);
  auto bytes = std::as_const(content).span();
  auto result =
    unsealed({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  if (result.format_version() != checkpoint_format)
    throw run_error("manifest.pb has format version " +
                    std::to_string(result.format_version()) +
                    ", this build reads " + std::to_string(checkpoint_format));
  check_ranks(result);
  auto name = folder.filename().string();
  if (name.starts_with("step-") && name != checkpoint_name(result.step()))
    throw run_error("manifest.pb is of step " + std::to_string(result.step()));
  return result;
}

/// Runs `load`, adding to each failure which checkpoint it was.
template <class Load>
auto reading(const fs::path& path, Load load) {
  std::error_code error;
  auto kind = fs::status(path, error);
  if (!fs::exists(kind))
    throw run_error("no checkpoint at " + path.string());
  try {
    if (!fs::is_directory(kind))
      throw run_error("it is not a folder");
    return load();
  } catch (const run_error& x) {
    throw run_error("checkpoint " + path.string() +
                    " cannot be used: " + x.what());
  }
}

/// The same folder without a slash at its end, so that it has a name.
fs::path without_slash(const fs::path& path) {
  return path.has_filename() ? path : path.parent_path();
}

} // namespace

std::string checkpoint_name(uint64_t step) {
  auto digits = std::to_string(step);
  auto zeros = digits.size() < 8 ? 8 - digits.size() : 0;
  return "step-" + std::string(zeros, '0') + digits;
}

std::string slot_key(std::string_view slot, std::string_view parameter) {
  return std::string{slot_prefix} + std::string{slot} + "." +
         std::string{parameter};
}

namespace {

fs::path write_folder(const fs::path& dir, proto::Manifest manifest,
                      const tensor_writer& write,
                      const std::function<void()>& permit) {
  auto path = dir / checkpoint_name(manifest.step());
  auto temporary = dir / (".tmp-" + path.filename().string());
  std::error_code ignored;
  try {
    make_folder(dir);
    fs::remove_all(temporary, ignored);
    make_folder(temporary);
    fill_folder(temporary, std::move(manifest), write);
    if (permit)
      permit();
    publish(temporary, path);
  } catch (const run_error& x) {
    fs::remove_all(temporary, ignored);
    throw run_error("checkpoint " + path.string() +
                    " was not written: " + x.what());
  } catch (...) {
    fs::remove_all(temporary, ignored);
    throw;
  }
  return path;
}

} // namespace

fs::path write_checkpoint(const fs::path& dir, proto::Manifest manifest,
                          const checkpoint_tensors& tensors,
                          const std::function<void()>& permit) {
  auto write = [&](const fs::path& folder, proto::Manifest& to) {
    check_slot_keys(tensors.slots);
    write_tensors(folder / model_file, tensors.weights, tensors.other_names,
                  to);
    write_tensors(folder / optimizer_file, tensors.slots, {}, to);
  };
  return write_folder(dir, std::move(manifest), write, permit);
}

void replace_manifest(const fs::path& folder, proto::Manifest manifest) {
  replace_file(folder / manifest_file, sealed(std::move(manifest)));
}

checkpoint_drafts::checkpoint_drafts(const fs::path& dir,
                                     std::span<const named_tensor> weights,
                                     std::span<const named_tensor> slots,
                                     const tensor_metadata& other_names)
  : model(dir, weights, with_format(other_names)),
    optimizer(dir, slots, with_format({})) {
  check_slot_keys(slots);
}

fs::path write_checkpoint(const fs::path& dir, proto::Manifest manifest,
                          checkpoint_drafts& of,
                          const std::function<void()>& permit) {
  auto write = [&](const fs::path& folder, proto::Manifest& to) {
    auto finish = [&](tensor_draft& draft, const char* name) {
      auto [size, digest] = draft.finish(folder / name);
      note_file(to, folder / name, size, digest);
    };
    finish(of.model, model_file);
    finish(of.optimizer, optimizer_file);
  };
  return write_folder(dir, std::move(manifest), write, permit);
}

std::vector<named_tensor> with_other_names(const tensor_file& file) {
  std::vector<named_tensor> out(file.tensors().begin(), file.tensors().end());
  for (const auto& [name, same_as] : file.metadata())
    if (const auto* tensor = file.find(same_as); tensor && !file.find(name)) {
      out.push_back(*tensor);
      out.back().name = name;
    }
  return out;
}

loaded_checkpoint read_checkpoint(const fs::path& where,
                                  checkpoint_content content) {
  auto path = without_slash(where);
  return reading(path, [&] {
    loaded_checkpoint result;
    result.path = path;
    result.manifest = load_manifest(path);
    result.model = load_tensors(path, record_of(result.manifest, model_file));
    if (content == checkpoint_content::weights)
      return result;
    result.optimizer =
      find_tensors(path, record_of(result.manifest, optimizer_file));
    check_slot_keys(result.optimizer.tensors());
    return result;
  });
}

proto::Manifest read_manifest(const fs::path& where) {
  auto path = without_slash(where);
  return reading(path, [&] {
    auto result = load_manifest(path);
    for (const auto* name : {model_file, optimizer_file})
      check_size(size_of(path / name), record_of(result, name));
    return result;
  });
}

} // namespace troupe::models
