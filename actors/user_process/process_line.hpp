#pragma once
// The connection of a worker to the process that computes for it: a Unix
// socket, and a descriptor of the process, since children that it forked may
// keep the socket open after its death. Shared by the agent, which sends, and
// its reader.
//
// Thread-safety: any thread may send, close or end it; one thread receives.

#include "actors/user_process/frames.hpp"
#include "messages/transport/wire/socket.hpp"
#include "messages/types.hpp"

#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

namespace troupe::external {

class process_line {
public:
  /// Takes over a connected Unix socket, whose other end is the process.
  /// Throws `path_error`.
  /// @param patience s in which the rest of a frame that has begun must come,
  /// and in which the process must take what it is sent.
  explicit process_line(transport::descriptor connection, double patience = 30);

  /// The id of the process.
  int pid() const { return pid_; }

  /// Sends a frame, with an open file if there is one. Does nothing when the
  /// connection is closed: the receiving thread finds out.
  void send(process_frame_kind kind, uint64_t number,
            const std::string& body = {}, int file = -1);

  /// Waits until there is something to receive, for so many seconds at most.
  bool wait_for(double seconds);

  /// Whether the process ends within so many seconds, whatever it sends.
  bool ends_within(double seconds) const;

  /// Waits for the next frame; nothing when there will be none, because the
  /// process has ended or broke the rules: then `why_closed` says which.
  std::optional<process_frame> receive();

  std::string why_closed() const;

  /// Tells the process how the run ended, and closes. Only the first counts.
  void end(const run_end& how);

private:
  std::optional<process_frame> close(std::string why);
  std::pair<bool, bool> wait(int milliseconds) const;

  int pid_ = 0;
  transport::descriptor process_;
  transport::socket line_;
  double patience_;
  mutable std::mutex mutex_; ///< Guards what follows, and sending.
  std::string why_closed_;
  bool ended_ = false;
};

using process_line_ptr = std::shared_ptr<process_line>;

/// Makes the socket at `where`, and waits for a process to connect and say
/// hello, for so many seconds. Removes the socket again.
/// @param interrupted Whether to give up now; is asked every 100 ms.
/// @throws run_error
std::pair<process_line_ptr, hello>
wait_for_process(const std::filesystem::path& where, double seconds,
                 const std::function<bool()>& interrupted);

} // namespace troupe::external
