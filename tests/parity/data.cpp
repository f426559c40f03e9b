// troupe_data_parity: what Troupe makes of images, for data_reference.py to
// compare with PIL and torchvision. Reads commands, one a line, and writes raw
// bytes, channels side by side, into the file that a command ends with.

#include "data/formats/image_file.hpp"
#include "data/formats/registry.hpp"
#include "data/sampling/permutation.hpp"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <iostream>
#include <numeric>
#include <sstream>
#include <stdexcept>

namespace {

using namespace troupe;
using namespace troupe::data;

picture part_of(const std::string& file, const window& part) {
  return decode_image(read_file(file), file,
                      [&](int64_t, int64_t) { return part; });
}

picture whole(const std::string& file) {
  return decode_image(read_file(file), file, [](int64_t height, int64_t width) {
    return window{0, 0, height, width};
  });
}

void save(const picture& image, const std::string& file) {
  auto bytes = cut(image, image.whole()).owned;
  std::ofstream out{file, std::ios::binary};
  out.write(reinterpret_cast<const char*>(bytes.data()),
            static_cast<std::streamsize>(bytes.size()));
}

/// A label byte before each image.
void save_set(const dataset_source& part, const std::string& file) {
  std::ofstream out{file, std::ios::binary};
  for (uint64_t i = 0; i < part.store->size(); ++i) {
    auto image = part.store->load(i, [](int64_t height, int64_t width) {
      return window{0, 0, height, width};
    });
    auto bytes = cut(image, image.whole()).owned;
    out.put(static_cast<char>(part.store->label(i)));
    out.write(reinterpret_cast<const char*>(bytes.data()),
              static_cast<std::streamsize>(bytes.size()));
  }
}

std::optional<double> factor(const std::string& text) {
  if (text == "-")
    return std::nullopt;
  return std::stod(text);
}

void jitter_file(std::istream& in, const std::string& file) {
  draws what;
  std::string order, brightness, contrast, saturation, hue, out;
  in >> order >> brightness >> contrast >> saturation >> hue >> out;
  for (size_t i = 0; i < 4; ++i)
    what.order[i] = static_cast<uint8_t>(order[i] - '0');
  what.brightness = factor(brightness);
  what.contrast = factor(contrast);
  what.saturation = factor(saturation);
  what.hue = factor(hue);
  auto image = whole(file);
  auto copy = cut(image, image.whole());
  jitter(copy, what);
  save(copy, out);
}

/// CPU seconds of an image in batches of 64, by one thread.
void make_batches(const dataset& set) {
  at::set_num_threads(1);
  std::vector<int64_t> indices(64);
  uint64_t made = 0;
  auto begin = std::clock();
  for (uint64_t epoch = 0; epoch < 4; ++epoch)
    for (int64_t first = 0; first + 64 <= static_cast<int64_t>(set.size());
         first += 64) {
      std::iota(indices.begin(), indices.end(), first);
      made += set.gather(indices, config::scalar_type::float32, epoch).samples;
    }
  std::printf("%.9f\n", static_cast<double>(std::clock() - begin) /
                          CLOCKS_PER_SEC / static_cast<double>(made));
}

/// The places in the epoch's order that a rank gets, a byte each.
void save_share(uint64_t samples, std::istream& in) {
  uint32_t ranks = 0, rank = 0;
  uint64_t epoch = 0, count = 0;
  std::string file;
  in >> ranks >> rank >> epoch >> count >> file;
  auto order = epoch_permutation(1, epoch, samples);
  epoch_order shares{1, samples, ranks};
  std::ofstream out{file, std::ios::binary};
  for (auto sample : shares.lease_indices(epoch, 0, count, rank))
    out.put(
      static_cast<char>(std::ranges::find(order, sample) - order.begin()));
}

void run(const std::string& line) {
  std::istringstream in{line};
  std::string verb, from, out;
  in >> verb >> from;
  int64_t height = 0, width = 0;
  if (verb == "decode") {
    in >> out;
    save(whole(from), out);
  } else if (verb == "part") {
    window part;
    in >> part.top >> part.left >> part.height >> part.width >> out;
    save(part_of(from, part), out);
  } else if (verb == "resize") {
    in >> height >> width >> out;
    save(resize(whole(from), height, width, {0, 0, height, width}), out);
  } else if (verb == "evaluate") {
    in >> height >> out;
    auto load = [&](const window_choice& choose) {
      return decode_image(read_file(from), from, choose);
    };
    save(transform({{}, height, 1}, 0, 0, load).image, out);
  } else if (verb == "jitter") {
    jitter_file(in, from);
  } else if (verb == "share") {
    save_share(std::stoull(from), in);
  } else if (verb == "set") {
    std::string folder, test;
    in >> folder >> out >> test;
    config::data_settings settings;
    settings.dataset = from;
    settings.data_dir = folder;
    auto source = entry_of(from).load(settings, 1, data_part::both);
    save_set(source.train, out);
    save_set(source.test, test);
  } else if (verb == "speed") {
    config::data_settings settings;
    settings.dataset = "folder";
    settings.data_dir = from;
    make_batches(*load_dataset(settings, 1).train);
  } else {
    throw std::invalid_argument("unknown command: " + line);
  }
}

} // namespace

int main() {
  try {
    for (std::string line; std::getline(std::cin, line);)
      run(line);
    return 0;
  } catch (const std::exception& err) {
    std::fprintf(stderr, "troupe_data_parity: %s\n", err.what());
    return 1;
  }
}
