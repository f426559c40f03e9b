#include "apps/launch/hosts/kept_text.hpp"

#include "config/text/failure.hpp"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace troupe::app {

std::string kept_text::keep(std::string_view text) {
  config::descriptor file{memfd_create("troupe", MFD_CLOEXEC)};
  auto done = file.get() >= 0 && fchmod(file.get(), S_IRUSR) == 0 &&
              write(file.get(), text.data(), text.size()) ==
                static_cast<ssize_t>(text.size());
  if (!done)
    throw run_error(std::string{"cannot keep the token of the run: "} +
                    std::strerror(errno));
  files_.push_back(std::move(file));
  return "/proc/" + std::to_string(getpid()) + "/fd/" +
         std::to_string(files_.back().get());
}

} // namespace troupe::app
