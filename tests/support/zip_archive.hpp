#pragma once
// Makes zip archives and pickles of torch.save by hand, also such as torch.save
// would never write.

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace troupe::testing {

template <class T>
std::string little_endian(T number) {
  return {reinterpret_cast<const char*>(&number), sizeof number};
}

struct zip_file {
  std::string name;
  std::string content;
  uint16_t method = 0;  ///< 0: stored; 8: deflated.
  uint32_t size = 0;    ///< What the directory says; 0: the truth.
  uint32_t first = ~0u; ///< Where it says that the member is; ~0: the truth.
};

/// Makes an archive whose sizes are in its directory alone, which is what
/// readers go by.
inline std::string zip_of(const std::vector<zip_file>& files) {
  std::string out;
  std::string directory;
  for (const auto& file : files) {
    auto first = static_cast<uint32_t>(out.size());
    auto true_size = static_cast<uint32_t>(file.content.size());
    auto size = file.size != 0 ? file.size : true_size;
    auto name_size = static_cast<uint16_t>(file.name.size());
    auto common = little_endian<uint16_t>(20) + little_endian<uint16_t>(0) +
                  little_endian(file.method) + std::string(8, '\0') +
                  little_endian(size) + little_endian(size) +
                  little_endian(name_size) + little_endian<uint16_t>(0);
    out += "PK\3\4" + common + file.name + file.content;
    directory +=
      "PK\1\2" + little_endian<uint16_t>(20) + common + std::string(10, '\0') +
      little_endian(file.first != ~0u ? file.first : first) + file.name;
  }
  auto at = static_cast<uint32_t>(out.size());
  auto entries = static_cast<uint16_t>(files.size());
  return out + directory + "PK\5\6" + std::string(4, '\0') +
         little_endian(entries) + little_endian(entries) +
         little_endian(static_cast<uint32_t>(directory.size())) +
         little_endian(at) + std::string(2, '\0');
}

// -- pickles ------------------------------------------------------------------

inline std::string pickled_text(std::string_view text) {
  return "X" + little_endian(static_cast<uint32_t>(text.size())) +
         std::string{text};
}

inline std::string pickled_tuple(const std::vector<int>& numbers) {
  std::string out = "(";
  for (auto each : numbers)
    out += "J" + little_endian<int32_t>(each);
  return out + "t";
}

struct pickled_tensor {
  std::string storage = "0";
  int elements = 0; ///< Of the storage.
  std::vector<int> shape;
  std::vector<int> strides;
  int first = 0;
  std::string type = "FloatStorage";
};

inline std::string pickled(const pickled_tensor& tensor) {
  return "ctorch._utils\n_rebuild_tensor_v2\n((" + pickled_text("storage") +
         "ctorch\n" + tensor.type + "\n" + pickled_text(tensor.storage) +
         pickled_text("cpu") + "J" + little_endian<int32_t>(tensor.elements) +
         "tQJ" + little_endian<int32_t>(tensor.first) +
         pickled_tuple(tensor.shape) + pickled_tuple(tensor.strides) +
         "\x89"
         "ccollections\nOrderedDict\n)RtR";
}

/// A dictionary of these keys and pickled values.
inline std::string
pickled_items(const std::vector<std::pair<std::string, std::string>>& items) {
  std::string out = "}(";
  for (const auto& [key, value] : items)
    out += pickled_text(key) + value;
  return out + "u";
}

inline std::string whole_pickle(const std::string& value) {
  return "\x80\x02" + value + ".";
}

/// As torch.save lays it out.
inline std::string torch_file(const std::string& pickle,
                              const std::vector<std::string>& storages) {
  std::vector<zip_file> files{{"w/data.pkl", pickle},
                              {"w/byteorder", "little"}};
  for (size_t i = 0; i < storages.size(); ++i)
    files.push_back({"w/data/" + std::to_string(i), storages[i]});
  return zip_of(files);
}

} // namespace troupe::testing
