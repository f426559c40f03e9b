#include "models/storage/safetensors.hpp"

#include "config/text/failure.hpp"
#include "config/text/text.hpp"
#include "models/storage/tensor_metadata.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <bit>
#include <cstring>
#include <fstream>
#include <limits>
#include <optional>
#include <set>

namespace troupe::models {

namespace {

// The format is little endian and tensors are written as they lie in memory.
static_assert(std::endian::native == std::endian::little);

using nlohmann::json;
using nlohmann::ordered_json;

constexpr size_t length_size = 8;
constexpr size_t alignment = 8;
constexpr int max_depth = 8; // a good header needs 3
constexpr std::string_view metadata_key = "__metadata__";

struct dtype_entry {
  std::string_view name;
  size_t size;
};

// Types of less than a byte are left out: PyTorch has none.
constexpr dtype_entry dtypes[] = {
  {"F64", 8},     {"I64", 8},    {"U64", 8}, {"C64", 8},  {"F32", 4},
  {"I32", 4},     {"U32", 4},    {"F16", 2}, {"BF16", 2}, {"I16", 2},
  {"U16", 2},     {"I8", 1},     {"U8", 1},  {"BOOL", 1}, {"F8_E4M3", 1},
  {"F8_E5M2", 1}, {"F8_E8M0", 1}};

[[noreturn]] void bad(const std::string& where, const std::string& reason) {
  throw run_error(where + ": " + reason);
}

/// "tensor NAME" for an error line; a name may hold anything.
std::string tensor(std::string_view name) {
  return "tensor " + config::shown(name);
}

/// Bytes of a tensor, or nothing when a dimension is negative or the product
/// does not fit.
std::optional<uint64_t> byte_count(std::span<const int64_t> shape,
                                   size_t element) {
  uint64_t result = element;
  bool empty = false;
  for (auto extent : shape) {
    if (extent < 0)
      return std::nullopt;
    empty = empty || extent == 0;
  }
  if (empty)
    return 0;
  for (auto extent : shape)
    if (__builtin_mul_overflow(result, static_cast<uint64_t>(extent), &result))
      return std::nullopt;
  return result;
}

// -- writing ------------------------------------------------------------------

std::string make_header(std::span<const named_tensor* const> order,
                        const tensor_metadata& metadata,
                        const std::string& where) {
  ordered_json header = ordered_json::object();
  if (!metadata.empty())
    header[std::string{metadata_key}] = metadata;
  uint64_t offset = 0;
  for (const auto* x : order) {
    auto bytes = byte_count(x->shape, dtype_size(x->dtype));
    if (dtype_size(x->dtype) == 0)
      bad(where, tensor(x->name) + ": unknown dtype " + x->dtype);
    if (!bytes)
      bad(where, tensor(x->name) + ": bad shape");
    if (x->name == metadata_key || header.contains(x->name))
      bad(where, "tensor name used twice: " + config::shown(x->name));
    header[x->name] = {{"dtype", x->dtype},
                       {"shape", x->shape},
                       {"data_offsets", {offset, offset + *bytes}}};
    offset += *bytes;
  }
  auto text = header.dump();
  text.append((alignment - text.size() % alignment) % alignment, ' ');
  if (text.size() > max_tensor_header)
    bad(where, "too many tensors: the header would be above " +
                 std::to_string(max_tensor_header) + " bytes");
  return text;
}

void check_sizes(std::span<const named_tensor> tensors,
                 const std::string& where) {
  for (const auto& x : tensors)
    if (dtype_size(x.dtype) > 0 &&
        byte_count(x.shape, dtype_size(x.dtype)) != x.bytes.size())
      bad(where, tensor(x.name) + ": its shape does not fit its " +
                   std::to_string(x.bytes.size()) + " bytes");
}

std::string with_length(const std::string& header) {
  uint64_t length = header.size();
  std::string out(length_size, '\0');
  std::memcpy(out.data(), &length, length_size);
  return out + header;
}

void write_parts(output_file& out, const std::string& header,
                 std::span<const named_tensor* const> order) {
  out.write(with_length(header));
  for (const auto* x : order)
    out.write(x->bytes);
}

// -- the seal -----------------------------------------------------------------

const std::string no_seal(64, '0');

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span{text.data(), text.size()});
}

/// The checksum of a file whose header has zeros in its place.
std::string header_seal(std::string_view header,
                        std::span<const std::span<const std::byte>> data) {
  sha256 sum;
  uint64_t length = header.size();
  sum.update(std::as_bytes(std::span{&length, 1}));
  sum.update(bytes_of(header));
  for (const auto& piece : data)
    sum.update(piece);
  return to_hex(sum.finish());
}

