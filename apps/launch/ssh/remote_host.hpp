#pragma once
// Another machine as a host of a launch, over ssh. One connection carries all:
// it brings what the host lacks, starts the agent there, and stays for frames.
// When it ends, the agent ends what it has started; the next process that is
// started there connects again. For one thread.

#include "apps/launch/hosts/host.hpp"
#include "apps/launch/hosts/host_list.hpp"
#include "apps/launch/ssh/copies.hpp"
#include "apps/launch/ssh/parcel.hpp"
#include "apps/launch/ssh/ssh_link.hpp"

#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace troupe::app {

/// What goes along to every host.
struct launch_luggage {
  std::string ssh; ///< A command of the shell.
  std::vector<parcel_file> program;
  struct named_file {
    copied_file file;
    std::string name; ///< In commands.
  };
  std::vector<named_file> files{};
  /// Texts by the names of their files, in commands. They may become more.
  const std::map<std::string, std::string>* secrets = nullptr;
};

class remote_host : public host {
public:
  /// Begins to connect.
  /// @param luggage Lives as long as this object.
  remote_host(listed_host place, const launch_luggage& luggage);
  ~remote_host() override;

  bool is_ready() const { return stage_ == stage::ready; }

  /// Why it cannot be used, in one line; empty if it can, or may yet.
  const std::string& failure_line() const { return failure_; }

  /// What it waits for, for a line: "node2: ssh to connect".
  std::string awaited() const;

  /// @pre is_ready()
  uint32_t cores() const { return cores_; }

  /// Its working folder there. @pre is_ready()
  const std::filesystem::path& folder() const { return folder_; }

  std::string name() const override { return place_.address; }
  std::unique_ptr<process> start(const child_plan& plan,
                                 size_t columns) override;
  void list_files(std::vector<int>& out) const override;
  void look(const line_taker& say) override;
  uint16_t find_port(const std::string& address) override;
  std::filesystem::path make_folder(const std::string& network) override;
  void end_at_once() override;
  void begin_end() override;
  void finish_end() override;

private:
  using clock = std::chrono::steady_clock;

  class remote_process;

  enum class stage : uint8_t {
    pausing,
    asking,
    sending,
    greeting,
    copying,
    ready,
    lost
  };

  /// A file of which parts have yet to be sent.
  struct sent_file {
    uint64_t number;
    uint64_t at = 0;
  };

  void connect();
  void enter(stage next, clock::duration limit);
  void read_link(const line_taker& say);
  void read_answer();
  void take_answer(const std::string& line);
  void send_program(const std::string& way, const std::string& folder,
                    const std::string& free_kib,
                    const std::vector<std::string>& lacking);
  void program_was_sent(int status);
  void greet();
  void take_frame(const frame& one, const line_taker& say);
  void take_ready(const frame& one);
  void take_of_process(const frame& one);
  void send_files();
  void lose(std::string why);
  void pause();
  void put(frame one);
  void forget(uint64_t process);
  frame ask(const frame& question, frame_kind answer);

  listed_host place_;
  const launch_luggage& luggage_;
  std::unique_ptr<ssh_link> link_;
  stage stage_ = stage::lost;
  clock::time_point deadline_ = clock::time_point::max(); ///< Of this stage.
  clock::time_point said_alive_{};
  std::string failure_;
  int failures_ = 0;            ///< In a row.
  clock::time_point lost_at_{}; ///< That which was ready before.
  std::string said_failure_;
  bool was_ready_ = false; ///< Once at least.
  bool has_sent_ = false;  ///< The program, on this connection's behalf.
  uint64_t lacking_bytes_ = 0;
  bool ending_ = false;
  uint32_t cores_ = 1;
  std::filesystem::path folder_;
  size_t told_secrets_ = 0;
  std::deque<sent_file> to_send_;
  std::deque<frame> waiting_; ///< For the connection.
  std::map<uint64_t, remote_process*> processes_;
  uint64_t last_process_ = 0;
  std::optional<frame> answer_;
  /// That which the server's run had before its first start.
  std::optional<std::string> life_before_;
};

} // namespace troupe::app
