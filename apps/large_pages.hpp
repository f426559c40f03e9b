#pragma once
// Asks the operating system for large memory pages. Called by main before the
// first actor is made.

#ifdef TROUPE_HAS_MIMALLOC
#include <mimalloc.h>
#endif

namespace troupe::app {

/// For programs that link Troupe::allocator and run in virtual time. They visit
/// thousands of actors in turn, in more memory than any cache holds; with small
/// pages, address translation takes much of the time.
inline void prefer_large_pages() {
#ifdef TROUPE_HAS_MIMALLOC
  mi_option_enable(mi_option_large_os_pages);
#endif
}

} // namespace troupe::app
