#include "models/exchange/torch_writer.hpp"

#include "config/text/failure.hpp"
#include "config/text/one_line.hpp"
#include "config/text/text.hpp"

#include <caffe2/serialize/inline_container.h>

#include <array>
#include <exception>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <utility>

namespace troupe::models {

namespace {

/// The name of a storage of this type; empty: there is none.
std::string_view storage_of(const named_tensor& tensor) {
  constexpr std::array known{
    std::pair{std::string_view{"F32"}, std::string_view{"FloatStorage"}},
    std::pair{std::string_view{"F64"}, std::string_view{"DoubleStorage"}},
    std::pair{std::string_view{"F16"}, std::string_view{"HalfStorage"}},
    std::pair{std::string_view{"BF16"}, std::string_view{"BFloat16Storage"}},
    std::pair{std::string_view{"I64"}, std::string_view{"LongStorage"}},
    std::pair{std::string_view{"I32"}, std::string_view{"IntStorage"}},
    std::pair{std::string_view{"I16"}, std::string_view{"ShortStorage"}},
    std::pair{std::string_view{"I8"}, std::string_view{"CharStorage"}},
    std::pair{std::string_view{"U8"}, std::string_view{"ByteStorage"}},
    std::pair{std::string_view{"BOOL"}, std::string_view{"BoolStorage"}},
    std::pair{std::string_view{"C64"}, std::string_view{"ComplexFloatStorage"}},
  };
  for (const auto& [dtype, name] : known)
    if (dtype == tensor.dtype)
      return name;
  return {};
}

/// The name of a type whose storages have bytes alone.
std::string_view type_of_untyped(const named_tensor& tensor) {
  constexpr std::array known{
    std::pair{std::string_view{"U16"}, std::string_view{"uint16"}},
    std::pair{std::string_view{"U32"}, std::string_view{"uint32"}},
    std::pair{std::string_view{"U64"}, std::string_view{"uint64"}},
    std::pair{std::string_view{"F8_E4M3"}, std::string_view{"float8_e4m3fn"}},
    std::pair{std::string_view{"F8_E5M2"}, std::string_view{"float8_e5m2"}},
    std::pair{std::string_view{"F8_E8M0"}, std::string_view{"float8_e8m0fnu"}},
  };
  for (const auto& [dtype, name] : known)
    if (dtype == tensor.dtype)
      return name;
  throw run_error("tensor " + config::shown(tensor.name) + " is of type " +
                  tensor.dtype + ", which torch.save does not know");
}

/// The operations of a pickle of protocol 2.
class pickle_text {
public:
  pickle_text() : out_("\x80\x02") {
    // nop
  }

  void name(std::string_view module, std::string_view of) {
    out_.append("c").append(module).append("\n").append(of).append("\n");
  }

  void text(std::string_view text) {
    out_ += 'X';
    put(static_cast<uint32_t>(text.size()));
    out_ += text;
  }

  void number(int64_t value) {
    if (value <= std::numeric_limits<int32_t>::max()) {
      out_ += 'J';
      put(static_cast<int32_t>(value));
    } else {
      out_ += "\x8a\x08";
      put(value);
    }
  }

  void numbers(std::span<const int64_t> all) {
    out_ += '(';
    for (auto each : all)
      number(each);
    out_ += 't';
  }

  void ordered_dictionary() {
    name("collections", "OrderedDict");
    out_ += ")R";
  }

  /// One-letter operations.
  void operations(std::string_view text) { out_ += text; }

  const std::string& str() const { return out_; }

private:
  template <class T>
  void put(T number) {
    out_.append(reinterpret_cast<const char*>(&number), sizeof number);
  }

  std::string out_;
};

std::vector<int64_t> row_major_strides(std::span<const int64_t> shape) {
  std::vector<int64_t> out(shape.size());
  int64_t next = 1;
  for (auto d = shape.size(); d > 0; --d) {
    out[d - 1] = next;
    next *= std::max<int64_t>(shape[d - 1], 1);
  }
  return out;
}

void add_tensor(pickle_text& to, const named_tensor& tensor,
                const std::string& storage) {
  auto typed = storage_of(tensor);
  to.text(tensor.name);
  to.name("torch._utils",
          typed.empty() ? "_rebuild_tensor_v3" : "_rebuild_tensor_v2");
  to.operations("((");
  to.text("storage");
  if (typed.empty())
    to.name("torch.storage", "UntypedStorage");
  else
    to.name("torch", typed);
  to.text(storage);
  to.text("cpu");
  auto width = typed.empty() ? 1 : dtype_size(tensor.dtype);
  to.number(static_cast<int64_t>(tensor.bytes.size() / width));
  to.operations("tQ"); // The storage.
  to.number(0);        // Where the tensor begins in it.
  to.numbers(tensor.shape);
  to.numbers(row_major_strides(tensor.shape));
  to.operations("\x89"); // No gradient is asked for.
  to.ordered_dictionary();
  if (typed.empty())
    to.name("torch", type_of_untyped(tensor));
  to.operations("tR");
}

/// The storage of each tensor: views of the same bytes share one, as tied
/// weights do in torch.
std::vector<size_t> storages_of(std::span<const named_tensor> tensors) {
  std::map<std::pair<const std::byte*, size_t>, size_t> known;
  std::vector<size_t> out;
  for (size_t i = 0; i < tensors.size(); ++i) {
    auto bytes = tensors[i].bytes;
    out.push_back(bytes.empty()
                    ? i
                    : known.emplace(std::pair{bytes.data(), bytes.size()}, i)
                        .first->second);
  }
  return out;
}

std::string pickle_of(std::span<const named_tensor> tensors,
                      std::span<const size_t> storages) {
  pickle_text out;
  out.ordered_dictionary();
  out.operations("(");
  for (size_t i = 0; i < tensors.size(); ++i)
    add_tensor(out, tensors[i], std::to_string(storages[i]));
  out.operations("u.");
  return out.str();
}

} // namespace

void write_torch(output_file& out, std::span<const named_tensor> tensors) {
  // Parts of LibTorch's writer are compiled without exceptions, so none may
  // pass through them.
  std::exception_ptr failed;
  auto write = [&](const void* data, size_t size) -> size_t {
    try {
      out.write(std::span{static_cast<const std::byte*>(data), size});
      return size;
    } catch (...) {
      failed = std::current_exception();
      return 0;
    }
  };
  auto storages = storages_of(tensors);
  auto pickled = pickle_of(tensors, storages);
  try {
    caffe2::serialize::PyTorchStreamWriter archive{write};
    archive.writeRecord("data.pkl", pickled.data(), pickled.size());
    archive.writeRecord("byteorder", "little", 6);
    for (size_t i = 0; i < tensors.size(); ++i)
      if (storages[i] == i)
        archive.writeRecord("data/" + std::to_string(i),
                            tensors[i].bytes.data(), tensors[i].bytes.size());
    archive.writeEndOfFile();
  } catch (const c10::Error& why) {
    if (failed)
      std::rethrow_exception(failed);
    throw run_error("cannot write " + out.path().string() + ": " +
                    one_line(why));
  }
}

} // namespace troupe::models
