#include "config/text/one_line.hpp"

#include "config/text/failure.hpp"

#include <new>

namespace troupe {

std::string one_line(const std::exception& err) {
  if (dynamic_cast<const std::bad_alloc*>(&err) != nullptr)
    return "this process gets no more memory; give it more (ulimit -v)";
  std::string text = err.what();
  if (dynamic_cast<const failure*>(&err) != nullptr)
    return text;
  return text.substr(0, text.find('\n'));
}

std::string one_line(const std::exception_ptr& err) {
  try {
    std::rethrow_exception(err);
  } catch (const std::exception& known) {
    return one_line(known);
  } catch (...) {
    return "an exception of an unknown kind";
  }
}

} // namespace troupe
