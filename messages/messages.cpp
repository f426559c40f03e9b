#include "messages/interfaces.hpp"

#include <caf/init_global_meta_objects.hpp>
#include <caf/io/middleman.hpp>
#include <google/protobuf/stubs/logging.h>

#include <mutex>

namespace troupe {

std::span<const std::byte> chunk::bytes() const {
  if (received)
    return {received.get(), size};
  return source.host_bytes().subspan(offset, size);
}

void init_messages() {
  static std::once_flag once;
  std::call_once(once, [] {
    caf::init_global_meta_objects<caf::id_block::troupe_data>();
    caf::init_global_meta_objects<caf::id_block::troupe_atoms>();
    caf::init_global_meta_objects<caf::id_block::troupe_handles>();
    caf::io::middleman::init_global_meta_objects();
    caf::core::init_global_meta_objects();
    // Silences protobuf's own log: whoever parses reports errors in one line.
    google::protobuf::SetLogHandler(nullptr);
  });
}

} // namespace troupe
