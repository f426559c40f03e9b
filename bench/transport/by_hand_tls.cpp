// What one would write with OpenSSL alone: blocking sockets, a thread at either
// end of each connection.

#include "bench/transport/by_hand.hpp"
#include "bench/transport/loopback.hpp"
#include "config/text/failure.hpp"
#include "messages/transport/tls/openssl.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <thread>
#include <vector>

namespace troupe::bench {

namespace {

using transport::context_ptr;
using transport::require_openssl;
using transport::ssl_ptr;

bool move_all(int (*move)(SSL*, void*, int), SSL* line,
              std::vector<std::byte>& bytes) {
  // A call moves at most an int's worth, which every size here fits in.
  for (size_t at = 0; at < bytes.size();) {
    auto done =
      move(line, bytes.data() + at, static_cast<int>(bytes.size() - at));
    if (done <= 0)
      return false;
    at += static_cast<size_t>(done);
  }
  return true;
}

bool send_all(SSL* line, std::vector<std::byte>& bytes) {
  return move_all(
    [](SSL* to, void* from, int count) { return SSL_write(to, from, count); },
    line, bytes);
}

bool receive_all(SSL* line, std::vector<std::byte>& bytes) {
  return move_all(SSL_read, line, bytes);
}

context_ptr make_context(const SSL_METHOD* method) {
  context_ptr out{SSL_CTX_new(method)};
  require_openssl(
    out && SSL_CTX_set_ciphersuites(out.get(), "TLS_AES_128_GCM_SHA256") == 1,
    "begin TLS");
  SSL_CTX_set_mode(out.get(), SSL_MODE_AUTO_RETRY);
  return out;
}

class tls final : public exchange {
public:
  tls(size_t bytes, size_t workers, const certificate_files& own) {
    auto file = [](const std::filesystem::path& path) {
      return path.string();
    };
    auto* server = servers_context_.get();
    require_openssl(
      SSL_CTX_use_certificate_chain_file(server, file(own.cert).c_str()) == 1 &&
        SSL_CTX_use_PrivateKey_file(server, file(own.key).c_str(),
                                    SSL_FILETYPE_PEM) == 1,
      "use a certificate");
    for (size_t i = 0; i < workers; ++i)
      connect(bytes);
  }

  ~tls() override {
    for (auto& line : lines_)
      ::shutdown(line.worker, SHUT_RDWR);
    for (auto& one : servers_)
      one.join();
    for (auto& line : lines_) {
      ::close(line.worker);
      ::close(line.server);
    }
  }

  void run(uint64_t round_trips) override {
    std::vector<std::thread> workers;
    for (size_t i = 0; i < lines_.size(); ++i)
      workers.emplace_back([this, i, round_trips] {
        for (uint64_t k = 0; k < round_trips; ++k)
          if (!send_all(ends_[i].get(), gradients_[i]) ||
              !receive_all(ends_[i].get(), weights_[i]))
            std::abort();
      });
    for (auto& one : workers)
      one.join();
  }

private:
  void connect(size_t bytes) {
    lines_.push_back(connect_loopback());
    gradients_.emplace_back(bytes);
    weights_.emplace_back(bytes);
    auto line = lines_.back();
    servers_.emplace_back([this, line, bytes] {
      ssl_ptr end{SSL_new(servers_context_.get())};
      SSL_set_fd(end.get(), line.server);
      std::vector<std::byte> gradient(bytes), weights(bytes);
      if (SSL_accept(end.get()) == 1)
        while (receive_all(end.get(), gradient) &&
               send_all(end.get(), weights)) {
        }
    });
    ends_.emplace_back(SSL_new(workers_context_.get()));
    SSL_set_fd(ends_.back().get(), line.worker);
    require_openssl(SSL_connect(ends_.back().get()) == 1, "connect with TLS");
  }

  context_ptr servers_context_ = make_context(TLS_server_method());
  context_ptr workers_context_ = make_context(TLS_client_method());
  std::vector<connection> lines_;
  std::vector<ssl_ptr> ends_; ///< The workers'.
  std::vector<std::vector<std::byte>> gradients_;
  std::vector<std::vector<std::byte>> weights_;
  std::vector<std::thread> servers_;
};

} // namespace

std::unique_ptr<exchange> raw_tls(size_t bytes, size_t workers,
                                  const certificate_files& own) {
  return std::make_unique<tls>(bytes, workers, own);
}

} // namespace troupe::bench
