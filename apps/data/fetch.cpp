#include "apps/data/fetch.hpp"

#include "config/text/failure.hpp"
#include "data/formats/tar.hpp"

#include <curl/curl.h>
#include <openssl/evp.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <span>
#include <system_error>
#include <utility>
#include <vector>

namespace troupe::app {

namespace {

namespace fs = std::filesystem;

/// The largest size of a file, packed or unpacked.
constexpr curl_off_t most_bytes = curl_off_t{1} << 30;

/// How often an interrupted download is continued.
constexpr int tries = 4;

using file_handle = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;

file_handle open_file(const fs::path& path, const char* mode) {
  file_handle out{std::fopen(path.c_str(), mode), &std::fclose};
  if (!out)
    throw run_error(path.string() +
                    ": cannot be opened: " + std::strerror(errno));
  return out;
}

void close_written(file_handle file, const fs::path& path) {
  if (std::fclose(file.release()) != 0)
    throw run_error(path.string() +
                    ": cannot be written: " + std::strerror(errno));
}

uint64_t size_of(const fs::path& path) {
  std::error_code error;
  auto size = fs::file_size(path, error);
  return error ? 0 : size;
}

std::string md5_of(const fs::path& path) {
  auto in = open_file(path, "rb");
  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> sum{EVP_MD_CTX_new(),
                                                              &EVP_MD_CTX_free};
  EVP_DigestInit_ex(sum.get(), EVP_md5(), nullptr);
  std::vector<char> block(1 << 20);
  while (auto n = std::fread(block.data(), 1, block.size(), in.get()))
    EVP_DigestUpdate(sum.get(), block.data(), n);
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned length = 0;
  EVP_DigestFinal_ex(sum.get(), digest.data(), &length);
  std::string out;
  for (unsigned i = 0; i < length; ++i) {
    char text[3];
    std::snprintf(text, sizeof text, "%02x", digest[i]);
    out += text;
  }
  return out;
}

// -- downloads ----------------------------------------------------------------

struct transfer {
  std::string name;
  const narrator& say;
  std::FILE* to = nullptr;
  curl_off_t begun = 0; ///< Bytes that existed before.
  int shown = -1;       ///< Percent.
};

size_t write_block(char* bytes, size_t size, size_t count, void* to) {
  return std::fwrite(bytes, size, count, static_cast<transfer*>(to)->to);
}

int show_progress(void* of, curl_off_t total, curl_off_t now, curl_off_t,
                  curl_off_t) {
  auto& what = *static_cast<transfer*>(of);
  if (total <= 0)
    return 0;
  auto share =
    static_cast<int>(100 * (what.begun + now) / (what.begun + total));
  if (share != std::exchange(what.shown, share))
    what.say("fetching     " + what.name + "  " + std::to_string(share) + " %",
             true);
  return 0;
}

enum class outcome { done, broken, cannot_resume };

/// Continues a download. `complaint` says why it is not complete.
outcome go_on(const std::string& url, const fs::path& part, transfer& job,
              std::string& complaint) {
  auto file = open_file(part, "ab");
  job.to = file.get();
  job.begun = static_cast<curl_off_t>(size_of(part));
  std::unique_ptr<CURL, decltype(&curl_easy_cleanup)> handle{
    curl_easy_init(), &curl_easy_cleanup};
  auto* curl = handle.get();
  char text[CURL_ERROR_SIZE] = "";
  curl_easy_setopt(curl, CURLOPT_URL, url.c_str());
  curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(curl, CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 1L);
  curl_easy_setopt(curl, CURLOPT_MAXREDIRS, 5L);
  curl_easy_setopt(curl, CURLOPT_FAILONERROR, 1L);
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, 30L);
  curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
  curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, 60L);
  curl_easy_setopt(curl, CURLOPT_MAXFILESIZE_LARGE, most_bytes);
  curl_easy_setopt(curl, CURLOPT_RESUME_FROM_LARGE, job.begun);
  curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, text);
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, &write_block);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, &job);
  curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
  curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, &show_progress);
  curl_easy_setopt(curl, CURLOPT_XFERINFODATA, &job);
  auto code = curl_easy_perform(curl);
  close_written(std::move(file), part);
  complaint = *text != 0 ? text : curl_easy_strerror(code);
  long status = 0;
  curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
  if (code == CURLE_OK)
    return outcome::done;
  if (code == CURLE_RANGE_ERROR || status == 416)
    return outcome::cannot_resume;
  return outcome::broken;
}

/// Continues after an interruption as long as each try makes progress.
void download(const std::string& url, const fs::path& part,
              const std::string& name, const narrator& say) {
  transfer what{name, say};
  std::string complaint;
  for (int i = 0; i < tries; ++i) {
    auto before = size_of(part);
    switch (go_on(url, part, what, complaint)) {
    case outcome::done:
      return;
    case outcome::cannot_resume:
      fs::resize_file(part, 0);
      break;
    case outcome::broken:
      if (size_of(part) == before)
        i = tries; // No progress: another try would make none.
      break;
    }
  }
  std::error_code error;
  if (size_of(part) == 0)
    fs::remove(part, error);
  throw run_error(url + ": " + complaint);
}

