#include "apps/launch/hosts/local_host.hpp"

#include "apps/launch/hosts/orphans.hpp"
#include "apps/launch/hosts/server_restart.hpp"
#include "apps/startup/resources.hpp"
#include "config/run_folder/train_dir.hpp"

#include <algorithm>
#include <csignal>

namespace troupe::app {

/// Is known to its host as long as it lives.
class local_host::local_process : public child {
public:
  local_process(local_host& on, const child_plan& plan, size_t columns)
    : child(plan, columns), on_(on) {
    on_.running_.insert(this);
  }

  ~local_process() override { on_.running_.erase(this); }

private:
  local_host& on_;
};

local_host::local_host() {
  adopt_orphans();
}

std::unique_ptr<process> local_host::start(const child_plan& plan,
                                           size_t columns) {
  auto again = plan;
  if (plan.run && !lives_before_.contains(plan.name)) {
    lives_before_[plan.name] = life_in(plan.run->train_dir);
  } else if (plan.run) {
    again.run->life_before = life_before(plan.name);
    again.environment.merge(environment_of_restart(*again.run));
  }
  return std::make_unique<local_process>(*this, again, columns);
}

void local_host::list_files(std::vector<int>& out) const {
  for (const auto* one : running_)
    if (one->output() >= 0)
      out.push_back(one->output());
}

void local_host::look(const line_taker&) {
  reap_orphans([this](pid_t pid) {
    return std::ranges::any_of(
      running_, [pid](const child* one) { return one->pid() == pid; });
  });
}

uint16_t local_host::find_port(const std::string& address) {
  return find_free_port(address);
}

std::filesystem::path local_host::make_folder(const std::string& network) {
  return config::make_run_folder(network);
}

void local_host::end_at_once() {
  kill_orphans(SIGKILL);
}

void local_host::begin_end() {
  // nop
}

void local_host::finish_end() {
  end_orphans();
}

} // namespace troupe::app
