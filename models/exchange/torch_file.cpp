#include "models/exchange/torch_file.hpp"

#include "config/text/failure.hpp"
#include "config/text/text.hpp"
#include "models/exchange/pickle.hpp"
#include "models/exchange/zip_members.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <utility>

namespace troupe::models {

namespace {

using kind = pickle::kind;

struct storage_type {
  std::string_view name;
  std::string_view dtype; ///< As safetensors calls it.
};

constexpr std::array storage_types{
  storage_type{"torch.FloatStorage", "F32"},
  storage_type{"torch.DoubleStorage", "F64"},
  storage_type{"torch.HalfStorage", "F16"},
  storage_type{"torch.BFloat16Storage", "BF16"},
  storage_type{"torch.LongStorage", "I64"},
  storage_type{"torch.IntStorage", "I32"},
  storage_type{"torch.ShortStorage", "I16"},
  storage_type{"torch.CharStorage", "I8"},
  storage_type{"torch.ByteStorage", "U8"},
  storage_type{"torch.BoolStorage", "BOOL"},
  storage_type{"torch.ComplexFloatStorage", "C64"},
};

/// Storages of newer types hold bytes alone; the tensor says its type.
constexpr std::string_view untyped_storage = "torch.storage.UntypedStorage";

constexpr std::array tensor_types{
  storage_type{"torch.uint16", "U16"},
  storage_type{"torch.uint32", "U32"},
  storage_type{"torch.uint64", "U64"},
  storage_type{"torch.float8_e4m3fn", "F8_E4M3"},
  storage_type{"torch.float8_e5m2", "F8_E5M2"},
  storage_type{"torch.float8_e8m0fnu", "F8_E8M0"},
};

constexpr std::string_view tensor_maker = "torch._utils._rebuild_tensor_v2";
constexpr std::string_view typed_tensor_maker =
  "torch._utils._rebuild_tensor_v3";
constexpr std::string_view parameter_maker = "torch._utils._rebuild_parameter";
constexpr std::string_view parameter_with_state =
  "torch._utils._rebuild_parameter_with_state";

/// All names that a file may hold: those of tensors, and of plain values that
/// checkpoints have beside them.
constexpr std::array allowed_names{
  std::string_view{"collections.OrderedDict"},
  std::string_view{"collections.Counter"},
  std::string_view{"_codecs.encode"},
  std::string_view{"torch.Size"},
  std::string_view{"torch.device"},
  std::string_view{"torch.float32"},
  std::string_view{"torch.float64"},
  std::string_view{"torch.float16"},
  std::string_view{"torch.bfloat16"},
  untyped_storage,
  tensor_maker,
  typed_tensor_maker,
  parameter_maker,
  parameter_with_state,
};

std::vector<std::string_view> all_names() {
  std::vector<std::string_view> out{allowed_names.begin(), allowed_names.end()};
  for (const auto& each : storage_types)
    out.push_back(each.name);
  for (const auto& each : tensor_types)
    out.push_back(each.name);
  return out;
}

/// Pickles of weights are small, since the numbers lie beside them.
constexpr size_t longest_pickle = 64u << 20;

constexpr size_t most_dimensions = 64;

/// Where checkpoints keep a state dict.
constexpr std::array dictionary_keys{std::string_view{"state_dict"},
                                     std::string_view{"model"},
                                     std::string_view{"model_state_dict"}};

constexpr std::array optimizer_keys{std::string_view{"optimizer"},
                                    std::string_view{"optimizer_state_dict"}};

/// Copies a tensor whose elements lie `strides` apart to row-major memory.
void copy_strided(std::span<const std::byte> from, size_t element,
                  std::span<const int64_t> shape,
                  std::span<const int64_t> strides, std::span<std::byte> to) {
  std::array<int64_t, most_dimensions> at{};
  int64_t place = 0;
  for (size_t done = 0; done < to.size(); done += element) {
    std::memcpy(to.data() + done,
                from.data() + static_cast<size_t>(place) * element, element);
    for (auto d = shape.size(); d > 0; --d) {
      place += strides[d - 1];
      if (++at[d - 1] < shape[d - 1])
        break;
      place -= strides[d - 1] * shape[d - 1];
      at[d - 1] = 0;
    }
  }
}

bool is_row_major(std::span<const int64_t> shape,
                  std::span<const int64_t> strides) {
  int64_t next = 1;
  for (auto d = shape.size(); d > 0; --d) {
    if (shape[d - 1] != 1 && strides[d - 1] != next)
      return false;
    next *= shape[d - 1];
  }
  return true;
}

class torch_reader {
public:
  torch_reader(std::span<const std::byte> file, const std::string& where)
    : file_size_(file.size()), where_(where), members_(read_zip(file, where)),
      prefix_(find_prefix()), pickle_(load_pickle()) {
    // nop
  }

