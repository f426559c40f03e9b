#pragma once
// This machine as a host of a launch. For one thread.

#include "apps/launch/hosts/child.hpp"
#include "apps/launch/hosts/host.hpp"

#include <map>
#include <set>
#include <string>

namespace troupe::app {

class local_host : public host {
public:
  /// From now on orphans become children of this process.
  local_host();

  std::unique_ptr<process> start(const child_plan& plan,
                                 size_t columns) override;
  void list_files(std::vector<int>& out) const override;
  void look(const line_taker& say) override;
  uint16_t find_port(const std::string& address) override;
  std::filesystem::path make_folder(const std::string& network) override;
  void end_at_once() override;
  void begin_end() override;
  void finish_end() override;

  /// For a server that another object has started before.
  void set_life_before(const std::string& server, const std::string& life) {
    lives_before_[server] = life;
  }

  /// The life that the run of this server had before its first start.
  const std::string& life_before(const std::string& server) const {
    return lives_before_.at(server);
  }

private:
  class local_process;

  std::set<const child*> running_;
  /// Of servers, by name: the life that their run had before.
  std::map<std::string, std::string> lives_before_;
};

} // namespace troupe::app
