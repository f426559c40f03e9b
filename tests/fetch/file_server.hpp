#pragma once
// A small HTTP server for tests, on loopback: serves files by name and ranges,
// and injects faults. Owned by a test; answers on a thread of its own.

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace troupe::test {

class file_server {
public:
  struct behaviour {
    size_t break_after = SIZE_MAX; ///< Cuts the body of one answer.
    bool knows_ranges = true;
  };

  file_server() : listener_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    auto* address = reinterpret_cast<sockaddr*>(&at);
    socklen_t size = sizeof at;
    if (bind(listener_, address, size) != 0 || listen(listener_, 8) != 0 ||
        getsockname(listener_, address, &size) != 0)
      throw std::runtime_error("no port for the test's server");
    url_ = "http://127.0.0.1:" + std::to_string(ntohs(at.sin_port));
    thread_ = std::thread{[this] {
      serve();
    }};
  }

  ~file_server() {
    shutdown(listener_, SHUT_RDWR);
    thread_.join();
    close(listener_);
  }

  file_server(const file_server&) = delete;
  file_server& operator=(const file_server&) = delete;

  const std::string& url() const { return url_; }

  void put(const std::string& name, const std::string& content) {
    std::lock_guard lock{access_};
    files_[name] = content;
  }

  void behave(const behaviour& how) {
    std::lock_guard lock{access_};
    how_ = how;
  }

  /// The requests so far: "NAME" or "NAME from N".
  std::vector<std::string> requests() {
    std::lock_guard lock{access_};
    return requests_;
  }

private:
  void serve() {
    for (int peer; (peer = accept(listener_, nullptr, nullptr)) >= 0;) {
      std::string request;
      char block[4096];
      while (request.find("\r\n\r\n") == std::string::npos) {
        auto n = recv(peer, block, sizeof block, 0);
        if (n <= 0)
          break;
        request.append(block, static_cast<size_t>(n));
      }
      auto reply = answer(request);
      for (size_t done = 0; done < reply.size();) {
        auto n =
          send(peer, reply.data() + done, reply.size() - done, MSG_NOSIGNAL);
        if (n <= 0)
          break;
        done += static_cast<size_t>(n);
      }
      close(peer);
    }
  }

  std::string answer(const std::string& request) {
    std::lock_guard lock{access_};
    auto name = request.substr(5, request.find(' ', 5) - 5); // "GET /NAME "
    auto range = request.find("Range: bytes=");
    size_t from = 0;
    if (range != std::string::npos)
      from = std::stoul(request.substr(range + 13));
    requests_.push_back(name +
                        (from > 0 ? " from " + std::to_string(from) : ""));
    auto found = files_.find(name);
    if (found == files_.end())
      return "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n";
    const auto& content = found->second;
    if (from >= content.size() && from > 0)
      return "HTTP/1.1 416 Range Not Satisfiable\r\nContent-Length: 0\r\n\r\n";
    auto partial = from > 0 && how_.knows_ranges;
    auto body = content.substr(partial ? from : 0);
    std::string head =
      partial ? "HTTP/1.1 206 Partial Content\r\n" : "HTTP/1.1 200 OK\r\n";
    if (partial)
      head += "Content-Range: bytes " + std::to_string(from) + "-" +
              std::to_string(content.size() - 1) + "/" +
              std::to_string(content.size()) + "\r\n";
    return head + "Content-Length: " + std::to_string(body.size()) +
           "\r\nConnection: close\r\n\r\n" + body.substr(0, how_.break_after);
  }

  int listener_;
  std::string url_;
  std::thread thread_;
  std::mutex access_;
  behaviour how_;
  std::map<std::string, std::string> files_;
  std::vector<std::string> requests_;
};

} // namespace troupe::test
