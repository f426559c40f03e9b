// Synchronous training is data parallel: N workers with batch B make the steps
// of one worker with batch N*B. Runs the program, as a user does.

#include "models/storage/checkpoint.hpp"
#include "tests/data/idx_files.hpp"

#include <catch2/catch_test_macros.hpp>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <random>

using namespace troupe;
using namespace troupe::test;

namespace {

/// Blots that depend on the label, with noise.
bytes images_of(const bytes& labels) {
  std::mt19937 random{1};
  bytes out;
  for (auto label : labels)
    for (unsigned y = 0; y < 28; ++y)
      for (unsigned x = 0; x < 28; ++x) {
        auto inside = (x / 5 + y / 4 * 3 + label * 5u) % 10 == 0;
        out.push_back(static_cast<uint8_t>((inside ? 200 : 0) + random() % 40));
      }
  return out;
}

void write_mnist(scratch_folder& folder, const std::string& part,
                 uint32_t count) {
  bytes labels;
  for (uint32_t i = 0; i < count; ++i)
    labels.push_back(static_cast<uint8_t>(i * 7 % 10));
  folder.write("data/" + part + "-images-idx3-ubyte",
               images_file(count, 28, 28, images_of(labels)));
  folder.write("data/" + part + "-labels-idx1-ubyte",
               labels_file(count, labels));
}

struct run {
  int workers;
  int batch;
};

/// Trains; gives the last checkpoint.
models::loaded_checkpoint train(const scratch_folder& folder, const run& how,
                                const std::string& dtype, int steps) {
  auto name = std::to_string(how.workers) + "-" + dtype;
  auto target = (folder.path() / name).string();
  auto line = std::string{TROUPE_TRAINER_NODE} +
              " --simulate --policy sync --dataset mnist --data-dir " +
              (folder.path() / "data").string() + " --workers " +
              std::to_string(how.workers) + " --batch-size " +
              std::to_string(how.batch) + " --dtype " + dtype +
              " --max-steps " + std::to_string(steps) +
              " --threads 1 --eval-freq 1000 --train-dir " + target + " > " +
              target + ".log 2>&1";
  REQUIRE(std::system(line.c_str()) == 0);
  return models::read_checkpoint(
    std::filesystem::path{target} / "checkpoints" /
    models::checkpoint_name(static_cast<uint64_t>(steps)));
}

template <class T>
std::vector<double> numbers_of(const models::named_tensor& from) {
  std::vector<T> numbers(from.bytes.size() / sizeof(T));
  std::memcpy(numbers.data(), from.bytes.data(), from.bytes.size());
  return {numbers.begin(), numbers.end()};
}

std::vector<double> read_numbers(const models::named_tensor& from) {
  return from.dtype == "F64" ? numbers_of<double>(from)
                             : numbers_of<float>(from);
}

/// Norm of the difference of all weights over the norm of the weights.
double distance(const models::tensor_file& x, const models::tensor_file& y) {
  double difference = 0;
  double norm = 0;
  REQUIRE(x.tensors().size() == y.tensors().size());
  for (const auto& tensor : x.tensors()) {
    const auto* other = y.find(tensor.name);
    REQUIRE(other != nullptr);
    auto a = read_numbers(tensor);
    auto b = read_numbers(*other);
    REQUIRE(a.size() == b.size());
    for (size_t i = 0; i < a.size(); ++i) {
      difference += (a[i] - b[i]) * (a[i] - b[i]);
      norm += a[i] * a[i];
    }
  }
  REQUIRE(norm > 1);
  return std::sqrt(difference / norm);
}

double distance_after(int steps, const std::string& dtype) {
  scratch_folder folder;
  write_mnist(folder, "train", 384); // Six steps an epoch.
  write_mnist(folder, "t10k", 20);
  auto many = train(folder, {4, 16}, dtype, steps);
  auto one = train(folder, {1, 64}, dtype, steps);
  return distance(many.model, one.model);
}

} // namespace

TEST_CASE("sync: N workers make the steps of one with the N-fold batch") {
  SECTION("50 steps in float64") {
    auto found = distance_after(50, "float64");
    INFO("distance " << found);
    CHECK(found <= 1e-10);
  }
  SECTION("one step in float32") {
    auto found = distance_after(1, "float32");
    INFO("distance " << found);
    CHECK(found <= 1e-5);
  }
}