void check_seal(std::string header, const std::string& seal,
                std::span<const std::byte> data, const std::string& where) {
  auto at = header.find(seal);
  if (seal.size() != no_seal.size() || at == std::string::npos)
    bad(where, "its checksum is not one");
  header.replace(at, seal.size(), no_seal);
  if (header_seal(header, {&data, 1}) != seal)
    bad(where, "its checksum does not match");
}

// -- reading ------------------------------------------------------------------

/// Parses the header, refusing keys that come twice in an object.
json parse_header(std::string_view text, const std::string& where) {
  std::vector<std::set<std::string>> keys;
  auto watch = [&](int depth, json::parse_event_t event, json& x) {
    using event_t = json::parse_event_t;
    if (depth > max_depth)
      bad(where, "the header is nested too deeply");
    if (event == event_t::object_start)
      keys.emplace_back();
    else if (event == event_t::object_end)
      keys.pop_back();
    else if (event == event_t::key &&
             !keys.back().insert(x.get<std::string>()).second)
      bad(where,
          "the header names twice: " + config::shown(x.get<std::string>()));
    return true;
  };
  try {
    auto result = json::parse(text, watch);
    if (result.is_object())
      return result;
  } catch (const json::exception&) {
    bad(where, "the header is not valid JSON");
  }
  bad(where, "the header is not a JSON object");
}

tensor_metadata parse_metadata(const json& x, const std::string& where) {
  tensor_metadata result;
  if (!x.is_object())
    bad(where, "__metadata__ is not an object");
  for (const auto& [key, value] : x.items()) {
    if (!value.is_string())
      bad(where,
          "__metadata__ has a value that is not text: " + config::shown(key));
    result.emplace(key, value.get<std::string>());
  }
  return result;
}

/// Reads a list of non-negative integers.
std::optional<std::vector<int64_t>> parse_numbers(const json& x) {
  std::vector<int64_t> result;
  if (!x.is_array())
    return std::nullopt;
  for (const auto& element : x) {
    if (!element.is_number_unsigned())
      return std::nullopt;
    auto value = element.get<uint64_t>();
    if (value > uint64_t{std::numeric_limits<int64_t>::max()})
      return std::nullopt;
    result.push_back(static_cast<int64_t>(value));
  }
  return result;
}

/// Reads one entry; `size` is that of all that follows the header.
tensor_place parse_entry(const std::string& name, const json& x, uint64_t size,
                         const std::string& where) {
  auto refuse = [&](const std::string& text) {
    bad(where, tensor(name) + ": " + text);
  };
  if (!x.is_object() || x.size() != 3 || !x.contains("dtype") ||
      !x.contains("shape") || !x.contains("data_offsets"))
    refuse("it needs dtype, shape and data_offsets, and nothing else");
  tensor_place out;
  auto& result = out.what;
  result.name = name;
  if (!x["dtype"].is_string() || dtype_size(x["dtype"].get<std::string>()) == 0)
    refuse("unknown dtype " + config::shown(x["dtype"].dump()));
  result.dtype = x["dtype"].get<std::string>();
  auto shape = parse_numbers(x["shape"]);
  auto offsets = parse_numbers(x["data_offsets"]);
  if (!shape)
    refuse("bad shape");
  if (!offsets || offsets->size() != 2)
    refuse("bad data_offsets");
  auto first = static_cast<uint64_t>((*offsets)[0]);
  auto last = static_cast<uint64_t>((*offsets)[1]);
  if (first > last || last > size)
    refuse("its data_offsets are outside the file");
  if (byte_count(*shape, dtype_size(result.dtype)) != last - first)
    refuse("its shape does not fit its data_offsets");
  result.shape = std::move(*shape);
  out.first = first;
  out.bytes = last - first;
  return out;
}

/// Tensors must lie end to end and fill the file.
void check_layout(std::span<const tensor_place> sorted, uint64_t size,
                  const std::string& where) {
  uint64_t at = 0;
  for (const auto& x : sorted) {
    if (x.first != at)
      bad(where,
          tensor(x.what.name) + ": there is a hole or an overlap before it");
    at += x.bytes;
  }
  if (at != size)
    bad(where, "there are bytes that belong to no tensor");
}

} // namespace

size_t dtype_size(std::string_view dtype) noexcept {
  for (const auto& x : dtypes)
    if (x.name == dtype)
      return x.size;
  return 0;
}

