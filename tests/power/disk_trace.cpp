#include "tests/power/disk_trace.hpp"

#include "tests/support/temporary_folder.hpp"

#include <cstring>
#include <string_view>

namespace troupe::testing {

namespace {

/// Numbers before the three texts of an event.
struct head {
  uint32_t size = 0; ///< Of the whole event.
  disk_call what = disk_call::mark;
  uint8_t made = 0;
  uint8_t emptied = 0;
  uint8_t unused = 0;
  int32_t file = -1;
  uint32_t path = 0;
  uint64_t offset = 0;
  uint32_t other = 0;
  uint32_t text = 0;
};

} // namespace

std::string to_bytes(const disk_event& event) {
  head front;
  front.size = static_cast<uint32_t>(sizeof front + event.path.size() +
                                     event.other.size() + event.text.size());
  front.what = event.what;
  front.made = event.made;
  front.emptied = event.emptied;
  front.file = event.file;
  front.offset = event.offset;
  front.path = static_cast<uint32_t>(event.path.size());
  front.other = static_cast<uint32_t>(event.other.size());
  front.text = static_cast<uint32_t>(event.text.size());
  std::string out(sizeof front, '\0');
  std::memcpy(out.data(), &front, sizeof front);
  return out + event.path + event.other + event.text;
}

std::vector<disk_event> read_disk_trace(const std::filesystem::path& trace) {
  auto bytes = slurp(trace);
  std::string_view rest = bytes;
  std::vector<disk_event> out;
  for (head front; rest.size() >= sizeof front;) {
    std::memcpy(&front, rest.data(), sizeof front);
    if (rest.size() < front.size)
      break;
    auto texts = rest.substr(sizeof front);
    auto& event = out.emplace_back();
    event.what = front.what;
    event.file = front.file;
    event.offset = front.offset;
    event.made = front.made != 0;
    event.emptied = front.emptied != 0;
    event.path = texts.substr(0, front.path);
    event.other = texts.substr(front.path, front.other);
    event.text = texts.substr(front.path + front.other, front.text);
    rest.remove_prefix(front.size);
  }
  return out;
}

} // namespace troupe::testing
