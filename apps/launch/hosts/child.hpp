#pragma once
// A process that this one starts: its output comes through a pipe, line by
// line, and it dies with this process. For one thread.

#include "apps/launch/hosts/host.hpp"
#include "config/text/descriptor.hpp"

#include <sys/types.h>

#include <optional>
#include <string>

namespace troupe::app {

class child : public process {
public:
  /// Starts it. @param columns Width of the terminal that it is given; 0: a
  /// pipe.
  /// @throws run_error
  child(const child_plan& plan, size_t columns);

  /// Kills it if it still runs.
  ~child() override;

  child(const child&) = delete;
  child& operator=(const child&) = delete;

  pid_t pid() const override { return pid_; }

  /// Where its output can be read; negative when there will be no more.
  int output() const { return output_.get(); }

  void read(const line_taker& say) override;
  std::string live() const override;
  std::optional<int> ended() override;
  void signal(int number) override;
  void kill_rest() override;

private:
  pid_t pid_ = 0;
  std::optional<int> status_;
  config::descriptor output_;
  std::string rest_; ///< Of a line.
};

} // namespace troupe::app