  torch_content read() {
    const auto& root = pickle_.root();
    const auto& state = find_state_dict(root);
    for (size_t i = 0; i + 1 < state.items.size(); i += 2) {
      const auto& key = pickle_[state.items[i]];
      if (key.what != kind::text)
        refuse("its state dict has a key that is no text");
      add(key.text, pickle_[state.items[i + 1]]);
    }
    out_.has_optimizer =
      &state != &root && std::ranges::any_of(optimizer_keys, [&](auto key) {
        return pickle_.find(root, key) != nullptr;
      });
    return std::move(out_);
  }

private:
  [[noreturn]] void refuse(const std::string& why) const {
    throw run_error(where_ + ": " + why);
  }

  [[noreturn]] void refuse_tensor(const std::string& name,
                                  const std::string& why) const {
    refuse("tensor " + config::shown(name) + " " + why);
  }

  // -- the archive ------------------------------------------------------------

  /// Everything lies in one folder, whatever its name.
  std::string find_prefix() const {
    if (std::ranges::any_of(members_, [](const auto& each) {
          return each.first.ends_with("/constants.pkl");
        }))
      refuse("is a TorchScript file; use it with --network script:" + where_);
    for (const auto& each : members_)
      if (each.first.ends_with("/data.pkl") &&
          std::ranges::count(each.first, '/') == 1)
        return each.first.substr(0, each.first.find('/') + 1);
    refuse("is a zip archive, but none of torch.save");
  }

  const std::span<const std::byte>* find_member(const std::string& name) const {
    auto found = members_.find(prefix_ + name);
    return found == members_.end() ? nullptr : &found->second;
  }

  pickle load_pickle() const {
    if (const auto* order = find_member("byteorder")) {
      std::string_view text{reinterpret_cast<const char*>(order->data()),
                            order->size()};
      if (text != "little")
        refuse("was written on a big-endian machine");
    }
    const auto& content = *find_member("data.pkl");
    if (content.size() > longest_pickle)
      refuse("its pickle has " + std::to_string(content.size()) +
             " bytes, more than any of weights");
    auto names = all_names();
    return {content, names, where_};
  }

  // -- the state dict ---------------------------------------------------------

  static bool makes_tensor(const pickle::value& callee) {
    return callee.text == tensor_maker || callee.text == typed_tensor_maker;
  }

  bool is_tensor(const pickle::value& item) const {
    const auto* callee =
      item.what == kind::call ? pickle_.item(item, 0) : nullptr;
    return callee &&
           (makes_tensor(*callee) || callee->text == parameter_maker ||
            callee->text == parameter_with_state);
  }

  bool is_state_dict(const pickle::value& item) const {
    if (item.what != kind::mapping || item.items.empty())
      return false;
    for (size_t i = 1; i < item.items.size(); i += 2)
      if (!is_tensor(pickle_[item.items[i]]))
        return false;
    return true;
  }

  const pickle::value& find_state_dict(const pickle::value& root) const {
    if (is_state_dict(root))
      return root;
    for (auto key : dictionary_keys)
      if (const auto* inner = pickle_.find(root, key))
        if (is_state_dict(*inner))
          return *inner;
    refuse("holds no state dict, neither itself nor under 'state_dict', "
           "'model' or 'model_state_dict'; save model.state_dict()");
  }

  // -- tensors ----------------------------------------------------------------

  void add(const std::string& name, const pickle::value& item) {
    const auto* made = &item;
    const auto& callee = *pickle_.item(item, 0);
    if (!makes_tensor(callee)) { // A parameter, made of a tensor.
      made = pickle_.item(*pickle_.item(item, 1), 0);
      if (made == nullptr || !is_tensor(*made) ||
          !makes_tensor(*pickle_.item(*made, 0)))
        refuse_tensor(name, "is not made in a known way");
    }
    add_tensor(name, *pickle_.item(*made, 1));
  }

  void add_tensor(const std::string& name, const pickle::value& arguments) {
    const auto* reference = pickle_.item(arguments, 0);
    const auto* first = pickle_.item(arguments, 1);
    auto shape = numbers_of(pickle_.item(arguments, 2));
    auto strides = numbers_of(pickle_.item(arguments, 3));
    if (!reference || reference->what != kind::reference || !first ||
        first->what != kind::whole || first->whole < 0 || !shape || !strides ||
        shape->size() != strides->size() || shape->size() > most_dimensions)
      refuse_tensor(name, "is not made in a known way");
    named_tensor out;
    out.name = name;
    auto storage =
      find_storage(name, *reference, pickle_.item(arguments, 6), out.dtype);
    auto element = dtype_size(out.dtype);
    auto [count, reach] = extent_of(name, *shape, *strides);
    auto held = storage.size() / element;
    auto begin = static_cast<uint64_t>(first->whole);
    if (begin > held || reach > held - begin)
      refuse_tensor(name, "reaches beyond its storage");
    auto bytes = storage.subspan(begin * element, reach * element);
    if (count == 0 || is_row_major(*shape, *strides))
      out.bytes = bytes.first(count * element);
    else
      out.bytes = row_major(name, bytes, element, *shape, *strides, count);
    out.shape = std::move(*shape);
    out_.tensors.push_back(std::move(out));
  }