uint64_t bytes_of(const named_tensor& tensor) {
  auto out = byte_count(tensor.shape, dtype_size(tensor.dtype));
  if (!out || dtype_size(tensor.dtype) == 0)
    bad(tensor.name, "has no size");
  return *out;
}

void check_header_length(uint64_t length, uint64_t behind,
                         const std::string& where) {
  if (length > max_tensor_header || length > behind)
    bad(where, "the header length is out of range: " + std::to_string(length));
}

tensor_index read_tensor_index(std::string_view header, uint64_t size,
                               const std::string& where) {
  tensor_index out;
  auto parsed = parse_header(header, where);
  for (const auto& [key, value] : parsed.items()) {
    if (key == metadata_key)
      out.metadata = parse_metadata(value, where);
    else
      out.tensors.push_back(parse_entry(key, value, size, where));
  }
  // Empty tensors come before the one that starts at the same place.
  std::ranges::stable_sort(out.tensors, {}, [](const tensor_place& x) {
    return std::pair{x.first, x.bytes};
  });
  check_layout(out.tensors, size, where);
  return out;
}

std::vector<const named_tensor*>
file_order(std::span<const named_tensor> tensors) {
  std::vector<const named_tensor*> result;
  for (const auto& x : tensors)
    result.push_back(&x);
  std::stable_sort(result.begin(), result.end(), [](auto* lhs, auto* rhs) {
    return dtype_size(lhs->dtype) > dtype_size(rhs->dtype);
  });
  return result;
}

std::string safetensors_head(std::span<const named_tensor> tensors,
                             const tensor_metadata& metadata,
                             const std::string& where) {
  return with_length(make_header(file_order(tensors), metadata, where));
}

void write_safetensors(output_file& out, std::span<const named_tensor> tensors,
                       const tensor_metadata& metadata) {
  check_sizes(tensors, out.path().string());
  auto order = file_order(tensors);
  write_parts(out, make_header(order, metadata, out.path().string()), order);
}

void write_sealed_safetensors(output_file& out,
                              std::span<const named_tensor> tensors,
                              tensor_metadata metadata) {
  check_sizes(tensors, out.path().string());
  metadata[std::string{seal_key}] = no_seal;
  auto order = file_order(tensors);
  auto header = make_header(order, metadata, out.path().string());
  std::vector<std::span<const std::byte>> data;
  for (const auto* x : order)
    data.push_back(x->bytes);
  // Quotes inside of a value would have backslashes before them.
  auto key = '"' + std::string{seal_key} + "\":\"";
  auto at = header.find(key + no_seal) + key.size();
  header.replace(at, no_seal.size(), header_seal(header, data));
  write_parts(out, header, order);
}

tensor_file::tensor_file(file_bytes content, const std::string& where)
  : content_(std::move(content)) {
  auto bytes = std::as_const(content_).span();
  if (bytes.size() < length_size)
    bad(where, "too short for a safetensors file");
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), length_size);
  check_header_length(length, bytes.size() - length_size, where);
  auto text = bytes.subspan(length_size, length);
  auto data = bytes.subspan(length_size + length);
  std::string_view header{reinterpret_cast<const char*>(text.data()),
                          text.size()};
  auto index = read_tensor_index(header, data.size(), where);
  metadata_ = std::move(index.metadata);
  for (auto& [what, first, size] : index.tensors) {
    tensors_.push_back(std::move(what));
    tensors_.back().bytes = data.subspan(first, size);
  }
  if (auto seal = metadata_.find(std::string{seal_key});
      seal != metadata_.end())
    check_seal(std::string{header}, seal->second, data, where);
}

const named_tensor* tensor_file::find(std::string_view name) const noexcept {
  for (const auto& x : tensors_)
    if (x.name == name)
      return &x;
  return nullptr;
}

tensor_file read_safetensors(const std::filesystem::path& path) {
  return tensor_file{read_file(path), path.string()};
}

tensor_metadata read_metadata(const std::filesystem::path& path) {
  auto where = path.string();
  std::ifstream in{path, std::ios::binary};
  uint64_t length = 0;
  if (!in.read(reinterpret_cast<char*>(&length), length_size))
    bad(where, "too short for a safetensors file");
  check_header_length(length, UINT64_MAX, where);
  std::string text(length, '\0');
  if (!in.read(text.data(), static_cast<std::streamsize>(length)))
    bad(where, "the header is cut off");
  auto header = parse_header(text, where);
  auto found = header.find(metadata_key);
  return found == header.end() ? tensor_metadata{}
                               : parse_metadata(*found, where);
}

} // namespace troupe::models
