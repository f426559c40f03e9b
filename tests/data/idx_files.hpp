#pragma once
// Makes valid and invalid IDX files for tests.

#include <unistd.h>
#include <zlib.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace troupe::test {

using bytes = std::vector<uint8_t>;

inline void append(bytes& to, uint32_t x) {
  for (int shift : {24, 16, 8, 0}) {
    to.push_back(static_cast<uint8_t>(x >> shift));
  }
}

/// An idx3 file with this header, followed by `body`.
inline bytes images_file(uint32_t count, uint32_t rows, uint32_t columns,
                         const bytes& body) {
  bytes result{0, 0, 8, 3};
  append(result, count);
  append(result, rows);
  append(result, columns);
  result.insert(result.end(), body.begin(), body.end());
  return result;
}

inline bytes labels_file(uint32_t count, const bytes& body) {
  bytes result{0, 0, 8, 1};
  append(result, count);
  result.insert(result.end(), body.begin(), body.end());
  return result;
}

inline bytes gzip(const bytes& plain) {
  z_stream stream{};
  deflateInit2(&stream, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
  bytes result(deflateBound(&stream, plain.size()));
  stream.next_in = const_cast<uint8_t*>(plain.data());
  stream.avail_in = static_cast<unsigned>(plain.size());
  stream.next_out = result.data();
  stream.avail_out = static_cast<unsigned>(result.size());
  deflate(&stream, Z_FINISH);
  result.resize(stream.total_out);
  deflateEnd(&stream);
  return result;
}

/// A temporary folder, removed by its destructor.
class scratch_folder {
public:
  scratch_folder() {
    auto name = (std::filesystem::temp_directory_path() / "troupe-XXXXXX");
    auto text = name.string();
    path_ = mkdtemp(text.data());
  }

  ~scratch_folder() { std::filesystem::remove_all(path_); }

  scratch_folder(const scratch_folder&) = delete;
  scratch_folder& operator=(const scratch_folder&) = delete;

  const std::filesystem::path& path() const { return path_; }

  /// Writes a file and creates the folders above it.
  std::filesystem::path write(const std::string& name, const bytes& content) {
    auto file = path_ / name;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream out{file, std::ios::binary};
    out.write(reinterpret_cast<const char*>(content.data()),
              static_cast<std::streamsize>(content.size()));
    return file;
  }

private:
  std::filesystem::path path_;
};

/// A data set in MNIST's format: each class has images of one shade, and the
/// order of classes depends on `first`; one test image.
inline void write_mnist(const std::filesystem::path& folder, uint32_t count,
                        uint32_t first) {
  std::filesystem::create_directories(folder);
  auto write = [&](const std::string& name, const bytes& content) {
    std::ofstream out{folder / name, std::ios::binary};
    out.write(reinterpret_cast<const char*>(content.data()),
              static_cast<std::streamsize>(content.size()));
  };
  bytes pixels, labels;
  for (uint32_t i = 0; i < count; ++i) {
    labels.push_back(static_cast<uint8_t>((first + 3 * i) % 10));
    pixels.insert(pixels.end(), 28 * 28,
                  static_cast<uint8_t>(25 * labels.back()));
  }
  write("train-images-idx3-ubyte", images_file(count, 28, 28, pixels));
  write("train-labels-idx1-ubyte", labels_file(count, labels));
  pixels.resize(28 * 28);
  labels.resize(1);
  write("t10k-images-idx3-ubyte", images_file(1, 28, 28, pixels));
  write("t10k-labels-idx1-ubyte", labels_file(1, labels));
}

} // namespace troupe::test