  std::optional<std::vector<int64_t>>
  numbers_of(const pickle::value* item) const {
    if (item == nullptr || item->what != kind::sequence)
      return std::nullopt;
    std::vector<int64_t> out;
    for (auto each : item->items) {
      const auto& number = pickle_[each];
      if (number.what != kind::whole || number.whole < 0)
        return std::nullopt;
      out.push_back(number.whole);
    }
    return out;
  }

  /// The bytes of ('storage', type, key, device, elements).
  /// @param of_tensor The tensor's type, where the storage has none.
  std::span<const std::byte> find_storage(const std::string& name,
                                          const pickle::value& reference,
                                          const pickle::value* of_tensor,
                                          std::string& dtype) const {
    const auto* id = pickle_.item(reference, 0);
    const auto* type = id ? pickle_.item(*id, 1) : nullptr;
    const auto* key = id ? pickle_.item(*id, 2) : nullptr;
    const auto* elements = id ? pickle_.item(*id, 4) : nullptr;
    if (!type || type->what != kind::name || !key || key->what != kind::text ||
        !elements || elements->what != kind::whole)
      refuse_tensor(name, "is not made in a known way");
    auto untyped = type->text == untyped_storage;
    if (untyped && (!of_tensor || of_tensor->what != kind::name))
      refuse_tensor(name, "is not made in a known way");
    dtype = dtype_named(name, untyped ? of_tensor->text : type->text);
    auto width = untyped ? 1 : dtype_size(dtype);
    const auto* member = find_member("data/" + key->text);
    if (member == nullptr)
      refuse_tensor(name, "has its numbers in " +
                            config::shown("data/" + key->text) +
                            ", which is not there");
    uint64_t size = 0;
    if (elements->whole < 0 ||
        __builtin_mul_overflow(static_cast<uint64_t>(elements->whole), width,
                               &size) ||
        size != member->size())
      refuse_tensor(name, "says that its storage has " +
                            std::to_string(elements->whole) +
                            " elements, and it has " +
                            std::to_string(member->size()) + " bytes");
    return *member;
  }

  std::string dtype_named(const std::string& name,
                          const std::string& type) const {
    for (const auto& each : storage_types)
      if (each.name == type)
        return std::string{each.dtype};
    for (const auto& each : tensor_types)
      if (each.name == type)
        return std::string{each.dtype};
    refuse_tensor(name, "is of the type " + config::shown(type) +
                          ", which is not read");
  }

  struct extent {
    uint64_t count; ///< Of elements.
    uint64_t reach; ///< Elements from the first to the last one in memory.
  };

  extent extent_of(const std::string& name, std::span<const int64_t> shape,
                   std::span<const int64_t> strides) const {
    if (std::ranges::find(shape, 0) != shape.end())
      return {0, 0};
    uint64_t count = 1;
    uint64_t reach = 1;
    for (size_t d = 0; d < shape.size(); ++d) {
      auto size = static_cast<uint64_t>(shape[d]);
      uint64_t further = 0;
      if (__builtin_mul_overflow(count, size, &count) ||
          __builtin_mul_overflow(size - 1, static_cast<uint64_t>(strides[d]),
                                 &further) ||
          __builtin_add_overflow(reach, further, &reach))
        refuse_tensor(name, "has an impossible shape");
    }
    if (count > reach)
      refuse_tensor(name, "has more elements than lie in its storage");
    return {count, reach};
  }

  /// Refuses copies that are together larger than the file, so that a small
  /// file cannot ask for much memory.
  std::span<const std::byte>
  row_major(const std::string& name, std::span<const std::byte> bytes,
            size_t element, std::span<const int64_t> shape,
            std::span<const int64_t> strides, uint64_t count) {
    copied_ += count * element;
    if (copied_ > file_size_)
      refuse_tensor(name, "and others share storage in an unusual way");
    file_bytes made{count * element};
    copy_strided(bytes, element, shape, strides, made.span());
    out_.copies.push_back(std::move(made));
    return std::as_const(out_.copies.back()).span();
  }

  size_t file_size_;
  const std::string& where_;
  zip_members members_;
  std::string prefix_;
  pickle pickle_;
  torch_content out_;
  size_t copied_ = 0;
};

bool begins_with(std::span<const std::byte> file, std::string_view text) {
  return file.size() >= text.size() &&
         std::memcmp(file.data(), text.data(), text.size()) == 0;
}

} // namespace

torch_content read_torch(std::span<const std::byte> file,
                         const std::string& where) {
  return torch_reader{file, where}.read();
}

bool is_zip(std::span<const std::byte> file) {
  return begins_with(file, "PK\x03\x04");
}

// A pickle of protocol 2 with torch's magic number, a long of ten bytes.
bool is_old_torch(std::span<const std::byte> file) {
  return begins_with(file, "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8");
}

} // namespace troupe::models
