#pragma once

#ifdef TROUPE_HAS_MIMALLOC
#include <mimalloc.h>
#endif

namespace troupe::app {

/// For programs that link Troupe::allocator and run in virtual time. Thousands
/// of actors are looked at in turn, in memory that no cache holds: with small
/// pages, finding it is a good part of the time.
inline void prefer_large_pages() {
#ifdef TROUPE_HAS_MIMALLOC
  mi_option_enable(mi_option_large_os_pages);
#endif
}

} // namespace troupe::app
