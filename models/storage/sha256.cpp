#include "models/storage/sha256.hpp"

#include <openssl/evp.h>

#include <stdexcept>

namespace troupe::models {

namespace {

void check(int ok) {
  if (ok != 1)
    throw std::runtime_error("the crypto library cannot compute SHA-256");
}

} // namespace

struct sha256::state {
  EVP_MD_CTX* context = EVP_MD_CTX_new();

  ~state() { EVP_MD_CTX_free(context); }
};

sha256::sha256() : state_(std::make_unique<state>()) {
  check(EVP_DigestInit_ex(state_->context, EVP_sha256(), nullptr));
}

sha256::~sha256() = default;

sha256::sha256(sha256&&) noexcept = default;

sha256& sha256::operator=(sha256&&) noexcept = default;

void sha256::update(std::span<const std::byte> bytes) {
  check(EVP_DigestUpdate(state_->context, bytes.data(), bytes.size()));
}

sha256_digest sha256::finish() {
  sha256_digest result;
  check(EVP_DigestFinal_ex(
    state_->context, reinterpret_cast<unsigned char*>(result.data()), nullptr));
  return result;
}

sha256_digest sha256_of(std::span<const std::byte> bytes) {
  sha256 sum;
  sum.update(bytes);
  return sum.finish();
}

std::string to_hex(const sha256_digest& digest) {
  constexpr char digits[] = "0123456789abcdef";
  std::string result;
  for (auto x : digest) {
    result += digits[std::to_integer<unsigned>(x) >> 4];
    result += digits[std::to_integer<unsigned>(x) & 15];
  }
  return result;
}

} // namespace troupe::models
