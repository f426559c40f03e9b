#pragma once
// What a launch and its agent on another host say to each other: frames of a
// length (four bytes, the most significant first) and a CBOR map. Pure values;
// a stream has one owner and is not thread-safe.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::app {

/// Raise it with every change of the frames.
inline constexpr uint32_t launch_protocol = 1;

enum class frame_kind : uint8_t {
  // To the agent.
  begin = 1,   ///< number: protocol, text: release, words: the working folder
               ///< of the launch, and its program.
  secrets,     ///< table: texts by the names of their files here.
  file,        ///< text: its path there, words: its name here, digest, size
               ///< and mode. All come before `files_told`.
  files_told,  ///< No more of them.
  file_bytes,  ///< process: the number of the file, text: its next bytes,
               ///< number: 1 if these are the last.
  find_port,   ///< text: the address.
  make_folder, ///< text: the network.
  start,       ///< process: the number that it gets, text: its name, words: its
               ///< command, table: its environment, number: columns.
  run,         ///< Before `start`, if the server goes on with its run: process,
               ///< text: the train-dir, number: begins_with_another, words: the
               ///< life before, if the server was started before.
  signal,      ///< process, number
  kill_rest,   ///< process
  alive,       ///< The launch lives.
  end,         ///< Ends all that runs; number: 1: at once.
  // From the agent.
  ready = 64, ///< number: protocol, text: release, words: cores, folder.
  wanted,     ///< number: of a file that is not there, or not as it is here.
  copied,     ///< All files are there.
  port,       ///< number
  folder,     ///< text
  line,       ///< process, text
  live,       ///< process, text
  ended,      ///< process, number: its status
  life,       ///< text: that which the server's run had before.
  failed      ///< text: why what was asked for cannot be done.
};

struct frame {
  frame_kind kind{};
  uint64_t process = 0;
  int64_t number = 0;
  std::string text{};
  std::vector<std::string> words{};
  std::map<std::string, std::string> table{};

  bool operator==(const frame&) const = default;
};

/// The most bytes that a frame may have, without its length.
inline constexpr size_t longest_frame = size_t{16} << 20;

std::string to_bytes(const frame& value);

/// Takes the first frame from the front of the bytes; nothing as long as it is
/// not complete. Throws `run_error` where there is none.
std::optional<frame> take_frame(std::string_view& bytes);

/// Reads frames from one file and writes them to another; neither blocks.
class frame_stream {
public:
  /// Makes the files such that they do not block; they stay the caller's.
  frame_stream(int input, int output);

  /// Adds a frame to what is to be sent, and sends what can be sent.
  void put(const frame& value);

  /// Sends what can be sent.
  void flush();

  /// Sends nothing from now on.
  void stop_sending();

  size_t unsent() const { return unsent_.size(); }

  /// Whether the other end takes and sends nothing any more. Frames that have
  /// come before can still be taken.
  bool is_cut() const { return cut_; }

  /// Reads what has come, or a part of it.
  void read();

  /// The next frame that is complete. Throws `run_error`.
  std::optional<frame> take();

  /// Takes a line of text that came before all frames, without its end; nothing
  /// as long as there is no whole one.
  std::optional<std::string> take_line();

private:
  int input_;
  int output_;
  bool cut_ = false;
  std::string unsent_;
  std::string received_;
  size_t taken_ = 0; ///< Bytes of `received_` that were taken.
};

} // namespace troupe::app