void fetch_file(const remote_file& file, const fs::path& folder,
                const std::string& mirror, const narrator& say) {
  auto path = folder / file.name;
  std::error_code error;
  if (fs::exists(path, error) && md5_of(path) == file.md5) {
    say("there        " + file.name, false);
    return;
  }
  if (size_of(path) > 0)
    throw usage_error(path.string() +
                      ": is there already, and is not the published file: move "
                      "it away, or name another folder");
  auto url = mirror + (mirror.ends_with('/') ? "" : "/") + file.name;
  auto part = fs::path{path.string() + ".part"};
  auto begun = size_of(part) > 0;
  if (!begun || md5_of(part) != file.md5)
    download(url, part, file.name, say);
  if (begun && md5_of(part) != file.md5) {
    fs::remove(part, error); // The earlier download was of another file.
    download(url, part, file.name, say);
  }
  if (auto found = md5_of(part); found != file.md5) {
    fs::remove(part, error);
    throw run_error(url + ": is not the published file: its MD5 is " + found +
                    ", not " + file.md5);
  }
  fs::rename(part, path, error);
  if (error)
    throw run_error(path.string() + ": cannot be written: " + error.message());
  say("fetched      " + file.name + "  " + std::to_string(size_of(path)) +
        " bytes",
      false);
}

// -- archives -----------------------------------------------------------------

std::vector<uint8_t> inflated(const fs::path& path) {
  std::unique_ptr<gzFile_s, int (*)(gzFile)> in{gzopen(path.c_str(), "rb"),
                                                &gzclose};
  std::vector<uint8_t> out;
  constexpr size_t block = 1 << 22;
  while (in && out.size() < static_cast<size_t>(most_bytes)) {
    auto have = out.size();
    out.resize(have + block);
    auto n = gzread(in.get(), out.data() + have, block);
    out.resize(have + (n > 0 ? static_cast<size_t>(n) : 0));
    if (n == 0)
      return out;
    if (n < 0)
      break;
  }
  throw run_error(path.string() + ": cannot be unpacked");
}

/// Writes the requested members, each under its name without folders.
void unpack(const fs::path& archive, const std::vector<std::string>& members) {
  auto bytes = inflated(archive);
  auto read = [&](uint64_t at, std::span<uint8_t> to) {
    auto n = at >= bytes.size() ? 0 : std::min(to.size(), bytes.size() - at);
    std::copy_n(bytes.begin() + static_cast<ptrdiff_t>(at), n, to.begin());
    return n;
  };
  size_t found = 0;
  for (const auto& each :
       data::index_tar(read, bytes.size(), archive.string())) {
    auto name = fs::path{each.name}.filename().string();
    if (std::ranges::find(members, name) == members.end())
      continue;
    auto path = archive.parent_path() / name;
    auto draft = fs::path{path.string() + ".part"};
    auto file = open_file(draft, "wb");
    // Closing reports write errors, too.
    auto n = std::fwrite(bytes.data() + each.begin, 1, each.size, file.get());
    close_written(std::move(file), draft);
    if (n != each.size)
      throw run_error(draft.string() + ": cannot be written");
    if (size_of(path) > 0 && md5_of(path) != md5_of(draft)) {
      std::error_code ignored;
      fs::remove(draft, ignored);
      throw usage_error(
        path.string() + ": is there already, and is not the file of " +
        archive.filename().string() + ": move it away, or name another folder");
    }
    fs::rename(draft, path);
    ++found;
  }
  if (found != members.size())
    throw run_error(archive.string() + ": holds " + std::to_string(found) +
                    " of the " + std::to_string(members.size()) +
                    " files that it should");
}

bool has_all(const fs::path& folder, const std::vector<std::string>& names) {
  std::error_code error;
  return std::ranges::all_of(names, [&](const std::string& name) {
    return fs::exists(folder / name, error);
  });
}

} // namespace

// The sums are those that torchvision 0.26 has for the files of MNIST and
// Fashion-MNIST, and https://www.cs.toronto.edu/~kriz/cifar.html for CIFAR's.
const std::vector<remote_set>& remote_sets() {
  static const std::vector<remote_set> all{
    {"mnist",
     "https://ossci-datasets.s3.amazonaws.com/mnist/",
     {{"train-images-idx3-ubyte.gz", "f68b3c2dcbeaaa9fbdd348bbdeb94873"},
      {"train-labels-idx1-ubyte.gz", "d53e105ee54ea40749a09fcbcd1e9432"},
      {"t10k-images-idx3-ubyte.gz", "9fb629c4189551a2d022fa330f9573f3"},
      {"t10k-labels-idx1-ubyte.gz", "ec29112dd5afa0611ce80d1b7f02629c"}},
     {}},
    {"fashion-mnist",
     "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
     {{"train-images-idx3-ubyte.gz", "8d4fb7e6c68d591d4c3dfef9ec88bf0d"},
      {"train-labels-idx1-ubyte.gz", "25c81989df183df01b3e8a0aad5dffbe"},
      {"t10k-images-idx3-ubyte.gz", "bef4ecab320f06d8554ea6380940ec79"},
      {"t10k-labels-idx1-ubyte.gz", "bb300cfdad3c16e7a12a480ee83cd310"}},
     {}},
    {"cifar10",
     "https://www.cs.toronto.edu/~kriz/",
     {{"cifar-10-binary.tar.gz", "c32a1d4ab5d03f1284b67883e8d87530"}},
     {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin",
      "data_batch_4.bin", "data_batch_5.bin", "test_batch.bin"}},
    {"cifar100",
     "https://www.cs.toronto.edu/~kriz/",
     {{"cifar-100-binary.tar.gz", "03b5dce01913d631647c71ecec9e9cb8"}},
     {"train.bin", "test.bin"}},
  };
  return all;
}

void fetch_set(const remote_set& set, const fs::path& folder,
               const std::string& mirror, const narrator& say) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error)
    throw run_error(folder.string() + ": cannot be made: " + error.message());
  for (const auto& each : set.files)
    fetch_file(each, folder, mirror.empty() ? set.mirror : mirror, say);
  if (set.members.empty() || has_all(folder, set.members))
    return;
  for (const auto& each : set.files)
    unpack(folder / each.name, set.members);
  say("unpacked     " + std::to_string(set.members.size()) + " files", false);
}

} // namespace troupe::app
