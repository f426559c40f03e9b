#include "bench/transport/by_hand.hpp"

#include "bench/transport/loopback.hpp"
#include "config/text/failure.hpp"

#include <semaphore.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

namespace troupe::bench {

namespace {

[[noreturn]] void fail(const char* reason) {
  throw run_error(std::string{reason} + ": " + std::strerror(errno));
}

// -- sockets ------------------------------------------------------------------

bool send_all(int fd, const std::byte* from, size_t bytes) {
  while (bytes > 0) {
    auto sent = ::send(fd, from, bytes, MSG_NOSIGNAL);
    if (sent <= 0)
      return false;
    from += sent;
    bytes -= static_cast<size_t>(sent);
  }
  return true;
}

bool receive_all(int fd, std::byte* to, size_t bytes) {
  while (bytes > 0) {
    auto got = ::recv(fd, to, bytes, 0);
    if (got <= 0)
      return false;
    to += got;
    bytes -= static_cast<size_t>(got);
  }
  return true;
}

class tcp final : public exchange {
public:
  tcp(size_t bytes, size_t workers) {
    for (size_t i = 0; i < workers; ++i) {
      auto line = connect_loopback();
      lines_.push_back(line);
      gradients_.emplace_back(bytes);
      weights_.emplace_back(bytes);
      servers_.emplace_back([fd = line.server, bytes] {
        std::vector<std::byte> gradient(bytes);
        std::vector<std::byte> weights(bytes);
        while (receive_all(fd, gradient.data(), bytes) &&
               send_all(fd, weights.data(), bytes)) {
        }
      });
    }
  }

  ~tcp() override {
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
        auto& out = gradients_[i];
        auto& in = weights_[i];
        for (uint64_t k = 0; k < round_trips; ++k)
          if (!send_all(lines_[i].worker, out.data(), out.size()) ||
              !receive_all(lines_[i].worker, in.data(), in.size()))
            std::abort();
      });
    for (auto& one : workers)
      one.join();
  }

private:
  std::vector<connection> lines_;
  std::vector<std::vector<std::byte>> gradients_;
  std::vector<std::vector<std::byte>> weights_;
  std::vector<std::thread> servers_;
};

// -- shared memory ------------------------------------------------------------

class region {
public:
  explicit region(size_t bytes) : bytes_(bytes) {
    data_ = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                   MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (data_ == MAP_FAILED)
      fail("no shared memory");
  }

  ~region() { ::munmap(data_, bytes_); }

  region(const region&) = delete;
  region& operator=(const region&) = delete;

  float* floats() const { return static_cast<float*>(data_); }

private:
  size_t bytes_;
  void* data_;
};

/// w += g, compiled for all instructions of the machine at hand.
void add_in_place(float* __restrict weights, const float* __restrict gradient,
                  size_t count) {
  for (size_t i = 0; i < count; ++i)
    weights[i] += gradient[i];
}

/// The same, with the sum in other memory.
void add(float* __restrict to, const float* __restrict weights,
         const float* __restrict gradient, size_t count) {
  for (size_t i = 0; i < count; ++i)
    to[i] = weights[i] + gradient[i];
}

struct slot {
  explicit slot(size_t bytes) : gradient(bytes) { ::sem_init(&answered, 1, 0); }

  ~slot() { ::sem_destroy(&answered); }

  region gradient;
  std::atomic<bool> asked = false;
  sem_t answered;
};

class ring final : public exchange {
public:
  ring(size_t bytes, size_t workers, addition how) : bytes_(bytes) {
    ::sem_init(&asked_, 1, 0);
    // Each worker may read a version while one more is made.
    auto versions = how == addition::in_place ? 1 : workers + 1;
    for (size_t i = 0; i < versions; ++i)
      weights_.push_back(std::make_unique<region>(bytes));
    for (size_t i = 0; i < workers; ++i)
      slots_.push_back(std::make_unique<slot>(bytes));
    server_ = std::thread{[this] {
      serve();
    }};
  }

  ~ring() override {
    over_ = true;
    ::sem_post(&asked_);
    server_.join();
    ::sem_destroy(&asked_);
  }

  void run(uint64_t round_trips) override {
    std::vector<std::thread> workers;
    for (auto& mine : slots_)
      workers.emplace_back([this, &mine = *mine, round_trips] {
        for (uint64_t k = 0; k < round_trips; ++k) {
          mine.asked.store(true, std::memory_order_release);
          ::sem_post(&asked_);
          wait(mine.answered);
        }
      });
    for (auto& one : workers)
      one.join();
  }

private:
  static void wait(sem_t& semaphore) {
    while (::sem_wait(&semaphore) != 0) {
    }
  }

  void serve() {
    for (;;) {
      wait(asked_);
      if (over_)
        return;
      for (auto& one : slots_)
        if (one->asked.exchange(false, std::memory_order_acquire)) {
          add_gradient(one->gradient.floats());
          ::sem_post(&one->answered);
          break; // One for each post.
        }
    }
  }

  void add_gradient(const float* gradient) {
    auto* before = weights_[newest_]->floats();
    newest_ = (newest_ + 1) % weights_.size();
    auto* next = weights_[newest_]->floats();
    auto count = bytes_ / sizeof(float);
    if (next == before)
      add_in_place(next, gradient, count);
    else
      add(next, before, gradient, count);
  }

  size_t bytes_;
  std::vector<std::unique_ptr<region>> weights_;
  size_t newest_ = 0;
  std::vector<std::unique_ptr<slot>> slots_;
  sem_t asked_;
  std::atomic<bool> over_ = false;
  std::thread server_;
};

} // namespace

std::unique_ptr<exchange> raw_tcp(size_t bytes, size_t workers) {
  return std::make_unique<tcp>(bytes, workers);
}

std::unique_ptr<exchange> shared_ring(size_t bytes, size_t workers,
                                      addition how) {
  return std::make_unique<ring>(bytes, workers, how);
}

} // namespace troupe::bench
